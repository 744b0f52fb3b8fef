"""`satchel look patterns`: agreement of attention heads with known patterns."""

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from satchel.cli.look.options import Layer, Target
from satchel.cli.options import Run, Text, read_text
from satchel.cli.output import TEXT, message, print_table
from satchel.cli.result import View, view
from satchel.errors import DataError, SettingsError

if TYPE_CHECKING:
    from satchel.api.model import Model

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
) -> View:
    """Print or draw the attention weight that each head puts on the positions of each pattern."""
    from satchel import api

    model = api.load(run)
    result = model.patterns(_texts(model, text, target, data), pattern.split(",") if pattern else None)
    result = replace(result, rows=tuple(row for row in result.rows if layer in (None, row.layer)))

    def show() -> None:
        rows = [list(group)[:MAX_HEADS] for _, group in groupby(result.rows, key=lambda row: row.pattern)]
        print_table(
            {"pattern": TEXT, "layer": "d", "head": "d", "weight": ".1%", "uniform": ".1%", "argmax": ".1%"},
            [[row.pattern, row.layer, row.head, row.weight, row.chance, row.hits] for group in rows for row in group],
        )
        message(
            f"{result.texts:,} texts; weight: mean attention weight on the pattern; uniform: the same for uniform "
            "attention; argmax: share of tokens whose largest weight is on the pattern"
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
