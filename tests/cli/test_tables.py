"""Tables as a user has them: other delimiters, other column names, missing labels."""

import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import ROWS, Cli, json_of, train_ngram

TABLES = {
    "semicolons.csv": "\ufeffLabel;Text\n" + "".join(f'{label};"{text}"\n' for label, text in ROWS * 4),
    "other.csv": "Id,Sentiment,Comment\n" + "".join(f'{n},{a},"{b}"\n' for n, (a, b) in enumerate(ROWS * 4)),
    "unlabelled.csv": "label,text\n,a film\n" + "".join(f'{label},"{text}"\n' for label, text in ROWS * 4) + ",b\n",
}


@pytest.fixture
def odd_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tables: another delimiter, other column names, missing labels."""
    monkeypatch.chdir(tmp_path)
    for name, content in TABLES.items():
        Path(name).write_text(content, encoding="utf-8")
    return tmp_path


def suggested(messages: str) -> list[str]:
    """Return the arguments of the command that a message suggests."""
    (line,) = (line for line in messages.splitlines() if "for example: satchel" in line)
    return shlex.split(line.partition("satchel ")[2])


def test_a_table_with_other_columns_is_an_error_with_a_command_that_works(cli: Cli, odd_tables: Path) -> None:
    code, _, messages = cli("train", "other.csv", "--model", "ngram", "-o", "run")
    assert (code, Path("run").exists()) == (2, False)
    assert "found the columns Id, Sentiment, Comment, expected text and label" in messages
    assert suggested(messages)[-4:] == ["--text-column", "Comment", "--label-column", "Sentiment"]
    assert cli(*suggested(messages))[0] == 0
    assert json_of(cli, "info", "run")["labels"] == ["bad", "good"]
    # An explicit task and other commands name the missing columns too.
    code, _, messages = cli("train", "other.csv", "--task", "classify", "--model", "ngram", "-o", "again")
    assert (code, "other.csv, line 1: has no column text or label" in messages) == (2, True)
    assert cli(*suggested(messages))[0] == 0
    code, _, messages = cli("data", "other.csv")
    assert code == 2
    assert json_of(cli, *suggested(messages))["distinct_labels"] == 2


def test_every_command_that_reads_a_table_suggests_its_columns(cli: Cli, odd_tables: Path) -> None:
    train_ngram(cli, Path("semicolons.csv"), Path("run"))
    for arguments in (
        ("evaluate", "run", "other.csv"),
        ("compare", "run", "run", "--data", "other.csv"),
        ("classify", "run", "--input", "other.csv"),
    ):
        code, _, messages = cli(*arguments)
        assert (code, "other.csv, line 1: has no column" in messages) == (2, True), messages
        code, _, messages = cli(*suggested(messages))
        assert code == 0, messages


def test_delimiters_and_case_of_columns_are_detected(cli: Cli, odd_tables: Path, table: Path) -> None:
    run = train_ngram(cli, Path("semicolons.csv"), Path("run"))
    assert json_of(cli, "data", "semicolons.csv")["labels"] == {"good": 16, "bad": 12}
    # Other files for the run may have another delimiter, and predictions are written with that of the input.
    table.with_suffix(".csv").write_text("text|label|id\nwarm, lovely|good|1\ndull; waste|bad|2\n")
    assert json_of(cli, "evaluate", run, table.with_suffix(".csv"))["examples"] == 2
    assert cli("classify", run, "--input", table.with_suffix(".csv"), "-o", "out.csv")[0] == 0
    assert Path("out.csv").read_text().splitlines()[0] == "text|given_label|id|label|probability"


def test_a_table_never_becomes_a_language_model(cli: Cli, odd_tables: Path, ngram: Path) -> None:
    for arguments in (
        ("train", "other.csv", "--task", "lm", "--model", "ngram", "-o", "run"),
        ("evaluate", ngram, "other.csv"),
        ("compare", ngram, ngram, "--data", "other.csv"),
    ):
        code, _, messages = cli(*arguments)
        assert (code, "other.csv: is a table" in messages) == (2, True), messages
        assert "extension .txt" in messages


def test_rows_without_a_label_stop_a_training_or_are_skipped_and_reported(cli: Cli, odd_tables: Path) -> None:
    train = ("train", "unlabelled.csv", "--model", "ngram", "--tokenizer", "word", "-o", "run")
    code, _, messages = cli(*train)
    assert (code, "2 rows have no label: lines 2, 31" in messages, Path("run").exists()) == (2, True, False)
    code, printed, _ = cli(*train, "--skip-unlabelled")
    assert (code, "skipped rows      2 without a label" in printed) == (0, True)
    document = json_of(cli, "evaluate", "run", "unlabelled.csv")  # the setting is stored in the run
    assert (document["unlabelled"], document["examples"]) == (2, 28)
    assert json_of(cli, "data", "unlabelled.csv")["lines_of_empty_labels"] == [2, 31]
