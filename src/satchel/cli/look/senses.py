"""`satchel look senses`: sense weights of a Backpack."""

from satchel.cli.options import Run, Text, read_text
from satchel.cli.output import TOKEN, print_table
from satchel.cli.result import View, view


@view
def senses(run: Run, text: Text = None) -> View:
    """Print or draw the weight of each sense of each word in the prediction after the text (Backpacks)."""
    from satchel import api, charts

    words, weights_WN = api.load(run).sense_vectors.weights(read_text(text))
    columns = [("word", TOKEN), *((f"sense {sense}", ".2f") for sense in range(weights_WN.shape[1]))]
    return View(
        lambda: charts.sense_bars(words, weights_WN),
        lambda: {"words": list(words), "weights": weights_WN.tolist()},
        lambda: print_table(columns, [[word, *row] for word, row in zip(words, weights_WN, strict=True)]),
    )
