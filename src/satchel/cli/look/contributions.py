"""`satchel look contributions`: exact contributions of senses to a score of a Backpack."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from satchel.charts import terminal
from satchel.cli.options import Run, Text, read_text
from satchel.cli.output import TEXT, TOKEN, Progress, message, print_drawing, print_table
from satchel.cli.result import View, view
from satchel.errors import SettingsError
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.inspection.aggregate import Total
    from satchel.inspection.contributions import Contributions

# Maximum number of rows printed at each end of a sorted table; files and JSON contain all of them.
MAX_ROWS = 20


@view
def contributions(
    run: Run,
    text: Text = None,
    target: Annotated[
        str | None,
        Option(help="Next token, label, or word index and tag (3:NOUN) of the logit; default: the most probable."),
    ] = None,
    versus: Annotated[str | None, Option(help="Explain the logit of the target minus the logit of this one.")] = None,
    data: Annotated[
        str | None, Option(help="File instead of TEXT: sum the contributions over all of its texts.")
    ] = None,
    by: Annotated[
        str, Option(help="With --data, group the sums by word, sense, position, or several separated by commas.")
    ] = "word,sense",
) -> View:
    """Print or draw the contribution of each sense of each word to a logit of a Backpack; they sum exactly to it.

    With --data, -o writes a table (.csv, .tsv, .jsonl).
    """
    from satchel import api
    from satchel.inspection.contributions import contributions as explain

    model = api.load(run)
    if data is not None:
        if text is not None:
            raise SettingsError("TEXT and --data exclude each other", "give one of them")
        with Progress() as progress:
            totals = model.contribution_totals(data, by.split(","), target, versus, progress)
        return _totals_view(totals)
    if model.settings.task == "translate":
        raise SettingsError("contributions of a translator are an alignment", "use `satchel look alignment`")
    result = explain(model, read_text(text), target, versus)
    return View(result.picture, result.document, lambda: show_contributions(result))


def show_contributions(result: "Contributions") -> None:
    """Print the logit, the words coloured by their contributions, and the largest contributions of senses."""
    for note in result.notes:
        message(note)
    print(f"{result.title}: {result.logit:.4f}, the sum of the contributions and the bias {result.constant:+.4f}")
    print_drawing(terminal.tinted_text(result.words, result.values.sum(axis=1)))
    print()
    print_table({"word": TOKEN, "sense": "d", "contribution": "+.4f"}, result.largest(MAX_ROWS))
    if result.values.size > MAX_ROWS:
        message(f"{result.values.size - MAX_ROWS:,} smaller contributions (--json prints all)")


# --- sums over a file --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TotalsTable:
    """Sums over a file, saved as a table instead of a figure."""

    totals: "list[Total]"

    def save(self, path: Path, theme: str, width: str | None) -> None:
        """Write one row for each group."""
        from satchel.text import row_files

        del theme, width
        rows = ({**each.key, "total": each.total, "times": each.times, "mean": each.mean} for each in self.totals)
        row_files.write_rows(path, rows)


def _totals_view(totals: "list[Total]") -> View:
    return View(
        lambda: _TotalsTable(totals),
        lambda: {"totals": [{**each.key, "total": each.total, "times": each.times} for each in totals]},
        lambda: _show_totals(totals),
    )


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
