"""Continuing a prompt, token by token, several samples at once. Letters: B batch, T tokens, V ids."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from satchel.generation.sampling import Sampling, choose
from satchel.predictor import Predictor
from satchel.text.tokenizer import Tokenizer

Finish = Literal["length", "stop", "end"]


@dataclass(frozen=True)
class Sample:
    """A continuation: its text, its ids, and why it ended."""

    text: str
    ids: tuple[int, ...]
    finish: Finish


def continue_text(
    predictor: Predictor,
    tokenizer: Tokenizer,
    prompt: str,
    sampling: Sampling,
    progress: Callable[[float], None] = lambda done: None,
    written_so_far: Callable[[str], None] = lambda text: None,
) -> list[Sample]:
    """Return continuations of a prompt. Each depends on the seed and its own number, not on the others.

    `written_so_far` is given the text of the first one as it grows: as much of it as is certain to stay.
    """
    generators = [np.random.default_rng([sampling.seed, number]) for number in range(sampling.samples)]
    ids_T = np.concatenate([[tokenizer.boundary], tokenizer.encode(prompt).ids])
    ids_BT = np.repeat(ids_T[None], sampling.samples, axis=0)
    state = predictor.start(sampling.samples)
    written: list[list[int]] = [[] for _ in generators]
    finishes: list[Finish | None] = [None] * len(generators)
    for count in range(sampling.tokens):
        logprobs_BV, state = predictor.step(ids_BT, state)
        if tokenizer.unknown is not None:
            logprobs_BV[:, tokenizer.unknown] = -np.inf
        chosen = choose(logprobs_BV, sampling, generators)
        for row, token in enumerate(chosen):
            if finishes[row] is not None:
                continue
            if token == tokenizer.boundary:
                finishes[row] = "end"
                continue
            written[row].append(token)
            if _stops(tokenizer, written[row], sampling.stop):
                finishes[row] = "stop"
        if finishes[0] is None:
            written_so_far(_certain(tokenizer.decode(written[0]), sampling.stop))
        if all(finishes):
            break
        ids_BT = np.array(chosen)[:, None]
        progress((count + 1) / sampling.tokens)
    return [
        _sample(tokenizer, ids, finish or "length", sampling.stop)
        for ids, finish in zip(written, finishes, strict=True)
    ]


def _certain(text: str, stops: tuple[str, ...]) -> str:
    """Return the part of a text that stays: without a character that is not whole yet, or what may begin a stop."""
    text = text.rstrip("\ufffd")
    held = [size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size])]
    return text[: len(text) - max(held, default=0)]


def _stops(tokenizer: Tokenizer, ids: list[int], stops: tuple[str, ...]) -> bool:
    """Return whether a stop text has just appeared: every token is a character or more, so the last ones tell."""
    if not stops:
        return False
    longest = max(len(stop.encode()) for stop in stops)
    tail = tokenizer.decode(ids[-longest - 4 :])
    return any(stop in tail for stop in stops)


def _sample(tokenizer: Tokenizer, ids: list[int], finish: Finish, stops: tuple[str, ...]) -> Sample:
    text = tokenizer.decode(ids)
    if finish == "stop":
        text = text[: min(text.find(stop) for stop in stops if stop in text)]
    return Sample(text, tuple(ids), finish)
