"""`satchel look attribution`: contribution of each word to a score, by several methods."""

from typing import Annotated, Any, cast

from typer import Option

from satchel.cli.options import Run, Text, check_choice, read_text
from satchel.cli.output import TOKEN, message, print_table
from satchel.cli.result import View, view
from satchel.text.display import visible


@view
def attribution(
    run: Run,
    text: Text = None,
    target: Annotated[
        str | None, Option(help="Next token or label whose score is explained; default: the most probable.")
    ] = None,
    versus: Annotated[str | None, Option(help="Explain the score of the target minus the score of this one.")] = None,
    method: Annotated[
        str | None, Option(help="occlusion, gradient, integrated, or for Backpacks exact; default: all.")
    ] = None,
    instead: Annotated[
        str, Option(help="Baseline that replaces a word: mean of all word vectors, or random words.")
    ] = "mean",
) -> View:
    """Print or draw the contribution of each word to the score of a token or label, by several attribution methods."""
    from satchel import api, charts
    from satchel.inspection.attribution import INSTEADS, METHODS, Instead, compare_methods
    from satchel.inspection.targets import find_logit

    check_choice("--instead", instead, INSTEADS)
    chosen = [each for each in METHODS if method in (None, each)] or METHODS
    explained = find_logit(api.load(run), read_text(text), target, versus)
    result = compare_methods(explained, chosen, instead=cast(Instead, instead))
    values: dict[str, Any] = result.by_method
    if method is not None:
        check_choice("--method", method, list(values))
        values = {method: values[method]}
    minus = "" if result.versus is None else f" minus {visible(result.versus, spaces=True)}"
    title = f"Contribution of each word to the score of {visible(result.target, spaces=True)}{minus}"

    def show() -> None:
        for note in result.notes:
            message(note)
        print(title)
        print_table(
            {"word": TOKEN, **dict.fromkeys(values, "+.4f")},
            zip(result.words, *values.values(), strict=True),
        )
        for line in result.checks():
            message(line)

    return View(lambda: charts.attribution(result.words, values, title), result.document, show)
