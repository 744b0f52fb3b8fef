"""`satchel score`: log-probabilities of tokens."""

import csv
import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import (
    SATCHEL,
    SOURCES,
    Cli,
    json_of,
    process,
    train_ngram,
    tree,
)

COLUMNS = ["logprob", "perplexity", "bits_per_byte", "tokens", "bytes"]


def test_score_reports_every_token_and_its_ngram_order(cli: Cli, ngram: Path) -> None:
    result = json_of(cli, "score", ngram, "The cat")
    assert [token["text"] for token in result["tokens"]] == list("The cat")
    assert {"text", "id", "role", "logprob", "order"} == set(result["tokens"][0])
    assert result["total_logprob"] == pytest.approx(sum(token["logprob"] for token in result["tokens"]))
    assert result["perplexity"] == pytest.approx(math.exp(-result["total_logprob"] / 7))


def test_score_and_evaluate_agree(cli: Cli, ngram: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("The dog saw the mat.\n")
    scored = json_of(cli, "score", ngram, "The dog saw the mat.\n")
    evaluated = json_of(cli, "evaluate", ngram, tmp_path / "text.txt")
    assert scored["perplexity"] == pytest.approx(evaluated["perplexity"], rel=1e-12)


def test_each_line_document_has_one_end_token(cli: Cli, verse: Path, tmp_path: Path) -> None:
    train_ngram(cli, verse, tmp_path / "run", "--tokenizer", "word", "--set", "data.documents=line")
    result = json_of(cli, "score", tmp_path / "run", "The cat\n\nThe dog\n")
    assert [token["text"] for token in result["tokens"]] == ["The", "cat", "<end>", "The", "dog", "<end>"]


def test_a_part_of_a_mixture_does_not_override_a_json_key(
    cli: Cli, orders: list[Path], verse: Path, tmp_path: Path
) -> None:
    orders[0].rename(tmp_path / "logprob")
    assert cli("mix", tmp_path / "logprob", orders[1], "--data", verse, "-o", tmp_path / "mix")[0] == 0
    result = json_of(cli, "score", tmp_path / "mix", "The cat")
    assert sum(token["logprob"] for token in result["tokens"]) == pytest.approx(result["total_logprob"])


def test_a_given_translation_is_scored(cli: Cli, translator: Path) -> None:
    result = json_of(cli, "score", translator, SOURCES[0], "--target", "2021-05-03")
    assert [token["text"] for token in result["tokens"]] == [*"2021-05-03", "<end>"]
    assert result["total_logprob"] == pytest.approx(sum(token["logprob"] for token in result["tokens"]))


def test_a_long_text_is_printed_in_part_and_scored_completely(cli: Cli, ngram: Path) -> None:
    text = "The cat sat. " * 100
    code, printed, messages = cli("score", ngram, text)
    assert (code, len(printed.splitlines())) == (0, 1 + 1000 + 2)
    assert "300 more tokens (--json prints all)" in messages
    assert len(json_of(cli, "score", ngram, text)["tokens"]) == len(text)


# --- files -------------------------------------------------------------------------------------------


def read_csv(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def test_each_line_of_a_file_is_scored_like_a_text(cli: Cli, ngram: Path, tmp_path: Path) -> None:
    lines = ["The cat sat.", "", "The dog", "c\u00e4t \u732b \U0001f600", "The cat sat. " * 8000]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, printed, messages = cli("score", ngram, "--input", tmp_path / "lines.txt", "-o", tmp_path / "out.jsonl")
    assert (code, printed) == (0, "")
    assert "5 rows" in messages
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [list(row) for row in rows] == [["text", *COLUMNS]] * 5
    assert [row["text"] for row in rows] == lines
    for row in rows:
        if not row["text"]:
            assert [row[name] for name in COLUMNS] == [0.0, None, None, 0, 0]
            continue
        single = json_of(cli, "score", ngram, row["text"])
        assert row["logprob"] == pytest.approx(single["total_logprob"], abs=1e-5)
        assert row["perplexity"] == pytest.approx(single["perplexity"], abs=1e-5)
        assert row["tokens"] == len(row["text"])
    assert rows[0]["bits_per_byte"] == pytest.approx(-rows[0]["logprob"] / math.log(2) / 12, abs=1e-5)
    assert rows[3]["bytes"] is None, "the character tokenizer does not know all characters"
    assert cli("score", ngram, "--input", tmp_path / "lines.txt", "-o", tmp_path / "out.txt")[0] == 0
    assert [float(line) for line in (tmp_path / "out.txt").read_text().splitlines()] == [row["logprob"] for row in rows]
    assert cli("score", ngram, "--input", tmp_path / "lines.txt")[1] == (tmp_path / "out.txt").read_text()
    assert [each["logprob"] for each in json_of(cli, "score", ngram, "--input", tmp_path / "lines.txt")["scores"]] == [
        row["logprob"] for row in rows
    ]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_scored_table_keeps_its_other_columns(form: str, cli: Cli, ngram: Path, tmp_path: Path) -> None:
    given = [("1", "The cat,\nthe dog", "x\ny"), ("2", "", ""), ("3", 'The "mat"', "4.5")]
    path = tmp_path / f"table.{form}"
    if form == "csv":
        with open(path, "w", encoding="utf-8", newline="") as handle:
            csv.writer(handle).writerows([("tokens", "body", "note"), *given])
    else:
        rows = [dict(zip(("tokens", "body", "note"), row, strict=True)) for row in given]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    options = ["--text-column", "body"]
    assert cli("score", ngram, "--input", path, *options, "-o", tmp_path / "out.csv")[0] == 0
    rows = read_csv(tmp_path / "out.csv")
    assert list(rows[0]) == ["given_tokens", "body", "note", *COLUMNS]
    assert [(row["given_tokens"], row["body"], row["note"]) for row in rows] == given
    assert [row["tokens"] for row in rows] == ["16", "0", "9"]
    assert [row["perplexity"] == "" for row in rows] == [False, True, False]
    code, _, messages = cli("score", ngram, "--input", path)
    assert code == 2
    assert "--text-column" in messages


def test_targets_of_a_table_are_scored_given_their_sources(cli: Cli, translator: Path, tmp_path: Path) -> None:
    pairs = [(SOURCES[0], "2021-05-03"), (SOURCES[1], ""), ("", "2021-05-03"), (SOURCES[0], "2021-05-03 " * 50)]
    with open(tmp_path / "pairs.csv", "w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([("source", "target"), *pairs])
    code, _, messages = cli("score", translator, "--input", tmp_path / "pairs.csv", "-o", tmp_path / "out.csv")
    assert code == 0
    assert messages.count("exceeds the context") == 1
    rows = read_csv(tmp_path / "out.csv")
    assert list(rows[0]) == ["source", "target", *COLUMNS]
    for row in rows:
        single = json_of(cli, "score", translator, row["source"], "--target", row["target"])
        assert float(row["logprob"]) == pytest.approx(single["total_logprob"], rel=1e-5)
        assert int(row["tokens"]) == len(single["tokens"])
    assert [row["bits_per_byte"] == "" for row in rows] == [False, True, False, True]
    (tmp_path / "lines.txt").write_text("a\n")
    code, _, messages = cli("score", translator, "--input", tmp_path / "lines.txt")
    assert code == 2
    assert "expected a table with the columns source and target" in messages
    assert cli("score", translator, SOURCES[0])[0] == 2
    assert cli("score", translator, "--input", tmp_path / "pairs.csv", "--target", "x")[0] == 2


def test_errors_name_the_file_and_leave_no_output(
    cli: Cli, ngram: Path, classifier: Path, table: Path, tmp_path: Path
) -> None:
    code, _, messages = cli("score", ngram, "--input", tmp_path / "none.txt", "-o", tmp_path / "out.csv")
    assert code == 2
    assert "none.txt" in messages
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text"\n')
    code, _, messages = cli("score", ngram, "--input", tmp_path / "bad.jsonl", "-o", tmp_path / "out.csv")
    assert code == 2
    assert "bad.jsonl, line 2" in messages
    for arguments in (
        (ngram, "--input", table, "-o", table),
        (ngram, "a", "--input", table),
        (ngram, "a", "--precision", "float16"),
        (ngram, "a", "--precision", "bfloat16"),
        (ngram, "a", "--target", "b"),
        (classifier, "a"),
    ):
        code, _, messages = cli("score", *arguments)
        assert code == 2, messages
    assert [name for name in tree(tmp_path) if name.startswith(("out", "."))] == []


def test_an_interrupted_score_leaves_no_file(ngram: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("The cat sat on the mat.\n" * 1_000_000)
    before = tree(tmp_path)
    command = [*SATCHEL, "score", str(ngram), "--input", str(tmp_path / "lines.txt"), "-o", str(tmp_path / "out.csv")]
    running = subprocess.Popen(command, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while tree(tmp_path) == before and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert tree(tmp_path) != before, "the output is being written under a temporary name"
    running.send_signal(signal.SIGTERM)
    _, messages = running.communicate(timeout=60)
    assert running.returncode == 143, messages
    assert tree(tmp_path) == before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_memory_does_not_grow_with_the_file(ngram: Path, tmp_path: Path) -> None:
    peaks = []
    for lines in (50_000, 150_000):
        (tmp_path / "lines.txt").write_text("The cat sat on the mat.\n" * lines)
        program = (
            "import re, sys; from satchel.cli.main import run; code = run(sys.argv[1:]);"
            "print(re.findall(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[0]); sys.exit(code)"
        )
        arguments = ["score", ngram, "--input", tmp_path / "lines.txt", "-o", tmp_path / "out.csv"]
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout))
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 150_001
    assert peaks[1] < peaks[0] * 1.15


def test_json_lines_on_standard_input_are_scored(ngram: Path) -> None:
    done = process("score", ngram, "--jsonl", input='{"id": 1, "text": "The cat"}\n')
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert list(result) == ["id", "text", *COLUMNS]
    assert result["tokens"] == 7
