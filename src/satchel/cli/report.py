"""`satchel report`: an HTML page about a run."""

from pathlib import Path
from typing import Annotated

from typer import Option

from satchel.cli.options import Run
from satchel.cli.output import Progress, message


def report(
    run: Run,
    out: Annotated[Path, Option("-o", "--out", help="The .html file to write.")] = Path("report.html"),
) -> None:
    """Write a self-contained HTML page with settings, metrics, training curve, samples and figures of a run."""
    from satchel import api
    from satchel.api.report import write_report

    with Progress() as progress:
        path = write_report(api.load(run), out, progress)
    message(f"wrote {path} ({path.stat().st_size:,} bytes)")
