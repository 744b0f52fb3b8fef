"""`satchel compare`: metrics and intervals of several runs."""

import hashlib
import json
from pathlib import Path

from tests.cli.conftest import (
    Cli,
    json_of,
    process,
    train_ngram,
)


def test_compare_reports_the_promised_keys(cli: Cli, orders: list[Path], verse: Path, tmp_path: Path) -> None:
    result = json_of(cli, "compare", *orders, "--data", verse, "-o", tmp_path / "table.csv")
    assert result["metric"] == "bits_per_byte"
    assert [set(row) for row in result["rows"]] == [
        {"run", "value", "low", "high", "perplexity", "parameters", "seconds"}
    ] * 2
    assert set(result["pairs"][0]) == {"a", "b", "difference", "low", "high"}
    assert result["pairs"][0]["difference"] > 0
    assert (tmp_path / "table.csv").exists()
    code, printed, _ = cli("compare", *orders, "--data", verse)
    assert (code, "significant" in printed) == (0, True)


def test_classifiers_are_compared_by_accuracy_on_the_same_rows(
    cli: Cli, classifier: Path, table: Path, tmp_path: Path
) -> None:
    (tmp_path / "few.tsv").write_text("label\ttext\ngood\tfull\nbad\ta film of joy\n")
    train_ngram(cli, tmp_path / "few.tsv", tmp_path / "few", "--tokenizer", "char")
    result = json_of(cli, "compare", classifier, classifier, tmp_path / "few", "--data", table)
    assert result["metric"] == "accuracy"
    assert result["units"] == 28
    assert result["rows"][0]["value"] == json_of(cli, "evaluate", classifier, table)["accuracy"]
    same, better, _ = result["pairs"]
    assert (same["difference"], same["low"], same["high"]) == (0, 0, 0)
    assert better["difference"] > 0
    assert "higher is better" in cli("compare", classifier, tmp_path / "few", "--data", table)[2]
    assert cli("compare", classifier, tmp_path / "few", "--data", table, "-o", tmp_path / "t.svg")[0] == 0
    assert "higher is better" in (tmp_path / "t.svg").read_text()


def test_classifiers_validated_on_different_rows_need_a_common_file(cli: Cli) -> None:
    runs = Path(__file__).parents[1] / "compatibility" / "runs"
    code, _, messages = cli("compare", runs / "dan-classifier", runs / "ngram-classifier")
    assert (code, "compare the runs on one file with --data FILE" in messages) == (2, True)


def test_taggers_are_compared_by_accuracy(cli: Cli, tagger: Path) -> None:
    result = json_of(cli, "compare", tagger, tagger, "--data", tagger.parent / "words.tsv")
    assert (result["metric"], result["rows"][0]["value"]) == ("accuracy", 1.0)


def test_compare_and_mix_read_standard_input(tmp_path: Path, verse: Path) -> None:
    text = verse.read_text()[:400]
    (tmp_path / "part.txt").write_text(text)
    process(
        "train", verse, "--model", "ngram", "--tokenizer", "char", "--set", "model.order=2", "-o", "two", cwd=tmp_path
    )
    process(
        "train", verse, "--model", "ngram", "--tokenizer", "two", "--set", "model.order=4", "-o", "four", cwd=tmp_path
    )
    for verb in ("compare", "mix"):
        answers: list[dict[str, object]] = []
        for data in ("part.txt", "-"):
            target = () if verb == "compare" else ("-o", f"mix-{len(answers)}")
            done = process(verb, "two", "four", "--data", data, *target, "--json", cwd=tmp_path, input=text)
            assert done.returncode == 0, done.stderr
            answers.append({key: value for key, value in json.loads(done.stdout).items() if key != "run"})
        assert answers[0] == answers[1]
    identities = [
        json.loads((tmp_path / f"mix-{number}" / "config.json").read_text())["data"]["sha256"] for number in (0, 1)
    ]
    empty = hashlib.sha256(b"-\x000\x00").hexdigest()
    assert empty not in identities
