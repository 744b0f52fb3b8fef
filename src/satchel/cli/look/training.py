"""`satchel look training`: validation curve of a training."""

from typing import Annotated

from typer import Argument

from satchel.charts import terminal
from satchel.cli.output import print, print_drawing
from satchel.cli.result import View, view
from satchel.errors import RunError
from satchel.text.display import visible


@view
def training(
    runs: Annotated[str, Argument(metavar="RUN[,RUN...]", help="Run folders separated by commas.")],
) -> View:
    """Print or draw the validation loss, or the bits per byte, at each measured step of one or more trainings."""
    from satchel import api, charts

    results = {run: api.load(run).validation_curve() for run in runs.split(",")}
    for run, (_, curve) in results.items():
        if not curve:
            raise RunError("has no validation measurements", "train with --valid 0.05", where=run)
    measure = next(iter(results.values()))[0]
    curves = {run: curve for run, (_, curve) in results.items()}

    def show() -> None:
        for run, curve in curves.items():
            print(visible(run))
            print_drawing(terminal.curve(curve, measure))

    points = [{"run": run, "points": [list(point) for point in curve]} for run, curve in curves.items()]
    return View(
        lambda: charts.training_curves(curves, measure=measure),
        lambda: {"measure": measure, "curves": points},
        show,
    )
