"""`satchel evaluate`: measure a model on held-out data."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from satchel.cli.metrics import QUALITY, quality_cells, show_metrics
from satchel.cli.options import EVALUATION, PrecisionOption, Run, reads_files, use_precision
from satchel.cli.output import TEXT, Progress, message, print_table
from satchel.cli.result import Result, reports
from satchel.errors import SettingsError
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.api.classification import LabelledPredictions
    from satchel.api.model import Model

# Measures of word similarity beside the single senses, by the heading of their column.
SIMILARITY_MEASURES = {"concatenated": "joined", "minimum": "least", "maximum": "any pair"}


@reads_files(*EVALUATION)
@reports
def evaluate(
    run: Run,
    data: Annotated[
        str | None,
        Argument(metavar="DATA", help="File, folder, @NAME or - (standard input); default: the run's held-out data."),
    ] = None,
    by: Annotated[
        str | None,
        Option(
            help="Group the results. Language models: distance (accuracy on the last word of a document by distance "
            "to its previous occurrence). Translators: length of the source, or position in the target."
        ),
    ] = None,
    beam: Annotated[int | None, Option(help="Translators: beam size (default 4); 1 is greedy.")] = None,
    similarity: Annotated[
        str | None,
        Option(help="Backpacks: file or folder of word pairs with human similarity ratings (SimLex-999 format)."),
    ] = None,
    errors: Annotated[
        Path | None,
        Option(help="Classifiers, taggers: write wrong predictions, most confident first (.tsv, .csv, .jsonl)."),
    ] = None,
    precision: PrecisionOption = "float32",
    *,
    reading: dict[str, Any],
) -> Result:
    """Print perplexity and bits per byte; accuracy, F1 and calibration; or BLEU and chrF, depending on the task."""
    from satchel import api

    if similarity is not None and (data is not None or by is not None or errors is not None):
        raise SettingsError("--similarity cannot be combined with DATA, --by or --errors", "remove one of them")
    model: Any = api.load(run)
    use_precision(model, precision)
    if similarity is not None:
        return _similarity_result(model, similarity)
    options: dict[str, Any] = {"reading": reading}
    if beam is not None:
        _require("--beam", model, "translate")
        options["beam"] = beam
    if by is not None:
        return _group_result(model, data, by, options)
    with Progress() as progress:
        if errors is None:
            metrics = model.evaluate(data, progress=progress, **options)
        else:
            _require("--errors", model, "classify", "tag")
            predictions = model.labelled_predictions(data, progress=progress, **options)
            metrics = model.metrics(predictions)
            message(f"wrote {errors}: {_write_errors(errors, predictions):,} errors")
    if getattr(metrics, "looks_swapped", False):
        message("warning: source and target columns look swapped")
    return Result(lambda: model.metrics_document(metrics), lambda: show_metrics(model, metrics))


def _require(option: str, model: "Model", *tasks: str) -> None:
    """Raise an error if an option does not apply to the task of a model."""
    if model.settings.task not in tasks:
        raise SettingsError(
            f"{option} does not apply to the task {model.settings.task}",
            f"it is for runs with the task {' or '.join(tasks)}",
        )


def _group_result(model: "Model", data: str | None, by: str, options: dict[str, Any]) -> Result:
    """Return results by distance, source length or target position."""
    with Progress() as progress:
        breakdown = model.evaluate_by(by, data, progress=progress, **options)
    groups = breakdown.groups
    if by == "distance":
        columns = {"distance in words": ">", "documents": ",", "accuracy": ".1%", "nats per word": ".3f"}
        rows = [[f"{each.nearest} to {each.farthest}", each.documents, each.accuracy, each.nats] for each in groups]
    elif by == "length":
        columns = {"source length": TEXT, "sentences": ",", **QUALITY, "nats per token": ".3f"}
        rows = [[each.name, each.count, *quality_cells(each.quality), each.nats_per_token] for each in groups]
    else:
        columns = {"target position": TEXT, "tokens": ",", "nats per token": ".3f"}
        rows = [[each.name, each.count, each.nats_per_token] for each in groups]
    return Result(breakdown.document, lambda: print_table(columns, rows))


def _similarity_result(model: "Model", path: str) -> Result:
    """Return the Spearman correlations between the cosine similarities of words and human ratings."""
    with Progress() as progress:
        progress("comparing words", None)
        results = model.sense_vectors.agreement(path)
    rows: list[list[Any]] = []
    for each in results:
        size = [each.name, f"{each.covered:,} of {each.pairs:,}"]
        if not each.correlations:
            rows.append([*size, "-", None, None])
            continue
        for heading, name in SIMILARITY_MEASURES.items():
            low, high = each.intervals.get(name, (None, None))
            rows.append([*size, heading, each.correlations[name], _range(low, high)])
            size = ["", ""]
        if selected := each.selected:
            numbers = dict.fromkeys(name.removeprefix("sense ") for name in selected.senses)
            heading = f"single sense {', '.join(numbers)}"
            rows.append([*size, heading, selected.correlation, _range(selected.low, selected.high)])
        if each.chance is not None:
            rows.append([*size, "chance", 0.0, _range(-each.chance, each.chance)])

    def show() -> None:
        columns = {"data set": TEXT, "covered pairs": TEXT, "similarity": TEXT, "correlation": ".3f", "95 % CI": TEXT}
        print_table(columns, rows)
        message(
            "Spearman correlation of cosine similarity with human ratings, bootstrap intervals over pairs",
            "concatenated: all senses as one vector; minimum: over senses; maximum: over pairs of senses",
            "single: the best sense of one half of the pairs, measured on the other half, mean of both directions",
        )

    return Result(lambda: {"similarity": [asdict(each) for each in results]}, show)


def _range(low: float | None, high: float | None) -> str | None:
    return None if low is None or high is None else f"{low:.3f} to {high:.3f}"


def _write_errors(path: Path, predictions: "LabelledPredictions") -> int:
    """Write the wrong predictions to a table and return their number."""
    from satchel.text import row_files

    # A .tsv file has no quoting, so tabs and newlines are escaped.
    escape = visible if row_files.output_format(path) in ("tsv", "txt") else str
    columns = ["label", "predicted", "probability", "text"]
    rows = (
        dict(zip(columns, (escape(label), escape(predicted), round(probability, 6), escape(text)), strict=True))
        for label, predicted, probability, text in predictions.wrong()
    )
    return row_files.write_rows(path, rows, columns)
