"""`satchel look embeddings`: two-dimensional PCA of word vectors."""

from typing import Annotated, Any

from typer import Argument, Option

from satchel.charts import terminal
from satchel.cli.options import Run
from satchel.cli.output import message, print_drawing
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
    from satchel import api, charts

    result = api.load(run).vectors.map(words.split() if words else [], count=top, sense=sense)
    for note in result.notes:
        message(note)
    first, second = result.explained_variance
    title = f"2-D PCA of {result.what} (explained variance {first + second:.0%})"

    def document() -> dict[str, Any]:
        points = [
            {
                "word": each.word,
                "x": each.x,
                "y": each.y,
                "nearest": [{"word": word, "alike": similarity} for word, similarity in each.neighbours],
            }
            for each in result.points
        ]
        return {"points": points, "shares": list(result.explained_variance)}

    def show() -> None:
        print(title)
        print_drawing(terminal.scatter([(each.word, each.x, each.y) for each in result.points]))

    return View(
        lambda: charts.embedding_map(
            [each.word for each in result.points],
            [(each.x, each.y) for each in result.points],
            nearest=[[word for word, _ in each.neighbours] for each in result.points],
            title=title,
        ),
        document,
        show,
    )
