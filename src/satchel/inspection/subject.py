"""The part of a trained model that inspection depends on: network, tokenizers, task and run."""

from pathlib import Path
from typing import Any, Protocol

from satchel.text.tokenizer import Tokenizer


class Subject(Protocol):
    """A trained model of any task; `satchel.api.model.Model` implements it."""

    # None for n-gram models and mixtures.
    network: Any
    # Computes log-probabilities: a Predictor, a Labeller, or the scorer of a translator.
    predictor: Any
    tokenizer: Tokenizer
    # Tokenizer of the input; differs from `tokenizer` only for translators.
    source_tokenizer: Tokenizer
    folder: Path

    @property
    def settings(self) -> Any:
        """Settings of the run: `model.kind`, `data`, `training.seed`."""

    @property
    def task(self) -> str:
        """Task: lm, tag, classify or translate."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels or tags in the order of the logits; empty for other tasks."""
