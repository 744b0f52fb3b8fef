"""`satchel classify` and `satchel tag`, and what `satchel evaluate` says of both."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from satchel.cli.evaluate import AsJson, Run
from satchel.cli.options import Columns, Delimiter, Encoding, TextColumn, reading
from satchel.cli.output import emit_json, print_pairs, print_table, say, text_argument
from satchel.cli.rows import answer_file, answer_stream

if TYPE_CHECKING:
    from satchel.api import Classifier, Prediction, Tagger, Tagging
    from satchel.api.classification import LabelledPredictions
    from satchel.evaluation.classification import ClassificationMetrics

# On a terminal; files and JSON have all.
MOST_LABELS = 10


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(classify)
    app.command()(tag)


Text = Annotated[str | None, Argument(help="The text in quotes, or - for standard input.")]
Source = Annotated[str | None, Option("--input", help="A .csv, .tsv, .jsonl or .txt file: every row is answered.")]
Out = Annotated[Path | None, Option("-o", "--out", help="Where the answered rows go.")]
Jsonl = Annotated[bool, Option("--jsonl", help="Answer each line of JSON on standard input as it comes.")]


def classify(
    run: Run,
    text: Text = None,
    source: Source = None,
    out: Out = None,
    jsonl: Jsonl = False,
    encoding: Encoding = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    text_column: TextColumn = None,
    as_json: AsJson = False,
) -> None:
    """Give the label of a text, or of every row of a file."""
    from satchel import api

    check_question(text, source, out, jsonl)
    changes = reading(columns, delimiter, encoding=encoding, text_column=text_column)
    if jsonl:
        model = api.load_classifier(run)
        answer_stream(model, changes, _objects_of(model))
    elif source is not None:
        model = api.load_classifier(run)
        answer_file(model, source, out, changes, cells=_cells, objects=_objects_of(model), as_json=as_json)
    else:
        content = text_argument(text)
        _show(api.load_classifier(run), content, as_json)


def tag(
    run: Run,
    text: Text = None,
    source: Source = None,
    out: Out = None,
    jsonl: Jsonl = False,
    encoding: Encoding = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    text_column: TextColumn = None,
    as_json: AsJson = False,
) -> None:
    """Give every word, or every letter, of a text its tag; or of every row of a file."""
    from satchel import api

    check_question(text, source, out, jsonl)
    changes = reading(columns, delimiter, encoding=encoding, text_column=text_column)
    content = text_argument(text) if source is None and not jsonl else ""
    model = api.load_tagger(run)
    between = "" if model.unit == "character" else " "

    def cells(tagging: "Tagging") -> dict[str, Any]:
        return {"tags": between.join(tagging.tags)}

    if jsonl:
        answer_stream(model, changes, _tag_objects)
    elif source is not None:
        answer_file(model, source, out, changes, cells=cells, objects=_tag_objects, as_json=as_json)
    else:
        _show_tags(model.tag(content), as_json)


def _tag_objects(tagging: "Tagging") -> dict[str, Any]:
    return {"tokens": tagging.tokens, "tags": tagging.tags}


def _show_tags(tagging: "Tagging", as_json: bool) -> None:
    from satchel.text.display import visible

    if as_json:
        emit_json({"predictions": [{"text": tagging.text, **_tag_objects(tagging)}]})
        return
    rows = zip(tagging.tokens, tagging.tags, tagging.probabilities, strict=True)
    print_table(
        ["", "tag", "probability"],
        [[visible(token), visible(found), f"{chance:.4f}"] for token, found, chance in rows],
        right=(2,),
    )


def check_question(text: str | None, source: str | None, out: Path | None, jsonl: bool) -> None:
    """Refuse several questions at once."""
    from satchel.errors import SettingsError

    if (text is not None) + (source is not None) + jsonl > 1:
        raise SettingsError("found more than one of TEXT, --input and --jsonl", "give one of them")
    if out is not None and source is None:
        raise SettingsError("-o is for the rows of a file", "name it with --input")


def _show(model: "Classifier", text: str, as_json: bool) -> None:
    from satchel.text.display import visible

    prediction = model.classify(text)
    if as_json:
        emit_json({"predictions": [{"text": prediction.text, **_objects_of(model)(prediction)}]})
        return
    print(visible(prediction.label))
    print()
    shown = list(prediction.probabilities.items())[:MOST_LABELS]
    print_table(["label", "probability"], [[visible(label), f"{chance:.4f}"] for label, chance in shown], right=(1,))
    if len(prediction.probabilities) > len(shown):
        say(f"and {len(prediction.probabilities) - len(shown):,} more (--json shows all)")
    if model.has_senses:
        _show_reasons(model, prediction)


def _show_reasons(model: "Classifier", prediction: "Prediction") -> None:
    """Print the words of a text, tinted by what they add to its label, and those that add most."""
    from satchel.api.senses import above_mean
    from satchel.charts import terminal
    from satchel.cli.output import print_drawing
    from satchel.text.display import visible

    own = above_mean(model.contributions(prediction.text))[model.labels.index(prediction.label)]
    adds_W = own.values.sum(axis=1)
    print()
    print_drawing(terminal.tinted_text(own.words, adds_W))
    print()
    rows = []
    for word in sorted(range(len(adds_W)), key=lambda place: -abs(adds_W[place]))[:MOST_LABELS]:
        sense = int(abs(own.values[word]).argmax())
        most = f"sense {sense}: {own.values[word, sense]:+.3f}"
        rows.append([visible(own.words[word]), f"{adds_W[word]:+.3f}", most])
    print_table(["word", f"adds to {visible(prediction.label)}", "most of it"], rows, right=(1,))
    say(f"above the mean of all labels; without a word it is {own.constant:+.3f}")


def _cells(prediction: "Prediction") -> dict[str, Any]:
    return {"label": prediction.label, "probability": round(prediction.probability, 6)}


def _objects_of(model: "Classifier") -> Callable[["Prediction"], dict[str, Any]]:
    """Return what is told of a prediction in JSON; a Backpack says what added to it."""

    def objects(prediction: "Prediction") -> dict[str, Any]:
        told = {**_cells(prediction), "probabilities": prediction.probabilities}
        return {**told, **_reasons(model, prediction.text)} if model.has_senses else told

    return objects


def _reasons(model: "Classifier", text: str) -> dict[str, Any]:
    """Return what each sense of each word adds to the score of each label; with the bias it is all of it."""
    found = model.contributions(text)
    return {
        "contributions": [
            {"word": word, "sense": sense, "label": each.target, "value": float(value)}
            for each in found
            for word, row in zip(each.words, each.values, strict=True)
            for sense, value in enumerate(row)
        ],
        "bias": {each.target: each.constant for each in found},
        "logits": {each.target: each.logit for each in found},
    }


# --- evaluate --------------------------------------------------------------------------------------


def evaluation_json(model: "Classifier | Tagger", found: "ClassificationMetrics") -> dict[str, Any]:
    """Return the keys of `evaluate --json` for classifiers."""
    return {
        "task": model.settings.task,
        "model": model.settings.model.kind,
        "examples": found.examples,
        "accuracy": found.accuracy,
        "accuracy_interval": [found.low, found.high],
        "macro_f1": found.macro_f1,
        "majority_accuracy": found.majority,
        "unseen_labels": found.unseen,
        "per_label": [asdict(report) for report in found.per_label],
        "calibration": {"expected_error": found.expected_error, "bins": [asdict(each) for each in found.bins]},
        "coverage": [asdict(each) for each in found.coverage],
        "confusion": [asdict(each) for each in found.confusion],
    }


def show_evaluation(
    model: "Classifier | Tagger", judged: "LabelledPredictions", errors: Path | None, as_json: bool
) -> None:
    """Print how good a classifier is, and write what it got wrong."""
    found = model.metrics(judged)
    if errors is not None:
        say(f"wrote {errors}: {_write_errors(errors, judged):,} errors")
    if as_json:
        emit_json(evaluation_json(model, found))
        return
    _print_summary(found)
    _print_labels(found)
    _print_confusions(found)
    print()
    print_table(
        ["sure at least", "share of the rows", "right"],
        [
            [f"{each.threshold:.2f}", f"{each.share:.1%}", "-" if each.accuracy is None else f"{each.accuracy:.1%}"]
            for each in found.coverage
        ],
        right=(0, 1, 2),
    )


def accuracy_line(found: "ClassificationMetrics") -> str:
    """Return the accuracy in one line."""
    return f"{found.accuracy:.2%} ({found.low:.2%} to {found.high:.2%}); the commonest label {found.majority:.2%}"


def _print_summary(found: "ClassificationMetrics") -> None:
    pairs = [
        ("examples", f"{found.examples:,}"),
        ("accuracy", accuracy_line(found)),
        ("macro F1", f"{found.macro_f1:.4f}"),
        ("calibration", f"{found.expected_error:.4f} between how sure it is and how often it is right"),
    ]
    if found.unseen:
        pairs.append(("unseen labels", f"{found.unseen:,} examples have a label that was not in the training rows"))
    print_pairs(pairs)


def _print_labels(found: "ClassificationMetrics") -> None:
    from satchel.text.display import visible

    print()
    common = sorted(found.per_label, key=lambda report: -report.support)
    print_table(
        ["label", "precision", "recall", "F1", "support"],
        [
            [visible(each.label), f"{each.precision:.3f}", f"{each.recall:.3f}", f"{each.f1:.3f}", f"{each.support:,}"]
            for each in common[: 2 * MOST_LABELS]
        ],
        right=(1, 2, 3, 4),
    )
    if len(common) > 2 * MOST_LABELS:
        say(f"and {len(common) - 2 * MOST_LABELS:,} more labels (--json shows all)")


def _print_confusions(found: "ClassificationMetrics") -> None:
    from satchel.text.display import visible

    mistakes = sorted((each for each in found.confusion if each.label != each.predicted), key=lambda each: -each.count)
    if mistakes:
        print()
        print_table(
            ["label", "taken for", "times"],
            [[visible(each.label), visible(each.predicted), f"{each.count:,}"] for each in mistakes[:MOST_LABELS]],
            right=(2,),
        )


def _write_errors(path: Path, judged: "LabelledPredictions") -> int:
    """Write every error, and return how many there are."""
    from satchel.text import answers
    from satchel.text.display import visible

    # A .tsv has no quoting: tabs and ends of lines are spelled out.
    shown = visible if answers.output_format(path) in ("tsv", "txt") else str
    rows = (
        {
            "label": shown(label),
            "predicted": shown(predicted),
            "probability": round(probability, 6),
            "text": shown(text),
        }
        for label, predicted, probability, text in judged.wrong()
    )
    return answers.write_rows(path, rows, ["label", "predicted", "probability", "text"])
