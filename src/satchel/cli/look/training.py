"""`satchel look training`: validation curve of a training."""

from typing import Annotated

from typer import Argument

from satchel.charts import terminal
from satchel.cli.output import print, print_drawing
from satchel.cli.result import View, view
from satchel.text.display import visible


@view
def training(
    runs: Annotated[str, Argument(metavar="RUN[,RUN...]", help="Run folders separated by commas.")],
) -> View:
    """Print or draw the validation loss at each measured step of trainings, all in the same unit.

    Language models are shown in bits per byte, or in nats per token if a tokenizer does not preserve the text.
    """
    from satchel import api, charts

    measure, curves = api.validation_curves([run for run in runs.split(",") if run] or [runs])

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
