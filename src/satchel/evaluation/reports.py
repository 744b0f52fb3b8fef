"""Comparison tables as CSV, Markdown and LaTeX."""

import csv
import io
from pathlib import Path

from satchel import durable
from satchel.errors import SettingsError
from satchel.evaluation.comparison import Comparison


def save_comparison(comparison: Comparison, path: Path) -> None:
    """Write a comparison as a table (.csv, .md, .tex) or as a chart (.svg, .png, .html, .json)."""
    columns = ["run", comparison.metric, "low", "high"]
    rows = [[row.run, *(f"{number:.6g}" for number in (row.value, row.low, row.high))] for row in comparison.rows]
    if path.suffix == ".csv":
        handle = io.StringIO()
        csv.writer(handle, lineterminator="\n").writerows(
            [columns, *([_cell(run), *numbers] for run, *numbers in rows)]
        )
        durable.write_file(path, handle.getvalue().encode())
    elif path.suffix == ".md":
        lines = [columns, ["---", *["---:"] * 3], *([cell.replace("|", "\\|") for cell in row] for row in rows)]
        durable.write_file(path, "".join(f"| {' | '.join(line)} |\n" for line in lines).encode())
    elif path.suffix == ".tex":
        body = "".join(f"{' & '.join(map(_tex, row))} \\\\\n" for row in [columns, *rows])
        durable.write_file(path, f"\\begin{{tabular}}{{lrrr}}\n{body}\\end{{tabular}}\n".encode())
    elif path.suffix in (".svg", ".png", ".html", ".json"):
        comparison.picture().save(path)
    else:
        raise SettingsError(
            f"unknown file extension {path.suffix!r}",
            "use .csv, .md, .tex, .svg, .png, .html or .json",
            where=str(path),
        )


def _cell(text: str) -> str:
    """Return the cell, quoted if a spreadsheet would interpret it as a formula."""
    return f"'{text}" if text[:1] in "=+@-" else text


def _tex(text: str) -> str:
    special = {"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in text)
