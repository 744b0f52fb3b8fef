"""`satchel look lens`: logit lens."""

from satchel.cli.look.options import Start
from satchel.cli.options import Run, Text, read_text
from satchel.cli.output import TEXT, TOKEN, message, print_table
from satchel.cli.result import View, view
from satchel.text.display import visible


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
