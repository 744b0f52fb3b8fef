"""`satchel evaluate`: metrics of every task."""

import hashlib
import json
import math
from itertools import combinations
from pathlib import Path

import pytest

import satchel
from satchel.errors import RunError
from tests.cli.conftest import (
    Cli,
    json_of,
    train_ngram,
)


def test_evaluate_reports_the_promised_keys_of_a_language_model(cli: Cli, ngram: Path, verse: Path) -> None:
    result = json_of(cli, "evaluate", ngram, verse)
    assert {
        "task", "model", "tokens", "unknown", "bytes", "characters", "nats_per_token", "perplexity", "bits_per_byte",
        "bits_per_character", "context",
    } <= set(result)  # fmt: skip
    assert result["tokens"] == result["bytes"] == result["characters"] == len(verse.read_bytes())
    assert result["perplexity"] == pytest.approx(math.exp(result["nats_per_token"]))
    assert result["bits_per_byte"] == pytest.approx(result["nats_per_token"] / math.log(2))
    assert sum(result["notes"]["order"].values()) == result["tokens"]


def test_evaluate_without_data_uses_what_was_held_out(cli: Cli, ngram: Path, verse: Path, tmp_path: Path) -> None:
    held_out = tmp_path / "end.txt"
    text = verse.read_text()
    held_out.write_text(text[int(len(text) * 0.9) :])
    own, other = json_of(cli, "evaluate", ngram), json_of(cli, "evaluate", ngram, held_out)
    assert own["nats_per_token"] == pytest.approx(other["nats_per_token"], rel=1e-12)


def test_a_tokenizer_that_loses_text_gives_no_bits_per_byte(cli: Cli, verse: Path, tmp_path: Path) -> None:
    train_ngram(cli, verse, tmp_path / "word", "--tokenizer", "word")
    result = json_of(cli, "evaluate", tmp_path / "word", verse)
    assert result["bits_per_byte"] is result["bits_per_character"] is None
    clean = tmp_path / "clean.txt"
    clean.write_text("The cat sat on the mat.\nThe dog sat on the log.\n")
    train_ngram(cli, verse, tmp_path / "lines", "--tokenizer", "word", "--set", "data.documents=line")
    assert json_of(cli, "evaluate", tmp_path / "lines", clean)["bits_per_byte"] is not None


def test_unknown_text_is_counted_not_refused(cli: Cli, ngram: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("The 漢字 cat", encoding="utf-8")
    result = json_of(cli, "evaluate", ngram, tmp_path / "new.txt")
    assert (result["unknown"], result["tokens"], result["bits_per_byte"]) == (2, 10, None)


def test_infinite_perplexity_is_null_in_json(cli: Cli, verse: Path, tmp_path: Path) -> None:
    train_ngram(cli, verse, tmp_path / "mle", "--tokenizer", "char", "--set", "model.smoothing=mle")
    (tmp_path / "new.txt").write_text("Quiz: the cat")
    result = json_of(cli, "evaluate", tmp_path / "mle", tmp_path / "new.txt")
    assert result["perplexity"] is None
    assert result["impossible"] > 0
    code, printed, _ = cli("evaluate", tmp_path / "mle", tmp_path / "new.txt")
    assert (code, "perplexity          inf" in printed, "zero probability" in printed) == (0, True, True)


def test_a_run_of_another_task_is_refused(cli: Cli, ngram: Path, verse: Path) -> None:

    config = (ngram / "config.json").read_bytes().replace(b'"task": "lm"', b'"task": "translate"', 1)
    (ngram / "config.json").write_bytes(config)
    manifest = json.loads((ngram / "manifest.json").read_text())
    manifest["files"]["config.json"] = {"size": len(config), "sha256": hashlib.sha256(config).hexdigest()}
    (ngram / "manifest.json").write_text(json.dumps(manifest))
    code, _, messages = cli("evaluate", ngram, verse)
    assert (code, "task and settings.task differ" in messages) == (2, True)


def test_a_damaged_or_foreign_token_file_is_refused(cli: Cli, ngram: Path) -> None:
    tokens = ngram / "tokens" / "valid.safetensors"
    data = bytearray(tokens.read_bytes())
    data[-1] ^= 1
    tokens.write_bytes(data)
    code, _, messages = cli("evaluate", ngram)
    assert (code, "is damaged" in messages) == (2, True)


def test_evaluate_reports_the_promised_keys_of_a_classifier(cli: Cli, classifier: Path, table: Path) -> None:
    result = json_of(cli, "evaluate", classifier, table)
    assert {"examples", "accuracy", "macro_f1", "per_label", "calibration", "confusion"} <= set(result)
    assert set(result["per_label"][0]) == {"label", "precision", "recall", "f1", "support"}
    assert set(result["calibration"]) == {"expected_error", "bins"}
    assert [report["label"] for report in result["per_label"]] == ["bad", "good"]
    assert result["examples"] == 28
    assert result["accuracy"] == 1.0
    assert result["majority_accuracy"] == pytest.approx(16 / 28)
    low, high = result["accuracy_interval"]
    assert low < 1
    assert high == pytest.approx(1)
    assert {"label": "bad", "predicted": "bad", "count": 12} in result["confusion"]
    code, printed, _ = cli("evaluate", classifier)
    assert code == 0
    assert all(word in printed for word in ("accuracy", "macro F1", "calibration", "precision", "minimum probability"))


def test_the_held_out_rows_are_those_of_each_label(cli: Cli, classifier: Path) -> None:
    result = json_of(cli, "evaluate", classifier)
    assert {report["label"]: report["support"] for report in result["per_label"]} == {"bad": 3, "good": 4}


def test_unseen_labels_count_as_errors_and_are_reported(cli: Cli, classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "new.tsv").write_text("label\ttext\ngood\ta lovely joy\nodd\ta dull waste\nodd\twarm\n")
    result = json_of(cli, "evaluate", classifier, tmp_path / "new.tsv")
    assert result["unseen_labels"] == 2
    assert result["accuracy"] == pytest.approx(1 / 3)
    odd = next(report for report in result["per_label"] if report["label"] == "odd")
    assert odd == {"label": "odd", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 2}
    assert "2 examples have a label" in cli("evaluate", classifier, tmp_path / "new.tsv")[1]
    # The same where they are what was held out.
    code, _, _ = cli(
        "train", tmp_path / "films.tsv", "--model", "ngram", "--valid", tmp_path / "new.tsv", "-o", tmp_path / "other"
    )
    assert code == 0
    assert json_of(cli, "evaluate", tmp_path / "other")["unseen_labels"] == 2


def test_errors_are_written_most_confident_first(cli: Cli, classifier: Path, tmp_path: Path) -> None:
    wrong = "label\ttext\nbad\tlovely, warm, a joy\nbad\tfilm\ngood\ta joy\nbad\tjoy and joy\n"
    (tmp_path / "new.tsv").write_text(wrong)
    code, _, messages = cli("evaluate", classifier, tmp_path / "new.tsv", "--errors", tmp_path / "wrong.tsv")
    assert code == 0
    assert "wrong.tsv" in messages
    lines = (tmp_path / "wrong.tsv").read_text().strip().split("\n")
    assert lines[0].split("\t") == ["label", "predicted", "probability", "text"]
    sure = [float(line.split("\t")[2]) for line in lines[1:]]
    assert sure == sorted(sure, reverse=True)
    assert any(line.endswith("\tlovely, warm, a joy") for line in lines)
    assert not any(line.endswith("\ta joy") for line in lines[1:] if line.startswith("good"))
    # Without an error there is still a table.
    (tmp_path / "right.tsv").write_text("label\ttext\ngood\ta joy\n")
    cli("evaluate", classifier, tmp_path / "right.tsv", "--errors", tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text() == "label,predicted,probability,text\n"


def test_a_damaged_classifier_is_refused(classifier: Path) -> None:
    path = classifier / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(RunError, match="is damaged"):
        satchel.load(classifier)


def test_tagged_output_can_be_evaluated(cli: Cli, tagger: Path, tmp_path: Path) -> None:
    words = tagger.parent / "words.tsv"
    assert cli("tag", tagger, "--input", words, "-o", tmp_path / "again.tsv")[0] == 0
    result = json_of(cli, "evaluate", tagger, tmp_path / "again.tsv")
    assert result["accuracy"] == 1.0
    assert result["examples"] == 12 * (3 + 3 + 2 + 1 + 3)
    assert (tmp_path / "again.tsv").read_text().split("\n")[0] == "text\tgiven_tags\ttags"


def test_wrong_tags_are_written(cli: Cli, tagger: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.tsv").write_text("text\ttags\nthe dogs ran\tD N X\n")
    code, printed, _ = cli("evaluate", tagger, tmp_path / "odd.tsv", "--errors", tmp_path / "wrong.tsv")
    assert code == 0
    assert "66.67%" in printed
    header, wrong, _ = (tmp_path / "wrong.tsv").read_text().split("\n")
    assert header.split("\t") == ["label", "predicted", "probability", "text"]
    assert (wrong.split("\t")[:2], wrong.split("\t")[3]) == (["X", "V"], "ran")


def test_recall_by_distance(cli: Cli, tmp_path: Path) -> None:
    settings = ["--set=data.size=60", "--set=model.width=8", "--threads", "1"]
    code, _, messages = cli("train", "@recall", "--model", "gru", "--steps", "3", *settings, "-o", tmp_path / "run")
    assert code == 0, messages
    assert "tokenizer.kind=word: default for @recall" in messages
    result = json_of(cli, "evaluate", tmp_path / "run", "@recall", "--by", "distance")
    assert result["by"] == "distance"
    assert sum(row["documents"] for row in result["rows"]) == 6
    assert {"nearest", "farthest", "documents", "accuracy", "nats"} == set(result["rows"][0])
    code, printed, _ = cli("evaluate", tmp_path / "run", "@recall", "--by", "distance")
    assert code == 0
    assert "distance in words" in printed


def test_a_translator_is_compared_with_baselines_and_grouped_by_length_and_position(cli: Cli, translator: Path) -> None:
    result = json_of(cli, "evaluate", translator, "@dates", "--beam", "1")
    assert result["sentences"] == 40
    assert set(result["baselines"]) == {"copy", "memory"}
    assert "tok:13a" in result["signature"]
    assert not result["looks_swapped"]
    code, printed, _ = cli("evaluate", translator)
    assert code == 0
    assert "copy of the source" in printed
    assert "nearest training pair" in printed
    by_length = json_of(cli, "evaluate", translator, "--by", "length")
    assert sum(row["count"] for row in by_length["rows"]) == 20
    by_position = json_of(cli, "evaluate", translator, "--by", "position")
    assert len(by_position["rows"]) == 5
    for by in ("length", "position"):
        assert cli("evaluate", translator, "--by", by)[0] == 0


def test_word_similarity_is_correlated_with_human_ratings(cli: Cli, backpack: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("cat\tdog\t9\ncat\tmat\t5\nlog\tthe\t1\n", encoding="utf-8")
    result = json_of(cli, "evaluate", backpack, "--similarity", tmp_path)
    (pairs,) = result["similarity"]
    assert (pairs["name"], pairs["pairs"], pairs["covered"]) == ("pairs", 3, 3)
    assert set(pairs["correlations"]) == {"joined", "least", "any pair", "sense 0", "sense 1", "sense 2"}
    assert all(-1 <= value <= 1 for value in pairs["correlations"].values())
    code, printed, _ = cli("evaluate", backpack, "--similarity", tmp_path)
    assert code == 0
    assert "concatenated" in printed
    assert pairs["intervals"] == {}
    assert pairs["selected"] is None


def test_word_similarity_has_intervals_a_chance_level_and_a_sense_selected_on_other_pairs(
    cli: Cli, backpack: Path, tmp_path: Path
) -> None:
    words = ["cat", "dog", "mat", "log", "the", "sat", "on"]
    pairs = [f"{a}\t{b}\t{number}\n" for number, (a, b) in enumerate(combinations(words, 2))]
    (tmp_path / "pairs.tsv").write_text("".join(pairs), encoding="utf-8")
    (result,) = json_of(cli, "evaluate", backpack, "--similarity", tmp_path)["similarity"]
    for measure, (low, high) in result["intervals"].items():
        assert -1 <= low <= result["correlations"][measure] <= high <= 1
    assert result["chance"] == pytest.approx(1.96 / (result["covered"] - 1) ** 0.5, rel=1e-3)
    assert len(result["selected"]["senses"]) == 2
    code, printed, messages = cli("evaluate", backpack, "--similarity", tmp_path)
    assert (code, "95 % CI" in printed, "chance" in printed, "single sense" in printed) == (0, True, True, True)
    assert "measured on the other half" in messages
