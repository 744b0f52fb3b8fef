"""`satchel score`: log-probabilities of the tokens of a text, or of the rows of a file."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from satchel.cli.options import PrecisionOption, Run, use_precision
from satchel.cli.output import TEXT, TOKEN, message, print_fields, print_table
from satchel.cli.predict import Predictor, predicts
from satchel.cli.result import Result
from satchel.errors import SettingsError
from satchel.text.display import Token, visible

if TYPE_CHECKING:
    from satchel.api.language import TextScore
    from satchel.evaluation.likelihood import TextLikelihood

# Maximum number of tokens printed; JSON contains all of them.
MAX_TOKENS = 1000
# Number of decimals in tables.
DECIMALS = 6


@predicts("text_column", "source_column", "target_column")
def score(
    run: Run,
    target: Annotated[str | None, Option(help="Translators: translation to score, with TEXT as the source.")] = None,
    top: Annotated[
        int, Option(metavar="N", help="Also print the N most probable tokens in place of each token.", min=0)
    ] = 0,
    precision: PrecisionOption = "float32",
) -> Predictor:
    """Print the log-probability (nats) of every token of a text, or of a translation of it, and the perplexity.

    With --input, print or write the log-probability of every row of a file: of the column text, or for translators of
    the column target given the column source. -o also writes perplexity, bits per byte, tokens and bytes.
    """
    from satchel import api
    from satchel.evaluation.likelihood import SEES_TARGETS

    model: Any = api.load(run)
    if model.task not in ("lm", "translate"):
        model = api.load(run, task="lm")  # an error that names the task
    use_precision(model, precision)
    is_translator = model.task == "translate"
    if target is not None and not is_translator:
        model = api.load(run, task="translate")

    def single(text: str) -> Result:
        if is_translator and target is None:
            raise SettingsError("--target is missing", "give the translation to score; TEXT is the source")
        return _result(model.score(text, target, top) if is_translator else model.score(text, top))

    def rows(texts: Any) -> Any:
        if top:
            raise SettingsError("--top cannot be combined with --input or --jsonl", "omit it")
        if target is not None:
            raise SettingsError("--target cannot be combined with --input or --jsonl", "use the column target")
        if not is_translator and model.sees_targets:
            message(SEES_TARGETS)
        return model.score_pairs(texts) if is_translator else model.score_texts(texts)

    return Predictor(
        model,
        _cells,
        _cells,
        note=_note,
        predict=rows,
        single=single,
        columns=("source", "target") if is_translator else ("text",),
        key="scores",
    )


def _cells(likelihood: "TextLikelihood") -> dict[str, Any]:
    return {
        "logprob": _rounded(likelihood.logprob),
        "perplexity": _rounded(likelihood.perplexity),
        "bits_per_byte": _rounded(likelihood.bits_per_byte),
        "tokens": likelihood.tokens,
        "bytes": likelihood.bytes,
    }


def _rounded(value: float | None) -> float | None:
    """Return a value for a table; None, an empty cell, if it is unknown or infinite."""
    return None if value is None or math.isinf(value) else round(value, DECIMALS)


def _note(likelihood: "TextLikelihood") -> str:
    if not likelihood.is_truncated:
        return ""
    return f"'{likelihood.text[:40]}...' or its source exceeds the context: only the first tokens are used"


def _result(result: "TextScore") -> Result:
    from satchel.evaluation.likelihood import SEES_TARGETS

    message(*result.window_notes)
    if "target_in_input" in result.notes:
        message(SEES_TARGETS)
    notes = {name: values.tolist() for name, values in result.notes.items()}
    notes_T = [dict(zip(notes, values, strict=True)) for values in zip(*notes.values(), strict=True)]
    rows = list(zip(result.tokens, result.logprobs.tolist(), notes_T or [{} for _ in result.tokens], strict=True))
    if result.top:
        rows = [
            (*row[:2], {**row[2], "most probable": _ranked(top)}) for row, top in zip(rows, result.top, strict=True)
        ]

    def show() -> None:
        columns = {name: ".3f" if isinstance(values[0], float) else "d" for name, values in notes.items()}
        columns |= {"most probable": TEXT} if result.top else {}
        print_table(
            [("token", TOKEN), ("log-probability", ".4f"), ("probability", ".4g"), *columns.items()],
            [[token, logprob, math.exp(logprob), *note.values()] for token, logprob, note in rows[:MAX_TOKENS]],
        )
        if len(rows) > MAX_TOKENS:
            message(f"{len(rows) - MAX_TOKENS:,} more tokens (--json prints all)")
        print_fields(
            [("total log-probability", f"{result.total_logprob:.4f} nats"), ("perplexity", f"{result.perplexity:,.2f}")]
        )

    return Result(result.document, show)


def _ranked(top: "Iterable[tuple[Token, float]]") -> str:
    return "  ".join(f"{visible(token, spaces=True)} {logprob:.4f}" for token, logprob in top)
