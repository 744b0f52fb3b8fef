"""`satchel classify`: JSON keys, files in and out, JSON lines, contributions of a Backpack."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import satchel
from tests.cli.conftest import (
    ROWS,
    Cli,
    json_of,
    train_ngram,
)

TICKETS = [("1", "tired, dull,\na waste", ""), ("2", "a joy", "x,y"), ("3", "", '"q"')]


def test_classify_reports_the_promised_keys(cli: Cli, classifier: Path) -> None:
    (result,) = json_of(cli, "classify", classifier, "a joy")["predictions"]
    assert set(result) == {"text", "label", "probability", "probabilities", "windows"}
    assert (result["text"], result["label"]) == ("a joy", "good")
    assert max(result["probabilities"], key=result["probabilities"].__getitem__) == "good"
    assert cli("classify", classifier, "dull and a waste")[1].startswith("bad\n")


def test_hundreds_of_unbalanced_labels_are_learned(cli: Cli, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = []
    for label in range(300):
        for _ in range(1 + label % 7):
            words = [f"w{label}", f"w{label}", *(f"w{n}" for n in generator.integers(0, 300, 3))]
            rows.append(f"topic {label}\t{' '.join(words)}\n")
    (tmp_path / "many.tsv").write_text("label\ttext\n" + "".join(rows))
    trained = json_of(
        cli, "train", tmp_path / "many.tsv", "--model", "ngram", "--tokenizer", "word", "-o", tmp_path / "run"
    )
    assert trained["parameters"] > 0
    result = json_of(cli, "evaluate", tmp_path / "run", tmp_path / "many.tsv")
    assert len(result["per_label"]) == 300
    assert result["accuracy"] > 0.95
    code, printed, messages = cli("classify", tmp_path / "run", "w17 w17")
    assert (code, printed.split("\n")[0]) == (0, "topic 17")
    assert "290 more labels" in messages


def test_empty_texts_and_unknown_words_are_classified(cli: Cli, classifier: Path) -> None:
    for text in ("", "   ", "zzz yyy"):
        (result,) = json_of(cli, "classify", classifier, text)["predictions"]
        assert result["label"] == "good", "the commoner label"
        assert sum(result["probabilities"].values()) == pytest.approx(1)


def write_tickets(path: Path) -> None:
    """Write the tickets as .jsonl or .csv."""
    if path.suffix == ".jsonl":
        rows = [json.dumps({"id": int(id_), "text": text, "note": note}) for id_, text, note in TICKETS]
        path.write_text("\n".join(rows) + "\n")
        return
    with open(path, "w", newline="") as handle:
        csv.writer(handle).writerows([("id", "text", "note"), *TICKETS])


@pytest.mark.parametrize("source", ["tickets.csv", "tickets.jsonl"])
def test_rows_of_a_file_keep_their_other_columns(source: str, cli: Cli, classifier: Path, tmp_path: Path) -> None:
    write_tickets(tmp_path / source)
    code, _, messages = cli("classify", classifier, "--input", tmp_path / source, "-o", tmp_path / "answered.csv")
    assert code == 0
    assert "3 rows" in messages
    with open(tmp_path / "answered.csv", newline="") as handle:
        result = list(csv.DictReader(handle))
    assert [(row["id"], row["text"], row["note"]) for row in result] == TICKETS
    assert [row["label"] for row in result] == ["bad", "good", "good"]
    assert all(0.5 <= float(row["probability"]) <= 1 for row in result)
    assert cli("classify", classifier, "--input", tmp_path / source, "-o", tmp_path / "answered.jsonl")[0] == 0
    lines = [json.loads(line) for line in (tmp_path / "answered.jsonl").read_text().strip().split("\n")]
    assert [line["label"] for line in lines] == ["bad", "good", "good"]
    assert lines[0]["id"] == (1 if source.endswith("jsonl") else "1")
    assert set(lines[0]["probabilities"]) == {"good", "bad"}


def test_each_line_of_a_text_file_is_classified(cli: Cli, classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a joy\n\ndull and a waste\n")
    assert cli("classify", classifier, "--input", tmp_path / "lines.txt", "-o", tmp_path / "out.txt")[0] == 0
    assert (tmp_path / "out.txt").read_text() == "good\ngood\nbad\n"
    assert cli("classify", classifier, "--input", tmp_path / "lines.txt")[1] == "good\ngood\nbad\n"
    result = json_of(cli, "classify", classifier, "--input", tmp_path / "lines.txt")["predictions"]
    assert [prediction["label"] for prediction in result] == ["good", "good", "bad"]


def test_predictions_do_not_depend_on_the_batch_size(classifier: Path) -> None:
    model = satchel.load(classifier, task="classify")
    texts = ["a joy", "", "dull and a waste", "tired and warm", "waste"] * 3
    one, many = (list(model.predict(texts, batch=batch)) for batch in (1, 1024))
    assert [prediction.label for prediction in one] == [prediction.label for prediction in many]
    for first, second in zip(one, many, strict=True):
        assert first.probabilities == pytest.approx(second.probabilities, rel=1e-12)
        assert model.classify(first.text) == first


def test_json_lines_on_standard_input_are_answered_immediately(classifier: Path) -> None:
    command = [sys.executable, "-m", "satchel", "classify", str(classifier), "--jsonl"]
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
        result = json.loads(process.stdout.readline())  # before the next line is written
        assert (result["id"], result["text"], result["label"]) == (number, text, label)
        assert result["probability"] == pytest.approx(result["probabilities"][label], abs=1e-6)
    process.stdin.write(b'{"text": "fine"}\nnot json\n')
    process.stdin.close()
    assert json.loads(process.stdout.readline())["text"] == "fine"
    messages = process.stderr.read().decode()
    assert process.wait() == 2
    assert "standard input, line 4: is not JSON" in messages
    process.stdout.close()
    process.stderr.close()


def test_a_run_remembers_its_columns(cli: Cli, tmp_path: Path) -> None:
    plain = "".join(f"{number}\t{label}\t{text}\n" for number, (label, text) in enumerate(ROWS * 3))
    (tmp_path / "plain.tsv").write_text(plain)
    options = ["--columns", "-,sort,body", "--text-column", "body", "--label-column", "sort"]
    train_ngram(cli, tmp_path / "plain.tsv", tmp_path / "run", *options)
    assert json_of(cli, "evaluate", tmp_path / "run", tmp_path / "plain.tsv")["accuracy"] == 1
    (tmp_path / "headed.csv").write_text("body,sort\na joy,good\ndull and a waste,bad\n")
    assert json_of(cli, "evaluate", tmp_path / "run", tmp_path / "headed.csv")["examples"] == 2
    (tmp_path / "named.csv").write_text("words,id\na joy,7\n")
    out = tmp_path / "out.csv"
    options = ["--columns", "words,id", "--text-column", "words"]
    assert cli("classify", tmp_path / "run", "--input", tmp_path / "named.csv", *options, "-o", out)[0] == 0
    assert out.read_text().split("\n")[2].startswith("a joy,7,good,")


def test_a_backpack_classifier_prints_contributions_to_every_label(cli: Cli, backpack_classifier: Path) -> None:
    (result,) = json_of(cli, "classify", backpack_classifier, "That trick was really sick")["predictions"]
    assert {"word", "role", "position", "sense", "label", "value", "centred"} == set(result["contributions"][0])
    for label, logit in result["logits"].items():
        entries = [each for each in result["contributions"] if each["label"] == label]
        assert [each["position"] for each in entries] == [position for position in range(5) for _ in range(4)]
        assert sum(each["value"] for each in entries) + result["bias"][label] == pytest.approx(logit, abs=1e-6)
        centred = sum(each["centred"] for each in entries) + result["centred_bias"][label]
        assert centred == pytest.approx(logit, abs=1e-6)
    # Centred contributions to all labels sum to zero: the mean over labels is subtracted.
    by_label = np.array([each["centred"] for each in result["contributions"]]).reshape(len(result["logits"]), -1)
    assert by_label.sum(axis=0) == pytest.approx(0, abs=1e-6)
    chances = np.exp(list(result["logits"].values()))
    assert result["probability"] == pytest.approx(chances.max() / chances.sum(), abs=1e-4)
    code, printed, messages = cli("classify", backpack_classifier, "That trick was really sick")
    assert code == 0
    assert "contribution to positive" in printed
    assert "(bias)" in printed
    assert "centred contributions" in messages
    totals: dict[str, float] = {}
    for entry in result["contributions"]:
        if entry["label"] == result["label"]:
            totals[entry["word"]] = totals.get(entry["word"], 0) + entry["centred"]
    assert re.search(rf"sick +4 +{re.escape(format(totals['sick'], '+.3f'))}", printed)
    view = json_of(cli, "look", "contributions", backpack_classifier, "That trick was really sick")
    assert np.sum(view["centred"], axis=1) == pytest.approx([*totals.values()], abs=1e-6)
    assert view["bias"] == pytest.approx(result["centred_bias"][result["label"]], abs=1e-6)
    assert "(head bias)" in cli("classify", backpack_classifier, "That trick was really sick", "--raw")[1]


def test_rows_of_a_file_have_contributions_in_json(cli: Cli, backpack_classifier: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "That trick was great"}\n{"text": ""}\n', encoding="utf-8")
    result = json_of(cli, "classify", backpack_classifier, "--input", rows)["predictions"]
    assert len(result) == 2
    for each in result:  # also where there is no word at all
        for label, logit in each["logits"].items():
            added = sum(part["value"] for part in each["contributions"] if part["label"] == label)
            assert added + each["bias"][label] == pytest.approx(logit, abs=1e-6)
        chances = np.exp(list(each["logits"].values()))
        assert each["probability"] == pytest.approx(chances.max() / chances.sum(), abs=1e-4)
    code, printed, _ = cli("classify", backpack_classifier, "")
    assert code == 0
    assert "contribution to" in printed
    code, printed, _ = cli("look", "contributions", backpack_classifier, "That trick was great", "--target", "positive")
    assert code == 0
    assert "positive:" in printed


@pytest.mark.slow
def test_two_senses_of_sick_contribute_to_opposite_labels(tmp_path: Path) -> None:
    one = {"training.threads": 1}
    satchel.train("@polysemy", recipe="polysemy", seed=1, settings=one, out=tmp_path / "lm")
    model = satchel.train(
        "@polysemy", task="classify", start=tmp_path / "lm", epochs=8, settings=one, out=tmp_path / "run"
    )
    praise, blame = "That trick was sick", "That fever made me sick"
    assert model.classify(praise).label == "positive"
    assert model.classify(blame).label == "negative"
    positive = model.labels.index("positive")
    added = {}
    for text in (praise, blame):
        result = model.contributions(text)
        lead = result[positive].values - result[model.labels.index("negative")].values
        added[text] = lead[result[0].words.index("sick")]
    assert added[praise].sum() > 0 > added[blame].sum()
    # It is another sense that does it.
    assert added[praise].argmax() != added[blame].argmin()
