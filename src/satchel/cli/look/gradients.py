"""`satchel look gradients`: gradient of the loss with respect to earlier input embeddings, by distance."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from satchel.cli.options import read_text
from satchel.cli.output import TEXT, message, print_table
from satchel.cli.result import View, view
from satchel.errors import SettingsError

if TYPE_CHECKING:
    from satchel.inspection.gradients import GradientNorms


@view
def gradients(
    arguments: Annotated[
        list[str],
        Argument(metavar="RUN... [TEXT]", help="Runs of language models, then a text, or - for standard input."),
    ],
    data: Annotated[
        str | None, Option(help="File, folder or @NAME instead of TEXT; means over predicted tokens of it.")
    ] = None,
    positions: Annotated[int, Option(help="Number of predicted tokens of --data, evenly spaced.", min=1)] = 64,
    length: Annotated[
        int | None, Option(help="Maximum distance in tokens; default: the context, or 256 if there is no maximum.")
    ] = None,
    untrained: Annotated[
        bool, Option("--untrained", help="Also show the networks as initialised with their seeds.")
    ] = False,
) -> View:
    """Print or draw the norm of the gradient of the last token's loss for each earlier input embedding, by distance."""
    from satchel import api
    from satchel.inspection.gradients import distance_unit

    runs, text = _split_arguments(arguments, data)
    results: list[GradientNorms] = []
    for run in runs:
        model = api.load(run, task="lm")
        for initial in (False, True) if untrained else (False,):
            results.append(model.gradients(text, data=data, positions=positions, length=length, untrained=initial))
            message(*(f"{results[-1].name}: {note}" for note in (*results[-1].notes, *results[-1].zero_notes)))
    unit = distance_unit(results)
    if unit == "characters":
        message("the runs have different tokenizers: distances are in characters, norms are per token")
    return View(
        lambda: results[0].picture(*results[1:]),
        lambda: {"unit": unit, "runs": [each.document() for each in results]},
        lambda: _show(results, unit),
    )


def _split_arguments(arguments: list[str], data: str | None) -> tuple[list[str], str | None]:
    """Return the runs and the text; the last argument is the text unless it is a run or --data is given."""
    *runs, last = arguments
    if data is not None:
        return arguments, None
    from satchel.runs.folder import is_run

    if is_run(Path(last)):
        return arguments, read_text(None)
    if not runs:
        raise SettingsError(f"{last} is not a run folder", "name one or more run folders, then the text")
    return runs, read_text(last)


def _show(results: list["GradientNorms"], unit: str) -> None:
    """Print the norms at the distances 1, 2, 4, ... and at the largest one."""
    if unit == "tokens":
        distances = _powers(max(len(each.norms) for each in results))
        rows = [
            [each.name, *(each.norms[distance - 1] if distance <= len(each.norms) else None for distance in distances)]
            for each in results
        ]
        print_table([("distance (tokens)", TEXT), *((str(distance), ".2g") for distance in distances)], rows)
    else:
        rows = [
            [each.name, distance, each.characters[distance - 1], each.norms[distance - 1]]
            for each in results
            for distance in _powers(len(each.norms))
        ]
        columns = {"run": TEXT, "distance (tokens)": "d", "distance (characters)": ".1f", "gradient norm": ".2g"}
        print_table(columns, rows)
    count = max(results[0].counts)
    message(
        f"mean norm of the gradient of a token's loss over {count:,} predicted token{'s' * (count > 1)}; "
        "distance 1 is the token before it"
    )


def _powers(longest: int) -> list[int]:
    """Return the powers of 2 up to a number, and the number."""
    return sorted({*(1 << power for power in range(longest.bit_length())), longest})
