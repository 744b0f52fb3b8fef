"""Completions in the form of OpenAI's API: /v1/models and /v1/completions."""

import secrets
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from satchel.web import limits
from satchel.web.errors import InvalidFieldError
from satchel.web.generation import Generator
from satchel.web.limits import bounded
from satchel.web.operation import Request
from satchel.web.streams import merged

DEFAULT_TOKENS = 16
FINISH_REASONS = {"end": "stop", "stop": "stop", "length": "length"}

TokenId = Annotated[int, bounded("token_id")]
Text = Annotated[str, Field(max_length=limits.MAX_TEXT)]
Ids = Annotated[list[TokenId], Field(min_length=1, max_length=limits.MAX_TEXT)]
Stop = Annotated[str, Field(min_length=1, max_length=limits.MAX_STOP_LENGTH)]


class StreamOptions(Request):
    """Options of a streamed response."""

    include_usage: bool | None = Field(None, description="send the number of tokens in a last chunk")


class CompletionRequest(Request):
    """Request of /v1/completions. null is the same as a missing field."""

    model: str = limits.name(description="id of a run, as listed by /v1/models")
    prompt: (
        Text
        | Ids
        | Annotated[list[Text], Field(min_length=1, max_length=limits.MAX_PROMPTS)]
        | Annotated[list[Ids], Field(min_length=1, max_length=limits.MAX_PROMPTS)]
    ) = Field(description="a text, a list of texts, token ids, or a list of lists of token ids")
    max_tokens: int | None = bounded("max_tokens", None, "maximum number of tokens; 16 by default")
    n: int | None = bounded("samples", None, "number of choices for each prompt")
    best_of: int | None = bounded("samples", None, "generate this many, and return the n most probable per token")
    stream: bool | None = Field(None, description="send server-sent events")
    stream_options: StreamOptions | None = None
    echo: bool | None = Field(None, description="return the prompt before its continuation")
    logprobs: Annotated[int, Field(ge=0, le=limits.MAX_LOGPROBS)] | None = Field(
        None, description="return log-probabilities, and those of this many most probable tokens"
    )
    stop: Stop | Annotated[list[Stop], Field(max_length=limits.MAX_STOPS)] | None = Field(
        None, description=f"a stop string, or up to {limits.MAX_STOPS}"
    )
    seed: int | None = bounded("seed", None, "random seed; by default another one for each request")
    temperature: float | None = bounded("temperature", None, "softmax temperature; 0 is greedy decoding")
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(None, description="probability mass of the kept tokens")
    presence_penalty: float | None = bounded("presence_penalty", None)
    frequency_penalty: float | None = bounded("frequency_penalty", None)
    logit_bias: dict[Annotated[str, Field(max_length=10)], Annotated[float, bounded("logit_bias")]] | None = Field(
        None, max_length=1000, description="values added to the logits of token ids"
    )
    suffix: str | None = Field(None, description="not supported")
    user: str | None = Field(None, max_length=limits.MAX_NAME, description="ignored")

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts as a list."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        return [self.prompt] if isinstance(self.prompt[0], int) else list(self.prompt)

    @property
    def choices(self) -> int:
        """Number of choices for each prompt."""
        return self.n or 1

    def check(self) -> None:
        """Raise an error about fields that are not supported or contradict each other."""
        best_of = self.best_of or self.choices
        if self.suffix:
            raise InvalidFieldError("suffix", "suffix is not supported: models predict from left to right")
        if best_of < self.choices:
            raise InvalidFieldError("best_of", f"best_of {best_of} is less than n {self.choices}")
        if self.stream and best_of > self.choices:
            raise InvalidFieldError("best_of", "best_of above n cannot be streamed", "omit stream")
        if best_of * len(self.prompts) > limits.MAX_CHOICES:
            raise InvalidFieldError(
                "n", f"found {best_of * len(self.prompts):,} choices, expected at most {limits.MAX_CHOICES:,}"
            )
        if self.stream_options is not None and not self.stream:
            raise InvalidFieldError("stream_options", "stream_options needs stream", "set stream to true")

    def messages(self) -> list[dict[str, Any]]:
        """Return the requests to the worker, one for each prompt."""
        best_of = self.best_of or self.choices
        bias = {}
        for token, value in (self.logit_bias or {}).items():
            if not (token.isascii() and token.isdigit()):
                raise InvalidFieldError("logit_bias", f"found the key {token!r}, expected token ids")
            bias[token] = value
        values = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
            "stop": [self.stop] if isinstance(self.stop, str) else self.stop,
            "seed": secrets.randbits(62) if self.seed is None else self.seed,
            "logit_bias": bias,
            "samples": best_of,
            "logprobs": 0 if self.logprobs is None and best_of > self.choices else self.logprobs,
        }
        tokens = DEFAULT_TOKENS if self.max_tokens is None else self.max_tokens
        shared = {
            "options": {name: value for name, value in values.items() if value is not None}
            | {"tokens": max(1, tokens)},
            "generate": tokens > 0,
            "echo": bool(self.echo),
            "refuse_long": True,
            "unique": True,
        }
        return [{**shared, "prompt": prompt} for prompt in self.prompts]


class Completion:
    """The answer to a completion request, which collects the events of its prompts."""

    def __init__(self, generator: Generator, request: CompletionRequest) -> None:
        request.check()
        self._generator, self._request = generator, request
        self._messages = request.messages()
        self._best_of = request.best_of or request.choices
        self._header = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": request.model,
        }
        self._prompt_tokens = self._generated_tokens = 0
        # The echoed prompts, and the tokens of all continuations of each prompt.
        self._prompts: list[dict[str, Any]] = [{} for _ in self._messages]
        self._tokens: list[list[list[dict[str, Any]]]] = [[[] for _ in range(self._best_of)] for _ in self._messages]
        self._samples: list[list[dict[str, Any]]] = [[] for _ in self._messages]

    async def _events(self) -> AsyncIterator[tuple[int, Mapping[str, Any]]]:
        """Yield (number of the prompt, event), and count tokens."""
        run = self._request.model
        async for number, event in merged([self._generator.events(run, message) for message in self._messages]):
            if start := event.get("start"):
                self._prompts[number] = start
                self._prompt_tokens += start["prompt_tokens"]
            elif end := event.get("end"):
                self._samples[number] = end["samples"]
                self._generated_tokens += sum(len(sample["ids"]) for sample in end["samples"])
            yield number, event

    @property
    def _usage(self) -> dict[str, int]:
        total = self._prompt_tokens + self._generated_tokens
        counts = {"prompt_tokens": self._prompt_tokens, "completion_tokens": self._generated_tokens}
        return {**counts, "total_tokens": total}

    async def document(self) -> dict[str, Any]:
        """Return the whole answer."""
        async for number, event in self._events():
            if token := event.get("token"):
                self._tokens[number][event["sample"]].append(token)
        choices = [
            {**choice, "index": prompt * self._request.choices + index}
            for prompt in range(len(self._messages))
            for index, choice in enumerate(self._choices(prompt))
        ]
        return {**self._header, "choices": choices, "usage": self._usage}

    def _choices(self, prompt: int) -> list[dict[str, Any]]:
        """Return the choices of a prompt; with `best_of`, those with the highest mean log-probability of a token."""
        start, samples = self._prompts[prompt], self._samples[prompt]
        if not samples:  # max_tokens is 0
            samples = [{"text": "", "finish": "length", "ids": []}] * self._best_of
        order = list(range(self._best_of))
        if self._best_of > self._request.choices:
            order.sort(key=lambda number: -_mean(self._tokens[prompt][number]))
        echoed = start["prompt"] if self._request.echo else ""
        return [
            {
                "text": echoed + samples[number]["text"],
                "logprobs": self._logprobs(
                    start.get("tokens", []) + self._tokens[prompt][number], len(start.get("tokens", [])), len(echoed)
                ),
                "finish_reason": FINISH_REASONS[samples[number]["finish"]],
            }
            for number in order[: self._request.choices]
        ]

    def _logprobs(self, tokens: list[dict[str, Any]], echoed: int, shift: int) -> dict[str, Any] | None:
        """Return the log-probabilities of tokens, the first `echoed` of which are in a prompt of `shift` characters."""
        if self._request.logprobs is None:
            return None
        return {
            "tokens": [token["text"] for token in tokens],
            "token_logprobs": [token["logprob"] for token in tokens],
            "top_logprobs": [
                None if token["logprob"] is None else {each["text"]: each["logprob"] for each in token["top"]}
                for token in tokens
            ],
            "text_offset": [
                token["offset"] + (shift if number >= echoed else 0) for number, token in enumerate(tokens)
            ],
        }

    async def chunks(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the parts of a streamed answer."""
        has_usage = self._request.stream_options is not None and self._request.stream_options.include_usage
        usage = {"usage": None} if has_usage else {}

        def chunk(
            prompt: int, sample: int, text: str, tokens: list[dict[str, Any]], finish: str | None, **shifts: int
        ) -> dict[str, Any]:
            choice = {
                "index": prompt * self._request.choices + sample,
                "text": text,
                "logprobs": self._logprobs(tokens, shifts.get("echoed", 0), shifts.get("shift", 0)),
                "finish_reason": finish,
            }
            return {**self._header, "choices": [choice], **usage}

        async for prompt, event in self._events():
            shift = len(self._prompts[prompt].get("prompt", "")) if self._request.echo else 0
            if start := event.get("start"):
                if self._request.echo:
                    tokens = start.get("tokens", [])
                    for sample in range(self._best_of):
                        yield chunk(prompt, sample, start["prompt"], tokens, None, echoed=len(tokens), shift=shift)
            elif end := event.get("end"):
                for sample in range(self._best_of if not end["samples"] else 0):  # max_tokens is 0
                    yield chunk(prompt, sample, "", [], "length")
            elif event["text"] or event["finish"] or "token" in event:
                tokens = [event["token"]] if "token" in event else []
                finish = FINISH_REASONS[event["finish"]] if event["finish"] else None
                yield chunk(prompt, event["sample"], event["text"], tokens, finish, shift=shift)
        if has_usage:
            yield {**self._header, "choices": [], "usage": self._usage}


def _mean(tokens: list[dict[str, Any]]) -> float:
    return statistics.fmean(token["logprob"] for token in tokens) if tokens else 0.0
