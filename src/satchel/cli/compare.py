"""`satchel compare` and `satchel mix`: several runs at once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from satchel.cli.evaluate import AsJson, evaluation_json
from satchel.cli.output import Progress, emit_json, print_table, say

if TYPE_CHECKING:
    from satchel.api import MixReport
    from satchel.evaluation.comparison import Comparison

Runs = Annotated[list[str], Argument(metavar="RUN RUN...", help="Two run folders or more.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(compare)
    app.command()(mix)


def compare(
    runs: Runs,
    data: Annotated[
        str | None, Option(help="What to compare them on: a file, a folder or a built-in; else what they held out.")
    ] = None,
    out: Annotated[Path | None, Option("-o", "--out", help="Write the table: .csv, .md, .tex or .svg.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs on one text or table, with intervals."""
    from satchel import api
    from satchel.evaluation import reports

    with Progress() as progress:
        found = api.compare(runs, data, progress=progress)
    if out is not None:
        reports.save_comparison(found, out)
        say(f"wrote {out}")
    if as_json:
        emit_json(comparison_json(found))
        return
    show_comparison(found)


def show_comparison(found: "Comparison") -> None:
    """Print the value of each run and the difference of each pair, with intervals."""
    print_table(*found.values(), right=(1,))
    print()
    print_table(*found.differences(), right=(1,))
    *seeds, measured = found.notes()
    for line in seeds:
        print(f"\n{line}")
    say(measured)


def comparison_json(found: "Comparison") -> dict[str, object]:
    """Return the keys of `compare --json`."""
    return {
        "metric": found.metric,
        "units": found.units,
        "rows": [{"run": r.run, "value": r.value, "low": r.low, "high": r.high} for r in found.rows],
        "pairs": [{"a": p.a, "b": p.b, "difference": p.difference, "low": p.low, "high": p.high} for p in found.pairs],
        "groups": [{"runs": list(g.runs), "mean": g.mean, "deviation": g.deviation} for g in found.groups],
    }


def mix(
    runs: Runs,
    out: Annotated[Path, Option("-o", "--out", help="The run folder to write.")],
    data: Annotated[
        str | None, Option(help="Held-out text to learn the weights on; else half of what the runs held out.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace the run that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Learn how to weigh runs against each other; the mix is a run too."""
    from satchel import api

    with Progress() as progress:
        model, report = api.mix(runs, out, data, force=force, progress=progress)
    if as_json:
        parts = [
            {"run": str(run), "name": name, "weight": weight, "nats_per_token": alone.nats_per_token}
            for run, name, weight, alone in zip(runs, report.parts, report.weights, report.alone, strict=True)
        ]
        emit_json({"run": str(out), "parts": parts, "rounds": report.rounds, **evaluation_json(model, report.mixed)})
        return
    show_mix(report, str(out))
    say(f"next: satchel evaluate {out} FILE")


def show_mix(report: "MixReport", name: str) -> None:
    """Print what each part weighs and costs, and what the mix costs."""
    print_table(
        ["part", "weight", "nats/token", "perplexity"],
        [
            *(
                [part, f"{weight:.4f}", f"{alone.nats_per_token:.4f}", f"{alone.perplexity:,.2f}"]
                for part, weight, alone in zip(report.parts, report.weights, report.alone, strict=True)
            ),
            [name, "", f"{report.mixed.nats_per_token:.4f}", f"{report.mixed.perplexity:,.2f}"],
        ],
        right=(1, 2, 3),
    )
    if report.is_new:
        say("weights learned on the first half of the held-out text, costs measured on the other")
    else:
        say("these are on the text that the weights were learned on; evaluate it on other text")
