"""The part of a trained model that inspection depends on: network, tokenizers, task and run."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from satchel.errors import RunError
from satchel.models.backpack import Backpack
from satchel.runs.folder import RunConfig
from satchel.text.display import with_roles
from satchel.text.tokenizer import Tokenizer
from satchel.text.windows import Window


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
    run: RunConfig

    @property
    def settings(self) -> Any:
        """Settings of the run: `model.kind`, `data`, `training.seed`."""

    @property
    def task(self) -> str:
        """Task: lm, tag, classify or translate."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels or tags in the order of the logits; empty for other tasks."""


def class_name(subject: Subject, number: int) -> str:
    """Return the name of an output class: a token of a language model, otherwise a label."""
    return subject.tokenizer.text_of(number) if subject.task == "lm" else subject.labels[number]


def json_fields(result: object, *names: str) -> dict[str, Any]:
    """Return attributes of a result as values of JSON; arrays and tuples become lists, and tokens get roles."""
    return with_roles({name: _json_value(getattr(result, name)) for name in names})


def _json_value(value: Any) -> Any:
    if isinstance(value, Window):
        return value.document()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_json_value(each) for each in value] if isinstance(value, tuple) else value


def backpack_of(subject: Subject) -> Backpack:
    """Return the Backpack encoder of a model, or raise an error if it has another encoder."""
    if subject.task == "translate":
        raise unsupported(subject, "has senses of sources and targets", "use `satchel look alignment`")
    encoder = getattr(subject.network, "encoder", None)
    if not isinstance(encoder, Backpack):
        remedy = "train a language model, classifier or tagger with --model backpack"
        raise unsupported(subject, "has no sense vectors", remedy)
    return encoder


def unsupported(subject: Subject, cause: str, remedy: str) -> RunError:
    """Return the error for a model without a part that is inspected."""
    kind = f"task={subject.task}, model.kind={subject.settings.model.kind}"
    return RunError(f"{cause} ({kind})", remedy, where=str(subject.folder))
