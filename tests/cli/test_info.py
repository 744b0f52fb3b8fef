"""`satchel info`: runs, settings files, published models, the installation."""

from pathlib import Path

import pytest

import satchel
from tests.cli.conftest import (
    TEXT,
    Cli,
    json_of,
)


def test_info_describes_a_run_settings_and_the_installation(cli: Cli, ngram: Path, tmp_path: Path) -> None:
    assert json_of(cli, "info", ngram)["model"]["order"] == 7
    (tmp_path / "recipe.toml").write_text("[model]\norder = 4\n")
    assert json_of(cli, "info", tmp_path / "recipe.toml")["settings"]["model"]["order"] == 4
    assert "torch" in json_of(cli, "info")["libraries"]


def test_info_counts_the_parameters_of_a_settings_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(
        '[tokenizer]\nsize = 50263\n[model]\nkind = "transformer"\nwidth = 384\nlayers = 6\nheads = 6\ncontext = 512\n'
        'positions = "learned"\nnormalise = false\nnorm_kind = "layer"\nbias = true\n'
    )
    result = json_of(cli, "info", tmp_path / "net.toml")
    assert result["parameters"] == 30_145_536
    shares = {each["component"]: each["parameters_share"] for each in result["components"]}
    assert sum(shares.values()) == pytest.approx(1)
    assert result["training_flops_per_token"] == 3 * result["flops_per_token"]
    code, printed, _ = cli("info", tmp_path / "net.toml")
    assert code == 0
    assert "feed-forward" in printed
    for kind in ("dan", "window", "rnn", "gru", "lstm"):
        (tmp_path / "net.toml").write_text(f'[model]\nkind = "{kind}"\n')
        assert json_of(cli, "info", tmp_path / "net.toml")["parameters"] > 0


def test_the_parameters_of_a_run_include_the_head_of_its_labels(cli: Cli, tagger: Path) -> None:
    result = json_of(cli, "info", tagger)
    assert result["parameters"] == sum(result["tensors"].values()) == result["facts"]["parameters"]
    assert result["parameters"] == sum(each["parameters"] for each in result["components"])


def test_info_prints_the_tables_of_published_models(cli: Cli) -> None:
    rows = json_of(cli, "info", "gpt3")["presets"]
    assert [row["published"] for row in rows] == [
        125_000_000, 350_000_000, 760_000_000, 1_300_000_000, 2_700_000_000, 6_700_000_000, 13_000_000_000,
        175_000_000_000,
    ]  # fmt: skip
    assert len(json_of(cli, "info", "vaswani")["presets"]) == 15
    code, printed, messages = cli("info", "gpt3")
    assert code == 0
    assert "174.60 B" in printed
    assert "16 heads" in messages
    assert json_of(cli, "info", "gpt3-small")["parameters"] == 125_226_240


def test_info_lists_the_sites_of_traces(cli: Cli, runs: dict[str, Path]) -> None:
    for name in ("transformer", "backpack", "tagger"):
        values = json_of(cli, "info", runs[name])["sites"]
        assert values == list(satchel.load(runs[name]).trace(TEXT).sites)
    code, printed, _ = cli("info", runs["transformer"])
    assert (code, "blocks.0-1.attention.weights" in printed) == (0, True)
    assert "sites" not in json_of(cli, "info", runs["ngram"])


def test_info_lists_the_tensors_of_a_run_with_their_meaning(cli: Cli, runs: dict[str, Path]) -> None:
    rows = json_of(cli, "info", runs["backpack"], "--tensors")["tensors"]
    assert all(set(row) == {"name", "shape", "dtype", "meaning"} for row in rows)
    (embedding,) = (row for row in rows if row["name"] == "encoder.embedding.weight")
    assert (embedding["shape"][1], embedding["dtype"]) == (16, "float32")
    assert embedding["meaning"].startswith("encoder: token embeddings")
    code, printed, _ = cli("info", runs["ngram"], "--tensors")
    assert (code, "back-off weight" in " ".join(printed.split())) == (0, True)


@pytest.mark.item(50)
def test_speed_of_networks_of_equal_size_is_measured(cli: Cli, tmp_path: Path) -> None:
    options = ["--models", "lstm,transformer", "--lengths", "4,8", "--parameters", "20000", "--rounds", "1"]
    code, printed, messages = cli("info", "speed", *options)
    assert code == 0, messages
    assert all(text in printed for text in ("training tokens/s", "decoding tokens/s", "the lecture's claim"))
    assert all(text in messages for text in ("expected time", "thread", "numbers of parameters differ by at most"))
    result = json_of(cli, "info", "speed", *options)
    assert {"models", "speeds", "threads", "processor", "extensions", "statements"} <= set(result)
    code, _, messages = cli("info", "speed", *options, "-o", tmp_path / "speed.svg")
    assert (code, (tmp_path / "speed.svg").exists()) == (0, True), messages


def test_options_of_the_measurement_are_refused_elsewhere(cli: Cli, ngram: Path, tmp_path: Path) -> None:
    code, _, messages = cli("info", ngram, "--lengths", "4")
    assert (code, "--lengths applies to `satchel info speed` only" in messages) == (2, True)
    code, _, messages = cli("info", ngram, "-o", tmp_path / "figure.svg")
    assert (code, "satchel info speed" in messages) == (2, True)
    code, _, messages = cli("info", "speed", "--lengths", "4,x")
    assert (code, "found 'x'" in messages) == (2, True)
