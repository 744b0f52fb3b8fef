"""`satchel probe`: linear probes for tags at each layer."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from satchel.cli.options import Run, reads_files
from satchel.cli.output import TEXT, Progress, message, print, print_fields, print_table
from satchel.cli.result import Result, reports

if TYPE_CHECKING:
    from satchel.inspection.probing import ProbeResult


@reads_files("encoding", "columns", "delimiter", "text_column", "tags_column")
@reports
def probe(
    run: Run,
    table: Annotated[
        str, Argument(metavar="TABLE", help="Table of texts and tags (.tsv, .csv, .jsonl), or @polysemy.")
    ],
    leave_out: Annotated[
        list[str] | None, Option(metavar="TAG", help="Ignore words with this tag; repeatable.")
    ] = None,
    seed: Annotated[int, Option(help="Random seed of the held-out rows and of the control tags.")] = 0,
    *,
    reading: dict[str, Any],
) -> Result:
    """Print the accuracy of a linear probe for tags at each layer, with baselines and a control task (selectivity)."""
    from satchel import api

    with Progress() as progress:
        result = api.load(run).probe(table, leave_out=leave_out or (), reading=reading, seed=seed, progress=progress)
    return Result(result.document, lambda: _show(result))


def _show(result: "ProbeResult") -> None:
    message(*result.notes)
    (train_words, test_words), (train_rows, test_rows) = result.words, result.rows
    print_fields(
        [
            ("training data", f"{train_words:,} {result.unit}s in {train_rows:,} rows"),
            ("held-out data", f"{test_words:,} {result.unit}s in {test_rows:,} rows, {len(result.tags):,} tags"),
            ("majority-tag baseline", f"{result.baselines.majority:.1%}"),
            (f"most frequent tag of each {result.unit}", f"{result.baselines.by_word:.1%}"),
        ]
    )
    print()
    print_table(
        {"layer": "d", "site": TEXT, "accuracy": ".1%", "control": ".1%", "selectivity": "+.1%"},
        [[each.layer, each.site, each.accuracy, each.control, each.selectivity] for each in result.layers],
    )
    message("layer 0 is the embedding; control: accuracy on random tags by word; selectivity: accuracy minus control")
