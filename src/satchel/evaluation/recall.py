"""How well a language model recalls what stood far back: the last word of a document that has occurred before."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from satchel.predictor import Predictor
from satchel.text.tokenizer import Tokenizer

# Distances, in words, up to which documents are counted together.
EDGES = (5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class Distance:
    """The documents whose last word stood so many words before: how often it was the likeliest, and what it cost."""

    nearest: int
    farthest: int
    documents: int
    accuracy: float
    nats: float


def recall(predictor: Predictor, tokenizer: Tokenizer, texts: Iterable[str]) -> list[Distance]:
    """Return how well the last word of each text is recalled, by how many words ago it was there last."""
    found: dict[int, list[tuple[int, bool, float]]] = {}
    for text in texts:
        words = text.split()
        if not words or words[-1] not in words[:-1]:
            continue
        distance = words[:-1][::-1].index(words[-1]) + 1
        place = int(np.searchsorted(EDGES, distance))
        found.setdefault(place, []).append((distance, *_recalled(predictor, tokenizer, text, words[-1])))
    return [
        Distance(
            min(distance for distance, _, _ in rows),
            max(distance for distance, _, _ in rows),
            len(rows),
            float(np.mean([right for _, right, _ in rows])),
            float(np.mean([nats for _, _, nats in rows])),
        )
        for _, rows in sorted(found.items())
    ]


def _recalled(predictor: Predictor, tokenizer: Tokenizer, text: str, word: str) -> tuple[bool, float]:
    """Return whether each token of the last word is the likeliest, and what the word costs."""
    before = tokenizer.encode(text[: text.rindex(word)].rstrip()).ids
    following = tokenizer.encode(text.rstrip()).ids[len(before) :]
    logprobs_BV, state = predictor.step(np.concatenate([[tokenizer.boundary], before])[None], predictor.start(1))
    right, nats = True, 0.0
    for token in following.tolist():
        right &= int(logprobs_BV[0].argmax()) == token
        nats -= float(logprobs_BV[0, token])
        logprobs_BV, state = predictor.step(np.array([[token]]), state)
    return right, nats
