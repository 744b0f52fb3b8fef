"""`satchel tokenize`: tokens of a text."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from satchel.cli.options import Text, read_text
from satchel.cli.output import message, print
from satchel.cli.result import Result, reports
from satchel.text.display import visible


@reports
def tokenize(
    tokenizer: Annotated[str, Argument(metavar="RUN|TOKENIZER.JSON", help="Run folder or tokenizer.json file.")],
    text: Text = None,
) -> Result:
    """Print the tokens of a text, separated by spaces (a space inside a token is printed as ␣), and their number."""
    from satchel.text.tokenizer_files import load_tokenizer

    loaded = load_tokenizer(Path(tokenizer))
    content = read_text(text)

    def show() -> None:
        encoding = loaded.encode(content)
        tokens = loaded.tokens_of(encoding.ids)
        print(" ".join(visible(token, spaces=True) for token in tokens))
        lossy = "" if encoding.lossless else "; decoding does not restore the text exactly"
        unknown = f"{encoding.unknown:,} unknown"
        message(f"{len(tokens):,} tokens, {unknown} ({loaded.kind} tokenizer with {loaded.size:,} tokens){lossy}")

    return Result(lambda: loaded.document(content), show)
