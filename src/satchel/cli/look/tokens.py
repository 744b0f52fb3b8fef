"""`satchel look surprise`, `order` and `lens`: values and predictions for each token of a text."""

import math
from typing import Any

from satchel.charts import terminal
from satchel.cli.look.options import Source, Start, Target, trace_run
from satchel.cli.options import Run, Text, read_text
from satchel.cli.output import TEXT, TOKEN, message, print_drawing, print_table
from satchel.cli.result import View, view
from satchel.errors import RunError
from satchel.text.display import visible, with_roles


@view
def surprise(run: Run, text: Text = None, target: Target = None, source: Source = None, start: Start = 0) -> View:
    """Print or draw the surprisal of each token: -log2 of its probability, in bits."""
    from satchel import charts

    scored = trace_run(run, text, target, source, start).targets
    bits = scored.surprise / math.log(2)

    def document() -> dict[str, Any]:
        notes = {name: values.tolist() for name, values in scored.notes.items()}
        return with_roles({"tokens": list(scored.tokens), "bits": bits.tolist(), "notes": notes})

    def show() -> None:
        print_drawing(terminal.strip(scored.tokens, bits.tolist(), [f"{value:.1f}" for value in bits]))
        if len(bits):
            message(f"surprisal in bits; mean {bits.mean():.2f} over {len(bits):,} tokens")
        else:
            message("the text has no tokens")

    return View(lambda: charts.surprise_strip(scored.tokens, bits.tolist()), document, show)


# --- order ------------------------------------------------------------------------------------------


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
        lambda: with_roles({"tokens": list(tokens), "orders": orders.tolist()}),
        lambda: print_drawing(terminal.strip(tokens, orders.tolist(), [str(each) for each in orders])),
    )


# --- lens -------------------------------------------------------------------------------------------


@view
def lens(run: Run, text: Text = None, start: Start = 0) -> View:
    """Print or draw the logit lens: the most probable next token if each layer were the last one."""
    from satchel import api

    result = api.load(run).lens(read_text(text), start)

    def show() -> None:
        layers = [name.removesuffix(".output").removesuffix(".states") for name in result.layers]
        targets = [*result.targets, *[""] * (len(result.tokens) - len(result.targets))]
        rows = []
        for position, (token, target) in enumerate(zip(result.tokens, targets, strict=True)):
            cells = (
                _prediction(predictions[position], int(ranks[position]))
                for predictions, ranks in zip(result.predictions, result.ranks, strict=True)
            )
            rows.append([token, target, *cells])
        print_table([("token", TOKEN), ("next token", TOKEN), *((name, TEXT) for name in layers)], rows)
        message("most probable next token at each layer; in brackets the rank of the actual next token")

    return View(result.picture, result.document, show)


def _prediction(token: str, rank: int) -> str:
    return f"{visible(token, spaces=True)} {f'({rank:,})' if rank else ''}".strip()
