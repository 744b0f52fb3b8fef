"""What `satchel look` shows of Backpacks: which sense of which word moved a prediction, and how much senses count."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from satchel.charts import terminal
from satchel.cli.look.views import Asked, tell
from satchel.cli.output import Progress, emit_json, print_drawing, print_table, say

if TYPE_CHECKING:
    from satchel.api.senses import Explanation
    from satchel.inspection.aggregate import Total

# On a terminal; files and JSON have all.
MOST_ROWS = 20


def contributions(asked: "Asked") -> None:
    """Show which sense of which word moved a prediction; or, over a file, which move most."""
    from satchel import api, charts
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
        raise SettingsError("a tagger's contributions are not shown here", "see satchel.inspection.contributions")
    title = f"What adds to the score of {_explained(explained)}"
    tell(
        asked,
        picture=lambda: charts.by_word_and_sense(explained.words, explained.values, title),
        document=lambda: explanation_json(explained),
        draw=lambda: show_explanation(explained),
    )


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
    print_drawing(terminal.tinted_text(found.words, found.values.sum(axis=1)))
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


def weights(asked: "Asked") -> None:
    """Show how much each sense of each word counts at the end of a text."""
    from satchel import charts
    from satchel.text.display import visible

    words, counts = asked.model().reader.weights(asked.content())

    def draw() -> None:
        print_table(
            ["word", *(str(sense) for sense in range(counts.shape[1]))],
            [
                [visible(word, spaces=True), *(f"{weight:.2f}" for weight in row)]
                for word, row in zip(words, counts, strict=True)
            ],
            right=range(1, 1 + counts.shape[1]),
        )

    tell(
        asked,
        picture=lambda: charts.sense_bars(words, counts),
        document=lambda: {"words": list(words), "weights": counts.tolist()},
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
