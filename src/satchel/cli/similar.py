"""`satchel similar`: cosine similarity of words, of senses, or of occurrences in context."""

from itertools import combinations
from typing import TYPE_CHECKING, Annotated, cast

from typer import Argument, Option

from satchel.cli.options import Run, Top, check_choice
from satchel.cli.output import TEXT, message, print, print_fields, print_table
from satchel.cli.result import Result, reports
from satchel.errors import SettingsError
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.api.model import Vectors
    from satchel.inspection.embeddings import InContext
    from satchel.inspection.senses import SimilarWords, WordSimilarity


@reports
def similar(
    run: Run,
    word: Annotated[str, Argument(metavar="WORD", help="Word as it occurs inside a sentence.")],
    other: Annotated[str | None, Argument(metavar="WORD", help="Second word: print the similarity of the two.")] = None,
    context: Annotated[
        list[str] | None, Option(help="Sentence that contains the word: compare its occurrences; repeatable.")
    ] = None,
    layer: Annotated[
        int | None, Option(help="With --context: layer of the vectors; 0 is the embedding (default: the last layer).")
    ] = None,
    by: Annotated[
        str | None, Option(help="Vectors to compare: sense or embedding (default: sense for Backpacks).")
    ] = None,
    top: Top = 8,
) -> Result:
    """Print the words with the largest cosine similarity to a word; or the similarity of two words or occurrences."""
    from satchel import api

    if by is not None:
        check_choice("--by", by, ("sense", "embedding"))
    if context and (other is not None or by is not None):
        raise SettingsError("--context compares occurrences of one word", "leave out the second word and --by")
    if layer is not None and not context:
        raise SettingsError("--layer requires --context", "add --context 'A sentence with the word'")
    model = api.load(run)
    if context:
        occurrences = model.vectors.in_context(word, context, layer, top)
        return Result(occurrences.document, lambda: _show_context(occurrences))
    vectors = cast("Vectors | None", by)
    if other is None:
        words = model.similar(word, top, vectors)
        return Result(words.document, lambda: _show_neighbours(words))
    similarity = model.similarity(word, other, vectors)
    if similarity.has_senses:
        return Result(similarity.document, lambda: _show_senses(similarity))
    field = (f"cosine similarity of {visible(word)} and {visible(other)}", f"{similarity.joined:.3f}")
    return Result(similarity.document, lambda: print_fields([field]))


def _show_senses(similarity: "WordSimilarity") -> None:
    """Print the similarity of two words for each sense."""
    print_table({"sense": "d", "cosine similarity": ".3f"}, enumerate(similarity.by_sense))
    print_fields(
        [
            ("minimum over senses", f"{similarity.least:.3f}"),
            ("concatenated senses", f"{similarity.joined:.3f}"),
            ("maximum over sense pairs", f"{similarity.any_pair:.3f}"),
        ]
    )


def _show_neighbours(lists: "SimilarWords") -> None:
    words = [[(text.strip(" ") or text, cosine) for text, cosine in each.words] for each in lists]
    if lists.has_senses:
        rows = [[sense, "  ".join(f"{text} {cosine:.2f}" for text, cosine in row)] for sense, row in enumerate(words)]
        print_table({"sense": "d", "most similar words (cosine similarity)": TEXT}, rows)
    else:
        print_table({"word": TEXT, "cosine similarity": ".3f"}, words[0])


def _show_context(result: "InContext") -> None:
    """Print the similarity of occurrences at every layer, and the most similar training contexts at one layer."""
    message(*result.notes)
    for number, each in enumerate(result.occurrences, start=1):
        print(f"{number}  {visible(each.context.marked)}")
    pairs = list(combinations(range(len(result.occurrences)), 2))
    if pairs:
        print()
        print_table(
            {"layer": "d", "site": TEXT, **{f"{a + 1} and {b + 1}": ".3f" for a, b in pairs}},
            [
                [layer, site, *(result.similarity[layer, a, b] for a, b in pairs)]
                for layer, site in enumerate(result.sites)
            ],
        )
    for number, each in enumerate(result.occurrences, start=1):
        print(f"\nmost similar to {number} at {result.sites[result.layer]}")
        rows = [[one.similarity, one.context.marked] for one in each.neighbours]
        print_table({"cosine similarity": ".3f", "training context": TEXT}, rows)
