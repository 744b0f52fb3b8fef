"""`satchel look surprise`, `order` and `lens`: values and predictions for each token of a text."""

import math
from typing import TYPE_CHECKING, Any

from satchel.charts import terminal
from satchel.cli.look.options import Source, Start, Target, read_pair
from satchel.cli.options import Run, Text, read_text
from satchel.cli.output import TEXT, TOKEN, message, print_drawing, print_table
from satchel.cli.result import View, view
from satchel.errors import RunError, SettingsError
from satchel.text.display import visible, with_roles
from satchel.text.windows import pair_documents, refuse_start

if TYPE_CHECKING:
    from satchel.api.language import TextScore


@view
def surprise(run: Run, text: Text = None, target: Target = None, source: Source = None, start: Start = None) -> View:
    """Print or draw the surprisal of each token: -log2 of its probability, in bits."""
    from satchel import api, charts

    model: Any = api.load(run)
    if model.task not in ("lm", "translate"):
        raise RunError(
            f"predicts {'a label' if model.task == 'classify' else 'tags'}, not tokens (task={model.task})",
            "surprisal is for language models and translators; use `satchel look attribution`",
            where=run,
        )
    result = _scored(model, text, target, source, start)
    bits = (-result.logprobs / math.log(2)).tolist()

    def document() -> dict[str, Any]:
        notes = {name: values.tolist() for name, values in result.notes.items()}
        fields = with_roles({"tokens": list(result.tokens), "bits": bits, "notes": notes})
        return {**fields, **pair_documents(result.source_window, result.window)}

    def show() -> None:
        print_drawing(terminal.strip(result.tokens, bits, [f"{value:.1f}" for value in bits]))
        message(f"surprisal in bits; mean {sum(bits) / len(bits):.2f} over {len(bits):,} tokens")

    return View(lambda: charts.surprise_strip(result.tokens, bits).with_notes(result.window_notes), document, show)


def _scored(
    model: Any, text: str | None, target: str | None = None, source: str | None = None, start: int | None = None
) -> "TextScore":
    """Return the scores of the tokens of a text, or of a translation, from the token `start` on."""
    content, target = read_pair(text, target, source)
    if model.task == "translate":
        refuse_start(start)
        scored = model.score(content, model.translate(content).target if target is None else target)
    elif target is not None:
        raise SettingsError("--source and --target are for translators, and this is a language model", "omit them")
    else:
        scored = model.score(content)
    result: TextScore = scored.starting_at(start)
    message(*result.window_notes)
    if "target_in_input" in result.notes:
        from satchel.evaluation.likelihood import SEES_TARGETS

        message(SEES_TARGETS)
    return result


# --- order ------------------------------------------------------------------------------------------


@view
def order(run: Run, text: Text = None, start: Start = None) -> View:
    """Print or draw the order of the longest n-gram found for each token (1 is a back-off to the unigram)."""
    from satchel import api, charts

    result = _scored(api.load(run, task="lm"), text, start=start)
    tokens, orders = result.tokens, result.notes.get("order")
    if orders is None:
        raise RunError(
            "has no n-gram model and no n-gram orders", "use a run trained with --model ngram or model.ngram", where=run
        )
    return View(
        lambda: charts.order_strip(tokens, orders.tolist()).with_notes(result.window_notes),
        lambda: with_roles({"tokens": list(tokens), "orders": orders.tolist(), "window": result.window.document()}),
        lambda: print_drawing(terminal.strip(tokens, orders.tolist(), [str(each) for each in orders])),
    )


# --- lens -------------------------------------------------------------------------------------------


@view
def lens(run: Run, text: Text = None, start: Start = None) -> View:
    """Print or draw the logit lens: the most probable next token if each layer were the last one."""
    from satchel import api

    result = api.load(run).lens(read_text(text), start)
    message(*result.window.notes)

    def show() -> None:
        targets = [*result.targets, *[""] * (len(result.tokens) - len(result.targets))]
        rows = []
        for position, (token, target) in enumerate(zip(result.tokens, targets, strict=True)):
            cells = (
                _prediction(predictions[position], int(ranks[position]))
                for predictions, ranks in zip(result.predictions, result.ranks, strict=True)
            )
            rows.append([token, target, *cells])
        print_table([("token", TOKEN), (result.target, TOKEN), *((name, TEXT) for name in result.names)], rows)
        message(f"most probable {result.target} at each layer; in brackets the rank of the {result.target} in column 2")

    return View(result.picture, result.document, show)


def _prediction(token: str, rank: int) -> str:
    return f"{visible(token, spaces=True)} {f'({rank:,})' if rank else ''}".strip()
