"""`satchel probe`, and what `similar` says of vectors: what a network knows of words, layer by layer."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from satchel.cli.evaluate import AsJson, Run
from satchel.cli.options import Columns, Delimiter, Encoding, TagsColumn, TextColumn, reading
from satchel.cli.output import Progress, emit_json, print_pairs, print_table, say

if TYPE_CHECKING:
    from satchel.api.probing import Probed
    from satchel.api.representations import InContext, VectorReader


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(probe)


# --- probe -------------------------------------------------------------------------------------------


def probe(
    run: Run,
    table: Annotated[str, Argument(metavar="TABLE", help="A .tsv, .csv or .jsonl with texts and tags; or @polysemy.")],
    leave_out: Annotated[
        list[str] | None, Option(metavar="TAG", help="Words with this tag are not asked about.")
    ] = None,
    seed: Annotated[int, Option(help="Which rows are held out, and the tags of the control.")] = 0,
    encoding: Encoding = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    text_column: TextColumn = None,
    tags_column: TagsColumn = None,
    as_json: AsJson = False,
) -> None:
    """Say how well a linear map reads tags off each layer, beside what counting finds and what is learned by heart."""
    from satchel import api

    changes = reading(columns, delimiter, encoding=encoding, text_column=text_column, tags_column=tags_column)
    with Progress() as progress:
        found = api.load_model(run).probe(
            table, leave_out=leave_out or (), reading=changes, seed=seed, progress=progress
        )
    if as_json:
        emit_json(probe_json(found))
    else:
        show_probe(found)


def probe_json(found: "Probed") -> dict[str, Any]:
    """Return the keys of `probe --json`."""
    return {
        "data": found.data,
        "unit": found.unit,
        "tags": list(found.tags),
        "words": {"fitted": found.words[0], "held_out": found.words[1]},
        "rows": {"fitted": found.rows[0], "held_out": found.rows[1]},
        "majority": found.baselines.majority,
        "by_word": found.baselines.by_word,
        "layers": [
            {
                "layer": each.layer,
                "site": each.site,
                "accuracy": each.accuracy,
                "control": each.control,
                "selectivity": each.selectivity,
            }
            for each in found.layers
        ],
        "notes": list(found.notes),
    }


def show_probe(found: "Probed") -> None:
    """Print what can be read off each layer."""
    for note in found.notes:
        say(note)
    print_pairs(
        [
            ("held out", f"{found.words[1]:,} {found.unit}s of {found.rows[1]:,} rows, {len(found.tags):,} tags"),
            ("fitted to", f"{found.words[0]:,} {found.unit}s of {found.rows[0]:,} rows"),
            ("the tag most have", f"{found.baselines.majority:.1%}"),
            ("the tag each mostly has", f"{found.baselines.by_word:.1%}"),
        ]
    )
    print()
    print_table(
        ["layer", "site", "accuracy", "control", "selectivity"],
        [
            [each.layer, each.site, f"{each.accuracy:.1%}", f"{each.control:.1%}", f"{each.selectivity:+.1%}"]
            for each in found.layers
        ],
        right=(0, 2, 3, 4),
    )
    say("layer 0 are the words themselves; the control's tags belong to words by chance and are learned by heart")


# --- similar -----------------------------------------------------------------------------------------


def show_similar(vectors: "VectorReader", word: str, other: str | None, top: int, as_json: bool) -> None:
    """Print the words most like a word by their vectors, or how alike two are."""
    from satchel.text.display import visible

    if other is not None:
        alike = vectors.alike(word, other)
        if as_json:
            emit_json({"first": word, "second": other, "alike": alike})
        else:
            print_pairs([(f"{visible(word)} and {visible(other)}", f"{alike:.3f}")])
        return
    words = vectors.near(word, top).words
    if as_json:
        emit_json({"word": word, "words": [{"word": text, "alike": alike} for text, alike in words]})
        return
    print_table(
        ["most alike", ""], [[visible(text.strip(" ") or text), f"{alike:.3f}"] for text, alike in words], right=(1,)
    )


def show_in_context(found: "InContext", as_json: bool) -> None:
    """Print how alike a word is to itself at every layer, and what is most like it at one."""
    from satchel.api.representations import told
    from satchel.text.display import visible

    if as_json:
        emit_json(in_context_json(found))
        return
    for note in found.notes:
        say(note)
    for number, each in enumerate(found.occurrences, start=1):
        print(f"{number}  {visible(told(each.context))}")
    pairs = [(a, b) for a in range(len(found.occurrences)) for b in range(a + 1, len(found.occurrences))]
    if pairs:
        print()
        print_table(
            ["layer", "site", *(f"{a + 1} and {b + 1}" for a, b in pairs)],
            [
                [layer, site, *(f"{found.alike[layer, a, b]:.3f}" for a, b in pairs)]
                for layer, site in enumerate(found.sites)
            ],
            right=(0, *range(2, 2 + len(pairs))),
        )
    for number, each in enumerate(found.occurrences, start=1):
        print(f"\nmost like {number} at {found.sites[found.layer]}")
        print_table(
            ["alike", "in the training text"],
            [[f"{one.alike:.3f}", visible(told(one.context))] for one in each.near],
            right=(0,),
        )


def in_context_json(found: "InContext") -> dict[str, Any]:
    """Return the keys of `similar --context --json`."""
    from dataclasses import asdict

    return {
        "word": found.word,
        "layer": found.layer,
        "layers": [
            {"layer": layer, "site": site, "alike": found.alike[layer].tolist()}
            for layer, site in enumerate(found.sites)
        ],
        "contexts": [
            {
                **asdict(each.context),
                "near": [{**asdict(one.context), "alike": one.alike} for one in each.near],
            }
            for each in found.occurrences
        ],
        "notes": list(found.notes),
    }
