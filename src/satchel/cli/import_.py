"""`satchel import`: convert a model of another tool to a run."""

from typing import Annotated

from typer import Argument, Option

from satchel.cli.data import number_text
from satchel.cli.options import Force, RunOut
from satchel.cli.output import Progress, message
from satchel.text.display import quoted


def import_(
    source: Annotated[str, Argument(metavar="FILE.ARPA", help="N-gram model in ARPA format.")],
    out: RunOut,
    tokenizer: Annotated[
        str, Option(help="Tokenizer whose tokens the file contains: word, char, a run or a tokenizer.json file.")
    ] = "word",
    force: Force = False,
) -> None:
    """Write a run folder from a model of another tool."""
    from satchel import api

    with Progress() as progress:
        model = api.import_arpa(source, out, tokenizer=tokenizer, force=force, progress=progress)
    ngrams = number_text(model.run.facts["ngrams"])
    message(f"wrote {out}: n-gram model with {model.tokenizer.size:,} tokens; n-grams by order: {ngrams}")
    message(f"next: satchel evaluate {quoted(out)} FILE")
