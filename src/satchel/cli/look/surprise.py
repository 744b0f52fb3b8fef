"""`satchel look surprise`: surprisal of each token."""

import math
from typing import Any

from satchel.charts import terminal
from satchel.cli.look.options import Source, Start, Target, trace_run
from satchel.cli.options import Run, Text
from satchel.cli.output import message, print_drawing
from satchel.cli.result import View, view


@view
def surprise(run: Run, text: Text = None, target: Target = None, source: Source = None, start: Start = 0) -> View:
    """Print or draw the surprisal of each token: -log2 of its probability, in bits."""
    from satchel import charts

    scored = trace_run(run, text, target, source, start).targets
    bits = scored.surprise / math.log(2)

    def document() -> dict[str, Any]:
        notes = {name: values.tolist() for name, values in scored.notes.items()}
        return {"tokens": list(scored.tokens), "bits": bits.tolist(), "notes": notes}

    def show() -> None:
        print_drawing(terminal.strip(scored.tokens, bits.tolist(), [f"{value:.1f}" for value in bits]))
        if len(bits):
            message(f"surprisal in bits; mean {bits.mean():.2f} over {len(bits):,} tokens")
        else:
            message("the text has no tokens")

    return View(lambda: charts.surprise_strip(scored.tokens, bits.tolist()), document, show)
