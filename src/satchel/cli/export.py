"""`satchel export`: write a model in another format."""

from pathlib import Path
from typing import Annotated

from typer import Option

from satchel.cli.options import Run, check_choice
from satchel.cli.output import Progress, message


def export(
    run: Run,
    to: Annotated[str, Option(help="Format: arpa (n-gram models).")],
    out: Annotated[Path, Option("-o", "--out", help="The file to write.")],
) -> None:
    """Write a model in the format of another tool."""
    from satchel import api

    check_choice("--to", to, ("arpa",))
    with Progress() as progress:
        path = api.load(run, task="lm").export_arpa(out, progress=progress)
    message(f"wrote {path} ({path.stat().st_size:,} bytes)")
