"""Choice of the next token from logits. Shapes: B batch, V vocabulary."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from satchel.config import Settings
from satchel.generation.noise import Noise
from satchel.generation.speculation import Mode
from satchel.generation.transforms import (
    Exclude,
    Filter,
    History,
    LogitBias,
    MinP,
    NoRepeatNgram,
    OccurrencePenalty,
    Probabilities,
    RepetitionPenalty,
    TopK,
    TopP,
    Transform,
    Typical,
)
from satchel.predictor import Logits

# Maximum absolute value that is added to a logit.
LARGEST_BIAS = 1000.0
Bias = Annotated[float, Field(ge=-LARGEST_BIAS, le=LARGEST_BIAS)]


class Sampling(Settings):
    """Settings of generation, shared by all models."""

    tokens: int = Field(100, ge=1, le=1_000_000, description="maximum number of tokens to generate")
    temperature: float = Field(1.0, ge=0, le=100, description="softmax temperature; 0 is greedy decoding")
    top_k: int | None = Field(None, ge=1, description="sample from the k most probable tokens only")
    top_p: float | None = Field(None, gt=0, le=1, description="sample from the smallest set with this probability mass")
    min_p: float | None = Field(None, ge=0, le=1, description="minimum probability relative to the most probable token")
    typical_p: float | None = Field(
        None, gt=0, le=1, description="sample from the tokens closest to the entropy, with this probability mass"
    )
    repetition_penalty: float = Field(
        1.0, gt=0, le=100, description="factor of the logits of tokens that have occurred; above 1 discourages them"
    )
    presence_penalty: float = Field(
        0.0, ge=-100, le=100, description="subtracted from the logit of every token generated before"
    )
    frequency_penalty: float = Field(
        0.0, ge=-100, le=100, description="subtracted from the logit of a token for each time it was generated before"
    )
    no_repeat_ngram: int = Field(
        0, ge=0, le=1_000_000, description="exclude tokens that repeat an n-gram of this length; 0: none"
    )
    logit_bias: dict[int, Bias] = Field({}, description="constants added to the logits of token ids")
    greedy: bool = Field(False, description="always choose the most probable token")
    stop: tuple[str, ...] = Field((), description="stop strings: generation ends before the first of them")
    samples: int = Field(1, ge=1, le=1000, description="number of continuations")
    seed: int = Field(0, ge=0, lt=1 << 63, description="random seed")
    logprobs: int | None = Field(
        None, ge=0, le=1000, description="return log-probabilities, and those of this many most probable tokens"
    )
    speculative: Mode = Field("auto", description="speculative decoding: the n-gram model of the run proposes tokens")

    @property
    def is_greedy(self) -> bool:
        """Whether the most probable token is chosen."""
        return self.greedy or self.temperature == 0


class Sampler:
    """Chooses tokens: transforms of the logits, softmax with a temperature, filters of the probabilities, a draw.

    The order of the transforms is: excluded ids, logit bias, repetition penalty, presence and frequency penalties,
    repeated n-grams. That of the filters is: top-k, top-p, min-p, typical-p.
    """

    def __init__(self, sampling: Sampling, excluded: Sequence[int] = ()) -> None:
        self._is_greedy, self._temperature = sampling.is_greedy, sampling.temperature
        self._transforms: list[Transform] = []
        if excluded:
            self._transforms.append(Exclude(excluded))
        if sampling.logit_bias:
            self._transforms.append(LogitBias(sampling.logit_bias))
        if sampling.repetition_penalty != 1:
            self._transforms.append(RepetitionPenalty(sampling.repetition_penalty))
        if sampling.presence_penalty or sampling.frequency_penalty:
            self._transforms.append(OccurrencePenalty(sampling.presence_penalty, sampling.frequency_penalty))
        if sampling.no_repeat_ngram:
            self._transforms.append(NoRepeatNgram(sampling.no_repeat_ngram))
        # Whether `choose` returns the same token for probabilities as for their logarithms.
        self.accepts_probabilities = self._is_greedy and all(isinstance(each, Exclude) for each in self._transforms)
        self._filters: list[Filter] = []
        if sampling.top_k is not None:
            self._filters.append(TopK(sampling.top_k))
        if sampling.top_p is not None and sampling.top_p < 1:
            self._filters.append(TopP(sampling.top_p))
        if sampling.min_p:
            self._filters.append(MinP(sampling.min_p))
        if sampling.typical_p is not None and sampling.typical_p < 1:
            self._filters.append(Typical(sampling.typical_p))

    def choose(self, logits_V: Logits, history: History, noise: Noise) -> int:
        """Return the next token: the most probable one, or a draw that depends on the noise of its position."""
        if self._transforms:
            logits_V = logits_V.copy()
            for transform in self._transforms:
                transform(logits_V, history)
        if self._is_greedy:
            return int(logits_V.argmax())
        return int((self._filtered(logits_V) / noise.next(len(logits_V))).argmax())

    def _filtered(self, logits_V: Logits) -> Probabilities:
        """Return the probabilities after the filters, in proportion."""
        temperature = max(logits_V.dtype.type(self._temperature), np.finfo(logits_V.dtype).tiny)
        with np.errstate(over="ignore"):
            probabilities_V: Probabilities = (logits_V - logits_V.max()) / temperature
        np.exp(probabilities_V, out=probabilities_V)
        for filter_ in self._filters:
            filter_(probabilities_V)
        return probabilities_V


def choose(logits_BV: Logits, sampling: Sampling, generators: Sequence[np.random.Generator]) -> list[int]:
    """Return one token per row, sampled with its random generator; settings that need a history have no effect."""
    sampler, history = Sampler(sampling), History(np.empty(0, np.int64))
    return [sampler.choose(logits_V, history, Noise(rng)) for logits_V, rng in zip(logits_BV, generators, strict=True)]
