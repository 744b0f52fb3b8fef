"""`satchel senses`: words promoted and suppressed by each sense of a word of a Backpack."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from satchel.cli.options import AsJson, Run, Top
from satchel.cli.output import TEXT, Progress, emit_json, message, print, print_table
from satchel.errors import SettingsError
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.inspection.senses import Sense, WordSenses


def senses(
    run: Run,
    words: Annotated[
        list[str] | None, Argument(metavar="WORD...", help="Words as they occur inside a sentence.")
    ] = None,
    every: Annotated[bool, Option("--all", help="All tokens of the vocabulary; requires -o or --json.")] = False,
    sense: Annotated[int | None, Option(help="Show only this sense, counted from 0.")] = None,
    top: Top = 8,
    contexts: Annotated[
        int, Option(help="Number of training contexts with the largest weight of each sense.", min=0)
    ] = 0,
    out: Annotated[Path | None, Option("-o", "--out", help="Write a .jsonl file with one line for each word.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the words that each sense of a word promotes and suppresses, and its share of the sense weights."""
    from satchel import api
    from satchel.text import row_files

    if bool(words) == every:
        raise SettingsError("expected either WORDS or --all", "give words, or --all with -o FILE.jsonl")
    if every and out is None and not as_json:
        raise SettingsError("--all prints the whole vocabulary", "add -o senses.jsonl or --json")
    if out is not None and out.suffix != ".jsonl":
        raise SettingsError(f"found the ending {out.suffix!r}", "expected .jsonl", where=str(out))
    model = api.load(run)
    vectors = model.sense_vectors
    count = vectors.backpack.settings.senses
    if sense is not None and not 0 <= sense < count:
        raise SettingsError(f"--sense {sense}: the model has {count} senses", f"expected 0 to {count - 1}")
    results = vectors.describe_all(top) if every else (vectors.describe(word, top, contexts) for word in words or [])
    with Progress() as progress:
        results = _counted(results, progress)
        if out is not None:
            written = row_files.write_rows(out, (each.document(sense) for each in results))
            message(f"wrote {out}: {written:,} words")
            return
        listed = list(results)
    if as_json:
        emit_json({"words": [each.document(sense) for each in listed]})
        return
    for each in listed:
        show_senses(each, sense)


def _counted(results: "Iterable[WordSenses]", progress: Progress) -> "Iterator[WordSenses]":
    """Return the results and report their number."""
    for number, each in enumerate(results, start=1):
        progress(f"{number:,} words", None)
        yield each


def show_senses(result: "WordSenses", sense: int | None = None) -> None:
    """Print the senses of a word, or one of them, with the largest share first."""
    tokens = f" ({len(result.tokens)} tokens: {_join(result.tokens)})" if len(result.tokens) > 1 else ""
    print(f"{visible(result.word)}{tokens}")
    senses = [each for each in result.senses if sense in (None, each.sense)]
    senses.sort(key=lambda each: -(each.share or 0.0))
    rows = []
    for each in senses:
        ranked = (each.promotes, each.suppresses)
        names = result.label_scores(each) if result.has_labels else (_join([word for word, _ in row]) for row in ranked)
        coherence = [] if result.has_labels else [each.coherence]
        rows.append([each.sense, each.share, *coherence, *names, _remark(each, len(result.senses))])
    what = " (label and logit)" if result.has_labels else ""
    columns = {"sense": "d", "share": ".1%", **({} if result.has_labels else {"coherence": ".2f"})}
    print_table({**columns, f"promotes{what}": TEXT, f"suppresses{what}": TEXT, "": TEXT}, rows)
    if not result.has_labels:
        message(result.chance_note)
    for each in senses:
        for context in each.contexts:
            before, word, after = (visible(part) for part in (context.before, context.word, context.after))
            print(f"  {each.sense:>3}  ...{before}[{word}]{after}...")
    if all(each.share is None for each in senses):
        message(f"{visible(result.word)} does not occur in the sampled part of the training data")


def _remark(sense: "Sense", senses: int) -> str:
    if sense.same_as is not None:
        return f"same as {sense.same_as}"
    return "rarely used" if sense.is_rarely_used(senses) else ""


def _join(words: Sequence[str]) -> str:
    return " ".join(visible(word.strip(" ") or word, spaces=True) for word in words)
