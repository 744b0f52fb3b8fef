"""The verbs: what they print, the JSON keys scripts rely on, and what they say to bad input."""

import json
import math
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, answer, tree


@pytest.fixture
def run(cli: Cli, verse: Path, tmp_path: Path) -> Path:
    """A small trained run."""
    target = tmp_path / "runs" / "verse"
    code, _, said = cli("train", verse, "--model", "ngram", "--tokenizer", "char", "--valid", "0.1", "-o", target)
    assert code == 0, said
    return target


# --- what they answer ------------------------------------------------------------------------------------


def test_train_reports_the_promised_keys(cli: Cli, verse: Path, tmp_path: Path) -> None:
    found = answer(
        cli, "train", verse, "--model", "ngram", "--tokenizer", "word", "--valid", "0.2", "-o", tmp_path / "run"
    )
    assert {
        "run", "task", "model", "parameters", "steps", "seconds", "tokens_per_second", "train_loss", "valid", "stopped",
    } <= set(found)  # fmt: skip
    assert (found["task"], found["model"], found["stopped"]) == ("lm", "ngram", "finished")
    assert found["valid"]["tokens"] > 0


def test_a_run_folder_has_what_it_promises(run: Path) -> None:
    assert tree(run) == [
        "config.json", "manifest.json", "metrics.jsonl", "model.safetensors", "tokenizer.json", "tokens",
        "tokens/train.safetensors", "tokens/valid.safetensors",
    ]  # fmt: skip
    config = json.loads((run / "config.json").read_text())
    assert config["settings"]["model"]["order"] == 7
    assert len(config["data"]["sha256"]) == 64


def test_evaluate_reports_the_promised_keys(cli: Cli, run: Path, verse: Path) -> None:
    found = answer(cli, "evaluate", run, verse)
    assert {
        "task", "model", "tokens", "unknown", "bytes", "characters", "nats_per_token", "perplexity", "bits_per_byte",
        "bits_per_character", "context",
    } <= set(found)  # fmt: skip
    assert found["tokens"] == found["bytes"] == found["characters"] == len(verse.read_bytes())
    assert found["perplexity"] == pytest.approx(math.exp(found["nats_per_token"]))
    assert found["bits_per_byte"] == pytest.approx(found["nats_per_token"] / math.log(2))
    assert sum(found["notes"]["order"].values()) == found["tokens"]


def test_evaluate_without_data_uses_what_was_held_out(cli: Cli, run: Path, verse: Path, tmp_path: Path) -> None:
    held_out = tmp_path / "end.txt"
    text = verse.read_text()
    held_out.write_text(text[int(len(text) * 0.9) :])
    own, other = answer(cli, "evaluate", run), answer(cli, "evaluate", run, held_out)
    assert own["nats_per_token"] == pytest.approx(other["nats_per_token"], rel=1e-12)


def test_a_tokenizer_that_loses_text_gives_no_bits_per_byte(cli: Cli, verse: Path, tmp_path: Path) -> None:
    cli("train", verse, "--model", "ngram", "--tokenizer", "word", "-o", tmp_path / "word")
    found = answer(cli, "evaluate", tmp_path / "word", verse)
    assert found["bits_per_byte"] is found["bits_per_character"] is None
    clean = tmp_path / "clean.txt"
    clean.write_text("The cat sat on the mat.\nThe dog sat on the log.\n")
    cli(
        "train",
        verse,
        "--model",
        "ngram",
        "--tokenizer",
        "word",
        "--set",
        "data.documents=line",
        "-o",
        tmp_path / "lines",
    )
    assert answer(cli, "evaluate", tmp_path / "lines", clean)["bits_per_byte"] is not None


def test_unknown_text_is_counted_not_refused(cli: Cli, run: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("The 漢字 cat", encoding="utf-8")
    found = answer(cli, "evaluate", run, tmp_path / "new.txt")
    assert (found["unknown"], found["tokens"], found["bits_per_byte"]) == (2, 10, None)


def test_score_gives_every_token_and_the_order_that_answered(cli: Cli, run: Path) -> None:
    found = answer(cli, "score", run, "The cat")
    assert [token["text"] for token in found["tokens"]] == list("The cat")
    assert {"text", "id", "logprob", "order"} == set(found["tokens"][0])
    assert found["total_logprob"] == pytest.approx(sum(token["logprob"] for token in found["tokens"]))
    assert found["perplexity"] == pytest.approx(math.exp(-found["total_logprob"] / 7))


def test_score_and_evaluate_agree(cli: Cli, run: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("The dog saw the mat.\n")
    scored = answer(cli, "score", run, "The dog saw the mat.\n")
    evaluated = answer(cli, "evaluate", run, tmp_path / "text.txt")
    assert scored["perplexity"] == pytest.approx(evaluated["perplexity"], rel=1e-12)


def test_line_documents_score_one_end_each(cli: Cli, verse: Path, tmp_path: Path) -> None:
    cli(
        "train",
        verse,
        "--model",
        "ngram",
        "--tokenizer",
        "word",
        "--set",
        "data.documents=line",
        "-o",
        tmp_path / "run",
    )
    found = answer(cli, "score", tmp_path / "run", "The cat\n\nThe dog\n")
    assert [token["text"] for token in found["tokens"]] == ["The", "cat", "<end>", "The", "dog", "<end>"]


def test_generate_reports_the_promised_keys(cli: Cli, run: Path) -> None:
    found = answer(cli, "generate", run, "The", "--tokens", 20, "--samples", 2, "--seed", 1)
    assert {"prompt", "samples", "tokens_per_second"} <= set(found)
    assert [set(sample) for sample in found["samples"]] == [{"text", "tokens", "finish"}] * 2
    assert [sample["tokens"] for sample in found["samples"]] == [20, 20]


def test_generate_prints_the_prompt_and_what_follows(cli: Cli, run: Path) -> None:
    code, printed, _ = cli("generate", run, "The cat", "--tokens", 5, "--greedy")
    assert code == 0
    assert printed.startswith("The cat")
    assert len(printed) == len("The cat") + 5 + 1


def test_tokenize_shows_tokens(cli: Cli, run: Path) -> None:
    found = answer(cli, "tokenize", run, "The 漢")
    assert [token["text"] for token in found["tokens"]] == ["T", "h", "e", " ", "<unk>"]
    assert (found["unknown"], found["lossless"]) == (1, False)
    code, printed, _ = cli("tokenize", run / "tokenizer.json", "a\tt c")
    assert (code, printed) == (0, "a <unk> t ␣ c\n")


def test_a_tokenizer_comes_from_another_run(cli: Cli, run: Path, verse: Path, tmp_path: Path) -> None:
    cli("train", verse, "--model", "ngram", "--tokenizer", run, "--set", "model.order=3", "-o", tmp_path / "b")
    first, second = (json.loads((folder / "config.json").read_text()) for folder in (run, tmp_path / "b"))
    assert first["tokenizer"] == second["tokenizer"]


def test_export_and_import_give_the_same_model(cli: Cli, run: Path, verse: Path, tmp_path: Path) -> None:
    assert cli("export", run, "--to", "arpa", "-o", tmp_path / "model.arpa")[0] == 0
    assert cli("import", tmp_path / "model.arpa", "--tokenizer", run, "-o", tmp_path / "again")[0] == 0
    before, after = (answer(cli, "evaluate", folder, verse) for folder in (run, tmp_path / "again"))
    assert after["nats_per_token"] == pytest.approx(before["nats_per_token"], rel=1e-7)


def test_dry_run_prints_the_whole_tree_and_writes_nothing(cli: Cli, verse: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    code, printed, said = cli(
        "train", verse, "--model", "ngram", "--tokenizer", "char", "--dry-run", "-o", tmp_path / "run"
    )
    assert code == 0
    assert "model.order = 7" in printed
    assert 'data.documents = "stream"' in printed
    assert "parameters at most" in printed
    assert "longer context" in said
    found = answer(cli, "train", verse, "--model", "ngram", "--dry-run", "--set", "model.prune=0,0,1")
    assert found["settings"]["model"]["prune"] == [0, 0, 1]
    assert tree(tmp_path) == before


def test_data_lists_what_is_built_in_and_reports_on_a_file(cli: Cli, verse: Path) -> None:
    assert {"@python-docs", "@ab"} <= {item["name"] for item in answer(cli, "data")["data"]}
    found = answer(cli, "data", verse, "--valid", verse)
    assert (found["task"], found["lines"], found["blank_lines"]) == ("lm", 80, 20)
    assert found["overlap_with_valid"] == {"shared": 80, "of": 80, "percent": 100.0}
    assert cli("data", verse)[0] == 0


def test_info_describes_a_run_settings_and_the_installation(cli: Cli, run: Path, tmp_path: Path) -> None:
    assert answer(cli, "info", run)["model"]["order"] == 7
    (tmp_path / "recipe.toml").write_text("[model]\norder = 4\n")
    assert answer(cli, "info", tmp_path / "recipe.toml")["settings"]["model"]["order"] == 4
    assert "torch" in answer(cli, "info")["libraries"]


def test_a_recipe_is_used_and_set_wins_over_it(cli: Cli, verse: Path, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('[model]\norder = 4\nsmoothing = "witten-bell"\n[tokenizer]\nkind = "word"\n')
    found = answer(
        cli, "train", verse, "--model", "ngram", "--recipe", tmp_path / "r.toml", "--set", "model.order=2", "--dry-run"
    )
    assert (found["settings"]["model"]["order"], found["settings"]["model"]["smoothing"]) == (2, "witten-bell")


def test_ab_is_learned_exactly_by_counting(cli: Cli, tmp_path: Path) -> None:
    settings = ("--set", "model.order=6", "--set", "model.smoothing=mle")
    assert cli("train", "@ab", "--model", "ngram", "--tokenizer", "char", *settings, "-o", tmp_path / "ab")[0] == 0
    for string, following in (("AAAA", "A"), ("AABA", "B"), ("BAAA", "B"), ("BABB", "B")):
        found = answer(cli, "generate", tmp_path / "ab", string, "--tokens", 2, "--greedy")
        assert found["samples"][0] == {"text": following, "tokens": 1, "finish": "end"}


def test_force_replaces_a_run(cli: Cli, run: Path, verse: Path) -> None:
    assert (
        cli("train", verse, "--model", "ngram", "--set", "model.order=2", "--tokenizer", "char", "-o", run, "--force")[
            0
        ]
        == 0
    )
    assert answer(cli, "info", run)["model"]["order"] == 2
    assert tree(run.parent)[0] == "verse"


# --- what they say to bad input ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "missing.txt", "--model", "ngram"], "missing.txt: there is no such file"),
        (["train", "empty.txt", "--model", "ngram"], "found no text"),
        (["train", "blank.txt", "--model", "ngram", "--set", "data.documents=line"], "found no text"),
        (["train", "latin.txt", "--model", "ngram"], "latin.txt, line 2: found byte 0xe9 at byte 9, expected utf-8"),
        (["train", "utf16.txt", "--model", "ngram"], "give --encoding utf-16"),
        (["train", "folder", "--model", "ngram"], "none of them .txt"),
        (["train", "tagged.tsv", "--model", "ngram"], "model.kind=ngram: gives no place of a text a tag of its own"),
        (["data", "wide.tsv"], "wide.tsv, line 3: found 3 columns, expected 2 (label, text)"),
        (["train", "verse.txt", "--model", "ngram", "--set", "model.order=0"], "model.order: found 0"),
        (["train", "verse.txt", "--model", "ngram", "--set", "model.order=11"], "model.order: found 11"),
        (["train", "verse.txt", "--model", "ngram", "--set", "model.ordr=3"], "did you mean model.order?"),
        (["train", "verse.txt", "--model", "ngram", "--set", "model.order"], "expected key=value"),
        (["train", "verse.txt", "--model", "ngram", "--model", "transformr"], "model.kind: found"),
        (["train", "verse.txt", "--model", "ngram", "--tokenizer", "bpe:10"], "above 256"),
        (["train", "verse.txt", "--model", "ngram", "--tokenizer", "letters"], "no such tokenizer"),
        (["train", "verse.txt", "--model", "ngram", "--valid", "1.5"], "fraction"),
        (["train", "verse.txt", "--model", "ngram", "--valid", "nowhere.txt"], "nowhere.txt: there is no such file"),
        (["train", "verse.txt", "--model", "ngram", "--encoding", "klingon"], "expected an encoding"),
        (["train", "verse.txt", "--model", "ngram", "--recipe", "missing.toml"], "missing.toml: cannot be read"),
        (["train", "verse.txt", "--model", "ngram", "-o", "verse.txt/run"], "cannot be written"),
        (["train", "@nothing", "--model", "ngram"], "@nothing is not a built-in data set"),
        (["evaluate", "missing"], "there is no such run"),
        (["evaluate", "folder"], "is not a run"),
        (["evaluate", "run", "missing.txt"], "there is no such file"),
        (["evaluate", "run", "empty.txt"], "found no text"),
        (["evaluate", "run"], "kept nothing to evaluate on"),
        (["score", "run", ""], "found no text"),
        (["generate", "run", "--tokens", "0"], "tokens: found 0"),
        (["generate", "run", "--temperature", "nan"], "temperature"),
        (["generate", "run", "--top-p", "2"], "top_p: found 2"),
        (["tokenize", "folder"], "is not a run"),
        (["tokenize", "verse.txt"], "is not JSON"),
        (["export", "run", "--to", "pdf", "-o", "x"], "no such format"),
        (["import", "verse.txt", "-o", "x"], "expected an ARPA language model"),
        (["data", "missing.txt"], "there is no such file"),
        (["data", "a.txt,b.txt"], "there is no such file"),
        (["info", "missing.toml"], "cannot be read"),
        (["trian", "verse.txt"], "No such command 'trian'"),
        (["train", "verse.txt", "--model", "ngram", "--forse"], "No such option: --forse"),
        (["train"], "found no DATA"),
    ],
)  # fmt: skip
def test_bad_input_is_told_in_a_line_and_leaves_nothing(
    arguments: list[str], said: str, cli: Cli, verse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").touch()
    Path("blank.txt").write_text("\n  \n\n")
    Path("latin.txt").write_bytes(b"good\ncaf?\xe9\n")
    Path("utf16.txt").write_text("hello", encoding="utf-16")
    Path("folder").mkdir()
    Path("table.tsv").write_text("label\ttext\npos\tgood\n")
    Path("tagged.tsv").write_text("text\ttags\na b\tX Y\n")
    Path("wide.tsv").write_text("label\ttext\npos\tgood\nneg\tbad\tworse\n")
    assert cli("train", "verse.txt", "--model", "ngram", "--tokenizer", "char", "-o", "run")[0] == 0
    before = tree(tmp_path)
    code, printed, error = cli(*arguments)
    assert code == 2
    assert said in error
    assert error.startswith("satchel: ")
    assert "Traceback" not in error
    assert printed == ""
    assert tree(tmp_path) == before


def test_all_errors_of_a_file_are_told_at_once(cli: Cli, verse: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('[model]\norder = 99\nsmothing = "x"\n[data]\nencoding_errors = "maybe"\n')
    code, _, said = cli("train", verse, "--model", "ngram", "--recipe", tmp_path / "bad.toml")
    assert code == 2
    assert all(name in said for name in ("model.order", "did you mean model.smoothing?", "data.encoding_errors"))


def test_a_group_of_settings_that_is_a_value_is_told(cli: Cli, verse: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('data = 3\nmodel = "ngram"\n')
    code, _, said = cli("train", "@ab", "--recipe", tmp_path / "bad.toml")
    assert code == 2
    assert "data: found 3" in said
    assert 'model: found "ngram"' in said


def test_an_existing_folder_is_not_overwritten(cli: Cli, run: Path, verse: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    code, _, said = cli("train", verse, "--model", "ngram", "-o", run)
    assert (code, "already exists" in said, "--force" in said) == (2, True, True)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    mine = tmp_path / "photos"
    mine.mkdir()
    (mine / "cat.jpg").write_bytes(b"miaow")
    code, _, said = cli("train", verse, "--model", "ngram", "-o", mine, "--force")
    assert (code, "is not a run" in said) == (2, True)
    assert (mine / "cat.jpg").read_bytes() == b"miaow"


def test_a_run_of_another_task_is_refused(cli: Cli, run: Path, verse: Path) -> None:
    import hashlib

    config = (run / "config.json").read_bytes().replace(b'"task": "lm"', b'"task": "translate"', 1)
    (run / "config.json").write_bytes(config)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["files"]["config.json"] = {"size": len(config), "sha256": hashlib.sha256(config).hexdigest()}
    (run / "manifest.json").write_text(json.dumps(manifest))
    code, _, said = cli("evaluate", run, verse)
    assert (code, "its task is not that of its settings" in said) == (2, True)


def test_bad_bytes_are_repaired_on_request_and_counted(cli: Cli, tmp_path: Path) -> None:
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
    assert "15 byte sequences" in printed


def test_infinite_perplexity_is_null_in_json_and_a_word_on_the_terminal(cli: Cli, verse: Path, tmp_path: Path) -> None:
    cli(
        "train",
        verse,
        "--model",
        "ngram",
        "--tokenizer",
        "char",
        "--set",
        "model.smoothing=mle",
        "-o",
        tmp_path / "mle",
    )
    (tmp_path / "new.txt").write_text("Quiz: the cat")
    found = answer(cli, "evaluate", tmp_path / "mle", tmp_path / "new.txt")
    assert found["perplexity"] is None
    assert found["impossible"] > 0
    assert "infinite" in cli("evaluate", tmp_path / "mle", tmp_path / "new.txt")[1]


def test_control_characters_of_a_text_do_not_reach_the_terminal(cli: Cli, run: Path) -> None:
    for arguments in (("score", run, "\x1b[31mred\u202e"), ("tokenize", run, "\x1b[31m\u202e")):
        assert "\x1b[31m" not in cli(*arguments)[1]
    assert "\x1b" not in cli("generate", run, "\x1b[2J", "--tokens", 1)[1]
    assert "\x1b" not in cli("train", "\x1b[31m.txt")[2]


# --- several runs at once -----------------------------------------------------------------------------------


@pytest.fixture
def orders(cli: Cli, verse: Path, tmp_path: Path) -> list[Path]:
    """Two runs with one tokenizer."""
    first, second = tmp_path / "order-2", tmp_path / "order-4"
    cli("train", verse, "--model", "ngram", "--tokenizer", "char", "--set", "model.order=2", "-o", first)
    cli("train", verse, "--model", "ngram", "--tokenizer", first, "--set", "model.order=4", "-o", second)
    return [first, second]


def test_a_part_with_the_name_of_a_key_does_not_take_its_place(
    cli: Cli, orders: list[Path], verse: Path, tmp_path: Path
) -> None:
    orders[0].rename(tmp_path / "logprob")
    assert cli("mix", tmp_path / "logprob", orders[1], "--data", verse, "-o", tmp_path / "mix")[0] == 0
    found = answer(cli, "score", tmp_path / "mix", "The cat")
    assert sum(token["logprob"] for token in found["tokens"]) == pytest.approx(found["total_logprob"])


def test_compare_reports_the_promised_keys(cli: Cli, orders: list[Path], verse: Path, tmp_path: Path) -> None:
    found = answer(cli, "compare", *orders, "--data", verse, "-o", tmp_path / "table.csv")
    assert found["metric"] == "bits_per_byte"
    assert [set(row) for row in found["rows"]] == [{"run", "value", "low", "high"}] * 2
    assert set(found["pairs"][0]) == {"a", "b", "difference", "low", "high"}
    assert found["pairs"][0]["difference"] > 0
    assert (tmp_path / "table.csv").exists()
    code, printed, _ = cli("compare", *orders, "--data", verse)
    assert (code, "clear" in printed) == (0, True)


def test_mix_makes_a_run_and_says_what_its_parts_gave(
    cli: Cli, orders: list[Path], verse: Path, tmp_path: Path
) -> None:
    found = answer(cli, "mix", *orders, "--data", verse, "-o", tmp_path / "mix")
    assert [part["name"] for part in found["parts"]] == ["order-2", "order-4"]
    assert sum(part["weight"] for part in found["parts"]) == pytest.approx(1)
    assert found["model"] == "mix"
    scored = answer(cli, "score", tmp_path / "mix", "The cat")
    assert scored["tokens"][0]["order-2"] + scored["tokens"][0]["order-4"] == pytest.approx(1)
    assert answer(cli, "evaluate", tmp_path / "mix", verse)["model"] == "mix"
    assert cli("score", tmp_path / "mix", "The cat")[0] == 0
    assert cli("generate", tmp_path / "mix", "The")[0] == 0
    assert answer(cli, "info", tmp_path / "mix")["parameters"] == 2
    assert cli("export", tmp_path / "mix", "--to", "arpa", "-o", tmp_path / "x.arpa")[0] == 2
    assert cli("mix", *orders, "--data", verse, "-o", tmp_path / "again")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compare", "{run}", "--data", "{text}"], "two or more"),
        (["compare", "{run}", "nowhere", "--data", "{text}"], "there is no such run"),
        (["compare", "{run}", "{run}", "--data", "nowhere.txt"], "there is no such file"),
        (["compare", "{run}", "{run}"], "kept nothing to evaluate on"),
        (["compare", "{run}", "{run}", "--data", "{text}", "-o", "x.pdf"], "expected .csv"),
        (["mix", "{run}", "{run}", "--data", "{text}", "-o", "{run}"], "already exists"),
    ],
)
def test_what_several_runs_cannot_do_is_told(
    arguments: list[str], said: str, cli: Cli, orders: list[Path], verse: Path
) -> None:
    code, _, error = cli(*(argument.format(run=orders[0], text=verse) for argument in arguments))
    assert (code, said in error) == (2, True), error


def test_a_damaged_or_foreign_token_file_is_refused(cli: Cli, run: Path) -> None:
    tokens = run / "tokens" / "valid.safetensors"
    data = bytearray(tokens.read_bytes())
    data[-1] ^= 1
    tokens.write_bytes(data)
    code, _, said = cli("evaluate", run)
    assert (code, "is damaged" in said) == (2, True)
