"""`satchel look alignment`: source words behind each target word of a translation."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from satchel.charts import terminal
from satchel.cli.look.options import Head, Layer, Source, Target, read_pair
from satchel.cli.options import Run, Text
from satchel.cli.output import TEXT, Progress, message, print_table
from satchel.cli.result import View, view
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.inspection.alignment import Alignment

# Shades of attention weights from 0 to 1; smaller weights than MIN_WEIGHT are left blank.
SHADES = " ░▒▓█"
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
    with Progress() as progress:
        progress("aligning", None)
        result = model.align(content, target, layer=layer, head=head)
    return View(result.picture, lambda: {"alignment": result.document()}, lambda: _show(result))


def _show(result: "Alignment") -> None:
    """Print a row for each target word; if the source words do not fit beside each other, print several tables."""
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
    shade = SHADES[min(len(SHADES) - 1, round(value * (len(SHADES) - 1)))]
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
