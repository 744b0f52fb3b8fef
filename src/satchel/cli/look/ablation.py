"""`satchel look ablation`: cost of removing each attention head."""

from typing import Annotated

from typer import Option

from satchel.cli.options import Run
from satchel.cli.output import Progress, message, print_table
from satchel.cli.result import View, view


@view
def ablation(
    run: Run,
    data: Annotated[str | None, Option(help="Data to measure on; default: the run's held-out data.")] = None,
) -> View:
    """Print or draw how much the loss increases, or the accuracy drops, if each attention head is zeroed."""
    from satchel import api

    with Progress() as progress:
        result = api.load(run).head_costs(data, progress=progress)

    def show() -> None:
        columns = {"layer": "d", **{f"head {head}": "+.4f" for head in range(result.costs.shape[1])}}
        print_table(columns, [[layer, *row] for layer, row in enumerate(result.costs)])
        message(f"{result.measure.replace('_', ' ')} with all heads: {result.whole:.4f}; cost of removing each head")

    return View(result.picture, result.document, show)
