"""Tables in, tables out: every row answered, in order, every other column kept as it was."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import DataError, SettingsError
from satchel.text.row_files import answered, read_questions, refuse_same, write_rows
from satchel.text.reading import Corpus, DataSettings, bytes_source

cell = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def corpus(name: str, text: str, **settings: Any) -> Corpus:
    return Corpus(name, (bytes_source(name, text.encode()),), DataSettings(**settings))


@given(st.lists(st.tuples(cell, cell), min_size=1, max_size=5))
def test_rows_survive_csv_and_jsonl_whatever_they_hold(tmp_path_factory: Any, rows: list[tuple[str, str]]) -> None:
    folder = tmp_path_factory.mktemp("rows")
    made = [{"id": first, "text": second, "label": "x"} for first, second in rows]
    assert write_rows(folder / "a.csv", made) == len(rows)
    with open(folder / "a.csv", encoding="utf-8", newline="") as handle:
        assert list(csv.DictReader(handle)) == made
    write_rows(folder / "a.jsonl", made)
    lines = (folder / "a.jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == made


def test_cells_of_jsonl_keep_their_types_and_columns_without_a_name_get_one() -> None:
    (question,) = read_questions(corpus("a.jsonl", '{"n": 1.5, "x": {"y": [null]}, "text": "a", "z": true}\n'), "text")
    assert question.cells == {"n": 1.5, "x": {"y": [None]}, "text": "a", "z": True}
    (question,) = read_questions(corpus("a.tsv", "7\tb\ttext\n", columns=("-", "id", "text")), "text")
    assert (question.text, question.cells) == ("text", {"column_1": "7", "id": "b", "text": "text"})


def test_every_line_of_a_text_is_a_row_blank_ones_too() -> None:
    assert [question.text for question in read_questions(corpus("a.txt", "one\n\n two \n"), "text")] == [
        "one",
        "",
        " two ",
    ]


def test_a_column_named_like_the_answer_is_kept_under_another_name() -> None:
    cells = {"label": "mine", "given_label": "old", "text": "a"}
    assert answered(cells, {"label": "x"}) == {
        "given_label": "mine", "given_given_label": "old", "text": "a", "label": "x",
    }  # fmt: skip


@pytest.mark.parametrize("character", ["\t", "\n", "\r"])
def test_what_a_tsv_cannot_hold_is_refused_and_nothing_is_left(tmp_path: Path, character: str) -> None:
    rows = [{"text": "fine"}, {"text": f"a{character}b"}]
    for name in ("a.tsv", "a.txt"):
        with pytest.raises(DataError, match=r"row 2 holds a tab or the end of a line.*\nwrite \.csv or \.jsonl"):
            write_rows(tmp_path / name, rows)
    assert not list(tmp_path.iterdir())


def test_a_table_needs_the_same_columns_in_every_row_and_jsonl_does_not(tmp_path: Path) -> None:
    rows = [{"text": "a", "x": "1"}, {"text": "b"}]
    with pytest.raises(DataError, match="row 2 has the columns text, the first has text, x"):
        write_rows(tmp_path / "a.csv", rows)
    assert write_rows(tmp_path / "a.jsonl", rows) == 2
    assert write_rows(tmp_path / "b.csv", [{"a": "1", "b": "2"}, {"b": "4", "a": "3"}]) == 2
    assert (tmp_path / "b.csv").read_text() == "a,b\n1,2\n3,4\n"


def test_other_endings_and_the_input_itself_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"found the ending '\.xls'"):
        write_rows(tmp_path / "a.xls", [{"a": "b"}])
    path = tmp_path / "in.csv"
    path.write_text("text\na\n")
    with pytest.raises(SettingsError, match="is the input itself"):
        refuse_same(tmp_path / "." / "in.csv", str(path))
