"""`satchel look contributions`, `attribution` and `senses`: parts of a score by word, sense and method."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from typer import Option

from satchel.charts import terminal
from satchel.cli.look.options import Start
from satchel.cli.options import Raw, Run, Text, check_choice, read_text
from satchel.cli.output import TEXT, TOKEN, Progress, message, print, print_drawing, print_table
from satchel.cli.result import View, view
from satchel.errors import SettingsError
from satchel.text.display import role_of, visible, with_roles

if TYPE_CHECKING:
    from satchel.inspection.aggregate import Total, TotalList
    from satchel.inspection.contributions import Contributions

Target = Annotated[
    str | None,
    Option(
        help="Next token, label, or word index and tag (3:NOUN) of the explained logit; default: the most probable. "
        "A next token is a word (with the space before it), the text of a token, its displayed form "
        "(\\n, ␣the, \\xe2, <end>) or id:N."
    ),
]
Versus = Annotated[str | None, Option(help="Explain the logit of the target minus the logit of this one.")]
# Maximum number of rows printed at each end of a sorted table; files and JSON contain all of them.
MAX_ROWS = 20


@view
def contributions(
    run: Run,
    text: Text = None,
    target: Target = None,
    versus: Versus = None,
    data: Annotated[
        str | None, Option(help="File instead of TEXT: sum the contributions over all of its texts.")
    ] = None,
    by: Annotated[
        str, Option(help="With --data, group the sums by word, sense, position, or several separated by commas.")
    ] = "word,sense",
    tokens: Annotated[
        int, Option(help="With --data, the maximum number of tokens of the file that are used, a random sample.", min=1)
    ] = 20_000,
    start: Start = None,
    raw: Raw = False,
) -> View:
    """Print or draw the contribution of each sense of each word to a logit of a Backpack.

    Contributions are centred: the mean output vector of all classes and the mean sense vector of all tokens are
    subtracted. With the bias they sum exactly to the logit. With --data, -o writes a table (.csv, .tsv, .jsonl).
    """
    from satchel import api
    from satchel.inspection.contributions import contributions as explain

    model = api.load(run)
    if data is not None:
        if text is not None:
            raise SettingsError("TEXT and --data exclude each other", "give one of them")
        with Progress() as progress:
            totals = model.contribution_totals(data, by.split(","), target, versus, progress, raw=raw, tokens=tokens)
        message(*totals.notes)
        return _totals_view(totals)
    if model.settings.task == "translate":
        raise SettingsError("contributions of a translator are an alignment", "use `satchel look alignment`")
    result = explain(model, read_text(text), target, versus, start)
    return View(lambda: result.picture(raw=raw), result.document, lambda: show_contributions(result, raw))


def show_contributions(result: "Contributions", raw: bool = False) -> None:
    """Print the logit, the words coloured by their contributions, and the largest contributions of senses."""
    shown = result.decomposition(raw=raw)
    message(*result.notes)
    print(f"{result.title}: {result.logit:.4f}")
    print_drawing(terminal.tinted_text(result.words, shown.values.sum(axis=1)))
    print()
    rows: list[Sequence[object]] = [(visible(word, spaces=True), *place) for word, *place in shown.largest(MAX_ROWS)]
    rows.append([f"({shown.bias_name})", None, None, shown.bias])
    print_table({"word": TEXT, "position": "d", "sense": "d", "contribution": "+.4f"}, rows)
    if shown.values.size > MAX_ROWS:
        message(f"{shown.values.size - MAX_ROWS:,} smaller contributions (--json prints all)")
    message(shown.summary)


# --- sums over a file --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TotalsTable:
    """Sums over a file, saved as a table instead of a figure."""

    totals: "list[Total]"

    def save(self, path: Path, theme: str, width: str | None) -> None:
        """Write one row for each group."""
        from satchel.text import row_files

        rows = ({**each.key, "total": each.total, "times": each.times, "mean": each.mean} for each in self.totals)
        row_files.write_rows(path, rows)


def _totals_view(totals: "TotalList") -> View:
    def document() -> dict[str, Any]:
        rows = [{**each.key, **_role(each), "total": each.total, "times": each.times} for each in totals]
        return {"totals": rows, "tokens": totals.tokens, "total_tokens": totals.total_tokens}

    return View(lambda: _TotalsTable(totals), document, lambda: _show_totals(totals))


def _role(total: "Total") -> dict[str, Any]:
    return {"role": role_of(total.key["word"])} if "word" in total.key else {}


def _show_totals(totals: "list[Total]") -> None:
    """Print the largest and smallest sums; for classifiers a table for each label."""
    names = [name for name in (totals[0].key if totals else ()) if name != "label"]
    for label in dict.fromkeys(each.key.get("label") for each in totals):
        group = [each for each in totals if each.key.get("label") == label]
        shown = group if len(group) <= 2 * MAX_ROWS else [*group[:MAX_ROWS], *group[-MAX_ROWS:]]
        if label is not None:
            print(f"{visible(label)}:")
        print_table(
            {**dict.fromkeys(names, TEXT), "total contribution": "+.2f", "occurrences": ",", "mean": "+.4f"},
            [[*(each.key[name] for name in names), each.total, each.times, each.mean] for each in shown],
        )
        if len(group) > len(shown):
            message(f"the {MAX_ROWS} largest and smallest of {len(group):,} (--json prints all)")


# --- attribution ------------------------------------------------------------------------------------


@view
def attribution(
    run: Run,
    text: Text = None,
    target: Target = None,
    versus: Versus = None,
    method: Annotated[
        str | None, Option(help="occlusion, gradient, integrated, or for Backpacks exact; default: all.")
    ] = None,
    instead: Annotated[
        str, Option(help="Baseline that replaces a word: mean of all word vectors, or random words.")
    ] = "mean",
    start: Start = None,
    raw: Raw = False,
) -> View:
    """Print or draw the attribution of the logit of a token or label to the words of a text, by several methods."""
    from satchel import api
    from satchel.inspection.attribution import INSTEADS, Instead

    check_choice("--instead", instead, INSTEADS)
    options: dict[str, Any] = {"method": method, "instead": cast(Instead, instead), "start": start, "raw": raw}
    result = api.load(run).compare_attributions(read_text(text), target, versus, **options)

    def show() -> None:
        message(*result.notes)
        print(result.title)
        print_table({"word": TEXT, **dict.fromkeys(result.by_method, ">")}, [*result.rows(), *result.sums()])
        message(*result.checks())

    return View(result.picture, result.document, show)


# --- senses -----------------------------------------------------------------------------------------


@view
def senses(run: Run, text: Text = None, start: Start = None) -> View:
    """Print or draw the weight of each sense of each word in the prediction after the text (Backpacks)."""
    from satchel import api, charts

    words, weights_WN, window = api.load(run).sense_vectors.weights(read_text(text), start)
    message(*window.notes)
    columns = [("word", TOKEN), *((f"sense {sense}", ".2f") for sense in range(weights_WN.shape[1]))]
    return View(
        lambda: charts.sense_weights(words, weights_WN).with_notes(window.notes),
        lambda: with_roles({"words": list(words), "weights": weights_WN.tolist(), "window": window.document()}),
        lambda: print_table(columns, [[word, *row] for word, row in zip(words, weights_WN, strict=True)]),
    )
