"""Input rows and output tables: the order of rows and the other columns are preserved."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import DataError, SettingsError
from satchel.text.reading import Corpus, DataSettings
from satchel.text.row_files import add_predictions, check_distinct, read_input_rows, write_rows
from satchel.text.sources import bytes_source

cell = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def corpus(name: str, text: str, **settings: Any) -> Corpus:
    return Corpus(name, (bytes_source(name, text.encode()),), DataSettings(**settings))


@given(st.lists(st.tuples(cell, cell), min_size=1, max_size=5))
def test_any_text_is_preserved_in_csv_and_jsonl(tmp_path_factory: Any, rows: list[tuple[str, str]]) -> None:
    folder = tmp_path_factory.mktemp("rows")
    cells = [{"id": first, "text": second, "label": "x"} for first, second in rows]
    assert write_rows(folder / "a.csv", cells) == len(rows)
    with open(folder / "a.csv", encoding="utf-8", newline="") as handle:
        assert list(csv.DictReader(handle)) == cells
    write_rows(folder / "a.jsonl", cells)
    lines = (folder / "a.jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == cells


def test_cells_of_jsonl_keep_their_types_and_skipped_columns_get_a_name() -> None:
    table = corpus("a.jsonl", '{"n": 1.5, "x": {"y": [null]}, "text": "a", "z": true}\n')
    (row,) = read_input_rows(table, "text_column")
    assert row.cells == {"n": 1.5, "x": {"y": [None]}, "text": "a", "z": True}
    (row,) = read_input_rows(corpus("a.tsv", "7\tb\ttext\n", columns=("-", "id", "text")), "text_column")
    assert (row.text, row.cells) == ("text", {"column_1": "7", "id": "b", "text": "text"})


def test_each_line_of_a_text_is_a_row_including_blank_lines() -> None:
    assert [row.text for row in read_input_rows(corpus("a.txt", "one\n\n two \n"), "text_column")] == [
        "one",
        "",
        " two ",
    ]


def test_an_input_column_with_the_name_of_a_prediction_is_renamed() -> None:
    cells = {"label": "first", "given_label": "second", "text": "a"}
    assert add_predictions(cells, {"label": "x"}) == {
        "given_label": "first", "given_given_label": "second", "text": "a", "label": "x",
    }  # fmt: skip


@pytest.mark.parametrize("character", ["\t", "\n", "\r"])
def test_tabs_and_line_breaks_are_rejected_in_tsv_and_txt_and_no_file_remains(tmp_path: Path, character: str) -> None:
    rows = [{"text": "fine"}, {"text": f"a{character}b"}]
    for name in ("a.tsv", "a.txt"):
        with pytest.raises(DataError, match=r"row 2 contains a tab or a line break.*\nwrite \.csv or \.jsonl"):
            write_rows(tmp_path / name, rows)
    assert not list(tmp_path.iterdir())


def test_rows_of_csv_have_the_same_columns_and_rows_of_jsonl_may_differ(tmp_path: Path) -> None:
    rows = [{"text": "a", "x": "1"}, {"text": "b"}]
    with pytest.raises(DataError, match="row 2 has the columns text, expected text, x"):
        write_rows(tmp_path / "a.csv", rows)
    assert write_rows(tmp_path / "a.jsonl", rows) == 2
    assert write_rows(tmp_path / "b.csv", [{"a": "1", "b": "2"}, {"b": "4", "a": "3"}]) == 2
    assert (tmp_path / "b.csv").read_text() == "a,b\n1,2\n3,4\n"


def test_other_extensions_and_the_input_file_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"has the extension '\.xls'"):
        write_rows(tmp_path / "a.xls", [{"a": "b"}])
    path = tmp_path / "in.csv"
    path.write_text("text\na\n")
    with pytest.raises(SettingsError, match="is the input file"):
        check_distinct(tmp_path / "." / "in.csv", str(path))
