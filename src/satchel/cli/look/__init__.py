"""`satchel look` and `report`: what a model did, in the terminal, as numbers, as pictures, on a page."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from satchel.cli import translate
from satchel.cli.evaluate import AsJson, Run
from satchel.cli.look import contributions, views
from satchel.cli.output import Progress, say, text_argument

# What can be looked at, who shows it, and the options that belong to it.
VIEWS: dict[str, tuple[Callable[[views.Asked], None], tuple[str, ...]]] = {
    "attention": (views.attention, ("--target", "--source", "--layer", "--head")),
    "surprise": (views.surprise, ("--target", "--source")),
    "order": (views.order, ()),
    "lens": (views.lens, ()),
    "senses": (contributions.weights, ()),
    "contributions": (contributions.contributions, ("--target", "--versus", "--data")),
    "attribution": (views.attribution, ("--target", "--versus", "--method")),
    "alignment": (translate.alignment, ("--target", "--source", "--layer", "--head")),
    "patterns": (views.patterns, ("--target", "--data", "--layer", "--pattern")),
    "ablation": (views.ablation, ("--data",)),
    "embeddings": (views.embeddings, ("--sense",)),
    "training": (views.training, ()),
}


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(look)
    app.command()(report)


def look(
    view: Annotated[str, Argument(help=f"What to look at: {', '.join(VIEWS)}.")],
    run: Run,
    text: Annotated[str | None, Argument(help="The text in quotes, or - for standard input.")] = None,
    target: Annotated[str | None, Option(help="The word, label or translation that is explained.")] = None,
    versus: Annotated[str | None, Option(help="Explain the target's lead over this word.")] = None,
    source: Annotated[str | None, Option(help="Of a translator: the source; then TEXT is its translation.")] = None,
    layer: Annotated[int | None, Option(help="One layer, from 0; else all, or their mean.")] = None,
    head: Annotated[int | None, Option(help="One head, from 0; else all, or their mean.")] = None,
    form: Annotated[str, Option(help="Of attention: matrix, lines or grid.")] = "matrix",
    which: Annotated[str, Option(help="Of a translator's attention: own, source or cross.")] = "own",
    method: Annotated[str | None, Option(help="Of attribution: occlusion, gradient, integrated, exact.")] = None,
    instead: Annotated[
        str, Option(help="Of attribution, in a word's place: the mean of all, or words in turn.")
    ] = "mean",
    sense: Annotated[int | None, Option(help="Of embeddings: the words by this sense.")] = None,
    pattern: Annotated[str | None, Option(help="Of patterns: same,previous,first,subject,...; else the usual.")] = None,
    top: Annotated[int, Option(help="Of embeddings: how many of the most frequent words.", min=1)] = 200,
    data: Annotated[str | None, Option(help="A file to look at instead of a text.")] = None,
    by: Annotated[str, Option(help="Contributions in a file by word, sense, position, or several.")] = "word,sense",
    start: Annotated[int, Option(help="Of a long text: the first token that is read.", min=0)] = 0,
    out: Annotated[Path | None, Option("-o", "--out", help="Draw it: .svg, .png, .pdf, .html or .json.")] = None,
    theme: Annotated[str, Option(help="Of a picture: light, dark or slides.")] = "light",
    width: Annotated[str | None, Option(help="Of a picture: 3.3in, 12cm, 600px.")] = None,
    as_json: AsJson = False,
) -> None:
    """Look inside: what a model attended to, what surprised it, what moved it; as text, numbers or a picture."""
    from satchel.errors import SettingsError

    if view not in VIEWS:
        raise SettingsError(f"found no view named {view}", f"there is {', '.join(VIEWS)}")
    given = {"--target": target, "--versus": versus, "--source": source, "--layer": layer, "--head": head,
             "--method": method, "--sense": sense, "--pattern": pattern, "--data": data}  # fmt: skip
    show, own = VIEWS[view]
    unfit = [name for name, value in given.items() if value is not None and name not in own]
    if unfit:
        raise SettingsError(f"{unfit[0]} is not for {view}", f"its options are: {', '.join(own) or 'none of its own'}")
    if source is not None:
        text, target = source, text_argument(text)
    asked = views.Asked(
        run, text, target, versus, layer, head, form, which, method, instead, start, data, by, top, sense, pattern, out,
        theme, width, as_json,
    )  # fmt: skip
    show(asked)


def report(
    run: Run,
    out: Annotated[Path, Option("-o", "--out", help="The .html file to write.")] = Path("report.html"),
) -> None:
    """Write what a run is, how it went, what it writes and what is inside as one page that needs no network."""
    from satchel import api
    from satchel.api.report import write_report

    with Progress() as progress:
        path = write_report(api.load_model(run), out, progress)
    say(f"wrote {path} ({path.stat().st_size:,} bytes)")
