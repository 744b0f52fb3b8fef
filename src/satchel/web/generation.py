"""Generation of text: the events of the generation worker, and the route /api/generate."""

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from satchel.web import commands, limits
from satchel.web.limits import bounded
from satchel.web.metrics import Metrics
from satchel.web.operation import RunRequest
from satchel.web.pool import Pool


class Generator:
    """Sends generation requests to the worker and counts tokens."""

    def __init__(self, pool: Pool, metrics: Metrics, path: Callable[[str], Path]) -> None:
        self._pool, self._metrics, self.path = pool, metrics, path

    async def events(self, run: str, message: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a request to `Scheduler.start`: `start`, tokens, `end`."""
        began, is_first = time.monotonic(), True
        request = {"generate": message, "run": str(self.path(run))}
        rows = message["options"].get("samples", 1)
        async with self._pool.submit("generation", request, rows=rows, seconds=limits.GENERATION_SECONDS) as events:
            async for event in events:
                document = event.document
                if "start" in document:
                    self._metrics.prompt_tokens += document["start"]["prompt_tokens"]
                elif "sample" in document:
                    self._metrics.generation_tokens += 1
                    if is_first:
                        self._metrics.note_first_token(time.monotonic() - began)
                        is_first = False
                yield document


class GenerateRequest(RunRequest):
    """Request of /api/generate: a prompt and the options of `satchel generate`."""

    prompt: str = limits.text("", "text to continue; the last tokens that fit into the context window are used")
    tokens: int = bounded("tokens", 100, "maximum number of tokens")
    samples: int = bounded("samples", 1, "number of continuations")
    seed: int = bounded("seed", 0, "random seed")
    greedy: bool = Field(False, description="always choose the most probable token")
    temperature: float = bounded("temperature", 1.0, "softmax temperature; 0 is greedy decoding")
    top_k: int | None = bounded("top_k", None, "sample from the k most probable tokens only")
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(None, description="probability mass of the kept tokens")
    min_p: float | None = bounded("min_p", None, "minimum probability relative to the most probable token")
    typical_p: Annotated[float, Field(gt=0, le=1)] | None = Field(None, description="locally typical sampling")
    repetition_penalty: float = bounded("repetition_penalty", 1.0)
    presence_penalty: float = bounded("presence_penalty", 0.0)
    frequency_penalty: float = bounded("frequency_penalty", 0.0)
    no_repeat_ngram: int = bounded("no_repeat_ngram", 0)
    logit_bias: dict[Annotated[str, Field(max_length=limits.MAX_NAME)], Annotated[float, bounded("logit_bias")]] = (
        Field(
            {},
            max_length=1000,
            description="values added to the logits of tokens: a word, the text of a token, or id:N",
        )
    )
    stop: list[Annotated[str, Field(min_length=1, max_length=limits.MAX_STOP_LENGTH)]] = Field(
        [], max_length=limits.MAX_STOPS, description="stop strings"
    )
    logprobs: Annotated[int, Field(ge=0, le=limits.MAX_LOGPROBS)] | None = Field(
        None, description="return log-probabilities, and those of this many most probable tokens"
    )
    speculative: Literal["auto", "on", "off"] = "auto"
    stream: bool = Field(False, description="send server-sent events: one for each token, then the whole reply")

    def message(self) -> dict[str, Any]:
        """Return the request to the worker."""
        options = self.model_dump(include=set(OPTIONS), exclude_none=True)
        return {
            "prompt": self.prompt,
            "options": options,
            "generate": True,
            "echo": False,
            "refuse_long": False,
            "unique": False,
        }


# Fields that are options of `satchel generate`.
OPTIONS = tuple(name for name in GenerateRequest.model_fields if name not in ("run", "prompt", "stream"))


async def generate(generator: Generator, request: GenerateRequest) -> AsyncIterator[dict[str, Any]]:
    """Yield a document for each token, and as the last one the reply, with the keys of `satchel generate --json`."""
    began = time.perf_counter()
    start: dict[str, Any] = {}
    tokens: list[list[dict[str, Any]]] = [[] for _ in range(request.samples)]
    stated = _commands(request, generator.path(request.run))
    async for event in generator.events(request.run, request.message()):
        if "start" in event:
            start = event["start"]
            yield {"window": start["window"], "prompt_tokens": start["prompt_tokens"]}
        elif end := event.get("end"):
            count = sum(len(sample["ids"]) for sample in end["samples"])
            samples = [_sample(*each, request.logprobs) for each in zip(end["samples"], tokens, strict=True)]
            yield {
                "prompt": start["prompt"],
                "samples": samples,
                "tokens_per_second": round(count / max(time.perf_counter() - began, 1e-9), 1),
                "window": start["window"],
                "speculative": any(sample["speculative"] for sample in end["samples"]),
                "notes": start["notes"],
                **stated,
            }
        else:
            token = event.get("token")
            if token is not None and event["finish"] != "end":
                tokens[event["sample"]].append(token)
            yield {**{key: event[key] for key in ("sample", "text", "finish")}, **({"token": token} if token else {})}


def _commands(request: GenerateRequest, path: Path) -> dict[str, str]:
    """Return the command and the program that print the reply."""
    run, options = commands.relative(str(path)), commands.given(request, *OPTIONS)
    bias = [f"{token}={value}" for token, value in request.logit_bias.items()]
    flags = {**options, **({"logit_bias": bias} if bias else {})}
    call = commands.arguments(repr(request.prompt), **options)
    return {
        "terminal": commands.terminal("generate", [run], flags, text=request.prompt),
        "python": commands.python(run, f"model.generate({call}).document()"),
    }


def _sample(sample: dict[str, Any], tokens: list[dict[str, Any]], logprobs: int | None) -> dict[str, Any]:
    """Return a sample as in `satchel generate --json`."""
    document = {"text": sample["text"], "tokens": len(sample["ids"]), "finish": sample["finish"]}
    if logprobs is None:
        return document
    return {
        **document,
        "token_texts": [token["text"] for token in tokens],
        "logprobs": [token["logprob"] for token in tokens],
        "top_logprobs": [token["top"] for token in tokens],
    }
