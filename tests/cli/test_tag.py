"""`satchel tag`, what `evaluate` says of taggers, and how well far words are recalled, from the command line."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, answer

SMALL = ["--set=model.width=16", "--set=model.heads=2", "--set=model.layers=1", "--set=model.context=32"]
QUICK = [*SMALL, "--set=training.batch_tokens=128", "--set=training.learning_rate=0.02", "--threads", "1"]


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained once for all."""
    from satchel.cli.main import run

    folder = tmp_path_factory.mktemp("tagger")
    rows = ["the cat sat\tD N V", "a dog ran\tD N V", "dogs ran\tN V", "sit\tV", "the dogs sat\tD N V"]
    (folder / "words.tsv").write_text("text\ttags\n" + "\n".join(rows * 12) + "\n")
    arguments = ["train", str(folder / "words.tsv"), "--steps", "60", *QUICK, "-o", str(folder / "run")]
    assert run(arguments) == 0
    return folder / "run"


def test_a_table_of_tags_trains_a_tagger_and_says_so(cli: Cli, tagger: Path, tmp_path: Path) -> None:
    words = tagger.parent / "words.tsv"
    code, printed, said = cli("train", words, "--steps", "2", *QUICK, "-o", tmp_path / "run")
    assert code == 0, said
    assert "a tagger (task tag) of 3 tags, transformer" in printed
    assert "task=tag: as the data says" in said
    assert f"next: satchel tag {tmp_path / 'run'}" in said
    found = answer(cli, "train", words, "--steps", "2", *QUICK, "-o", tmp_path / "again")
    assert (found["task"], found["model"], found["steps"], found["stopped"]) == ("tag", "transformer", 2, "finished")
    assert {"examples", "accuracy", "macro_f1", "per_label", "calibration", "confusion"} <= set(found["valid"])


def test_a_text_is_tagged(cli: Cli, tagger: Path) -> None:
    (found,) = answer(cli, "tag", tagger, "the dogs ran")["predictions"]
    assert found == {"text": "the dogs ran", "tokens": ["the", "dogs", "ran"], "tags": ["D", "N", "V"]}
    code, printed, _ = cli("tag", tagger, "the dogs ran")
    assert code == 0
    assert [line.split()[:2] for line in printed.split("\n")[1:4]] == [["the", "D"], ["dogs", "N"], ["ran", "V"]]


def test_every_row_of_a_file_is_tagged_and_keeps_its_columns(cli: Cli, tagger: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('id,text\n1,"the dogs ran"\n2,\n3,sit\n')
    assert cli("tag", tagger, "--input", tmp_path / "in.csv", "-o", tmp_path / "out.csv")[0] == 0
    with (tmp_path / "out.csv").open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert [(row["id"], row["text"], row["tags"]) for row in rows] == [
        ("1", "the dogs ran", "D N V"),
        ("2", "", ""),
        ("3", "sit", "V"),
    ]
    assert cli("tag", tagger, "--input", tmp_path / "in.csv", "-o", tmp_path / "out.jsonl")[0] == 0
    first = json.loads((tmp_path / "out.jsonl").read_text().split("\n")[0])
    assert (first["tokens"], first["tags"]) == (["the", "dogs", "ran"], ["D", "N", "V"])
    assert cli("tag", tagger, "--input", tmp_path / "in.csv", "-o", tmp_path / "out.txt")[0] == 0
    assert (tmp_path / "out.txt").read_text() == "D N V\n\nV\n"
    code, printed, _ = cli("tag", tagger, "--input", tmp_path / "in.csv")
    assert (code, printed) == (0, "D N V\n\nV\n")


def test_what_was_tagged_again_is_read_as_it_was(cli: Cli, tagger: Path, tmp_path: Path) -> None:
    words = tagger.parent / "words.tsv"
    assert cli("tag", tagger, "--input", words, "-o", tmp_path / "again.tsv")[0] == 0
    found = answer(cli, "evaluate", tagger, tmp_path / "again.tsv")
    assert found["accuracy"] == 1.0
    assert found["examples"] == 12 * (3 + 3 + 2 + 1 + 3)
    assert (tmp_path / "again.tsv").read_text().split("\n")[0] == "text\tgiven_tags\ttags"


def test_wrong_tags_are_written(cli: Cli, tagger: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.tsv").write_text("text\ttags\nthe dogs ran\tD N X\n")
    code, printed, _ = cli("evaluate", tagger, tmp_path / "odd.tsv", "--errors", tmp_path / "wrong.tsv")
    assert code == 0
    assert "66.67%" in printed
    header, wrong, _ = (tmp_path / "wrong.tsv").read_text().split("\n")
    assert header.split("\t") == ["label", "predicted", "probability", "text"]
    assert (wrong.split("\t")[:2], wrong.split("\t")[3]) == (["X", "V"], "ran")


def test_taggers_are_compared(cli: Cli, tagger: Path) -> None:
    found = answer(cli, "compare", tagger, tagger, "--data", tagger.parent / "words.tsv")
    assert (found["metric"], found["rows"][0]["value"]) == ("accuracy", 1.0)


def test_recall_by_distance(cli: Cli, tmp_path: Path) -> None:
    settings = ["--set=data.size=60", "--set=model.width=8", "--threads", "1"]
    code, _, said = cli("train", "@recall", "--model", "gru", "--steps", "3", *settings, "-o", tmp_path / "run")
    assert code == 0, said
    assert "tokenizer.kind=word: as suits @recall" in said
    found = answer(cli, "evaluate", tmp_path / "run", "@recall", "--by", "distance")
    assert found["by"] == "distance"
    assert sum(row["documents"] for row in found["rows"]) == 6
    assert {"nearest", "farthest", "documents", "accuracy", "nats"} == set(found["rows"][0])
    code, printed, _ = cli("evaluate", tmp_path / "run", "@recall", "--by", "distance")
    assert code == 0
    assert "words between" in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tag", "RUN", "a", "--jsonl"], "found more than one of TEXT, --input and --jsonl"),
        (["tag", "RUN", "a", "-o", "x.csv"], "-o is for the rows of a file"),
        (["classify", "RUN", "a"], "is a tagger, expected a classifier"),
        (["generate", "RUN", "a"], "is a tagger, expected a language model"),
        (["evaluate", "RUN", "--by", "distance"], "--by distance is for language models"),
        (["evaluate", "RUN", "--by", "colour"], "--by colour: found no such way"),
        (["evaluate", "RUN", "short.tsv"], "short.tsv, line 3: found 1 tag for 2 words"),
        (["train", "short.tsv"], "short.tsv, line 3: found 1 tag for 2 words"),
        (["train", "one.tsv"], "found 1 rows with 1 tag, expected two or more"),
        (["train", "one.tsv", "--from", "nowhere"], "nowhere"),
        (["train", "one.tsv", "--device", "abacus"], "training.device"),
    ],
)
def test_bad_input_is_told_and_leaves_nothing(
    arguments: list[str], said: str, cli: Cli, tagger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short.tsv").write_text("text\ttags\na dog ran\tD N V\nthe dog\tD\n")
    Path("one.tsv").write_text("text\ttags\na dog\tX X\n")
    before = sorted(tmp_path.iterdir())
    code, printed, error = cli(*[str(tagger) if each == "RUN" else each for each in arguments])
    assert (code, printed) == (2, ""), error
    assert said in error
    assert sorted(path for path in tmp_path.iterdir() if path.name != "runs") == before
    assert not list(tmp_path.glob("runs/*"))
