"""`satchel train`: JSON keys, run folders, settings, interruption."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

import satchel
from tests.cli.conftest import (
    PAIR_OPTIONS,
    SATCHEL,
    SMALL,
    TAG_OPTIONS,
    Cli,
    json_of,
    process,
    train_ngram,
    tree,
)


def test_train_reports_the_promised_keys(cli: Cli, verse: Path, tmp_path: Path) -> None:
    result = json_of(
        cli, "train", verse, "--model", "ngram", "--tokenizer", "word", "--valid", "0.2", "-o", tmp_path / "run"
    )
    assert {
        "run", "task", "model", "parameters", "steps", "seconds", "tokens_per_second", "train_loss", "valid", "stopped",
    } <= set(result)  # fmt: skip
    assert (result["task"], result["model"], result["stopped"]) == ("lm", "ngram", "finished")
    assert result["valid"]["tokens"] > 0


def test_a_run_folder_has_the_documented_files(ngram: Path) -> None:
    assert tree(ngram) == [
        "config.json", "evaluation.json", "manifest.json", "metrics.jsonl", "model.safetensors", "tokenizer.json",
        "tokens", "tokens/train.safetensors", "tokens/valid.safetensors",
    ]  # fmt: skip
    config = json.loads((ngram / "config.json").read_text())
    assert config["settings"]["model"]["order"] == 7
    assert len(config["data"]["sha256"]) == 64


def test_the_tokenizer_of_another_run_can_be_used(cli: Cli, ngram: Path, verse: Path, tmp_path: Path) -> None:
    train_ngram(cli, verse, tmp_path / "b", "--tokenizer", ngram, "--set", "model.order=3")
    first, second = (json.loads((folder / "config.json").read_text()) for folder in (ngram, tmp_path / "b"))
    assert first["tokenizer"] == second["tokenizer"]


def test_settings_record_the_kind_of_another_runs_tokenizer(tmp_path: Path, verse: Path) -> None:
    process("train", verse, "--model", "ngram", "--tokenizer", "char", "-o", "first", cwd=tmp_path)
    process("train", verse, "--model", "ngram", "--tokenizer", "first", "-o", "second", cwd=tmp_path)
    config = json.loads((tmp_path / "second" / "config.json").read_text())
    assert config["settings"]["tokenizer"]["kind"] == config["tokenizer"]["kind"] == "char"


def test_dry_run_prints_all_settings_and_writes_nothing(cli: Cli, verse: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    code, printed, messages = cli(
        "train", verse, "--model", "ngram", "--tokenizer", "char", "--dry-run", "-o", tmp_path / "run"
    )
    assert code == 0
    assert "model.order = 7" in printed
    assert 'data.documents = "stream"' in printed
    assert "parameters at most" in printed
    assert "longer context" in messages
    result = json_of(cli, "train", verse, "--model", "ngram", "--dry-run", "--set", "model.prune=0,0,1")
    assert result["settings"]["model"]["prune"] == [0, 0, 1]
    assert tree(tmp_path) == before


def test_set_overrides_a_recipe(cli: Cli, verse: Path, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('[model]\norder = 4\nsmoothing = "witten-bell"\n[tokenizer]\nkind = "word"\n')
    result = json_of(
        cli, "train", verse, "--model", "ngram", "--recipe", tmp_path / "r.toml", "--set", "model.order=2", "--dry-run"
    )
    assert (result["settings"]["model"]["order"], result["settings"]["model"]["smoothing"]) == (2, "witten-bell")


def test_ab_is_learned_exactly_by_counting(cli: Cli, tmp_path: Path) -> None:
    settings = ("--set", "model.order=6", "--set", "model.smoothing=mle")
    assert cli("train", "@ab", "--model", "ngram", "--tokenizer", "char", *settings, "-o", tmp_path / "ab")[0] == 0
    for string, following in (("AAAA", "A"), ("AABA", "B"), ("BAAA", "B"), ("BABB", "B")):
        result = json_of(cli, "generate", tmp_path / "ab", string, "--tokens", 2, "--greedy")
        assert result["samples"][0] == {"text": following, "tokens": 1, "finish": "end"}


def test_force_replaces_a_run(cli: Cli, ngram: Path, verse: Path) -> None:
    assert (
        cli(
            "train", verse, "--model", "ngram", "--set", "model.order=2", "--tokenizer", "char", "-o", ngram, "--force"
        )[0]
        == 0
    )
    assert json_of(cli, "info", ngram)["model"]["order"] == 2
    assert tree(ngram.parent)[0] == "verse"


def test_all_errors_of_a_settings_file_are_reported_together(cli: Cli, verse: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('[model]\norder = 99\nsmothing = "x"\n[data]\nencoding_errors = "maybe"\n')
    code, _, messages = cli("train", verse, "--model", "ngram", "--recipe", tmp_path / "bad.toml")
    assert code == 2
    assert all(name in messages for name in ("model.order", "did you mean model.smoothing?", "data.encoding_errors"))


def test_a_value_in_place_of_a_group_of_settings_is_an_error(cli: Cli, verse: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('data = 3\nmodel = "ngram"\n')
    code, _, messages = cli("train", "@ab", "--recipe", tmp_path / "bad.toml")
    assert code == 2
    assert "data: found 3" in messages
    assert 'model: found "ngram"' in messages


def test_an_existing_folder_is_not_overwritten(cli: Cli, ngram: Path, verse: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in ngram.rglob("*") if path.is_file()}
    code, _, messages = cli("train", verse, "--model", "ngram", "-o", ngram)
    assert (code, "already exists" in messages, "--force" in messages) == (2, True, True)
    assert {path: path.read_bytes() for path in ngram.rglob("*") if path.is_file()} == before
    mine = tmp_path / "photos"
    mine.mkdir()
    (mine / "cat.jpg").write_bytes(b"miaow")
    code, _, messages = cli("train", verse, "--model", "ngram", "-o", mine, "--force")
    assert (code, "is not a run" in messages) == (2, True)
    assert (mine / "cat.jpg").read_bytes() == b"miaow"


def test_undecodable_bytes_are_skipped_on_request_and_counted(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"one \xff two\nthree \xfe\xfd four\n" * 5)
    code, printed, _ = cli(
        "train",
        tmp_path / "bad.txt",
        "--model",
        "ngram",
        "--tokenizer",
        "char",
        "--encoding-errors",
        "skip",
        "-o",
        tmp_path / "run",
    )
    assert code == 0
    assert "15 sequences repaired" in printed


def test_a_table_with_labels_trains_a_classifier(cli: Cli, table: Path, tmp_path: Path) -> None:
    code, printed, messages = cli("train", table, "--model", "ngram", "-o", tmp_path / "run")
    assert code == 0
    assert "task=classify: inferred from the data" in messages
    assert "a classifier (task classify) with 2 labels" in printed
    result = json_of(cli, "train", table, "--model", "ngram", "--valid", "0.25", "-o", tmp_path / "again")
    assert (result["task"], result["model"], result["stopped"]) == ("classify", "ngram", "finished")
    assert result["valid"]["examples"] == 7
    assert result["train_loss"] > 0
    assert isinstance(satchel.load(tmp_path / "again"), satchel.Classifier)


def test_the_same_training_twice_gives_the_same_model(cli: Cli, table: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        train_ngram(cli, table, tmp_path / name, "--valid", "0.2", "--seed", "3")
    for file in ("model.safetensors", "config.json", "tokens/valid.safetensors", "tokens/valid-classes.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_a_table_with_tags_trains_a_tagger(cli: Cli, tagger: Path, tmp_path: Path) -> None:
    words = tagger.parent / "words.tsv"
    code, printed, messages = cli("train", words, "--steps", "2", *TAG_OPTIONS, "-o", tmp_path / "run")
    assert code == 0, messages
    assert "a tagger (task tag) with 3 tags, transformer" in printed
    assert "task=tag: inferred from the data" in messages
    assert f"next: satchel tag {tmp_path / 'run'}" in messages
    result = json_of(cli, "train", words, "--steps", "2", *TAG_OPTIONS, "-o", tmp_path / "again")
    assert (result["task"], result["model"], result["steps"], result["stopped"]) == (
        "tag",
        "transformer",
        2,
        "finished",
    )
    assert {"examples", "accuracy", "macro_f1", "per_label", "calibration", "confusion"} <= set(result["valid"])


def test_aligned_files_train_a_translator(cli: Cli, tmp_path: Path) -> None:
    for name, content in (("a.de", "ein Hund\nein Mann\n\neine Frau\n"), ("a.en", "a dog\na man\nx\na woman\n")):
        (tmp_path / name).write_text(content)
    data = f"{tmp_path / 'a.de'},{tmp_path / 'a.en'}"
    code, printed, messages = cli("train", data, "--steps", "2", "--valid", data, *PAIR_OPTIONS, "-o", tmp_path / "run")
    assert code == 0, messages
    assert "a translator (task translate), transformer" in printed
    assert "sentence pairs  3; 1 skipped with an empty side" in printed
    assert "task=translate: inferred from the data" in messages
    assert f"next: satchel translate {tmp_path / 'run'} 'a text'" in messages
    result = json_of(cli, "train", data, "--steps", "2", "--valid", data, *PAIR_OPTIONS, "-o", tmp_path / "again")
    assert (result["task"], result["model"], result["steps"]) == ("translate", "transformer", 2)
    keys = {"sentences", "bleu", "bleu_lowercase", "chrf", "signature", "exact_match", "perplexity", "baselines"}
    assert keys <= set(result["valid"])


def large_text(folder: Path) -> Path:
    """Return a text that takes seconds to train on."""
    path = folder / "large.txt"
    with path.open("w") as handle:
        for number in range(400_000):
            handle.write(f"line {number} of {number * 7919 % 100_003} and {number * 31 % 1009}\n")
    return path


def wait_for(pattern: str, folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a file of this name is there."""
    while not list(folder.rglob(pattern)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_ngram_training_leaves_no_files(number: signal.Signals, code: int, tmp_path: Path) -> None:
    text = large_text(tmp_path)
    process = subprocess.Popen(
        [*SATCHEL, "train", str(text), "--model", "ngram", "-o", "runs/large"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for("train.safetensors", tmp_path, process)
    process.send_signal(number)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == code
    assert "interrupted" in messages
    assert "Traceback" not in messages
    assert not (tmp_path / "runs").exists()


def test_a_signal_during_a_long_library_call_ends_the_command_within_5_seconds(tmp_path: Path) -> None:
    rng = random.Random(0)
    words = ("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for _ in range(400_000))
    (tmp_path / "text.txt").write_text(" ".join(words))
    command = [*SATCHEL, "train", "text.txt", "--model", "ngram", "--tokenizer", "bpe:20000", "-o", "runs/large"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_for(".large.partial", tmp_path, process)
    time.sleep(1.5)  # the tokenizer is being trained, in one call that takes longer than 5 seconds
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, messages = process.communicate(timeout=60)
    assert time.monotonic() - began < 5
    assert process.returncode == 143
    assert "interrupted" in messages
    assert os.listdir(tmp_path) == ["text.txt"]


def test_a_run_folder_is_locked_while_it_is_written(tmp_path: Path) -> None:
    text = large_text(tmp_path)
    command = [*SATCHEL, "train", str(text), "--model", "ngram", "-o", "runs/large"]
    first = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for("tokens", tmp_path, first)
    second = process("train", text, "--model", "ngram", "-o", "runs/large", cwd=tmp_path)
    assert second.returncode == 2
    assert "is being written by another process" in second.stderr
    first.kill()
    first.communicate()
    # What a killed process left behind is cleared away.
    small = tmp_path / "small.txt"
    small.write_text("a small text\n" * 50)
    third = process("train", small, "--model", "ngram", "-o", "runs/large", cwd=tmp_path)
    assert third.returncode == 0, third.stderr
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["large"]


def test_sense_metrics_are_written_at_every_validation(backpack: Path) -> None:
    lines = [json.loads(line) for line in (backpack / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    result = lines[-1]["senses"]
    assert [len(result[key]) for key in ("entropy", "use", "cost_without")] == [3, 3, 3]
    assert sum(result["use"]) == pytest.approx(1)
    assert 1 <= result["rank"] <= 3


def test_the_diversity_penalty_increases_the_training_loss(verse: Path, tmp_path: Path) -> None:
    losses = []
    for number, diversity in enumerate((0.0, 50.0)):
        settings = {**SMALL, "model.senses": 3, "model.diversity": diversity}
        trained = satchel.train(
            verse, model="backpack", tokenizer="char", steps=2, settings=settings, out=tmp_path / str(number)
        )
        assert trained.report is not None
        losses.append(trained.report.train_loss or 0.0)
    assert losses[1] > losses[0] + 0.01


def test_several_kinds_are_trained_with_one_tokenizer_and_compared(cli: Cli, verse: Path, tmp_path: Path) -> None:
    out = tmp_path / "families"
    options = ("--tokenizer", "bpe:300", "--steps", "2")
    code, printed, messages = cli("train", verse, "--model", "ngram,dan", *options, "-o", out)
    assert code == 0, messages
    assert sorted(path.name for path in out.iterdir()) == ["dan", "ngram"]
    assert f"next: satchel compare {out}/ngram {out}/dan" in messages
    hashes = {json.loads((out / kind / "config.json").read_text())["tokenizer"]["sha256"] for kind in ("ngram", "dan")}
    assert len(hashes) == 1
    rows = json_of(cli, "compare", out / "ngram", out / "dan")["rows"]
    assert [Path(row["run"]).name for row in rows] == ["ngram", "dan"]
    assert cli("train", verse, "--model", "ngram,dan", *options, "-o", out)[0] == 2
    code, printed, messages = cli("train", verse, "--model", "dan,dan", "-o", tmp_path / "x")
    assert (code, printed) == (2, "")
    assert "different kinds" in messages
    assert cli("train", verse, "--model", "ngram,transformr", "-o", tmp_path / "x")[0] == 2
    assert not (tmp_path / "x").exists()
