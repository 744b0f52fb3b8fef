"""Options and input shared by the views."""

from typing import Annotated

from typer import Option

from satchel.cli.options import read_text

Target = Annotated[str | None, Option(help="Translators: the translation; default: the model's own.")]
Source = Annotated[str | None, Option(help="Translators: the source text; TEXT is then the translation.")]
Layer = Annotated[int | None, Option(help="Layer, counted from 0; default: all layers.")]
Head = Annotated[int | None, Option(help="Head, counted from 0; default: all heads.")]
Start = Annotated[
    int | None,
    Option(help="First token of TEXT that is used, from 0; default: the last tokens, as many as the context.", min=0),
]


def read_pair(text: str | None, target: str | None, source: str | None) -> tuple[str, str | None]:
    """Return the input text and the translation: TEXT and --target, or --source and TEXT."""
    content = read_text(text)
    return (content, target) if source is None else (source, content)
