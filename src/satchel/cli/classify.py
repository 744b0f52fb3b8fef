"""`satchel classify`: predict the label of texts."""

from typing import TYPE_CHECKING, Any

from satchel.cli.options import Run
from satchel.cli.output import TEXT, message, print, print_drawing, print_table
from satchel.cli.predict import Predictor, predicts
from satchel.text.display import role_of, visible

if TYPE_CHECKING:
    from satchel.api import Classifier, Prediction

# Maximum number of labels and words printed; JSON contains all of them.
MAX_ROWS = 10


@predicts("text_column")
def classify(run: Run) -> Predictor:
    """Print the label of a text and the probability of each label, or write them for every row of a file.

    A Backpack also prints the contribution of each word to the logit of the label.
    """
    from satchel import api

    model = api.load(run, task="classify")

    def document(prediction: "Prediction") -> dict[str, Any]:
        windows = prediction.reading.windows
        fields = {**_cells(prediction), "probabilities": prediction.probabilities, "windows": windows}
        return {**fields, **_contributions(model, prediction.text)} if model.has_senses else fields

    return Predictor(
        model,
        _cells,
        document,
        lambda prediction: _show(model, prediction),
        note=lambda prediction: prediction.note,
    )


def _cells(prediction: "Prediction") -> dict[str, Any]:
    return {"label": prediction.label, "probability": round(prediction.probability, 6)}


def _contributions(model: "Classifier", text: str) -> dict[str, Any]:
    """Return the contribution of each sense of each word to the logit of each label; with the bias they sum to it."""
    explanations = model.contributions(text)
    return {
        "contributions": [
            {"word": word, "role": role_of(word), "sense": sense, "label": each.target, "value": float(value)}
            for each in explanations
            for word, values in zip(each.words, each.values, strict=True)
            for sense, value in enumerate(values)
        ],
        "bias": {each.target: each.constant for each in explanations},
        "logits": {each.target: each.logit for each in explanations},
    }


def _show(model: "Classifier", prediction: "Prediction") -> None:
    print(visible(prediction.label))
    print()
    rows = list(prediction.probabilities.items())
    print_table({"label": TEXT, "probability": ".4f"}, rows[:MAX_ROWS])
    if len(rows) > MAX_ROWS:
        message(f"{len(rows) - MAX_ROWS:,} more labels (--json prints all)")
    if model.has_senses:
        _show_contributions(model, prediction)


def _show_contributions(model: "Classifier", prediction: "Prediction") -> None:
    """Print the text coloured by the contribution of each word to the label, and the largest contributions."""
    from satchel.charts import terminal
    from satchel.inspection.contributions import above_mean

    centred = above_mean(model.contributions(prediction.text))[model.labels.index(prediction.label)]
    totals_W = centred.values.sum(axis=1)
    print()
    print_drawing(terminal.tinted_text(centred.words, totals_W))
    print()
    rows = []
    for word in sorted(range(len(totals_W)), key=lambda index: -abs(totals_W[index]))[:MAX_ROWS]:
        sense = int(abs(centred.values[word]).argmax())
        rows.append([centred.words[word], totals_W[word], sense, centred.values[word, sense]])
    columns = {"word": TEXT, f"contribution to {prediction.label}": "+.3f", "largest sense": "d", "its part": "+.3f"}
    print_table(columns, rows)
    message(f"logit minus the mean over all labels; bias {centred.constant:+.3f}")
