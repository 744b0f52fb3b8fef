"""`satchel demo`: the main commands on built-in text."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from satchel.cli.compare import show_comparison
from satchel.cli.look.contributions import show_contributions
from satchel.cli.mix import show_mix
from satchel.cli.output import Progress, message, print, print_table
from satchel.cli.senses import show_senses
from satchel.cli.train import exit_if_stopped, run_training, show_report
from satchel.text.display import quoted

if TYPE_CHECKING:
    from satchel.api import LanguageModel
    from satchel.charts.figures import Figure

# Words whose senses are shown, the text that is analysed, and the prompt that is continued.
WORDS = ("file", "string", "new")
TEXT = "Return the name of the"
PROMPT = "Return the"
# Order of the n-gram model, and the orders it is compared with.
ORDER, ORDERS = 5, range(1, 8)
# Small batches and frequent validation suit a training of a few minutes.
SETTINGS = {"model.senses": 8, "training.batch_tokens": 1024, "training.evaluate_every": 100}


def demo(
    minutes: Annotated[float, Option(help="Training time of the network, in minutes.", min=0.0)] = 2.0,
    no_serve: Annotated[bool, Option("--no-serve", help="Exit at the end instead of starting the workbench.")] = False,
    out: Annotated[Path, Option("-o", "--out", help="Folder for runs and figures.")] = Path("runs/demo"),
) -> None:
    """Train an n-gram model and a Backpack on Python's documentation; print samples, metrics, senses; draw figures."""
    from satchel import api, charts

    del no_serve  # the workbench is not part of this version
    ngram, network, mixture, figures = (out / name for name in ("ngram", "backpack", "mix", "pictures"))
    message(f"$ satchel train @python-docs --model ngram --valid 0.1 --set model.order={ORDER} -o {quoted(ngram)}")
    with Progress() as progress:
        counted = api.train(
            "@python-docs",
            model="ngram",
            valid=0.1,
            settings={"model.order": ORDER},
            out=ngram,
            force=True,
            progress=progress,
            task="lm",
        )
    show_report(counted)
    _generate(counted)
    message(f"\n$ satchel evaluate {quoted(ngram)}     (and the same for other orders)")
    with Progress() as progress:
        likelihoods = api.cost_by_order(counted, ORDERS, progress)
    rows = [
        (order, each.bits_per_byte or 0.0, each.perplexity) for order, each in zip(ORDERS, likelihoods, strict=True)
    ]
    print_table({"order": "d", "bits per byte": ".3f", "perplexity": ",.1f"}, rows)
    _save(charts.cost_by_order([(order, bits) for order, bits, _ in rows]), figures / "bits-per-byte-by-order")
    changes = " ".join(f"--set {key}={value}" for key, value in SETTINGS.items())
    options = f"--model backpack --valid 0.1 --minutes {minutes:g} {changes}"
    message(f"\n$ satchel train @python-docs --tokenizer {quoted(ngram)} {options} -o {quoted(network)}")
    plan = api.plan("@python-docs", model="backpack", tokenizer=ngram, valid=0.1, minutes=minutes, settings=SETTINGS)
    trained, stop = run_training(partial(api.run_plan, plan, out=network, force=True))
    show_report(trained)
    exit_if_stopped(trained, stop)
    assert isinstance(trained, api.LanguageModel)
    _generate(trained)
    baseline = next(bits for order, bits, _ in rows if order == ORDER)
    _save(charts.training_curves({"backpack": api.bits_by_step(trained)}, baseline), figures / "training")
    message(f"\n$ satchel mix {quoted(ngram)} {quoted(network)} -o {quoted(mixture)}")
    _, report = api.mix([ngram, network], mixture, force=True)
    show_mix(report, "mix")
    message(f"\n$ satchel compare {quoted(ngram)} {quoted(network)}")
    comparison = api.compare([ngram, network])
    show_comparison(comparison)
    intervals = [(row.run, row.value, row.low, row.high) for row in comparison.rows]
    _save(charts.comparison(comparison.metric, intervals), figures / "comparison")
    _inspect(trained, figures)


def _generate(model: "LanguageModel") -> None:
    """Print a sample."""
    message(f"\n$ satchel generate {quoted(model.folder)} '{PROMPT}' --tokens 60 --temperature 0.7 --seed 1")
    print(PROMPT + model.generate(PROMPT, tokens=60, temperature=0.7, seed=1).text)


def _inspect(model: "LanguageModel", figures: Path) -> None:
    """Print senses and contributions; draw contributions and attention weights; write the report."""
    from satchel.api.report import write_report

    message(f"\n$ satchel senses {quoted(model.folder)} {' '.join(WORDS)} --top 6")
    for word in WORDS:
        show_senses(model.senses(word, top=6))
    message(f"\n$ satchel look contributions {quoted(model.folder)} '{TEXT}'")
    contributions = model.contributions(TEXT)
    show_contributions(contributions)
    _save(contributions.picture(), figures / "contributions")
    message(f"\n$ satchel look attention {quoted(model.folder)} '{TEXT}' -o {quoted(figures / 'attention.svg')}")
    _save(model.trace(TEXT).attention_map(), figures / "attention")
    page = figures.parent / "report.html"
    message(f"\n$ satchel report {quoted(model.folder)} -o {quoted(page)}")
    write_report(model, page)
    message(f"wrote {page}")


def _save(figure: "Figure", path: Path) -> None:
    """Write a figure as .svg and .png; as .html if images cannot be drawn."""
    from satchel.charts.renderer import RenderError

    try:
        for suffix in (".svg", ".png"):
            figure.save(path.with_name(path.name + suffix))
            message(f"wrote {path.with_name(path.name + suffix)}")
    except RenderError as error:
        figure.save(path.with_name(path.name + ".html"))
        message(f"{error.where}: {error.cause}", f"wrote {path.with_name(path.name + '.html')} instead")
