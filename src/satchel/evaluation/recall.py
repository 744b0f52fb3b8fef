"""Recall by distance: prediction of a document's last word that also occurs earlier in the document."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from satchel.predictor import Predictor, log_probabilities
from satchel.text.tokenizer import Tokenizer

# Upper edges of the distance bins, in words.
EDGES = (5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class Distance:
    """Documents in one distance bin: accuracy and mean negative log-likelihood of the last word."""

    nearest: int
    farthest: int
    documents: int
    accuracy: float
    nats: float


def recall(predictor: Predictor, tokenizer: Tokenizer, texts: Iterable[str]) -> list[Distance]:
    """Return accuracy and nats of the last word of each text, by the distance to its previous occurrence."""
    bins: dict[int, list[tuple[int, bool, float]]] = {}
    for text in texts:
        words = text.split()
        if not words or words[-1] not in words[:-1]:
            continue
        distance = words[:-1][::-1].index(words[-1]) + 1
        index = int(np.searchsorted(EDGES, distance))
        bins.setdefault(index, []).append((distance, *_last_word(predictor, tokenizer, text, words[-1])))
    results = []
    for _, rows in sorted(bins.items()):
        distances, correct, nats = zip(*rows, strict=True)
        accuracy, loss = float(np.mean(correct)), float(np.mean(nats))
        results.append(Distance(min(distances), max(distances), len(rows), accuracy, loss))
    return results


def _last_word(predictor: Predictor, tokenizer: Tokenizer, text: str, word: str) -> tuple[bool, float]:
    """Return whether greedy decoding gives the last word, and its negative log-likelihood in nats."""
    prefix = tokenizer.encode(text[: text.rindex(word)].rstrip()).ids
    word_ids = tokenizer.encode(text.rstrip()).ids[len(prefix) :]
    decoder = predictor.decoder()
    logits_BV = decoder.join([np.concatenate([[tokenizer.boundary], prefix])])
    is_correct, nats = True, 0.0
    for token in word_ids:
        logprobs_V = log_probabilities(decoder, logits_BV)[0]
        is_correct &= int(logprobs_V.argmax()) == token
        nats -= float(logprobs_V[token])
        logits_BV = decoder.step(np.array([token]))
    return is_correct, nats
