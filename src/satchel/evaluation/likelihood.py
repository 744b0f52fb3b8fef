"""Likelihood metrics of language models: nats per token, perplexity, bits per byte, bits per character."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from satchel.charts import html
from satchel.data.tokens import TokenCounts
from satchel.predictor import Floats, Ids, Predictor

# Statement on models that see their targets.
SEES_TARGETS = (
    "the model was trained without causal mask (model.causal=false) and sees its targets: only the last target of each "
    "window is predicted from other tokens"
)


@dataclass(frozen=True)
class Part:
    """Likelihood of some of the tokens of a text; the means are nan if there are none."""

    tokens: int
    nats_per_token: float
    perplexity: float


@dataclass(frozen=True)
class Likelihood:
    """Likelihood of a text. Perplexity is infinite if a token has probability 0.

    Bits per byte and per character are None if the tokenizer is not lossless on the text: text that is dropped or
    replaced by `<unk>` would not be predicted. They are None, too, if the model sees its targets: its predictions are
    not probabilities of the text. In that case there are two parts: the tokens that are in the input of the model at
    the position that predicts them, and those that are not.
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
    targets_in_input: Part | None = None
    targets_not_in_input: Part | None = None

    @property
    def sees_targets(self) -> bool:
        """Whether the model has no causal mask and sees the tokens that it predicts."""
        return self.targets_in_input is not None

    @property
    def headline(self) -> str:
        """One-line summary: perplexity and bits per byte."""
        if self.targets_in_input is not None and self.targets_not_in_input is not None:
            return (
                f"the model sees its targets: perplexity {self.targets_in_input.perplexity:,.2f} on "
                f"{self.targets_in_input.tokens:,} tokens that are in its input, "
                f"{self.targets_not_in_input.perplexity:,.2f} on {self.targets_not_in_input.tokens:,} that are not"
            )
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
                *([("targets", self.headline)] if self.sees_targets else []),
            ]
        )


def likelihood(predictor: Predictor, ids: Ids, counts: TokenCounts) -> Likelihood:
    """Return the likelihood metrics of a text."""
    scores = predictor.score(ids)
    nats = -float(scores.logprobs.sum())
    per_token = nats / counts.tokens
    bits = nats / math.log(2)
    notes: dict[str, dict[str, float]] = {}
    annotations = dict(scores.notes)
    in_input = annotations.pop("target_in_input", None)
    has_bits = counts.lossless and in_input is None
    for name, values in annotations.items():
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
        perplexity=_perplexity(per_token),
        bits_per_byte=bits / counts.bytes if has_bits and counts.bytes else None,
        bits_per_character=bits / counts.characters if has_bits and counts.characters else None,
        context=predictor.context,
        impossible=int(np.isneginf(scores.logprobs).sum()),
        notes=notes,
        targets_in_input=None if in_input is None else _part(scores.logprobs[in_input]),
        targets_not_in_input=None if in_input is None else _part(scores.logprobs[~in_input]),
    )


def _part(logprobs: Floats) -> Part:
    mean = -float(logprobs.mean()) if len(logprobs) else math.nan
    return Part(len(logprobs), mean, _perplexity(mean))


def _perplexity(nats_per_token: float) -> float:
    return math.inf if nats_per_token >= 700 else math.exp(nats_per_token)
