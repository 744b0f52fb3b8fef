"""`satchel senses`, `similar` and `look`: what a model knows and what it did."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from satchel.cli import views
from satchel.cli.answers import AsJson, Run
from satchel.cli.output import Progress, emit_json, print_pairs, print_table, say, text_argument

if TYPE_CHECKING:
    from satchel.api.senses import Explanation, Sense, WordSenses
    from satchel.looking.totals import Total

# What can be looked at, and the options that belong to each.
VIEWS = {
    "attention": ("--target", "--source", "--layer", "--head"),
    "surprise": ("--target", "--source"),
    "order": (),
    "lens": (),
    "senses": (),
    "contributions": ("--target", "--versus", "--data"),
    "attribution": ("--target", "--versus", "--method"),
    "alignment": ("--target", "--source", "--layer", "--head"),
    "embeddings": ("--sense",),
    "patterns": ("--target", "--data", "--layer", "--pattern"),
    "ablation": ("--data",),
    "training": (),
}
# On a terminal; files and JSON have all.
MOST_ROWS = 20
# A word that adds less than this share of what another adds is not tinted.
FAINTEST = 0.1

Top = Annotated[int, Option(help="How many words to show of each list.", min=1)]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(senses)
    app.command()(similar)
    app.command()(look)
    app.command()(report)


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
    from satchel.cli import probing
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
        probing.show_in_context(there, as_json)
        return
    if by == "embedding" or (by is None and not model.compares_senses):
        probing.show_similar(model.vectors, word, other, top, as_json)
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


# --- look ------------------------------------------------------------------------------------------


def look(
    view: Annotated[str, Argument(help=f"What to look at: {', '.join(VIEWS)}.")],
    run: Run,
    text: Annotated[str | None, Argument(help="The text in quotes, or - for standard input.")] = None,
    target: Annotated[str | None, Option(help="The word, label or translation that is explained.")] = None,
    versus: Annotated[str | None, Option(help="Explain the target's lead over this word.")] = None,
    source: Annotated[str | None, Option(help="Of a translator: the source; then TEXT is its translation.")] = None,
    layer: Annotated[int | None, Option(help="One layer, from 0; else all, or their mean.")] = None,
    head: Annotated[int | None, Option(help="One head, from 0; else all, or their mean.")] = None,
    form: Annotated[str, Option(help="Of attention: matrix, lines or grid.")] = "matrix",
    which: Annotated[str, Option(help="Of a translator's attention: own, source or cross.")] = "own",
    method: Annotated[str | None, Option(help="Of attribution: occlusion, gradient, integrated, exact.")] = None,
    sense: Annotated[int | None, Option(help="Of embeddings: the words by this sense.")] = None,
    pattern: Annotated[str | None, Option(help="Of patterns: same,previous,first,subject,...; else the usual.")] = None,
    top: Annotated[int, Option(help="Of embeddings: how many of the most frequent words.", min=1)] = 200,
    data: Annotated[str | None, Option(help="A file to look at instead of a text.")] = None,
    by: Annotated[str, Option(help="Contributions in a file by word, sense, position, or several.")] = "word,sense",
    start: Annotated[int, Option(help="Of a long text: the first token that is read.", min=0)] = 0,
    out: Annotated[Path | None, Option("-o", "--out", help="Draw it: .svg, .png, .pdf, .html or .json.")] = None,
    theme: Annotated[str, Option(help="Of a picture: light, dark or slides.")] = "light",
    width: Annotated[str | None, Option(help="Of a picture: 3.3in, 12cm, 600px.")] = None,
    as_json: AsJson = False,
) -> None:
    """Look inside: what a model attended to, what surprised it, what moved it; as text, numbers or a picture."""
    from satchel.errors import SettingsError

    if view not in VIEWS:
        raise SettingsError(f"found no view named {view}", f"there is {', '.join(VIEWS)}")
    given = {"--target": target, "--versus": versus, "--source": source, "--layer": layer, "--head": head,
             "--method": method, "--sense": sense, "--pattern": pattern, "--data": data}  # fmt: skip
    unfit = [name for name, value in given.items() if value is not None and name not in VIEWS[view]]
    if unfit:
        fitting = ", ".join(VIEWS[view]) or "none of its own"
        raise SettingsError(f"{unfit[0]} is not for {view}", f"its options are: {fitting}")
    if source is not None:
        text, target = source, text_argument(text)
    asked = views.Asked(
        run, text, target, versus, layer, head, form, which, method, start, data, by, top, sense, pattern, out, theme,
        width, as_json,
    )  # fmt: skip
    show: Callable[[views.Asked], None] = {
        "attention": views.attention,
        "surprise": views.surprise,
        "order": views.order,
        "lens": views.lens,
        "attribution": views.attribution,
        "embeddings": views.embeddings,
        "patterns": views.patterns,
        "ablation": views.ablation,
        "training": views.training,
        "alignment": _alignment,
        "senses": _weights,
        "contributions": _contributions,
    }[view]
    show(asked)


def report(
    run: Run,
    out: Annotated[Path, Option("-o", "--out", help="The .html file to write.")] = Path("report.html"),
) -> None:
    """Write what a run is, how it went, what it writes and what is inside as one page that needs no network."""
    from satchel import api
    from satchel.api.reporting import write_report

    with Progress() as progress:
        path = write_report(api.load_model(run), out, progress)
    say(f"wrote {path} ({path.stat().st_size:,} bytes)")


def _alignment(asked: "views.Asked") -> None:
    from satchel.cli import translating

    translating.look_alignment(asked)


def _contributions(asked: "views.Asked") -> None:
    """Show which sense of which word moved a prediction; or, over a file, which move most."""
    from satchel import api
    from satchel.errors import SettingsError

    if asked.data is not None:
        if asked.text is not None:
            raise SettingsError("--data is instead of a text", "give one of them")
        with Progress() as progress:
            reader = asked.model().reader
            totals = reader.totals(asked.data, asked.by.split(","), asked.target, asked.versus, progress)
        _show_totals(totals, asked.out, asked.as_json)
        return
    model = asked.model()
    content = asked.content()
    if isinstance(model, api.LanguageModel):
        explained = model.contributions(content, asked.target, asked.versus)
    elif isinstance(model, api.Classifier):
        explained = _of_label(model, content, asked.target, asked.versus)
    elif isinstance(model, api.Translator):
        raise SettingsError("a translator's contributions are an alignment", "give `satchel look alignment`")
    else:
        raise SettingsError("a tagger's contributions are not shown here", "they are in satchel.looking.contributions")
    title = f"What adds to the score of {_explained(explained)}"
    views.tell(
        asked,
        picture=lambda: _charts().by_word_and_sense(explained.words, explained.values, title),
        document=lambda: explanation_json(explained),
        draw=lambda: show_explanation(explained),
    )


def _charts() -> Any:
    from satchel.looking import charts

    return charts


def _of_label(model: Any, text: str, target: str | None, versus: str | None) -> "Explanation":
    """Return what adds to the score of a label, or of the likeliest one."""
    from satchel.api.senses import lead
    from satchel.errors import SettingsError

    for label in (target, versus):
        if label is not None and label not in model.labels:
            raise SettingsError(f"found no label {label}", f"there is {', '.join(model.labels)}")
    found = model.contributions(text)
    first = max(found, key=lambda each: each.logit) if target is None else found[model.labels.index(target)]
    return first if versus is None else lead(first, found[model.labels.index(versus)])


def _explained(found: "Explanation") -> str:
    from satchel.text.display import visible

    other = f" rather than {visible(found.versus, spaces=True)}" if found.versus is not None else ""
    return visible(found.target, spaces=True) + other


def show_explanation(found: "Explanation") -> None:
    """Print what adds to a score: the words, tinted, and the senses that add or take away most."""
    for note in found.notes:
        say(note)
    print(f"{_explained(found)}: {found.logit:.4f}, the sum of")
    show_words(found.words, found.values.sum(axis=1))
    print()
    print_table(["word", "sense", "adds"], _largest(found), right=(1, 2))
    rest = found.values.size - MOST_ROWS
    if rest > 0:
        say(f"and {rest:,} smaller ones (--json shows all)")


def explanation_json(found: "Explanation") -> dict[str, Any]:
    """Return the keys of `look contributions --json`."""
    return {
        "words": list(found.words),
        "target": found.target,
        "versus": found.versus,
        "values": found.values.tolist(),
        "centred": found.centred.tolist(),
        "bias": found.bias,
        "constant": found.constant,
        "logit": found.logit,
        "notes": list(found.notes),
    }


def _largest(found: "Explanation") -> list[list[str]]:
    """Return the rows of the senses that add or take away most."""
    import numpy as np

    from satchel.text.display import visible

    order = np.argsort(-np.abs(found.values), axis=None, kind="stable")[:MOST_ROWS]
    rows = []
    for word, sense in zip(*np.unravel_index(order, found.values.shape), strict=True):
        rows.append([visible(found.words[word], spaces=True), str(sense), f"{found.values[word, sense]:+.4f}"])
    return rows


def show_words(words: Sequence[str], values: Any) -> None:
    """Print words one after the other, each as strongly tinted as what it adds; orange takes away."""
    from rich.console import Console
    from rich.text import Text

    from satchel.text.display import visible

    largest = max((abs(float(value)) for value in values), default=0.0) or 1.0
    line, before = Text(), ""
    for word, value in zip(words, values, strict=True):
        # Where a tokenizer drops the spaces, two words would run together.
        line.append(" " if before[-1:].isalnum() and word[:1].isalnum() else "")
        strength = abs(float(value)) / largest
        line.append(visible(word), style=_tint(float(value), strength) if strength > FAINTEST else "")
        before = word
    Console(highlight=False).print(line)


def _tint(value: float, strength: float) -> str:
    """Return a background: blue adds, orange takes away."""
    pale = [round(255 - strength * (255 - part)) for part in ((0, 114, 178) if value > 0 else (213, 94, 0))]
    ink = "black" if strength < 0.7 else "white"
    return f"{ink} on #{''.join(f'{part:02x}' for part in pale)}"


def _weights(asked: "views.Asked") -> None:
    """Show how much each sense of each word counts at the end of a text."""
    from satchel.text.display import visible

    words, weights = asked.model().reader.weights(asked.content())

    def draw() -> None:
        print_table(
            ["word", *(str(sense) for sense in range(weights.shape[1]))],
            [
                [visible(word, spaces=True), *(f"{weight:.2f}" for weight in row)]
                for word, row in zip(words, weights, strict=True)
            ],
            right=range(1, 1 + weights.shape[1]),
        )

    views.tell(
        asked,
        picture=lambda: _charts().sense_bars(words, weights),
        document=lambda: {"words": list(words), "weights": weights.tolist()},
        draw=draw,
    )


def _show_totals(found: "list[Total]", out: Path | None, as_json: bool) -> None:
    from satchel.text.display import visible

    keys = list(found[0].key) if found else []
    if out is not None:
        from satchel.text import answers

        rows = [{**each.key, "total": each.total, "times": each.times, "mean": each.mean} for each in found]
        say(f"wrote {out}: {answers.write_rows(out, rows):,} rows")
        return
    if as_json:
        emit_json({"totals": [{**each.key, "total": each.total, "times": each.times} for each in found]})
        return
    for label in dict.fromkeys(each.key.get("label") for each in found):
        own = [each for each in found if each.key.get("label") == label]
        if label is not None:
            print(f"{visible(label)}:")
        shown = own if len(own) <= 2 * MOST_ROWS else [*own[:MOST_ROWS], *own[-MOST_ROWS:]]
        names = [key for key in keys if key != "label"]
        print_table(
            [*names, "adds in all", "times", "each time"],
            [
                [
                    *(visible(str(each.key[name])) for name in names),
                    f"{each.total:+.2f}",
                    f"{each.times:,}",
                    f"{each.mean:+.4f}",
                ]
                for each in shown
            ],
            right=range(len(names), len(names) + 3),
        )
        if len(own) > len(shown):
            say(f"the largest and the smallest {MOST_ROWS} of {len(own):,} (--json shows all)")
