"""Autoregressive decoding of one prompt, several samples in one batch. Shapes: B batch, T tokens, V vocabulary."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from satchel.generation.sampling import Sampling, choose
from satchel.predictor import Ids, Predictor, log_probabilities
from satchel.text.tokenizer import Tokenizer

Finish = Literal["length", "stop", "end"]


@dataclass(frozen=True)
class Sample:
    """A continuation: text, ids, and the finish reason (token limit, stop string or end of document).

    The text starts with the space after the prompt, if there is one.
    """

    text: str
    ids: tuple[int, ...]
    finish: Finish


def continue_text(
    predictor: Predictor,
    tokenizer: Tokenizer,
    prompt: str,
    sampling: Sampling,
    progress: Callable[[float], None] = lambda done: None,
    on_text: Callable[[str], None] = lambda text: None,
    *,
    prompt_ids: Ids | None = None,
) -> list[Sample]:
    """Return continuations of a prompt. Sample i depends on the seed and on i, not on the number of samples.

    `on_text` receives the text of the first sample after each token, without parts that may still change. `prompt_ids`
    are the ids of the prompt after the boundary, if they are known already.
    """
    generators = [np.random.default_rng([sampling.seed, number]) for number in range(sampling.samples)]
    prompt_ids = tokenizer.encode(prompt).ids if prompt_ids is None else prompt_ids
    ids_T = np.concatenate([[tokenizer.boundary], prompt_ids])
    decoder = predictor.decoder()
    logits_BV = decoder.join([ids_T])
    if sampling.samples > 1:
        rows = np.zeros(sampling.samples, np.int64)
        logits_BV = logits_BV[rows]
        decoder.keep(rows)
    generated: list[list[int]] = [[] for _ in generators]
    finishes: list[Finish | None] = [None] * len(generators)
    for count in range(sampling.tokens):
        logprobs_BV = log_probabilities(decoder, logits_BV)
        if tokenizer.unknown is not None:
            logprobs_BV[:, tokenizer.unknown] = -np.inf
        chosen = choose(logprobs_BV, sampling, generators)
        for row, token in enumerate(chosen):
            if finishes[row] is not None:
                continue
            if token == tokenizer.boundary:
                finishes[row] = "end"
                continue
            generated[row].append(token)
            if _ends_with_stop(tokenizer, prompt, generated[row], sampling.stop):
                finishes[row] = "stop"
        if finishes[0] is None:
            on_text(_stable_prefix(tokenizer.decode_after(prompt, generated[0]), sampling.stop))
        if all(finishes) or count + 1 == sampling.tokens:
            break
        logits_BV = decoder.step(np.array(chosen))
        progress((count + 1) / sampling.tokens)
    samples = []
    for ids, finish in zip(generated, finishes, strict=True):
        text = tokenizer.decode_after(prompt, ids)
        if finish == "stop":
            text = text[: min(text.find(stop) for stop in sampling.stop if stop in text)]
        samples.append(Sample(text, tuple(ids), finish or "length"))
    return samples


def _stable_prefix(text: str, stops: tuple[str, ...]) -> str:
    """Return the text without an incomplete UTF-8 character or a possible beginning of a stop string at its end."""
    text = text.rstrip("\ufffd")
    lengths = [size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size])]
    return text[: len(text) - max(lengths, default=0)]


def _ends_with_stop(tokenizer: Tokenizer, prompt: str, ids: list[int], stops: tuple[str, ...]) -> bool:
    """Return whether the last token completed a stop string; only the last tokens are decoded."""
    if not stops:
        return False
    longest = max(len(stop.encode()) for stop in stops)
    count = longest + 4
    tail = tokenizer.decode(ids[-count:]) if len(ids) > count else tokenizer.decode_after(prompt, ids)
    return any(stop in tail for stop in stops)
