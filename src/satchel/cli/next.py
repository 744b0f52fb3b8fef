"""`satchel next`: the most probable next tokens after a text."""

from typing import Annotated

from typer import Argument, Option

from satchel.cli.options import DecodingPrecisionOption, Run, read_text, use_decoding_precision
from satchel.cli.output import TOKEN, message, print_table
from satchel.cli.result import Result, reports


@reports
def next(
    run: Run,
    text: Annotated[str, Argument(metavar="TEXT", help="Text before the token, or - to read standard input.")] = "",
    top: Annotated[int, Option(help="Number of tokens.", min=1)] = 10,
    precision: DecodingPrecisionOption = "float32",
) -> Result:
    """Print the most probable next tokens after a text and their probabilities."""
    from satchel import api

    prompt = read_text(text)
    model = api.load(run, task="lm")
    use_decoding_precision(model, precision)
    result = model.next(prompt, top)
    message(*result.window.notes)
    rows = list(zip(result.tokens, result.ids, result.probabilities, strict=True))

    def show() -> None:
        print_table([("token", TOKEN), ("id", "d"), ("probability", ".4f")], rows)

    return Result(result.document, show)
