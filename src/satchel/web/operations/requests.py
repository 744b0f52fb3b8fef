"""Base classes of requests to operations, and functions for replies and refusals."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from satchel.text.display import finite
from satchel.web import commands, limits
from satchel.web.errors import InvalidFieldError
from satchel.web.operation import Context, RunRequest

Text = Annotated[str, Field(max_length=limits.MAX_CHARACTERS)]
Word = Annotated[str, Field(min_length=1, max_length=limits.MAX_NAME)]
START = "first token of the text that is used; default: the last tokens, as many as the context"


class TextRequest(RunRequest):
    """A request about one text."""

    text: Text = Field(description="the text")


class BatchRequest(RunRequest):
    """A request about one text or several."""

    text: Text | None = Field(None, description="the text; exactly one of text and texts is given")
    texts: list[Text] | None = Field(None, min_length=1, max_length=limits.MAX_BATCH, description="several texts")

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        if (self.text is None) == (self.texts is None):
            raise ValueError("expected exactly one of text and texts")
        if sum(map(len, self.inputs)) > self.max_characters():
            raise ValueError(f"texts: expected at most {self.max_characters():,} characters in total")
        return self

    @classmethod
    def max_characters(cls) -> int:
        """Return the maximum number of characters of all texts."""
        return limits.MAX_CHARACTERS

    @property
    def inputs(self) -> list[str]:
        """The texts."""
        return [self.text or ""] if self.texts is None else self.texts

    def single_or_list(self, single: Callable[[str], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the document of the text, or the documents of several texts as `results`."""
        return single(self.inputs[0]) if self.texts is None else {"results": [single(text) for text in self.texts]}

    def expression(self, single: Callable[[str], str]) -> str:
        """Return the Python expression of the document of `single_or_list`."""
        return (
            single(repr(self.text)) if self.texts is None else f"{{'results': {commands.for_each(self.texts, single)}}}"
        )


def reply(document: Mapping[str, Any], terminal: str, python: str) -> dict[str, Any]:
    """Return a document with the commands that print its numbers; numbers that are not finite become null."""
    return {**finite(document), "terminal": terminal, "python": python}


def batch_reply(
    context: Context,
    request: BatchRequest,
    document: Mapping[str, Any],
    verb: str,
    options: Mapping[str, Any],
    expression: str,
    imports: str = "",
) -> dict[str, Any]:
    """Return the reply to a request about one text or several, with one command for each of them."""
    run = context.shown(request.run)
    lines = [commands.terminal(verb, [run], options, text=text) for text in request.inputs]
    return reply(document, "\n".join(lines), commands.python(run, expression, imports))


def refuse_above(limit: int, count: int, field: str, what: str, remedy: str) -> None:
    """Raise an error if a count exceeds its limit."""
    if count > limit:
        raise InvalidFieldError(field, f"found {count:,} {what}, expected at most {limit:,}", remedy)


def count_tokens(model: Any, texts: Sequence[str]) -> int:
    """Return the number of tokens of texts."""
    return sum(len(model.tokenizer.encode(text).ids) for text in texts)
