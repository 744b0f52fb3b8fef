"""`satchel train` and `satchel demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from satchel.cli.output import Progress, emit_json, print_pairs, print_table, say

if TYPE_CHECKING:
    from satchel.api import LanguageModel, Plan


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(demo)
    app.command()(train)


def train(
    data: Annotated[str, Argument(help="A file, a folder, two aligned files (a,b), - or a built-in (@python-docs).")],
    task: Annotated[str | None, Option(help="lm; without it, what the data is for.")] = None,
    model: Annotated[str | None, Option(help="ngram.")] = None,
    recipe: Annotated[Path | None, Option(help="A .toml file of settings.")] = None,
    tokenizer: Annotated[
        str | None, Option(help="char, byte, word, bpe:N, unigram:N, a run, or a tokenizer.json.")
    ] = None,
    valid: Annotated[str | None, Option(help="A file, or the fraction to hold out.")] = None,
    settings: Annotated[list[str] | None, Option("--set", help="A setting, such as model.order=5.")] = None,
    seed: Annotated[int | None, Option(help="What every random choice depends on.")] = None,
    encoding: Annotated[str | None, Option(help="How the files are encoded (utf-8).")] = None,
    encoding_errors: Annotated[str | None, Option(help="Bad bytes: strict, replace or skip.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the settings and estimates, and stop.")] = False,
    out: Annotated[Path | None, Option("-o", "--out", help="The run folder to write (runs/NAME).")] = None,
    force: Annotated[bool, Option("--force", help="Replace the run that is there.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a model on a text; it becomes a run folder."""
    from satchel import api, config

    tree = config.parse_assignments(settings or [])
    for key, value in (("encoding", encoding), ("encoding_errors", encoding_errors)):
        if value is not None:
            config.place(tree, f"data.{key}", value)
    planned = api.plan(
        data,
        task=task,
        model=model,
        recipe=recipe,
        tokenizer=tokenizer,
        valid=_valid(valid),
        seed=seed,
        settings=tree,
    )
    if dry_run:
        _show_plan(planned, as_json)
        return
    for reason in planned.reasons:
        say(reason)
    with Progress() as progress:
        trained = api.carry_out(planned, out=out, force=force, progress=progress)
    report = train_json(trained)
    if as_json:
        emit_json(report)
    else:
        _show_report(trained)


def _valid(text: str | None) -> str | float | None:
    """Return a fraction if that is what was given, else the name of a file."""
    if text is None or Path(text).exists():
        return text
    try:
        return float(text)
    except ValueError:
        return text


def train_json(trained: "LanguageModel") -> dict[str, Any]:
    """Return the keys of `train --json`."""
    from satchel.cli.answers import evaluation_json

    report = trained.report
    assert report is not None
    return {
        "run": report.run,
        "task": "lm",
        "model": trained.settings.model.kind,
        "parameters": report.parameters,
        "steps": 0,
        "seconds": round(report.seconds, 3),
        "tokens_per_second": round(report.tokens_per_second, 1),
        "train_loss": report.train_loss,
        "valid": evaluation_json(trained, report.valid) if report.valid else None,
        "stopped": "finished",
    }


def _show_plan(planned: "Plan", as_json: bool) -> None:
    from satchel.config import flatten

    tree = planned.settings.model_dump(mode="json")
    estimates = planned.estimates()
    if as_json:
        emit_json({"settings": tree, "estimates": estimates, "reasons": list(planned.reasons)})
        return
    for key, value in flatten(tree):
        print(f"{key} = {_toml(value)}")
    print()
    print_pairs((name.replace("_", " "), f"{number:,}") for name, number in estimates.items())
    for reason in planned.reasons:
        say(reason)


def _toml(value: object) -> str:
    import json

    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _show_report(trained: "LanguageModel") -> None:
    from satchel.text.display import visible

    report, model, counts = trained.report, trained.settings.model, trained.run.facts["counts"]
    assert report is not None
    assert model.kind == "ngram"
    print(f"{report.run}: a language model (task lm) of n-grams up to order {model.order}, {model.smoothing}")
    unknown = f", {counts['unknown']:,} unknown" if counts["unknown"] else ""
    pairs = [
        ("text", f"{counts['characters']:,} characters, {counts['tokens']:,} tokens{unknown}"),
        ("tokenizer", f"{trained.tokenizer.kind}, {trained.tokenizer.size:,} tokens"),
        ("n-grams", " + ".join(f"{size:,}" for size in trained.run.facts["ngrams"])),
        ("train", f"{report.train_loss:.4f} nats/token"),
    ]
    if report.valid:
        pairs.append(("held out", likelihood_line(report.valid)))
    for file, count in trained.run.facts["repaired"].items():
        pairs.append(("repaired", f"{visible(file)}: {count:,} byte sequences that could not be decoded"))
    pairs.append(("took", f"{report.seconds:.1f} s"))
    print_pairs(pairs)
    say(f"next: satchel generate {report.run} --tokens 100")


def likelihood_line(valid: Any) -> str:
    """Return the cost of a text in one line."""
    bits = f", {valid.bits_per_byte:.3f} bits/byte" if valid.bits_per_byte is not None else ""
    return f"{valid.nats_per_token:.4f} nats/token, perplexity {valid.perplexity:,.2f}{bits}"


def demo(
    minutes: Annotated[float, Option(help="How long networks may train.", min=0.0)] = 2.0,
    no_serve: Annotated[bool, Option("--no-serve", help="Do not open the workbench at the end.")] = False,
    out: Annotated[Path, Option("-o", "--out", help="Where the runs and pictures go.")] = Path("runs/demo"),
) -> None:
    """Show what satchel does, in a minute, on text that every Python has."""
    from satchel import api
    from satchel.looking import charts
    from satchel.text.display import safe

    del minutes, no_serve  # for the network and the workbench, which are not part of this version
    order, orders = 5, range(1, 8)
    run = out / "ngram"
    say(f"$ satchel train @python-docs --valid 0.1 --set model.order={order} -o {run}")
    with Progress() as progress:
        trained = api.train(
            "@python-docs", valid=0.1, settings={"model.order": order}, out=run, force=True, progress=progress
        )
    _show_report(trained)
    say(f"\n$ satchel generate {run} 'Return the' --tokens 60 --temperature 0.7 --seed 1")
    print(f"Return the{safe(trained.generate('Return the', tokens=60, temperature=0.7, seed=1).text)}")
    say(f"\n$ satchel evaluate {run}     (and the same for the other orders)")
    with Progress() as progress:
        costs = api.cost_by_order(trained, orders, progress)
    print_table(
        ["order", "bits/byte", "perplexity"],
        [[n, f"{cost.bits_per_byte:.3f}", f"{cost.perplexity:.1f}"] for n, cost in zip(orders, costs, strict=True)],
        right=(0, 1, 2),
    )
    chart = charts.cost_by_order([(n, cost.bits_per_byte or 0.0) for n, cost in zip(orders, costs, strict=True)])
    for suffix in ("svg", "png"):
        path = out / "pictures" / f"bits-per-byte-by-order.{suffix}"
        charts.save(chart, path)
        say(f"drew {path}")
