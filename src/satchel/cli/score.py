"""`satchel score`: log-probabilities of the tokens of a text."""

import math
from typing import Annotated, Any

from typer import Option

from satchel.cli.options import Run, Text, read_text
from satchel.cli.output import TOKEN, message, print_fields, print_table
from satchel.cli.result import Result, reports
from satchel.text.windows import pair_documents

# Maximum number of tokens printed; JSON contains all of them.
MAX_TOKENS = 1000


@reports
def score(
    run: Run,
    text: Text = None,
    target: Annotated[str | None, Option(help="Translators: translation to score, with TEXT as the source.")] = None,
) -> Result:
    """Print the log-probability (nats) of every token of a text, or of a translation of it, and the perplexity."""
    from satchel import api

    if target is not None:
        result = api.load(run, task="translate").score(read_text(text), target)
    else:
        result = api.load(run, task="lm").score(read_text(text))
    message(*result.window_notes)
    if "target_in_input" in result.notes:
        from satchel.evaluation.likelihood import SEES_TARGETS

        message(SEES_TARGETS)
    notes = {name: values.tolist() for name, values in result.notes.items()}
    notes_T = [dict(zip(notes, values, strict=True)) for values in zip(*notes.values(), strict=True)]
    rows = list(zip(result.tokens, result.logprobs.tolist(), notes_T or [{} for _ in result.tokens], strict=True))

    def document() -> dict[str, Any]:
        # A part of a mixture may have the name of a documented key; the documented keys override it.
        tokens = [
            {**note, "text": token, "id": token.id, "role": token.role, "logprob": value} for token, value, note in rows
        ]
        totals = {"total_logprob": result.total_logprob, "perplexity": result.perplexity}
        return {"tokens": tokens, **totals, **pair_documents(result.source_window, result.window)}

    def show() -> None:
        columns = {name: ".3f" if isinstance(values[0], float) else "d" for name, values in notes.items()}
        print_table(
            [("token", TOKEN), ("log-probability", ".4f"), ("probability", ".4g"), *columns.items()],
            [[token, logprob, math.exp(logprob), *note.values()] for token, logprob, note in rows[:MAX_TOKENS]],
        )
        if len(rows) > MAX_TOKENS:
            message(f"{len(rows) - MAX_TOKENS:,} more tokens (--json prints all)")
        print_fields(
            [("total log-probability", f"{result.total_logprob:.4f} nats"), ("perplexity", f"{result.perplexity:,.2f}")]
        )

    return Result(document, show)
