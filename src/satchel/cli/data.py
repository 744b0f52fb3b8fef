"""`satchel data`: list built-in data sets, or check a data file."""

from typing import Annotated, Any

from typer import Argument, Option

from satchel.cli.options import READING, Assignments, reads_files
from satchel.cli.output import TEXT, Progress, print, print_fields, print_table
from satchel.cli.result import Result, reports
from satchel.text.display import visible


@reads_files(*(option for option in READING if option != "skip_unlabelled"))
@reports
def data(
    name: Annotated[
        str | None,
        Argument(metavar="DATA", help="File, folder, two aligned files (a,b), @NAME, or - (standard input)."),
    ] = None,
    valid: Annotated[str | None, Option(help="Validation file: count the lines or rows that are also in NAME.")] = None,
    settings: Assignments = None,
    *,
    reading: dict[str, Any],
) -> Result:
    """Print the built-in data sets; or counts, lengths, labels, empty, duplicate and conflicting rows of a file."""
    from satchel import config
    from satchel.datasets import report
    from satchel.datasets.corpora import open_corpus

    if name is None:
        return _list()
    tree = config.merge(config.parse_assignments(settings or []), {"data": reading})
    data_settings = config.build(report.ReportSettings, tree).data
    with Progress() as progress:
        corpus = open_corpus(name, data_settings)
        other = open_corpus(valid, data_settings) if valid is not None else None
        counts = report.describe(corpus, other, lambda stage: progress(stage, None))

    def show() -> None:
        print(f"{visible(name)}: data for the task {counts['task']}")
        labels = counts.pop("labels", {})
        print_fields((key.replace("_", " "), visible(number_text(counts[key]))) for key in counts if key != "task")
        if labels:
            print()
            total = sum(labels.values())
            rows = [[label, count, count / total] for label, count in labels.items()]
            print_table({"label": TEXT, "rows": ",", "share": ".1%"}, rows)

    return Result(lambda: counts, show)


def _list() -> Result:
    """Return the built-in data sets."""
    from satchel.datasets.registry import DATASETS

    rows = [{"name": each.name, "task": each.task, "title": each.description} for each in DATASETS.values()]
    columns = {"name": TEXT, "task": TEXT, "description": TEXT}
    return Result(lambda: {"data": rows}, lambda: print_table(columns, [list(row.values()) for row in rows]))


def number_text(value: Any) -> str:
    """Return a value of a JSON document as text, with thousands separators in numbers."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {number_text(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value)) or "-"
    return f"{value:,}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
