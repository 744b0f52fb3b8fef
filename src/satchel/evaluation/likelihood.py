"""Likelihood metrics of language models: nats per token, perplexity, bits per byte, bits per character."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from satchel.charts import html
from satchel.data.tokens import TokenCounts
from satchel.predictor import Ids, Predictor


@dataclass(frozen=True)
class Likelihood:
    """Likelihood of a text. Perplexity is infinite if a token has probability 0.

    Bits per byte and per character are None if the tokenizer is not lossless on the text: text that is dropped or
    replaced by `<unk>` would not be predicted.
    """

    tokens: int
    unknown: int
    bytes: int
    characters: int
    nats_per_token: float
    perplexity: float
    bits_per_byte: float | None
    bits_per_character: float | None
    context: str
    impossible: int  # number of tokens with probability 0
    notes: dict[str, dict[str, float]]  # per annotation of the predictor: counts of its values, or its mean

    @property
    def headline(self) -> str:
        """One-line summary: perplexity and bits per byte."""
        bits = "" if self.bits_per_byte is None else f"{self.bits_per_byte:.4f} bits per byte, "
        return f"{bits}perplexity {self.perplexity:,.2f} on {self.tokens:,} tokens"

    def document(self) -> dict[str, Any]:
        """Return the metrics as JSON."""
        return asdict(self)

    def _repr_html_(self) -> str:
        metrics = (
            ("bits per byte", self.bits_per_byte),
            ("bits per character", self.bits_per_character),
            ("nats per token", self.nats_per_token),
        )
        counts = (("tokens", self.tokens), ("unknown", self.unknown), ("probability 0", self.impossible))
        return html.facts(
            [
                *((name, f"{value:.4f}") for name, value in metrics if value is not None),
                ("perplexity", f"{self.perplexity:,.2f}"),
                *((name, f"{count:,}") for name, count in counts if count or name == "tokens"),
            ]
        )


def likelihood(predictor: Predictor, ids: Ids, counts: TokenCounts) -> Likelihood:
    """Return the likelihood metrics of a text."""
    scores = predictor.score(ids)
    nats = -float(scores.logprobs.sum())
    per_token = nats / counts.tokens
    bits = nats / math.log(2)
    notes: dict[str, dict[str, float]] = {}
    for name, values in scores.notes.items():
        if values.dtype.kind in "iu":
            kinds, numbers = np.unique(values, return_counts=True)
            notes[name] = {str(kind): int(number) for kind, number in zip(kinds, numbers, strict=True)}
        else:
            notes[name] = {"mean": float(values.mean())}
    return Likelihood(
        tokens=counts.tokens,
        unknown=counts.unknown,
        bytes=counts.bytes,
        characters=counts.characters,
        nats_per_token=per_token,
        perplexity=math.exp(per_token) if per_token < 700 else math.inf,
        bits_per_byte=bits / counts.bytes if counts.lossless and counts.bytes else None,
        bits_per_character=bits / counts.characters if counts.lossless and counts.characters else None,
        context=predictor.context,
        impossible=int(np.isneginf(scores.logprobs).sum()),
        notes=notes,
    )
