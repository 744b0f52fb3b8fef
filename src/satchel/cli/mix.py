"""`satchel mix`: interpolate language models."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from satchel.cli.compare import Runs
from satchel.cli.options import Force, RunOut
from satchel.cli.output import TEXT, Progress, message, print_table
from satchel.cli.result import Result, reports
from satchel.text.display import quoted

if TYPE_CHECKING:
    from satchel.api import MixReport


@reports
def mix(
    runs: Runs,
    out: RunOut,
    data: Annotated[
        str | None, Option(help="Held-out text to fit the weights on; default: half of the runs' held-out text.")
    ] = None,
    force: Force = False,
) -> Result:
    """Fit interpolation weights of language models by EM, print them, and write the mixture as a run."""
    from satchel import api

    with Progress() as progress:
        model, report = api.mix(runs, out, data, force=force, progress=progress)

    def document() -> dict[str, Any]:
        parts = [
            {"run": str(run), "name": name, "weight": weight, "nats_per_token": alone.nats_per_token}
            for run, name, weight, alone in zip(runs, report.parts, report.weights, report.alone, strict=True)
        ]
        return {"run": str(out), "parts": parts, "rounds": report.rounds, **model.metrics_document(report.mixed)}

    def show() -> None:
        show_mix(report, str(out))
        message(f"next: satchel evaluate {quoted(out)} FILE")

    return Result(document, show)


def show_mix(report: "MixReport", name: str) -> None:
    """Print the weight, perplexity and bits per byte of each part and of the mixture."""
    rows = [*zip(report.parts, report.weights, report.alone, strict=True), (name, None, report.mixed)]
    print_table(
        {"model": TEXT, "weight": ".4f", "nats per token": ".4f", "bits per byte": ".4f", "perplexity": ",.2f"},
        [[part, weight, each.nats_per_token, each.bits_per_byte, each.perplexity] for part, weight, each in rows],
    )
    if report.is_new:
        message("weights fitted on the first half of the held-out text, perplexity measured on the second half")
    else:
        message("perplexity measured on the text the weights were fitted on; use `satchel evaluate` with other text")
