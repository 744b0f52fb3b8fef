"""Functions shared by the writers of examples. Shapes: R rows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from satchel import durable
from satchel.data.batches import Ints
from satchel.datasets.corpora import open_corpus, require_text
from satchel.errors import DataError
from satchel.progress import Progress
from satchel.text.reading import Corpus, text_pieces
from satchel.text.sources import file_source, stdin_source
from satchel.text.tokenizer import Tokenizer
from satchel.text.tokenizer_training import train_tokenizer

if TYPE_CHECKING:
    from satchel.training.plan import Plan

T = TypeVar("T")


@dataclass(frozen=True)
class Examples:
    """Result of writing the examples of a run."""

    tokenizer: Tokenizer
    sha256: str  # hash of the data
    facts: dict[str, Any]  # counts and other facts for the configuration of the run
    labels: tuple[str, ...] = ()
    classes: Ints | None = None  # class ids of the training rows, or of all tags in them
    source_tokenizer: Tokenizer | None = None  # tokenizer of the sources; None if sources and targets share one


def open_data(folder: durable.NewFolder, plan: "Plan", progress: Progress) -> Corpus:
    """Return the training data of a plan; standard input is first copied into the run folder."""
    settings = plan.settings
    if plan.data == "-":
        with folder.create("stdin.txt") as handle:
            stdin_source(handle)
        return Corpus("-", (file_source(folder.path / "stdin.txt", "-"),), settings.data)
    return open_corpus(plan.data, settings.data, settings.training.seed, lambda stage: progress(stage, None))


def valid_corpus(plan: "Plan") -> Corpus | None:
    """Return the held-out data named by `data.valid`; None if it is a fraction."""
    settings = plan.settings
    if not isinstance(settings.data.valid, str):
        return None
    corpus = open_corpus(settings.data.valid, settings.data, settings.training.seed, split="valid")
    return require_text(corpus) if settings.task == "lm" else corpus


def fraction(plan: "Plan") -> float:
    """Return the fraction of the rows to hold out; 0 if the held-out data is a file."""
    valid = plan.settings.data.valid
    return 0.0 if isinstance(valid, str) else valid


def split(
    rows: list[T], held_out: Callable[[float, int], npt.NDArray[np.bool_]], plan: "Plan", unit: str
) -> tuple[list[T], list[T]]:
    """Return the training rows and the held-out rows; `held_out` returns their mask for a fraction and a seed."""
    share = fraction(plan)
    if not share:
        return rows, []
    is_valid_R = held_out(share, plan.settings.training.seed)
    if not is_valid_R.any() and "data.valid" not in plan.chosen:
        raise DataError(
            f"data.valid={share}: no {unit} would be held out", "give a larger fraction, or a file with --valid"
        )
    return list(compress(rows, ~is_valid_R)), list(compress(rows, is_valid_R))


def require_rows(rows: Iterable[T], where: str, unit: str = "rows") -> list[T]:
    """Return the rows as a list; raise an error if there are none."""
    rows = list(rows)
    if not rows:
        raise DataError(f"found no {unit}, expected at least one", where=where)
    return rows


def learn_tokenizer(texts: Sequence[str], plan: "Plan", where: str) -> Tokenizer:
    """Return a tokenizer trained on texts."""
    characters = sum(map(len, texts))
    if not characters:
        raise DataError("found only empty texts", "check the text column with `satchel data`", where=where)
    return train_tokenizer(plan.settings.tokenizer, (piece.text for piece in text_pieces(texts)), characters)


def choose_tokenizer(texts: Sequence[str], plan: "Plan", where: str, progress: Progress) -> Tokenizer:
    """Return the tokenizer of the plan, or one trained on texts."""
    if plan.tokenizer is not None:
        return plan.tokenizer
    progress("learning the tokenizer", None)
    return learn_tokenizer(texts, plan, where)
