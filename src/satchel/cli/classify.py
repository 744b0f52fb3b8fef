"""`satchel classify`: predict the label of texts."""

import functools
from typing import TYPE_CHECKING, Any

from satchel.cli.options import Raw, Run
from satchel.cli.output import TEXT, message, print, print_drawing, print_table
from satchel.cli.predict import Predictor, predicts
from satchel.text.display import role_of, visible

if TYPE_CHECKING:
    from satchel.api import Prediction
    from satchel.inspection.contributions import Contributions

# Maximum number of labels and words printed; JSON contains all of them.
MAX_ROWS = 10


@predicts("text_column")
def classify(run: Run, raw: Raw = False) -> Predictor:
    """Print the label of a text and the probability of each label, or write them for every row of a file.

    A Backpack also prints the contribution of each word to the logit of the label.
    """
    from satchel import api

    model = api.load(run, task="classify")
    explainer = functools.cache(model.explainer)

    def document(prediction: "Prediction") -> dict[str, Any]:
        windows = prediction.reading.windows
        fields = {**_cells(prediction), "probabilities": prediction.probabilities, "windows": windows}
        return {**fields, **_contributions(explainer()(prediction.text))} if model.has_senses else fields

    def show(prediction: "Prediction") -> None:
        _show_labels(prediction)
        if model.has_senses:
            _show_contributions(explainer()(prediction.text)[model.labels.index(prediction.label)], raw)

    return Predictor(model, _cells, document, show, note=lambda prediction: prediction.note)


def _cells(prediction: "Prediction") -> dict[str, Any]:
    return {"label": prediction.label, "probability": round(prediction.probability, 6)}


def _contributions(explanations: "list[Contributions]") -> dict[str, Any]:
    """Return the contribution of each sense of each word to the logit of each label.

    `value` and `bias` sum to the logit, and so do `centred` and `centred_bias`.
    """
    return {
        "contributions": [
            {
                "word": word,
                "role": role_of(word),
                "position": position,
                "sense": sense,
                "label": each.target,
                "value": float(value),
                "centred": float(centred),
            }
            for each in explanations
            for word, position, values, all_centred in zip(
                each.words, each.positions, each.values, each.centred, strict=True
            )
            for sense, (value, centred) in enumerate(zip(values, all_centred, strict=True))
        ],
        "bias": {each.target: each.constant for each in explanations},
        "centred_bias": {each.target: each.bias for each in explanations},
        "logits": {each.target: each.logit for each in explanations},
    }


def _show_labels(prediction: "Prediction") -> None:
    print(visible(prediction.label))
    print()
    rows = list(prediction.probabilities.items())
    print_table({"label": TEXT, "probability": ".4f"}, rows[:MAX_ROWS])
    if len(rows) > MAX_ROWS:
        message(f"{len(rows) - MAX_ROWS:,} more labels (--json prints all)")


def _show_contributions(contributions: "Contributions", raw: bool) -> None:
    """Print the text coloured by the contribution of each word to the label, and the largest contributions."""
    from satchel.charts import terminal

    shown = contributions.decomposition(raw=raw)
    totals_W = shown.values.sum(axis=1)
    print()
    print_drawing(terminal.tinted_text(contributions.words, totals_W))
    print()
    rows: list[list[Any]] = []
    for word in sorted(range(len(totals_W)), key=lambda index: -abs(totals_W[index]))[:MAX_ROWS]:
        sense = int(abs(shown.values[word]).argmax())
        part = shown.values[word, sense]
        rows.append([contributions.words[word], contributions.positions[word], totals_W[word], sense, part])
    rows.append([f"({shown.bias_name})", None, shown.bias, None, None])
    columns = {
        "word": TEXT,
        "position": "d",
        f"contribution to {contributions.target}": "+.3f",
        "largest sense": "d",
        "its part": "+.3f",
    }
    print_table(columns, rows)
    if len(totals_W) > MAX_ROWS:
        message(f"{len(totals_W) - MAX_ROWS:,} words with smaller contributions (--json prints all)")
    message(shown.summary)
