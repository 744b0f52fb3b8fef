"""`satchel look attention`, `alignment`, `patterns` and `ablation`: attention weights and attention heads."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from satchel.charts import terminal
from satchel.cli.look.options import Head, Layer, Source, Start, Target, read_pair
from satchel.cli.options import Run, Text, check_choice, read_text
from satchel.cli.output import TEXT, Progress, message, print, print_drawing, print_table
from satchel.cli.result import View, view
from satchel.errors import DataError, SettingsError
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.api.model import Model
    from satchel.charts.figures import Figure
    from satchel.inspection.alignment import Alignment
    from satchel.inspection.trace import AttentionMaps, AttentionView


@view
def attention(
    run: Run,
    text: Text = None,
    target: Target = None,
    source: Source = None,
    layer: Annotated[
        int | None, Option(help="Layer, counted from 0; default: that of the head with the clearest pattern.")
    ] = None,
    head: Annotated[
        int | None,
        Option(help="Head (or sense), counted from 0; default: the head with the clearest pattern, which is named."),
    ] = None,
    mean: Annotated[bool, Option("--mean", help="Show the mean over all heads, or over those of --layer.")] = False,
    form: Annotated[str, Option(help="Figure: matrix, lines between tokens, or grid of all heads.")] = "matrix",
    which: Annotated[
        str | None,
        Option(
            help="Self-attention (own; for a translator of the decoder), that of the encoder of a translator (source), "
            "cross, or the sense attention of a Backpack (senses); default: the first that the model has."
        ),
    ] = None,
    start: Start = None,
    length: Annotated[
        int | None, Option(help="Number of query tokens shown, from the first one on; default: all.", min=1)
    ] = None,
    versus: Annotated[
        str | None, Option(metavar="TEXT", help="Second text: print the same head for it, below that of TEXT.")
    ] = None,
) -> View:
    """Print or draw the attention weights of a head: rows are query tokens, columns are key tokens.

    The default head has the largest ratio of weight on a pattern (such as the previous token) to uniform attention.
    """
    check_choice("--form", form, ("matrix", "lines", "grid"))
    if which is not None:
        check_choice("--which", which, ("own", "source", "cross", "senses"))
    if mean and form != "matrix":
        raise SettingsError(f"--mean and --form {form} exclude each other", "omit one of them")
    from satchel import api

    content, target = read_pair(text, target, source)
    model = api.load(run)
    trace = model.trace(content, target, start)
    message(*trace.notes)
    maps = trace.maps(which)
    shown = maps.view(layer, head, mean=mean)
    both = [maps] if versus is None else [maps, model.trace(versus, start=start).maps(which)]

    def figure() -> "Figure":
        if form == "grid":
            return trace.grid(layer, which)
        if form == "lines":
            return trace.head_lines(layer, head, which)
        return trace.attention_map(layer, head, which, mean=mean)

    def document() -> dict[str, Any]:
        document, *others = (each.document(layer, head, mean=mean, length=length) for each in both)
        return {**document, "versus": others[0]} if others else document

    def show() -> None:
        from satchel.charts.arrays import largest_weight

        print(f"{shown.title}; rows: query tokens, columns: key tokens")
        weights = [_weights(each, layer, head, shown, mean) for each in both]
        largest = max(map(largest_weight, weights))
        for each, values in zip(both, weights, strict=True):
            rows, columns = part = each.part(length)
            print_drawing(terminal.heatmap(each.rows[rows], each.columns[columns], values[part], largest=largest))
        message(*shown.notes, f"the darkest shade is a weight of {largest:.2f} or more")
        if layer is None and (len(maps) > 1 or maps.heads > 1):
            layers = f"{len(maps)} layer{'s' * (len(maps) > 1)} with " * (maps.which != "senses")
            message(f"{layers}{maps.heads} {maps.unit}s: select with --layer, --head or --mean; -o FILE.html has all")

    return View(figure, document, show)


def _weights(maps: "AttentionMaps", layer: int | None, head: int | None, shown: "AttentionView", mean: bool) -> Any:
    """Return the weights that are printed."""
    if mean:
        return maps.mean(layer)
    if shown.choice is not None:
        return maps[shown.choice.layer, shown.choice.head]
    return maps[layer or 0, head or 0]


# --- alignment --------------------------------------------------------------------------------------

# Smaller attention weights are left blank.
MIN_WEIGHT = 0.05
# Spaces between two columns.
GAP = 1


@view
def alignment(
    run: Run, text: Text = None, target: Target = None, source: Source = None, layer: Layer = None, head: Head = None
) -> View:
    """Print or draw the cross-attention weights between source and target words; for Backpacks exact contributions."""
    from satchel import api

    content, target = read_pair(text, target, source)
    model = api.load(run, task="translate")
    result = model.align(content, target, layer=layer, head=head)
    return View(result.picture, lambda: {"alignment": result.document()}, lambda: _show(result))


def _show(result: "Alignment") -> None:
    """Print a row for each target word; if the source words do not fit beside each other, print several tables."""
    message(*result.notes)
    from rich.cells import cell_len

    def width(column: Sequence[str]) -> int:
        return max(map(cell_len, column))

    sources = [visible(word.strip() or word) for word in result.source]
    names = [
        [visible(word.strip() or word), sources[values.argmax()]]
        for word, values in zip(result.target, result.values, strict=True)
    ]
    cells = [[_cell(float(value), result.is_exact) for value in values] for values in result.values]
    widths = [width(column) for column in zip(sources, *cells, strict=True)]
    room = terminal.terminal_width() - sum(
        width(column) + GAP for column in zip(("target", "strongest"), *names, strict=True)
    )
    for number, part in enumerate(_parts(widths, room)):
        if number:
            print()
        columns = [("target", TEXT), ("strongest", TEXT), *((source, ">") for source in sources[part])]
        rows = [[*row, *values[part]] for row, values in zip(names, cells, strict=True)]
        print_table(columns, rows, gap=GAP)
    if result.is_exact:
        message("contribution of each source word to the logit of a target word, minus the mean over the vocabulary")
    else:
        message(f"attention weights in per cent from {MIN_WEIGHT:.0%} on")


def _cell(value: float, is_exact: bool) -> str:
    if is_exact:
        return f"{value:+.1f}"
    shades = terminal.POSITIVE_SHADES
    shade = shades[min(len(shades) - 1, round(value * (len(shades) - 1)))]
    return f"{shade}{100 * value:.0f}" if value >= MIN_WEIGHT else ""


def _parts(widths: Sequence[int], room: int) -> Iterator[slice]:
    """Return consecutive ranges of columns that fit into the width of the terminal, at least one column each."""
    start, used = 0, 0
    for number, width in enumerate(widths):
        if number > start and used + width > room:
            yield slice(start, number)
            start, used = number, 0
        used += width + GAP
    yield slice(start, len(widths))


# --- patterns ---------------------------------------------------------------------------------------

# Maximum number of texts of a file that are read, and of heads printed for each pattern.
MAX_TEXTS, MAX_HEADS = 200, 3


@view
def patterns(
    run: Run,
    text: Text = None,
    target: Target = None,
    data: Annotated[str | None, Option(help=f"File to read up to {MAX_TEXTS} texts from, instead of TEXT.")] = None,
    layer: Layer = None,
    pattern: Annotated[
        str | None,
        Option(help="Patterns separated by commas: same, previous, first, subject, ...; default: all that apply."),
    ] = None,
    start: Start = None,
) -> View:
    """Print or draw the attention weight that each head puts on the positions of each pattern."""
    from satchel import api

    model = api.load(run)
    result = model.patterns(_texts(model, text, target, data), pattern.split(",") if pattern else None, start=start)
    result = result.of_layer(layer)

    def show() -> None:
        message(*result.notes)
        rows = [list(group)[:MAX_HEADS] for _, group in groupby(result.rows, key=lambda row: row.pattern)]
        print_table(
            {"pattern": TEXT, "layer": "d", "head": "d", "weight": ".1%", "uniform": ".1%", "argmax": ".1%"},
            [[row.pattern, row.layer, row.head, row.weight, row.chance, row.hits] for group in rows for row in group],
        )
        heads = len({(row.layer, row.head) for row in result.rows})
        limit = f"top {MAX_HEADS} of {heads:,} heads of each pattern (--json prints all)"
        message(
            limit if heads > MAX_HEADS else f"all {heads} heads of each pattern",
            f"number of texts: {result.texts:,}; weight: mean attention weight on the pattern; "
            "uniform: the same for uniform attention; argmax: share of tokens whose largest weight is on the pattern",
        )

    return View(result.picture, result.document, show)


def _texts(model: "Model", text: str | None, target: str | None, data: str | None) -> list[Any]:
    """Return the given text, or the texts of a file; for translators pairs of source and target."""
    if data is None:
        content = read_text(text)
        return [content] if target is None else [(content, target)]
    if text is not None:
        raise SettingsError("TEXT and --data exclude each other", "give one of them")
    texts = [each for each in model.texts_of(data) if isinstance(each, tuple) or each.strip()]
    if not texts:
        raise DataError("found no text", where=data)
    return texts[:MAX_TEXTS]


# --- ablation ---------------------------------------------------------------------------------------


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
