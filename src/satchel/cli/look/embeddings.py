"""`satchel look embeddings`: two-dimensional PCA of word vectors."""

from typing import Annotated

from typer import Argument, Option

from satchel.charts import terminal
from satchel.cli.options import Run
from satchel.cli.output import message, print, print_drawing
from satchel.cli.result import View, view


@view
def embeddings(
    run: Run,
    words: Annotated[
        str | None, Argument(metavar="WORDS", help="Words in one quoted argument; default: the most frequent words.")
    ] = None,
    sense: Annotated[int | None, Option(help="Backpacks: use the vectors of this sense.")] = None,
    top: Annotated[int, Option(help="Number of most frequent words.", min=1)] = 200,
) -> View:
    """Print or draw a map of word vectors: their first two principal components (PCA)."""
    from satchel import api

    result = api.load(run).vectors.map(words.split() if words else [], count=top, sense=sense)
    message(*result.notes)

    def show() -> None:
        print(result.title)
        print_drawing(terminal.scatter([(each.word, each.x, each.y) for each in result.points]))
        message(f"horizontal: {result.axes[0]}; vertical: {result.axes[1]}")

    return View(result.picture, result.document, show)
