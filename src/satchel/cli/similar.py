"""`satchel similar`: cosine similarity of words, of senses, or of occurrences in context."""

from dataclasses import asdict
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from satchel.cli.options import Run, Top, check_choice
from satchel.cli.output import TEXT, message, print, print_fields, print_table
from satchel.cli.result import Result, reports
from satchel.errors import SettingsError
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.inspection.embeddings import InContext
    from satchel.inspection.senses import Neighbours, WordSimilarity


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
    by_sense = by == "sense" or (by is None and model.compares_senses)
    if other is None:
        lists = model.sense_vectors.neighbours(word, top) if by_sense else [model.vectors.neighbours(word, top)]
        return Result(lambda: _neighbours_json(word, lists, by_sense), lambda: _show_neighbours(lists, by_sense))
    if by_sense:
        senses = model.sense_vectors.similarity(word, other)
        return Result(lambda: asdict(senses), lambda: _show_senses(senses))
    cosine = model.vectors.similarity(word, other).joined
    field = (f"cosine similarity of {visible(word)} and {visible(other)}", f"{cosine:.3f}")
    return Result(lambda: {"first": word, "second": other, "alike": cosine}, lambda: print_fields([field]))


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


def _neighbours_json(word: str, lists: "list[Neighbours]", by_sense: bool) -> dict[str, Any]:
    words = [[{"word": text, "alike": cosine} for text, cosine in each.words] for each in lists]
    if not by_sense:
        return {"word": word, "words": words[0]}
    return {"word": word, "senses": [{"sense": sense, "words": each} for sense, each in enumerate(words)]}


def _show_neighbours(lists: "list[Neighbours]", by_sense: bool) -> None:
    words = [[(text.strip(" ") or text, cosine) for text, cosine in each.words] for each in lists]
    if by_sense:
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
