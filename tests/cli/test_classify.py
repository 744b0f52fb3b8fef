"""Classifying: the keys scripts rely on, files in and out, standard input as it comes, and bad input."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import satchel
from satchel.errors import RunError
from tests.cli.conftest import Cli, answer, tree

ROWS = [
    ("good", "a lovely film, warm and funny"),
    ("good", "warm, lovely, a joy to see"),
    ("good", "funny and full of joy"),
    ("good", "a joy, lovely and warm"),
    ("bad", "a dull and tired film"),
    ("bad", "tired, dull, a waste"),
    ("bad", "dull and a waste of time"),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A small table of labelled texts."""
    path = tmp_path / "films.tsv"
    path.write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in ROWS * 4), encoding="utf-8")
    return path


@pytest.fixture
def run(cli: Cli, table: Path, tmp_path: Path) -> Path:
    """A small trained classifier."""
    target = tmp_path / "films"
    code, _, said = cli("train", table, "--model", "ngram", "--valid", "0.25", "--tokenizer", "word", "-o", target)
    assert code == 0, said
    return target


# --- training and evaluating -----------------------------------------------------------------------------


def test_a_table_with_labels_is_for_a_classifier_and_that_is_said(cli: Cli, table: Path, tmp_path: Path) -> None:
    code, printed, said = cli("train", table, "--model", "ngram", "-o", tmp_path / "run")
    assert code == 0
    assert "task=classify: as the data says" in said
    assert "a classifier (task classify) of 2 labels" in printed
    found = answer(cli, "train", table, "--model", "ngram", "--valid", "0.25", "-o", tmp_path / "again")
    assert (found["task"], found["model"], found["stopped"]) == ("classify", "ngram", "finished")
    assert found["valid"]["examples"] == 7
    assert found["train_loss"] > 0
    assert isinstance(satchel.load(tmp_path / "again"), satchel.Classifier)


def test_the_same_training_twice_gives_the_same_model(cli: Cli, table: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert cli("train", table, "--model", "ngram", "--valid", "0.2", "--seed", "3", "-o", tmp_path / name)[0] == 0
    for file in ("model.safetensors", "config.json", "tokens/valid.safetensors", "tokens/valid-classes.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_evaluate_reports_the_promised_keys(cli: Cli, run: Path, table: Path) -> None:
    found = answer(cli, "evaluate", run, table)
    assert {"examples", "accuracy", "macro_f1", "per_label", "calibration", "confusion"} <= set(found)
    assert set(found["per_label"][0]) == {"label", "precision", "recall", "f1", "support"}
    assert set(found["calibration"]) == {"expected_error", "bins"}
    assert [report["label"] for report in found["per_label"]] == ["bad", "good"]
    assert found["examples"] == 28
    assert found["accuracy"] == 1.0
    assert found["majority_accuracy"] == pytest.approx(16 / 28)
    low, high = found["accuracy_interval"]
    assert low < 1
    assert high == pytest.approx(1)
    assert {"label": "bad", "predicted": "bad", "count": 12} in found["confusion"]
    code, printed, _ = cli("evaluate", run)
    assert code == 0
    assert all(word in printed for word in ("accuracy", "macro F1", "calibration", "precision", "sure at least"))


def test_the_held_out_rows_are_those_of_each_label(cli: Cli, run: Path) -> None:
    found = answer(cli, "evaluate", run)
    assert {report["label"]: report["support"] for report in found["per_label"]} == {"bad": 3, "good": 4}


def test_labels_that_were_never_seen_count_as_wrong_and_are_told(cli: Cli, run: Path, tmp_path: Path) -> None:
    (tmp_path / "new.tsv").write_text("label\ttext\ngood\ta lovely joy\nodd\ta dull waste\nodd\twarm\n")
    found = answer(cli, "evaluate", run, tmp_path / "new.tsv")
    assert found["unseen_labels"] == 2
    assert found["accuracy"] == pytest.approx(1 / 3)
    odd = next(report for report in found["per_label"] if report["label"] == "odd")
    assert odd == {"label": "odd", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 2}
    assert "2 examples have a label" in cli("evaluate", run, tmp_path / "new.tsv")[1]
    # The same where they are what was held out.
    code, _, _ = cli(
        "train", tmp_path / "films.tsv", "--model", "ngram", "--valid", tmp_path / "new.tsv", "-o", tmp_path / "other"
    )
    assert code == 0
    assert answer(cli, "evaluate", tmp_path / "other")["unseen_labels"] == 2


def test_the_errors_are_written_with_the_surest_first(cli: Cli, run: Path, tmp_path: Path) -> None:
    wrong = "label\ttext\nbad\tlovely, warm, a joy\nbad\tfilm\ngood\ta joy\nbad\tjoy and joy\n"
    (tmp_path / "new.tsv").write_text(wrong)
    code, _, said = cli("evaluate", run, tmp_path / "new.tsv", "--errors", tmp_path / "wrong.tsv")
    assert code == 0
    assert "wrong.tsv" in said
    lines = (tmp_path / "wrong.tsv").read_text().strip().split("\n")
    assert lines[0].split("\t") == ["label", "predicted", "probability", "text"]
    sure = [float(line.split("\t")[2]) for line in lines[1:]]
    assert sure == sorted(sure, reverse=True)
    assert any(line.endswith("\tlovely, warm, a joy") for line in lines)
    assert not any(line.endswith("\ta joy") for line in lines[1:] if line.startswith("good"))
    # Without an error there is still a table.
    (tmp_path / "right.tsv").write_text("label\ttext\ngood\ta joy\n")
    cli("evaluate", run, tmp_path / "right.tsv", "--errors", tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text() == "label,predicted,probability,text\n"


def test_hundreds_of_unbalanced_labels_are_learned(cli: Cli, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = []
    for label in range(300):
        for _ in range(1 + label % 7):
            words = [f"w{label}", f"w{label}", *(f"w{n}" for n in generator.integers(0, 300, 3))]
            rows.append(f"topic {label}\t{' '.join(words)}\n")
    (tmp_path / "many.tsv").write_text("label\ttext\n" + "".join(rows))
    trained = answer(
        cli, "train", tmp_path / "many.tsv", "--model", "ngram", "--tokenizer", "word", "-o", tmp_path / "run"
    )
    assert trained["parameters"] > 0
    found = answer(cli, "evaluate", tmp_path / "run", tmp_path / "many.tsv")
    assert len(found["per_label"]) == 300
    assert found["accuracy"] > 0.95
    code, printed, said = cli("classify", tmp_path / "run", "w17 w17")
    assert (code, printed.split("\n")[0]) == (0, "topic 17")
    assert "290 more" in said


def test_empty_texts_and_texts_of_unknown_words_are_answered(cli: Cli, run: Path) -> None:
    for text in ("", "   ", "zzz yyy"):
        (found,) = answer(cli, "classify", run, text)["predictions"]
        assert found["label"] == "good", "the commoner label"
        assert sum(found["probabilities"].values()) == pytest.approx(1)


def test_two_runs_are_compared_by_accuracy_on_the_same_rows(cli: Cli, run: Path, table: Path, tmp_path: Path) -> None:
    (tmp_path / "few.tsv").write_text("label\ttext\ngood\tfull\nbad\ta film of joy\n")
    cli("train", tmp_path / "few.tsv", "--model", "ngram", "--tokenizer", "char", "-o", tmp_path / "few")
    found = answer(cli, "compare", run, run, tmp_path / "few", "--data", table)
    assert found["metric"] == "accuracy"
    assert found["units"] == 28
    assert found["rows"][0]["value"] == answer(cli, "evaluate", run, table)["accuracy"]
    same, better, _ = found["pairs"]
    assert (same["difference"], same["low"], same["high"]) == (0, 0, 0)
    assert better["difference"] > 0
    assert "larger is better" in cli("compare", run, tmp_path / "few", "--data", table)[2]
    assert cli("compare", run, tmp_path / "few", "--data", table, "-o", tmp_path / "t.svg")[0] == 0
    assert "larger is better" in (tmp_path / "t.svg").read_text()


# --- classifying -------------------------------------------------------------------------------------------


def test_classify_reports_the_promised_keys(cli: Cli, run: Path) -> None:
    (found,) = answer(cli, "classify", run, "a joy")["predictions"]
    assert set(found) == {"text", "label", "probability", "probabilities"}
    assert (found["text"], found["label"]) == ("a joy", "good")
    assert max(found["probabilities"], key=found["probabilities"].__getitem__) == "good"
    assert cli("classify", run, "dull and a waste")[1].startswith("bad\n")


TICKETS = [("1", "tired, dull,\na waste", ""), ("2", "a joy", "x,y"), ("3", "", '"q"')]


def write_tickets(path: Path) -> None:
    if path.suffix == ".jsonl":
        rows = [json.dumps({"id": int(id_), "text": text, "note": note}) for id_, text, note in TICKETS]
        path.write_text("\n".join(rows) + "\n")
        return
    with open(path, "w", newline="") as handle:
        csv.writer(handle).writerows([("id", "text", "note"), *TICKETS])


@pytest.mark.parametrize("source", ["tickets.csv", "tickets.jsonl"])
def test_a_file_is_answered_row_by_row_with_every_other_column_kept(
    source: str, cli: Cli, run: Path, tmp_path: Path
) -> None:
    write_tickets(tmp_path / source)
    code, _, said = cli("classify", run, "--input", tmp_path / source, "-o", tmp_path / "answered.csv")
    assert code == 0
    assert "3 rows" in said
    with open(tmp_path / "answered.csv", newline="") as handle:
        found = list(csv.DictReader(handle))
    assert [(row["id"], row["text"], row["note"]) for row in found] == TICKETS
    assert [row["label"] for row in found] == ["bad", "good", "good"]
    assert all(0.5 <= float(row["probability"]) <= 1 for row in found)
    assert cli("classify", run, "--input", tmp_path / source, "-o", tmp_path / "answered.jsonl")[0] == 0
    lines = [json.loads(line) for line in (tmp_path / "answered.jsonl").read_text().strip().split("\n")]
    assert [line["label"] for line in lines] == ["bad", "good", "good"]
    assert lines[0]["id"] == (1 if source.endswith("jsonl") else "1")
    assert set(lines[0]["probabilities"]) == {"good", "bad"}


def test_lines_of_text_are_answered_line_by_line(cli: Cli, run: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a joy\n\ndull and a waste\n")
    assert cli("classify", run, "--input", tmp_path / "lines.txt", "-o", tmp_path / "out.txt")[0] == 0
    assert (tmp_path / "out.txt").read_text() == "good\ngood\nbad\n"
    assert cli("classify", run, "--input", tmp_path / "lines.txt")[1] == "good\ngood\nbad\n"
    found = answer(cli, "classify", run, "--input", tmp_path / "lines.txt")["predictions"]
    assert [prediction["label"] for prediction in found] == ["good", "good", "bad"]


def test_answers_do_not_depend_on_how_many_rows_are_read_at_once(run: Path) -> None:
    model = satchel.load(run)
    texts = ["a joy", "", "dull and a waste", "tired and warm", "waste"] * 3
    one, many = (list(model.predict(texts, batch=batch)) for batch in (1, 1024))
    assert [prediction.label for prediction in one] == [prediction.label for prediction in many]
    for first, second in zip(one, many, strict=True):
        assert first.probabilities == pytest.approx(second.probabilities, rel=1e-12)
        assert model.classify(first.text) == first


def test_lines_of_json_on_standard_input_are_answered_as_they_come(run: Path) -> None:
    command = [sys.executable, "-m", "satchel", "classify", str(run), "--jsonl"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    for number, (text, label) in enumerate([("a joy", "good"), ("dull and a waste", "bad")]):
        process.stdin.write(json.dumps({"id": number, "text": text}).encode() + b"\n")
        process.stdin.flush()
        found = json.loads(process.stdout.readline())  # before the next line is written
        assert (found["id"], found["text"], found["label"]) == (number, text, label)
        assert found["probability"] == pytest.approx(found["probabilities"][label], abs=1e-6)
    process.stdin.write(b'{"text": "fine"}\nnot json\n')
    process.stdin.close()
    assert json.loads(process.stdout.readline())["text"] == "fine"
    said = process.stderr.read().decode()
    assert process.wait() == 2
    assert "standard input, line 4: is not JSON" in said
    process.stdout.close()
    process.stderr.close()


def test_a_run_remembers_its_columns_and_another_file_may_have_a_header(cli: Cli, tmp_path: Path) -> None:
    plain = "".join(f"{number}\t{label}\t{text}\n" for number, (label, text) in enumerate(ROWS * 3))
    (tmp_path / "plain.tsv").write_text(plain)
    options = ["--columns", "-,sort,body", "--text-column", "body", "--label-column", "sort"]
    assert cli("train", tmp_path / "plain.tsv", "--model", "ngram", *options, "-o", tmp_path / "run")[0] == 0
    assert answer(cli, "evaluate", tmp_path / "run", tmp_path / "plain.tsv")["accuracy"] == 1
    (tmp_path / "headed.csv").write_text("body,sort\na joy,good\ndull and a waste,bad\n")
    assert answer(cli, "evaluate", tmp_path / "run", tmp_path / "headed.csv")["examples"] == 2
    (tmp_path / "named.csv").write_text("words,id\na joy,7\n")
    out = tmp_path / "out.csv"
    options = ["--columns", "words,id", "--text-column", "words"]
    assert cli("classify", tmp_path / "run", "--input", tmp_path / "named.csv", *options, "-o", out)[0] == 0
    assert out.read_text().split("\n")[2].startswith("a joy,7,good,")


# --- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "one.tsv", "--model", "ngram"], "found 1 rows with 1 label, expected two or more"),
        (["train", "blank.tsv", "--model", "ngram"], "blank.tsv, line 3: found an empty label"),
        (["train", "wide.tsv", "--model", "ngram"], "line 3: found 3 columns, expected 2 (label, text)"),
        (["train", "films.csv", "--model", "ngram"], "line 2: found 1 column, expected 2"),
        (["train", "empty.tsv", "--model", "ngram", "--task", "classify"], "is empty"),
        (["train", "header.tsv", "--model", "ngram", "--task", "classify"], "found 0 rows"),
        (["train", "void.tsv", "--model", "ngram"], "found only empty texts"),
        (["train", "films.tsv", "--label-column", "kind", "--task", "classify"], "label, text, expected kind"),
        (["train", "films.tsv", "--task", "rank"], "task: found 'rank', expected lm, tag, classify"),
        (["train", "films.tsv", "--valid", "0.01"], "the fraction 0.01 of each label's rows is none"),
        (["train", "films.tsv", "--set", "model.background=1"], "model.background: found 1, expected less than 1"),
        (["train", "verse.txt", "--set", "model.background=0.1"], "unknown setting model.background"),
        (["train", "films.tsv", "--model", "ngram", "--recipe", "imbd-ngram"], "there is no recipe imbd-ngram"),
        (["evaluate", "run", "header.tsv"], "found no rows"),
        (["evaluate", "run", "films.tsv", "--errors", "wrong.xls"], "found the ending '.xls'"),
        (["evaluate", "run", "tickets.csv"], "expected label"),
        (["evaluate", "lm", "verse.txt", "--errors", "wrong.tsv"], "--errors is for classifiers"),
        (["classify", "lm", "a"], "is a language model, expected a classifier"),
        (["classify", "run", "a", "--jsonl"], "found more than one of TEXT, --input and --jsonl"),
        (["classify", "run", "a", "-o", "out.csv"], "-o is for the rows of a file"),
        (["classify", "run", "--input", "missing.csv", "-o", "out.csv"], "there is no such file"),
        (["classify", "run", "--input", "films.tsv", "-o", "films.tsv"], "is the input itself"),
        (["classify", "run", "--input", "films.tsv", "-o", "out.xls"], "found the ending '.xls'"),
        (["classify", "run", "--input", "tickets.csv", "-o", "out.tsv"], "write .csv or .jsonl instead"),
        (["classify", "run", "--input", "other.csv", "-o", "out.csv"], "found the columns body, expected text"),
        (["classify", "run", "--input", "wide.tsv", "-o", "out.csv"], "line 3: found 3 columns"),
        (["score", "run", "a"], "is a classifier, expected a language model"),
        (["generate", "run", "a"], "is a classifier, expected a language model"),
        (["export", "run", "--to", "arpa", "-o", "x.arpa"], "is a classifier, expected a language model"),
        (["mix", "run", "run", "--data", "films.tsv", "-o", "mixed"], "is a classifier, expected a language model"),
        (["compare", "run", "lm", "--data", "films.tsv"], "found runs for different tasks: classify, lm"),
    ],
)  # fmt: skip
def test_bad_input_is_told_in_a_line_and_leaves_nothing(
    arguments: list[str], said: str, cli: Cli, table: Path, verse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.tsv").write_text("label\ttext\ngood\ta\n")
    Path("blank.tsv").write_text("label\ttext\ngood\ta\n \tb\n")
    Path("wide.tsv").write_text("label\ttext\ngood\ta\nbad\tb\tc\n")
    Path("films.csv").write_text("label,text\ngood\n")
    Path("empty.tsv").touch()
    Path("header.tsv").write_text("label\ttext\n")
    Path("void.tsv").write_text("label\ttext\ngood\t\nbad\t\n")
    Path("other.csv").write_text("body\na\n")
    write_tickets(Path("tickets.csv"))
    assert cli("train", "films.tsv", "--model", "ngram", "-o", "run")[0] == 0
    assert cli("train", "verse.txt", "--model", "ngram", "--tokenizer", "char", "-o", "lm")[0] == 0
    before = tree(tmp_path)
    code, printed, error = cli(*arguments)
    assert code == 2
    assert said in error
    assert "Traceback" not in error
    assert printed == ""
    assert tree(tmp_path) == before


def test_a_damaged_classifier_is_refused(run: Path) -> None:
    path = run / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(RunError, match="is damaged"):
        satchel.load(run)
