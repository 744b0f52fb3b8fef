"""`satchel look order`: order of the n-gram that predicted each token."""

from satchel.charts import terminal
from satchel.cli.look.options import Start, trace_run
from satchel.cli.options import Run, Text
from satchel.cli.output import print_drawing
from satchel.cli.result import View, view
from satchel.errors import RunError


@view
def order(run: Run, text: Text = None, start: Start = 0) -> View:
    """Print or draw the order of the longest n-gram found for each token (1 is a back-off to the unigram)."""
    from satchel import charts

    scored = trace_run(run, text, start=start).targets
    tokens, orders = scored.tokens, scored.notes.get("order")
    if orders is None:
        raise RunError(
            "has no n-gram model and no n-gram orders", "use a run trained with --model ngram or model.ngram", where=run
        )
    return View(
        lambda: charts.order_strip(tokens, orders.tolist()),
        lambda: {"tokens": list(tokens), "orders": orders.tolist()},
        lambda: print_drawing(terminal.strip(tokens, orders.tolist(), [str(each) for each in orders])),
    )
