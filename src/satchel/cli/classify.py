"""`satchel classify`: predict the label of texts."""

import functools
from typing import TYPE_CHECKING, Any

from satchel.cli.options import Raw, Run
from satchel.cli.output import TEXT, message, print, print_drawing, print_table
from satchel.cli.predict import Predictor, predicts
from satchel.text.display import visible

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

    def show(prediction: "Prediction") -> None:
        _show_labels(prediction)
        if model.has_senses:
            _show_contributions(prediction.contributions[model.labels.index(prediction.label)], raw)

    return Predictor(
        model,
        lambda prediction: prediction.cells(),
        lambda prediction: prediction.document(),
        show,
        note=lambda prediction: prediction.note,
        # Means over the vocabulary are computed once for all rows.
        options={"explainer": functools.cache(model.explainer)},
    )


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
