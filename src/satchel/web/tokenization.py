"""Tokenizer routes at the root, as lm-evaluation-harness and vLLM define them: /tokenize, /detokenize, /tokenizer_info.

Functions run in a worker process.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from satchel.web import limits
from satchel.web.errors import InvalidFieldError
from satchel.web.limits import bounded
from satchel.web.operation import Context, Operation, Request


class TokenizerRequest(Request):
    """A request about the tokenizer of a language model."""

    model: str | None = limits.name(None, "id of a run; by default the first RUN argument of the server")

    def run_ids(self) -> Iterator[str]:
        """Yield the id of the run."""
        if self.model is not None:
            yield self.model


class TokenizeRequest(TokenizerRequest):
    """Request of /tokenize."""

    prompt: str = limits.text(
        description="text; the end-of-text token of /tokenizer_info is recognised if it is the whole text"
    )
    add_special_tokens: bool | None = Field(None, description="put the token at the start of a text before it")


class DetokenizeRequest(TokenizerRequest):
    """Request of /detokenize."""

    tokens: list[Annotated[int, bounded("token_id")]] = Field(max_length=limits.MAX_TEXT)


class TokenizerInfoRequest(TokenizerRequest):
    """Request of /tokenizer_info."""


def tokenize(context: Context, request: TokenizeRequest) -> dict[str, Any]:
    """Return the token ids of a text."""
    model = context.model(request.model or "")
    tokenizer = model.tokenizer
    if request.prompt == _end_text(tokenizer):
        ids = [tokenizer.boundary]
    else:
        start = [tokenizer.boundary] if request.add_special_tokens else []
        ids = [*start, *map(int, tokenizer.encode(request.prompt).ids)]
    return {"count": len(ids), "max_model_len": _length(model), "tokens": ids}


def detokenize(context: Context, request: DetokenizeRequest) -> dict[str, Any]:
    """Return the text of token ids; the boundary has no text."""
    tokenizer = context.model(request.model or "").tokenizer
    for id_ in request.tokens:
        if id_ > tokenizer.boundary:
            raise InvalidFieldError("tokens", f"token id {id_} does not exist", f"expected 0 to {tokenizer.boundary}")
    if request.tokens == [tokenizer.boundary]:
        return {"prompt": _end_text(tokenizer)}
    return {"prompt": tokenizer.decode(request.tokens)}


def tokenizer_info(context: Context, request: TokenizerInfoRequest) -> dict[str, Any]:
    """Return the kind of a tokenizer and the text that stands for its boundary token."""
    model = context.model(request.model or "")
    end = _end_text(model.tokenizer)
    return {
        "tokenizer_class": model.tokenizer.kind,
        "vocab_size": model.tokenizer.size + 1,
        "eos_token": end,
        "bos_token": end,
        "pad_token": end,
        "eos_token_id": model.tokenizer.boundary,
        "bos_token_id": model.tokenizer.boundary,
        "model_max_length": _length(model),
        "chat_template": None,
    }


def _end_text(tokenizer: Any) -> str:
    return str(tokenizer.text_of(tokenizer.boundary))


def _length(model: Any) -> int | None:
    length: int | None = getattr(model, "context_length", None)
    return length


def _operation(name: str, request: type[TokenizerRequest], summary: str, *keys: str) -> Operation:
    return Operation(name, request, f"{__name__}:{name}", summary, keys)


TOKENIZER_OPERATIONS = (
    _operation("tokenize", TokenizeRequest, "Return the token ids of a text.", "count", "max_model_len", "tokens"),
    _operation("detokenize", DetokenizeRequest, "Return the text of token ids.", "prompt"),
    _operation(
        "tokenizer_info", TokenizerInfoRequest, "Return the end-of-text token.", "eos_token", "bos_token", "vocab_size"
    ),
)
