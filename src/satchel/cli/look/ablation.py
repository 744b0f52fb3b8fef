"""`satchel look ablation`: cost of removing each attention head."""

from dataclasses import asdict
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
    import numpy as np

    from satchel import api, charts

    with Progress() as progress:
        result = api.load(run).head_costs(data, progress=progress)
    unit = result.measure.replace("_", " ")
    layers, heads = (1 + max(getattr(row, name) for row in result.rows) for name in ("layer", "head"))
    costs_LH = np.full((layers, heads), np.nan)
    for row in result.rows:
        costs_LH[row.layer, row.head] = row.cost

    def show() -> None:
        columns = {"layer": "d", **{f"head {head}": "+.4f" for head in range(heads)}}
        print_table(columns, [[layer, *row] for layer, row in enumerate(costs_LH)])
        message(f"{unit}: {result.whole:.4f} with all heads; the table gives how much worse it is without each head")

    return View(
        lambda: charts.head_ablation(costs_LH, unit=unit),
        lambda: {
            "measure": result.measure,
            "whole": result.whole,
            "heads": [asdict(row) for row in result.rows],
        },
        show,
    )
