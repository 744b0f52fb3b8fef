"""`satchel compare`: compare runs on the same data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from satchel.cli.options import EVALUATION, reads_files
from satchel.cli.output import TEXT, Progress, message, print, print_table
from satchel.cli.result import Result, reports

if TYPE_CHECKING:
    from satchel.evaluation.comparison import Comparison

# Headings of the columns that are aligned to the left.
LEFT = ("run", "difference", "95 % CI", "")
Runs = Annotated[list[str], Argument(metavar="RUN RUN...", help="Two or more run folders.")]


@reads_files(*EVALUATION)
@reports
def compare(
    runs: Runs,
    data: Annotated[
        str | None, Option(help="File, folder or @NAME to compare on; default: the held-out data that the runs share.")
    ] = None,
    out: Annotated[
        Path | None,
        Option("-o", "--out", help="Write the tables (.csv, .md, .tex) or a chart (.svg, .png, .html, .json)."),
    ] = None,
    *,
    reading: dict[str, Any],
) -> Result:
    """Print bits per byte, accuracy or chrF of each run and all differences, with 95 % bootstrap intervals.

    The table also has the perplexity of language models, the number of parameters and the training time.
    """
    from satchel import api
    from satchel.evaluation import reports

    with Progress() as progress:
        comparison = api.compare(runs, data, reading=reading, progress=progress)
    if out is not None:
        reports.save_comparison(comparison, out)
        message(f"wrote {out}")
    return Result(comparison.document, lambda: show_comparison(comparison))


def show_comparison(comparison: "Comparison") -> None:
    """Print the value of each run and the difference of each pair, with confidence intervals."""
    for number, (headings, rows) in enumerate((comparison.values(), comparison.differences())):
        if number:
            print()
        print_table([(heading, TEXT if heading in LEFT else ">") for heading in headings], rows)
    *notes, description = comparison.notes()
    for line in notes[len(comparison.warnings) :]:
        print(f"\n{line}")
    message(*notes[: len(comparison.warnings)], description)
