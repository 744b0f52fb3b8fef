"""Generation in a worker process: continuations of many requests in one batch per model, which they join and leave.

Shapes: T tokens of a prompt including the boundary, V vocabulary.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

import numpy as np

from satchel.generation.batch import Continuation, DecodingBatch, GeneratedToken, Request, most_probable
from satchel.generation.sampling import Sampling
from satchel.predictor import Ids, Predictor, position_logprobs
from satchel.text.incremental import IncrementalDecoder
from satchel.text.tokenizer import BYTE_LEVEL, Tokenizer
from satchel.text.windows import select_window
from satchel.web import limits
from satchel.web.errors import InvalidFieldError

# A token with its text and log-probability, and the most probable tokens at its position.
TokenDocument = dict[str, Any]


class UniqueTexts:
    """The texts of the tokens of a tokenizer, all different from each other, for use as keys.

    Bytes that are not valid UTF-8 are written as `bytes:\\xe2\\x80`. If several tokens have the same text, all but the
    first are written as `token_id:N`; so are tokens whose text has the form of these names.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        texts = [_text(tokenizer, id_) for id_ in range(tokenizer.size + 1)]
        first: dict[str, int] = {}
        for id_, text in enumerate(texts):
            first.setdefault(text, id_)
        self._texts = [text if first[text] == id_ else f"token_id:{id_}" for id_, text in enumerate(texts)]

    def __call__(self, id_: int) -> str:
        """Return the text of a token."""
        return self._texts[id_]


def _text(tokenizer: Tokenizer, id_: int) -> str:
    if tokenizer.kind not in BYTE_LEVEL or id_ >= tokenizer.size:
        text = str(tokenizer.text_of(id_))
    else:
        token = tokenizer.bytes_of(id_)
        try:
            text = token.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token)
    return f"token_id:{id_}" if text.startswith(("bytes:\\x", "token_id:")) else text


@dataclass(eq=False)
class _Job:
    """A request whose continuations are being generated."""

    id: int
    model: Any
    texts: Callable[[int], str]
    top: int | None  # number of alternatives of each token; None without log-probabilities
    requests: list[Request]
    rows: list[Continuation] = field(default_factory=list)  # none before the first step
    offsets: dict[Continuation, tuple[IncrementalDecoder, int]] = field(default_factory=dict)


@dataclass
class _Batch:
    batch: DecodingBatch
    waiting: list[_Job] = field(default_factory=list)  # join the batch at the next step
    jobs: dict[Continuation, _Job] = field(default_factory=dict)

    def add_waiting(self) -> None:
        """Add the waiting jobs, whose prompts are encoded together."""
        if not self.waiting:
            return
        rows = iter(self.batch.add([request for job in self.waiting for request in job.requests]))
        for job in self.waiting:
            job.rows = list(islice(rows, len(job.requests)))
            self.jobs |= dict.fromkeys(job.rows, job)
            if job.top is not None:
                job.offsets = {row: (IncrementalDecoder(row.tokenizer, row.request.prompt), 0) for row in job.rows}
        self.waiting = []


class Scheduler:
    """Generates the continuations of all requests, one token of each per step."""

    def __init__(self) -> None:
        self._batches: dict[int, _Batch] = {}  # by the identity of the model, which the jobs keep alive
        self._jobs: dict[int, _Job] = {}
        self._texts: dict[str, UniqueTexts] = {}  # by the hash of the tokenizer

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being generated."""
        return not self._jobs

    def start(self, id_: int, model: Any, request: Mapping[str, Any]) -> dict[str, Any]:
        """Start a request and return facts about its prompt. Keys of the request:

        `prompt` (a text or token ids), `options` (options of `LanguageModel.generate`), `refuse_long` (whether a prompt
        longer than the context is an error), `echo` (return the tokens of the prompt), `generate`
        (whether to generate tokens), `unique` (whether texts of tokens are keys, see UniqueTexts, and the
        keys of `logit_bias` are ids).
        """
        model.refuse_visible_targets("generate text")
        tokenizer: Tokenizer = model.tokenizer
        prompt_ids, prompt = _read_prompt(tokenizer, request["prompt"])
        ids_T = np.concatenate([[tokenizer.boundary], prompt_ids])
        context = model.context_length
        longest = limits.MAX_PROMPT_TOKENS if context is None or not request["refuse_long"] else context
        if len(ids_T) > longest:
            raise InvalidFieldError(
                "prompt",
                f"the prompt has {len(prompt_ids):,} tokens, and the context length is {longest:,} tokens including "
                "the token at the start of a text",
                "shorten the prompt",
                "context_length_exceeded",
            )
        sampling, notes = _sampling(model, request)
        texts = self._unique_texts(tokenizer) if request["unique"] else lambda each: str(tokenizer.text_of(each))
        requests = [Request(prompt, prompt_ids, sampling, number) for number in range(sampling.samples)]
        job = _Job(id_, model, texts, sampling.logprobs, requests)
        facts: dict[str, Any] = {
            "prompt": prompt,
            "prompt_tokens": len(prompt_ids),
            "window": select_window(len(ids_T), context).document(),
            "notes": notes,
        }
        if request["echo"]:
            has_boundary = not isinstance(request["prompt"], str) and request["prompt"][0] == tokenizer.boundary
            facts["tokens"] = _prompt_documents(
                model.predictor, tokenizer, ids_T if has_boundary else ids_T[1:], ids_T, job
            )
        if request["generate"]:
            batch = self._batches.get(id(model)) or _Batch(DecodingBatch(model.predictor, tokenizer))
            batch.waiting.append(job)
            self._batches[id(model)] = batch
            self._jobs[id_] = job
        return facts

    def cancel(self, id_: int) -> None:
        """Stop a request; a request that has ended is ignored."""
        job = self._jobs.pop(id_, None)
        if job is None:
            return
        batch = self._batches[id(job.model)]
        if job in batch.waiting:
            batch.waiting.remove(job)
        for row in job.rows:
            if batch.jobs.pop(row, None) is not None:
                batch.batch.remove(row)
        self._remove_empty()

    def step(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Generate one token, or with speculative decoding several, of each continuation; yield (request id, event).

        The last event of a request is `end` with the facts of its continuations, or `error`.
        """
        for batch in list(self._batches.values()):
            try:
                batch.add_waiting()
                tokens = batch.batch.step()
            except Exception as error:  # the batch cannot go on, but the requests of other models can
                for job in {each.id: each for each in (*batch.jobs.values(), *batch.waiting)}.values():
                    del self._jobs[job.id]
                    yield job.id, {"error": error}
                batch.jobs.clear()
                batch.waiting.clear()
                continue
            for token in tokens:
                yield from self._events(batch, token)
        self._remove_empty()

    def _events(self, batch: _Batch, token: GeneratedToken) -> Iterator[tuple[int, dict[str, Any]]]:
        row = token.continuation
        job = batch.jobs[row]
        event: dict[str, Any] = {"sample": token.sample, "text": token.text, "finish": token.finish}
        if job.top is not None:
            decoder, offset = job.offsets[row]
            event["token"] = _token_document(job, token.id, token.logprob, token.alternatives, offset)
            job.offsets[row] = decoder, offset + len(decoder.add(token.id))
        yield job.id, event
        if token.finish is not None:
            del batch.jobs[row]
            # Other rows may have finished in the same step; their events follow.
            if not any(each in batch.jobs for each in job.rows):
                del self._jobs[job.id]
                yield job.id, {"end": {"samples": [_row_document(each) for each in job.rows]}}

    def _remove_empty(self) -> None:
        self._batches = {key: each for key, each in self._batches.items() if each.jobs or each.waiting}

    def _unique_texts(self, tokenizer: Tokenizer) -> UniqueTexts:
        if tokenizer.sha256 not in self._texts:
            self._texts[tokenizer.sha256] = UniqueTexts(tokenizer)
        return self._texts[tokenizer.sha256]


def _sampling(model: Any, request: Mapping[str, Any]) -> tuple[Sampling, list[str]]:
    """Return the settings of generation, and notes on the tokens of `logit_bias`."""
    options, boundary = dict(request["options"]), model.tokenizer.boundary
    if request["unique"]:
        options["logit_bias"] = {int(id_): value for id_, value in options.get("logit_bias", {}).items()}
        if unknown := [id_ for id_ in options["logit_bias"] if id_ > boundary]:
            raise InvalidFieldError("logit_bias", f"token id {unknown[0]} does not exist", f"expected 0 to {boundary}")
    sampling, notes = model.sampling(options)
    return sampling, notes


def _read_prompt(tokenizer: Tokenizer, prompt: str | list[int]) -> tuple[Ids, str]:
    """Return the ids of a prompt without the boundary at its start, and its text."""
    if isinstance(prompt, str):
        return tokenizer.encode(prompt).ids, prompt
    for token_id in prompt:
        if not 0 <= token_id <= tokenizer.boundary:
            raise InvalidFieldError(
                "prompt", f"token id {token_id} does not exist", f"expected 0 to {tokenizer.boundary}"
            )
    ids = prompt[1:] if prompt[0] == tokenizer.boundary else prompt
    return np.array(ids, np.int64), tokenizer.decode(ids)


def _prompt_documents(
    predictor: Predictor, tokenizer: Tokenizer, echoed_T: Ids, ids_T: Ids, job: _Job
) -> list[TokenDocument]:
    """Return the tokens of a prompt; with log-probabilities, of all tokens but the first."""
    decoder, offset = IncrementalDecoder(tokenizer), 0
    documents: list[TokenDocument] = []
    rows = iter(()) if job.top is None else position_logprobs(predictor, ids_T)
    if job.top is not None and len(echoed_T) < len(ids_T):
        next(rows, None)  # of the first token, which is null as in other servers
    for position, id_ in enumerate(map(int, echoed_T)):
        if position == 0 or job.top is None:
            document = _token_document(job, id_, None, (), offset)
        else:
            logprobs_V = next(rows)
            document = _token_document(job, id_, float(logprobs_V[id_]), most_probable(logprobs_V, job.top), offset)
        documents.append(document)
        offset += len(decoder.add(id_))
    return documents


def _token_document(
    job: _Job, id_: int, logprob: float | None, top: tuple[tuple[int, float], ...], offset: int
) -> TokenDocument:
    return {
        "id": id_,
        "text": job.texts(id_),
        "logprob": logprob,
        "offset": offset,
        "top": [{"text": job.texts(each), "id": each, "logprob": value} for each, value in top],
    }


def _row_document(row: Continuation) -> dict[str, Any]:
    """Return the result of a continuation."""
    return {
        "text": row.text,
        "ids": row.ids,
        "finish": cast(str, row.finish),
        "speculative": row.speculative,
        "logprobs": row.logprobs,
    }
