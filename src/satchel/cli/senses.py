"""`satchel senses` and `similar`: what the senses of words are, and which words are alike."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from satchel.cli.evaluate import AsJson, Run
from satchel.cli.output import Progress, emit_json, print_pairs, print_table, say

if TYPE_CHECKING:
    from satchel.api.senses import Sense, WordSenses

Top = Annotated[int, Option(help="How many words to show of each list.", min=1)]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(senses)
    app.command()(similar)


# --- senses ----------------------------------------------------------------------------------------


def senses(
    run: Run,
    words: Annotated[list[str] | None, Argument(help="Words, as they stand inside a sentence.")] = None,
    every: Annotated[bool, Option("--all", help="Every token of the vocabulary; give -o.")] = False,
    sense: Annotated[int | None, Option(help="This sense only.")] = None,
    top: Top = 8,
    contexts: Annotated[int, Option(help="How many places to show where a sense is used most.", min=0)] = 0,
    out: Annotated[Path | None, Option("-o", "--out", help="A .jsonl file: a line for each word.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what each sense of a word promotes and suppresses, and how much it is used."""
    from satchel import api
    from satchel.errors import SettingsError

    if bool(words) == every:
        raise SettingsError("found no word, or words and --all", "give words, or --all with -o FILE.jsonl")
    if every and out is None and not as_json:
        raise SettingsError("--all is too much for a terminal", "give -o senses.jsonl, or --json")
    if out is not None and out.suffix != ".jsonl":
        raise SettingsError(f"found the ending {out.suffix!r}", "expected .jsonl", where=str(out))
    model = api.load_model(run)
    _check_sense(sense, model.reader.backpack.settings.senses)
    found = model.all_senses(top) if every else (model.senses(word, top, contexts) for word in words or [])
    if out is not None:
        from satchel.text import answers

        with Progress() as progress:
            count = answers.write_rows(out, (_senses_json(each, sense) for each in _counted(found, progress)))
        say(f"wrote {out}: {count:,} words")
        return
    with Progress() as progress:
        listed = list(_counted(found, progress))
    if as_json:
        emit_json({"words": [_senses_json(each, sense) for each in listed]})
        return
    for each in listed:
        show_senses(each, sense)


def _counted(found: "Iterable[WordSenses]", progress: Progress) -> "Iterator[WordSenses]":
    """Return words as they come, and say how many there are so far."""
    for number, each in enumerate(found, start=1):
        progress(f"{number:,} words", None)
        yield each


def _check_sense(sense: int | None, senses: int) -> None:
    from satchel.errors import SettingsError

    if sense is not None and not 0 <= sense < senses:
        raise SettingsError(f"--sense {sense}: there is no such sense", f"words have {senses}: 0 to {senses - 1}")


def _senses_json(found: "WordSenses", sense: int | None) -> dict[str, Any]:
    listed = [asdict(each) for each in found.senses if sense is None or each.sense == sense]
    for each in listed:
        for key in ("promotes", "suppresses"):
            each[key] = [{"word": word, "score": round(score, 6)} for word, score in each[key]]
    return {"word": found.word, "tokens": list(found.tokens), "senses": listed}


def show_senses(found: "WordSenses", sense: int | None = None) -> None:
    """Print the senses of a word, or one of them."""
    from satchel.text.display import visible

    several = f" ({len(found.tokens)} tokens: {_joined(found.tokens)})" if len(found.tokens) > 1 else ""
    print(f"{visible(found.word)}{several}")
    shown = [each for each in found.senses if sense is None or each.sense == sense]
    # What is used most comes first.
    shown.sort(key=lambda each: -(each.share or 0.0))
    print_table(
        ["sense", "share", "promotes", "suppresses", ""],
        [
            [
                each.sense,
                "-" if each.share is None else f"{each.share:.1%}",
                _joined([word for word, _ in each.promotes]),
                _joined([word for word, _ in each.suppresses]),
                _remark(each, len(found.senses)),
            ]
            for each in shown
        ],
        right=(0, 1),
    )
    for each in shown:
        for context in each.contexts:
            before, word, after = (visible(part) for part in (context.before, context.word, context.after))
            print(f"  {each.sense:>3}  ...{before}[{word}]{after}...")
    if all(each.share is None for each in shown):
        say(f"{visible(found.word)} was not found in the part of the training text that was looked at")


def _remark(sense: "Sense", senses: int) -> str:
    if sense.same_as is not None:
        return f"same as {sense.same_as}"
    return "hardly used" if sense.is_hardly_used(senses) else ""


def _joined(words: Sequence[str]) -> str:
    from satchel.text.display import visible

    return " ".join(visible(word.strip(" ") or word, spaces=True) for word in words)


# --- similar ---------------------------------------------------------------------------------------


def similar(
    run: Run,
    word: Annotated[str, Argument(help="A word, as it stands inside a sentence.")],
    other: Annotated[str | None, Argument(help="Another word: how alike they are.")] = None,
    context: Annotated[
        list[str] | None, Option(help="A sentence with the word: how alike it is to itself in several of them.")
    ] = None,
    layer: Annotated[int | None, Option(help="With --context: a layer; 0 is the word itself. Else the last.")] = None,
    by: Annotated[
        str | None, Option(help="sense or embedding; without it, a Backpack's words are compared by sense.")
    ] = None,
    top: Top = 8,
    as_json: AsJson = False,
) -> None:
    """Show the words most like a word, by its vector, by sense or in context; or how alike two words are."""
    from satchel import api
    from satchel.cli import probe
    from satchel.errors import SettingsError
    from satchel.text.display import visible

    if by not in (None, "sense", "embedding"):
        raise SettingsError(f"--by {by}: found no such way to compare words", "expected sense or embedding")
    if context and (other is not None or by is not None):
        raise SettingsError("--context compares a word with itself", "leave the other word and --by out")
    if layer is not None and not context:
        raise SettingsError("--layer is for words in context", "give --context 'A sentence with the word'")
    model = api.load_model(run)
    if context:
        with Progress() as progress:
            progress("reading", None)
            there = model.vectors.in_context(word, context, layer, top)
        probe.show_in_context(there, as_json)
        return
    if by == "embedding" or (by is None and not model.compares_senses):
        probe.show_similar(model.vectors, word, other, top, as_json)
        return
    if other is not None:
        found = model.reader.alike(word, other)
        if as_json:
            emit_json(asdict(found))
            return
        print_table(
            ["sense", "alike"], [[number, f"{alike:.3f}"] for number, alike in enumerate(found.by_sense)], right=(0, 1)
        )
        print_pairs(
            [
                ("least alike sense", f"{found.least:.3f}"),
                ("all senses joined", f"{found.joined:.3f}"),
                ("any two senses", f"{found.any_pair:.3f}"),
            ]
        )
        return
    near = model.reader.near(word, top)
    if as_json:
        listed = [
            {"sense": each.sense, "words": [{"word": text, "alike": alike} for text, alike in each.words]}
            for each in near
        ]
        emit_json({"word": word, "senses": listed})
        return
    print_table(
        ["sense", "most alike"],
        [
            [each.sense, "  ".join(f"{visible(text.strip(' ') or text)} {alike:.2f}" for text, alike in each.words)]
            for each in near
        ],
        right=(0,),
    )


def show_agreement(model: Any, path: str, as_json: bool) -> None:
    """Print how well the likeness of words agrees with what people say of them."""
    from satchel.text.display import visible

    with Progress() as progress:
        progress("comparing words", None)
        found = model.reader.agreement(path)
    if as_json:
        emit_json({"similarity": [asdict(each) for each in found]})
        return
    rows = []
    for each in found:
        by_sense = {way: value for way, value in each.correlations.items() if way.startswith("sense ")}
        best = max(by_sense, key=lambda way: by_sense[way], default=None)
        ways = [f"{each.correlations[way]:.3f}" if way in each.correlations else "-" for way in WAYS]
        one = "-" if best is None else f"{by_sense[best]:.3f} ({best})"
        rows.append([visible(each.name), f"{each.pairs:,}", f"{each.covered:,}", *ways, one])
    print_table(
        ["pairs of", "pairs", "covered", "joined", "least", "any pair", "best single sense"],
        rows,
        right=(1, 2, 3, 4, 5),
    )
    say("rank correlation (Spearman) of how alike words are with how alike people find them")


WAYS = ("joined", "least", "any pair")
