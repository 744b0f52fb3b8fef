"""`satchel next`: the most probable next tokens after a text."""

from typing import Annotated, Any

from typer import Argument, Option

from satchel.cli.options import Run, read_text
from satchel.cli.output import TOKEN, message, print_table
from satchel.cli.result import Result, reports


@reports
def next(
    run: Run,
    text: Annotated[str, Argument(metavar="TEXT", help="Text before the token, or - to read standard input.")] = "",
    top: Annotated[int, Option(help="Number of tokens.", min=1)] = 10,
) -> Result:
    """Print the most probable next tokens after a text and their probabilities."""
    from satchel import api

    prompt = read_text(text)
    result = api.load(run, task="lm").next(prompt, top)
    message(*result.window.notes)
    rows = list(zip(result.tokens, result.ids, result.probabilities, strict=True))

    def document() -> dict[str, Any]:
        tokens = [
            {"text": token, "id": id_, "role": token.role, "probability": probability}
            for token, id_, probability in rows
        ]
        return {"prompt": prompt, "tokens": tokens, "window": result.window.document()}

    def show() -> None:
        print_table([("token", TOKEN), ("id", "d"), ("probability", ".4f")], rows)

    return Result(document, show)
