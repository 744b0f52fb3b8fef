"""Likelihood metrics of language models: nats per token, perplexity, bits per byte, bits per character."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from satchel.charts import html
from satchel.data.tokens import TokenCounts
from satchel.predictor import Floats, Ids, Predictor
from satchel.text.reading import SHORTEST_PIECE, DocumentRule, Piece, pieces_of
from satchel.text.tokenizer import Tokenizer

# Limits of the texts that are scored in one call: enough texts of each length for batches without padding, and bounded
# memory.
TEXTS_AT_ONCE = 1 << 15
CHARACTERS_AT_ONCE = 1 << 20
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


@dataclass(frozen=True)
class TextLikelihood:
    """Likelihood of one text; `logprob` is the log-probability of its tokens in nats.

    With `is_truncated`, only the first tokens of the text or of its source are used.
    `bytes` are None if the tokenizer is not lossless on the text, if a part of the text is not scored, or if the model
    sees its targets.
    """

    text: str
    logprob: float
    tokens: int
    unknown: int
    bytes: int | None
    is_truncated: bool = False

    @property
    def perplexity(self) -> float | None:
        """Perplexity per token; infinite if a token has probability 0, None without tokens."""
        return _perplexity(-self.logprob / self.tokens) if self.tokens else None

    @property
    def bits_per_byte(self) -> float | None:
        """Bits per byte; None without bytes."""
        return -self.logprob / math.log(2) / self.bytes if self.bytes else None


def text_likelihoods(
    predictor: Predictor, tokenizer: Tokenizer, rule: DocumentRule, texts: Iterable[str]
) -> Iterator[TextLikelihood]:
    """Yield the likelihood of each text, in order, reading a bounded number of texts ahead.

    `rule` divides each text into documents; the document of a stream has no end that is predicted.
    """
    for batch in text_batches(texts):
        pieces: list[Piece] = []
        counts = []  # number of pieces of each text
        for text in batch:
            before = len(pieces)
            if len(text) <= SHORTEST_PIECE and "\n" not in text and text.strip():
                pieces.append(Piece(text, True))  # as below, but faster
            else:
                pieces += pieces_of([text], rule)
            counts.append(len(pieces) - before)
            if rule == "stream" and counts[-1]:
                pieces[-1] = Piece(pieces[-1].text, True)
        yield from _score_pieces(predictor, tokenizer, rule, batch, pieces, counts)


def text_batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the texts in batches that are scored in one call."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if len(batch) == TEXTS_AT_ONCE or characters > CHARACTERS_AT_ONCE:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _score_pieces(
    predictor: Predictor,
    tokenizer: Tokenizer,
    rule: DocumentRule,
    texts: list[str],
    pieces: list[Piece],
    counts: list[int],
) -> Iterator[TextLikelihood]:
    """Yield the likelihoods of texts, given the pieces of all of them and the number of pieces of each."""
    starts = [True, *(piece.ends for piece in pieces[:-1])][: len(pieces)]
    encodings = list(tokenizer.encode_pieces([piece.text for piece in pieces], starts))
    boundary = np.array([tokenizer.boundary])
    parts = [boundary]
    for piece, encoding in zip(pieces, encodings, strict=True):
        parts += [encoding.ids, boundary] if piece.ends else [encoding.ids]
    scores = predictor.score(np.concatenate(parts), ends=rule != "stream")
    sees_targets = "target_in_input" in scores.notes
    lengths = np.array([len(encoding.ids) + piece.ends for piece, encoding in zip(pieces, encodings, strict=True)], int)
    owners = np.repeat(np.arange(len(texts)), counts)
    logprobs = np.bincount(np.repeat(owners, lengths), scores.logprobs, len(texts)).tolist()
    remaining = zip(pieces, encodings, strict=True)
    for text, count, logprob in zip(texts, counts, logprobs, strict=True):
        tokens = unknown = size = 0
        is_lossless = not sees_targets
        for piece, encoding in islice(remaining, count):
            tokens += len(encoding.ids) + (piece.ends and rule != "stream")
            unknown += encoding.unknown
            # As in token files: with one document per line, the end of a line counts as a byte.
            size += len(piece.text.encode()) + (piece.ends and rule == "line")
            is_lossless = is_lossless and encoding.lossless
        yield TextLikelihood(text, logprob, tokens, unknown, size if is_lossless else None)


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
