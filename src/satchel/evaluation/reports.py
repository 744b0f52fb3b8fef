"""Comparison tables as CSV, Markdown and LaTeX."""

import csv
import io
from pathlib import Path

from satchel import durable
from satchel.errors import SettingsError
from satchel.evaluation.comparison import Comparison
from satchel.text.display import visible


def save_comparison(comparison: Comparison, path: Path) -> None:
    """Write a comparison as tables (.csv, .md, .tex) or as a chart (.svg, .png, .html, .json).

    .md and .tex files contain the runs, their pairwise differences and the notes; a .csv file contains the runs only.
    """
    if path.suffix == ".csv":
        durable.write_file(path, _csv(comparison).encode())
    elif path.suffix == ".md":
        durable.write_file(path, _markdown(comparison).encode())
    elif path.suffix == ".tex":
        durable.write_file(path, _latex(comparison).encode())
    elif path.suffix in (".svg", ".png", ".html", ".json"):
        comparison.picture().save(path)
    else:
        raise SettingsError(
            f"unknown file extension {path.suffix!r}",
            "use .csv, .md, .tex, .svg, .png, .html or .json",
            where=str(path),
        )


def _csv(comparison: Comparison) -> str:
    """Return one row per run, with numbers that programs can read; unknown numbers are empty."""
    columns = ["run", comparison.metric, "low", "high", "perplexity", "parameters", "seconds"]
    handle = io.StringIO()
    writer = csv.writer(handle, lineterminator="\n")
    writer.writerow(columns)
    for row in comparison.rows:
        numbers = (row.value, row.low, row.high, row.perplexity)
        writer.writerow(
            [
                _cell(row.run),
                *("" if number is None else f"{number:.6g}" for number in numbers),
                row.parameters,
                row.seconds,
            ]
        )
    return handle.getvalue()


def _tables(comparison: Comparison) -> list[tuple[list[str], list[list[str]]]]:
    """Return the tables of runs and of differences; the direction of a difference has a heading."""
    columns, rows = comparison.differences()
    return [comparison.values(), ([*columns[:-1], "significance"], rows)]


def _markdown(comparison: Comparison) -> str:
    parts = []
    for columns, rows in _tables(comparison):
        cells = [[visible(cell).replace("|", "\\|") for cell in row] for row in rows]
        lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *cells]
        parts.append("".join(f"| {' | '.join(line)} |\n" for line in lines))
    return "\n".join([*parts, "".join(f"{visible(note)}\n\n" for note in comparison.notes()).rstrip("\n") + "\n"])


def _latex(comparison: Comparison) -> str:
    parts = []
    for columns, rows in _tables(comparison):
        body = "".join(f"{' & '.join(map(_tex, row))} \\\\\n" for row in [columns, *rows])
        parts.append(f"\\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}\n{body}\\end{{tabular}}\n")
    return "\n".join([*parts, "".join(f"% {visible(note)}\n" for note in comparison.notes())])


def _cell(text: str) -> str:
    """Return the cell, quoted if a spreadsheet would interpret it as a formula."""
    return f"'{text}" if text[:1] in "=+@-" else text


def _tex(text: str) -> str:
    special = {"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in visible(text))
