"""Columns of tables: detection of the delimiter, lookup of names, and errors that suggest columns."""

import contextlib
import csv
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path

from satchel.errors import DataError
from satchel.text.display import quoted, visible
from satchel.text.reading import Corpus, DataSettings, Task, lines_with_ends
from satchel.text.sources import Source

SUFFIXES = (".tsv", ".csv", ".jsonl")
# Maximum number of characters of a .csv field.
LARGEST_FIELD = (1 << 31) - 1
# Delimiters of .csv files that are detected; the first of them is used if none fits better.
DELIMITERS = (",", ";", "\t", "|")
# Number of rows and of characters at the start of a table that are inspected.
SAMPLED_ROWS = 100
SAMPLED_CHARACTERS = 1 << 16
# Data settings that name a column, by the default name of the column.
ROLES = {f"{name}_column": name for name in ("text", "label", "tags", "source", "target")}
# Columns of each task.
REQUIRED: dict[Task, tuple[str, str]] = {
    "classify": ("text_column", "label_column"),
    "tag": ("text_column", "tags_column"),
    "translate": ("source_column", "target_column"),
}
# Limits of the column names in messages.
LONGEST_NAME = 40
MOST_NAMES = 20
# Minimum number of distinct labels.
MIN_LABELS = 2


# --- formats and delimiters ------------------------------------------------------------------------------


def table_format(name: str) -> str:
    """Return the format given by the extension of a file name: tsv, csv or jsonl; an empty string for others."""
    suffix = Path(name.removesuffix(".gz")).suffix
    return suffix[1:] if suffix in SUFFIXES else ""


def find_delimiter(corpus: Corpus, source: Source) -> str:
    """Return the delimiter of a .csv file: the setting, or the one of DELIMITERS that fits the first rows best."""
    settings = corpus.settings
    if settings.delimiter is not None or table_format(source.name) != "csv":
        return settings.delimiter or DELIMITERS[0]
    text = ""
    for chunk in corpus.texts(source):
        text += chunk
        if len(text) >= SAMPLED_CHARACTERS:
            text = text[: text.rfind("\n", 0, SAMPLED_CHARACTERS) + 1] or text[:SAMPLED_CHARACTERS]
            break
    has_decimal_commas = "," in text and re.search(r"\D,|,\D", text) is None

    def fit(delimiter: str) -> tuple[float, ...]:
        is_decimal = delimiter == "," and has_decimal_commas
        return *_fit(_first_records(text, delimiter), settings), not is_decimal

    return max(DELIMITERS, key=fit)


def _first_records(text: str, delimiter: str) -> list[list[str]]:
    """Return the first rows of a text that are not empty, up to the first one that cannot be parsed."""
    csv.field_size_limit(LARGEST_FIELD)
    records: list[list[str]] = []
    with contextlib.suppress(csv.Error):
        records += islice(filter(None, csv.reader(lines_with_ends([text]), delimiter=delimiter)), SAMPLED_ROWS)
    return records


def _fit(records: list[list[str]], settings: DataSettings) -> tuple[int, float, int]:
    """Return the number of known column names, the share of rows as wide as the header, and its width."""
    width = len(settings.columns) or (len(records[0]) if records else 0)
    if not records or (width == 1 and not settings.columns):
        return 0, 0.0, 0
    known = 0 if settings.columns else sum(find_columns(records[0], name) is not None for name in _known(settings))
    return known, sum(len(record) == width for record in records) / len(records), width


def _known(settings: DataSettings) -> list[str]:
    """Return the column names of all settings."""
    return [name for setting in ROLES for name in getattr(settings, setting).split(",")]


# --- column names ----------------------------------------------------------------------------------------


class ColumnError(DataError):
    """A table lacks a column. `options` are command-line options that name columns of this table instead."""

    def __init__(self, cause: str, remedy: str, *, where: str, options: Sequence[str] = ()) -> None:
        super().__init__(cause, remedy, where=where)
        self.options = tuple(options)


def find_columns(names: Collection[str], column: str) -> list[str] | None:
    """Return the names of a column, or of several separated by commas; None if one is missing or ambiguous.

    A name that differs in case or outer spaces only is found if it is the only one.
    """
    if column in names:
        return [column]
    matches = []
    for part in column.split(","):
        similar = [part] if part in names else [name for name in names if _plain_name(name) == _plain_name(part)]
        if len(similar) != 1:
            return None
        matches += similar
    return matches


def _plain_name(name: str) -> str:
    return name.strip().casefold()


def missing_columns(
    names: Sequence[str],
    rows: Sequence[Mapping[str, str]],
    missing: Sequence[str],
    settings: DataSettings,
    where: str,
    form: str,
    cause: str = "",
    hint: str = "",
) -> ColumnError:
    """Return the error for a table without the columns of the settings `missing`; `rows` are some of its rows."""
    parts = [part for setting in missing for part in getattr(settings, setting).split(",")]
    absent = " or ".join(part for part in parts if find_columns(names, part) is None)
    cause = cause or f"has no column {absent}, only {listing(names)}"
    flags = [f"--{setting.replace('_', '-')}" for setting in missing]
    remedy = f"name the column{'s' if len(flags) > 1 else ''} with {' and '.join(flags)}"
    # Columns of the same task keep their roles.
    roles: dict[str, str] = {}
    for setting in {each for required in REQUIRED.values() if set(missing) & set(required) for each in required}:
        roles |= dict.fromkeys(find_columns(names, getattr(settings, setting)) or (), ROLES[setting])
    guess = _guess_columns([name for name in names if name not in roles], rows, missing)
    if settings.columns:
        remedy = f"the names are given by --columns: change them, or {remedy}"
    elif form == "tsv" and len(names) == 1 and any(mark in names[0] for mark in DELIMITERS):
        remedy = "a .tsv file is separated by tabs: if this one has another delimiter, give it the extension .csv"
    elif form != "jsonl" and guess:
        roles |= {column: ROLES[setting] for setting, column in guess.items()}
        template = ",".join(roles.get(name, "-") for name in names)
        remedy += f"; if the first line is not a header, use --columns {template}"
    options = [f"{flag} {quoted(guess[setting])}" for flag, setting in zip(flags, missing, strict=True) if guess]
    return ColumnError(cause, remedy + hint, where=where, options=options)


def listing(names: Sequence[str]) -> str:
    """Return column names in one line; long names and long lists are shortened."""
    shown = [visible(name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}...") for name in names[:MOST_NAMES]]
    quoted_names = [f'"{name}"' if "," in name else name for name in shown]
    return ", ".join(quoted_names) + (f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else "")


def _guess_columns(names: Sequence[str], rows: Sequence[Mapping[str, str]], missing: Sequence[str]) -> dict[str, str]:
    """Return a plausible column for each setting: texts are long, labels have few distinct values."""
    values = {name: [row.get(name, "") for row in rows] for name in names}
    distinct = {name: len(set(column)) for name, column in values.items()}
    longest_first = sorted(names, key=lambda name: -sum(map(len, values[name])))
    texts = [setting for setting in missing if setting != "label_column"]
    # The columns keep their order: sources precede targets in most tables.
    guess = dict(zip(texts, sorted(longest_first[: len(texts)], key=names.index), strict=False))
    rest = [name for name in names if name not in guess.values()]
    if "label_column" in missing and rest:
        guess["label_column"] = min(rest, key=lambda name: (distinct[name] < MIN_LABELS, distinct[name]))
    return guess if len(guess) == len(missing) else {}
