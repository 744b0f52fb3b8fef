"""Tables and aligned files: columns, quoting, and the line numbers of errors."""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from satchel.datasets.corpora import infer_task, is_pair, open_corpus
from satchel.errors import DataError
from satchel.text.columns import ColumnError, find_columns, find_delimiter, table_format
from satchel.text.reading import Corpus, DataSettings
from satchel.text.sources import bytes_source
from satchel.text.tables import Example, Row, column_text, read_examples, read_pairs, read_rows, read_tagged


def table(name: str, data: str | bytes, **settings: Any) -> Corpus:
    content = data.encode() if isinstance(data, str) else data
    return Corpus(name, (bytes_source(name, content),), DataSettings.model_validate(settings))


def rows(name: str, data: str | bytes, **settings: Any) -> list[Row]:
    corpus = table(name, data, **settings)
    return list(read_rows(corpus, corpus.sources[0]))


def error_of(name: str, data: str | bytes, **settings: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        rows(name, data, **settings)
    return caught.value


def test_the_extension_determines_the_format() -> None:
    names = {"a.tsv": "tsv", "a.b.csv.gz": "csv", "a.jsonl": "jsonl", "a.txt": "", "tsv": "", "a.gz": "", "a.json": ""}
    assert {name: table_format(name) for name in names} == names


# --- tsv


def test_a_tsv_has_no_quoting_and_keeps_spaces() -> None:
    table_rows = rows("a.tsv", 'label\ttext\n1\t "a" \n"2\t\'b\n3\t\n')
    assert table_rows == [
        Row(2, {"label": "1", "text": ' "a" '}),
        Row(3, {"label": '"2', "text": "'b"}),
        Row(4, {"label": "3", "text": ""}),
    ]


def test_only_tabs_and_newlines_are_separators_in_a_tsv() -> None:
    odd = "a\u2028b\x85c\x0bd\x0ce\x1cf\0g\rh"
    assert rows("a.tsv", f"label\ttext\r\n1\t{odd}\r\n") == [Row(2, {"label": "1", "text": odd})]


def test_a_wrong_number_of_columns_is_reported_with_the_line_and_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "heldout.tsv").write_text(
        "label\ttext\n" + "1\ta text\n" * 12 + "0\ta\ttab\n", encoding="utf-8", newline="\n"
    )
    monkeypatch.chdir(tmp_path)
    corpus = open_corpus("heldout.tsv", DataSettings())
    with pytest.raises(DataError) as caught:
        list(read_rows(corpus, corpus.sources[0]))
    assert str(caught.value) == (
        "heldout.tsv, line 14: found 3 columns, expected 2 (label, text)\n"
        "a tab inside a text splits it: replace it, or save the file as .csv or .jsonl"
    )
    error = error_of("a.tsv", "label\ttext\nno tab\n")
    assert error.cause == "found 1 column, expected 2 (label, text)"
    assert "--columns" in error.remedy


# --- csv


def test_a_csv_is_read_with_the_quoting_rules_of_python() -> None:
    data = 'label,text\n1,"a, ""b"""\n2," c "\n"3",\'d\'\n'
    assert [row.values["text"] for row in rows("a.csv", data)] == ['a, "b"', " c ", "'d'"]


def test_line_numbers_are_correct_after_quoted_newlines() -> None:
    data = 'label,text\r\n1,"two\r\nlines"\n\n2,"three\n\nlines"\n3,end'
    assert rows("a.csv", data) == [
        Row(2, {"label": "1", "text": "two\r\nlines"}),
        Row(5, {"label": "2", "text": "three\n\nlines"}),
        Row(8, {"label": "3", "text": "end"}),
    ]
    error = error_of("a.csv", data + ",more\n")
    assert error.where == "a.csv, line 8"
    assert error.remedy.startswith("quote texts that contain the delimiter")


@pytest.mark.parametrize("data", ['label,text\n1,"open\n2,b\n', 'label,text\n1,"a"b\n', "label,text\n1,a\rb\n"])
def test_invalid_quoting_is_reported_with_its_first_line(data: str) -> None:
    error = error_of("a.csv", data)
    assert error.cause.startswith("is not CSV: ")
    assert error.where == "a.csv, line 2"


def test_other_line_separators_are_text_in_a_csv() -> None:
    odd = "a\u2028b\x85c\x0bd\x0ce\x1cf\0g"
    assert rows("a.csv", f'label,text\n1,{odd}\n2,"{odd}\rh"\n')[1] == Row(3, {"label": "2", "text": f"{odd}\rh"})


def test_a_csv_may_have_another_delimiter_and_very_long_fields() -> None:
    long = "x" * 300_000
    assert rows("a.csv", f"label;text\n1;a,b\n2;{long}\n", delimiter=";")[1].values == {"label": "2", "text": long}
    assert rows("a.csv", "label\ttext\n1\ta,b\n", delimiter="\t")[0].values["text"] == "a,b"
    assert rows("a.csv", "label😀text\n1😀a\n", delimiter="😀")[0].values["text"] == "a"


@pytest.mark.parametrize("delimiter", ['"', "\n", "\r", "", ",,"])
def test_invalid_delimiters_are_rejected(delimiter: str) -> None:
    with pytest.raises(ValueError, match="delimiter"):
        DataSettings(delimiter=delimiter)


# --- jsonl


def test_jsonl_has_one_object_per_line() -> None:
    data = (
        '{"label": 1, "text": "a\\nb\\u2028"}\n\n  \r\n{"text": " c ", "label": null, "x": {"y": [1, {"z": "é"}]}}\r\n'
    )
    assert rows("a.jsonl", data) == [
        Row(1, {"label": "1", "text": "a\nb\u2028"}),
        Row(4, {"text": " c ", "label": "", "x": '{"y": [1, {"z": "é"}]}'}),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[1, 2]",
        "5",
        '"text"',
        "null",
        '{"a": 1} {"b": 2}',
        '{"a": ' + "9" * 5000 + "}",
        "[" * 100_000,
        '{"text": "a", "text": "b"}',
        '{"text": "\\ud800"}',
        '{"x": {"text": "\\ud800"}}',
        '{"\\udc00": "a"}',
        "{'a': 1}",
    ],
)
def test_invalid_lines_are_reported_with_their_number(line: str) -> None:
    assert error_of("a.jsonl", f'{{"text": "fine"}}\n\n{line}\n').where == "a.jsonl, line 3"


@pytest.mark.parametrize(("line", "name"), [("[1]", "array"), ("5", "number"), ("null", "null"), ("true", "boolean")])
def test_other_json_values_are_reported_by_type(line: str, name: str) -> None:
    assert error_of("a.jsonl", line).cause == f"found a JSON {name}, expected an object"


def test_a_surrogate_pair_is_a_character() -> None:
    assert rows("a.jsonl", '{"text": "\\ud83d\\ude00"}')[0].values["text"] == "😀"


# --- columns


def test_the_setting_columns_names_the_columns_and_a_dash_skips_one() -> None:
    table_rows = rows("a.tsv", "1\tx\ta\n2\ty\tb\n", columns=["label", "-", "text"])
    assert table_rows == [Row(1, {"label": "1", "text": "a"}), Row(2, {"label": "2", "text": "b"})]
    assert rows("a.csv", "-,a,-\n", columns=["-", "text", "-"]) == [Row(1, {"text": "a"})]
    assert rows("a.csv", "a\n", columns="text") == [Row(1, {"text": "a"})]
    assert error_of("a.tsv", "1\ta\n", columns=["label", "-", "text"]).where == "a.tsv, line 1"


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_duplicate_columns_are_rejected(name: str) -> None:
    separator = "\t" if name == "a.tsv" else ","
    error = error_of(name, separator.join(["text", "label", "text"]) + "\n")
    assert "found the columns text, label, text, expected distinct names" in error.cause
    assert "expected distinct names" in error_of(name, "", columns=["text", "text"]).cause


def test_a_missing_column_is_reported_with_the_existing_ones() -> None:
    for name, data, line in (
        ("a.csv", "\n\nlabel,text\n1,a\n", 3),
        ("a.tsv", "label\ttext\n1\ta\n", 1),
        ("a.jsonl", '\n{"label": 1, "text": "a"}', 2),
    ):
        with pytest.raises(ColumnError) as caught:
            list(read_examples(table(name, data, text_column="text,title")))
        assert caught.value.cause == "has no column title, only label, text"
        assert caught.value.where == f"{name}, line {line}"
    with pytest.raises(ColumnError) as caught:
        list(read_examples(table("a.csv", "1,a\n", columns=["label", "body"])))
    assert caught.value.where == "a.csv"
    assert "given by --columns" in caught.value.remedy


def test_several_text_columns_are_joined_by_a_newline() -> None:
    corpus = table("a.csv", "title,text\nA, b \n", text_column="title,text")
    (row,) = read_rows(corpus, corpus.sources[0])
    assert column_text(row, "text_column", corpus.settings, "a.csv") == "A\n b "


def test_an_empty_table_is_rejected_if_a_header_is_needed() -> None:
    for name in ("a.tsv", "a.csv"):
        assert "is empty" in error_of(name, "").cause
        assert rows(name, "label\n") == []
        assert rows(name, "", columns=["text"]) == []
    assert rows("a.jsonl", "") == []


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.tsv", "label\ttext\n1\ta\n"), ("a.csv", "label,text\n1,a\n"), ("a.jsonl", '{"label": "1", "text": "a"}')],
)
def test_compression_and_byte_order_marks_do_not_change_the_rows(name: str, data: str) -> None:
    plain = rows(name, data)
    assert rows(f"{name}.gz", gzip.compress(data.encode())) == plain
    assert rows(name, f"\ufeff{data}") == plain
    assert rows(name, data.encode("utf-16"), encoding="utf-16") == plain
    assert rows(name, data.replace("\n", "\r\n")) == plain


# --- tasks


@pytest.mark.parametrize(
    ("header", "settings", "task"),
    [
        ("label,text", {}, "classify"),
        ("text,tags", {}, "tag"),
        ("source,target", {}, "translate"),
        ("Target;SOURCE", {}, "translate"),
        ("text,Text,label", {}, "classify"),
        (" Text |Tags", {}, "tag"),
        ("kind,title", {"label_column": "kind", "text_column": "title"}, "classify"),
        ("label,title,text", {"text_column": "title,text"}, "classify"),
    ],
)
def test_the_task_is_inferred_from_the_columns(header: str, settings: dict[str, str], task: str) -> None:
    assert infer_task(table("a.csv", f"{header}\n{header}\n", **settings)) == task
    assert infer_task(table("a.txt", f"{header}\n{header}\n", **settings)) == "lm"


@pytest.mark.parametrize(
    ("name", "data", "columns", "options"),
    [
        ("a.csv", "Sentiment,Comment\npos,a good film\nneg,a bad film\n", "Sentiment, Comment",
         ["--text-column Comment", "--label-column Sentiment"]),
        ("a.csv", "\ufeffid;my review;stars\n1;fine, warm;3\n2;dull, bad;3\n3;good;4\n", "id, my review, stars",
         ["--text-column 'my review'", "--label-column stars"]),
        ("a.jsonl", '{"review": "good film", "stars": 1}\n{"review": "bad film", "stars": 2}\n', "review, stars",
         ["--text-column review", "--label-column stars"]),
        ("a.tsv", "other\ttext\n1\tone two\n2\tthree four\n", "other, text", ["--label-column other"]),
        ("a.csv", "Label,Comment\n", "Label, Comment", ["--text-column Comment"]),
        ("a.csv", "comment\na\n", "comment", []),
        ("a.csv", 'pos,"good, warm"\nneg,bad film\n', 'pos, "good, warm"',
         ["--text-column 'good, warm'", "--label-column pos"]),
        ("a.csv", "TEXT,Text,label\n1,2,3\n", "TEXT, Text, label", ["--text-column TEXT"]),
    ],
)  # fmt: skip
def test_unrecognised_columns_are_listed_with_options_that_name_them(
    name: str, data: str, columns: str, options: list[str]
) -> None:
    with pytest.raises(ColumnError) as caught:
        infer_task(table(name, data))
    error = caught.value
    assert error.cause.startswith(f"found the column{'s' if ',' in columns else ''} {columns}, expected text and label")
    assert "save the texts in a .txt file" in error.remedy
    assert list(error.options) == options


def test_a_tsv_file_with_commas_gets_a_hint_at_its_extension() -> None:
    with pytest.raises(ColumnError) as caught:
        infer_task(table("a.tsv", "label,text\n1,a\n"))
    assert "give it the extension .csv" in caught.value.remedy


def test_long_column_names_and_lists_are_shortened() -> None:
    with pytest.raises(ColumnError) as caught:
        infer_task(table("a.csv", ",".join(f"{number}{'x' * 100}" for number in range(1000)) + "\n"))
    assert len(caught.value.cause) < 1200
    assert "and 980 more" in caught.value.cause


@pytest.mark.parametrize(
    ("data", "delimiter", "settings"),
    [
        ("label,text\n1,a;b|c\td\n", ",", {}),
        ("label;text\n1;0,5, a\n2;b,c\n", ";", {}),
        ("label\ttext\n1\ta, b; c\n", "\t", {}),
        ("id|text|label\n1|a,b,c|x\n", "|", {}),
        ('"label";"text, or; more"\n1;a\n', ";", {"text_column": "text, or; more"}),
        ('"la,bel";"text"\n"1,5";"a"\n', ";", {}),
        ("price;name\n0,5;x\n1,5;y\n", ";", {}),
        ("0,5;x\n1,5;y\n", ";", {"columns": ["label", "text"]}),
        ("1,a,b\n2,c,d\n", ",", {"columns": ["label", "-", "text"]}),
        ("text\na, b\n", ",", {}),
        ("", ",", {}),
        ("label;text\n" + "1;" + "x, " * 50_000 + "\n", ";", {}),
        ('label;text\n1;"' + "x,\n" * 50_000 + '"\n', ";", {}),
        ("label;text\n1;a\n", ",", {"delimiter": ","}),
    ],
)
def test_the_delimiter_of_a_csv_file_is_detected(data: str, delimiter: str, settings: dict[str, Any]) -> None:
    for content in (data, f"\ufeff{data}"):
        corpus = table("a.csv", content, **settings)
        assert find_delimiter(corpus, corpus.sources[0]) == delimiter


def test_column_names_are_found_ignoring_case_and_outer_spaces() -> None:
    assert find_columns(["Label", " TEXT "], "text") == [" TEXT "]
    assert find_columns(["Text", "text"], "text") == ["text"]
    assert find_columns(["Text", "TEXT"], "text") is None
    assert find_columns(["a,b", "a", "b"], "a,b") == ["a,b"]
    assert find_columns(["A", "b"], "a,B") == ["A", "b"]
    assert find_columns(["subtext"], "text") is None
    corpus = table("a.csv", "LABEL; Text\n1; a\n")
    assert list(read_examples(corpus)) == [Example(" a", "1")]


# --- missing labels

UNLABELLED = {
    "a.jsonl": '{"label": "x", "text": "a"}\n{"label": null, "text": "b"}\n{"text": "c"}\n'
    '{"label": " ", "text": "d"}\n{"label": NaN, "text": "e"}\n{"label": "null", "text": "f"}\n',
    "a.csv": "label,text\nx,a\n,b\n ,c\nnull,f\n",
    "a.tsv": "label\ttext\nx\ta\n\tb\n\tc\nnull\tf\n",
}


@pytest.mark.parametrize(("name", "lines"), [("a.jsonl", "2, 3, 4, 5"), ("a.csv", "3, 4"), ("a.tsv", "3, 4")])
def test_rows_without_a_label_are_reported_with_their_lines_or_skipped(name: str, lines: str) -> None:
    count = lines.count(",") + 1
    with pytest.raises(DataError) as caught:
        list(read_examples(table(name, UNLABELLED[name])))
    assert caught.value.cause == f"{count} rows have no label: lines {lines}"
    assert "--skip-unlabelled" in caught.value.remedy
    corpus = table(name, UNLABELLED[name], skip_unlabelled=True)
    assert list(read_examples(corpus)) == [Example("a", "x"), Example("f", "null")]
    assert corpus.unlabelled == count


def test_only_the_first_lines_without_a_label_are_listed() -> None:
    with pytest.raises(DataError) as caught:
        list(read_examples(table("a.csv", "label,text\n" + ",a\n" * 1000)))
    assert caught.value.cause == "1,000 rows have no label: lines 2, 3, 4, 5, 6, ..."


def test_a_jsonl_file_without_any_label_lacks_the_column() -> None:
    with pytest.raises(ColumnError, match="has no column label, only text, stars"):
        list(read_examples(table("a.jsonl", '{"text": "a", "stars": 1}\n' * 3)))


def test_texts_without_tags_are_reported_and_empty_texts_have_no_tags() -> None:
    data = '{"text": "a b", "tags": "X Y"}\n{"text": "c", "tags": null}\n{"text": "", "tags": ""}\n'
    with pytest.raises(DataError, match="1 row has no tags: line 2"):
        list(read_tagged(table("a.jsonl", data)))
    assert [row.text for row in read_tagged(table("a.jsonl", data, skip_unlabelled=True))] == ["a b", ""]


# --- pairs


def pair(tmp_path: Path, first: str, second: str) -> Corpus:
    for name, text in (("a.en", first), ("b.de", second)):
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    return open_corpus(f"{tmp_path / 'a.en'},{tmp_path / 'b.de'}", DataSettings())


def test_two_aligned_files_give_pairs_of_lines(tmp_path: Path) -> None:
    corpus = pair(tmp_path, "one\u2028\x85\n\nthree", "eins\r\nzwei\ndrei\n")
    assert [tuple(pair) for pair in read_pairs(corpus)] == [
        ("one\u2028\x85", "eins", 1),
        ("", "zwei", 2),
        ("three", "drei", 3),
    ]
    assert is_pair(corpus)
    assert infer_task(corpus) == "translate"


@pytest.mark.parametrize(
    ("first", "second", "shorter", "count"), [(1, 3, "a.en", 1), (3, 2, "b.de", 2), (0, 1, "a.en", 0)]
)
def test_aligned_files_with_different_numbers_of_lines_are_rejected(
    first: int, second: int, shorter: str, count: int, tmp_path: Path
) -> None:
    corpus = pair(tmp_path, "a\n" * first, "b\n" * second)
    with pytest.raises(DataError) as caught:
        list(read_pairs(corpus))
    assert caught.value.where == str(tmp_path / shorter)
    assert caught.value.cause.startswith(f"has {count} lines, fewer than ")


def test_a_comma_may_be_part_of_a_file_name_and_three_names_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "a,b.txt").write_text("text", encoding="utf-8")
    corpus = open_corpus(tmp_path / "a,b.txt", DataSettings())
    assert len(corpus.sources) == 1
    assert not is_pair(corpus)
    with pytest.raises(DataError, match="found 3 names separated by commas"):
        open_corpus(os.fspath(tmp_path / "x,y,z"), DataSettings())
