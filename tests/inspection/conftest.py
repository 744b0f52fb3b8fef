"""Small data, small trained models and stand-ins for models."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
import torch

import satchel
from satchel.models.backpack import Backpack
from tests.conftest import VERSE
from tests.models.encoders import VOCABULARY, make

M = TypeVar("M", bound=torch.nn.Module)

# Settings of small networks, and of those with blocks of attention.
SMALL: dict[str, Any] = {"model.width": 16, "training.threads": 1}
BLOCKS: dict[str, Any] = {**SMALL, "model.layers": 2, "model.heads": 2, "model.context": 16}

TEXT = "the cat sat on the mat and the dog sat on the cat\n" * 40
ROWS = "label\ttext\n" + "good\tthe cat sat\nbad\tthe dog ran\n" * 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two texts and a labelled table."""
    path = tmp_path_factory.mktemp("inspection")
    (path / "text.txt").write_text(TEXT)
    (path / "verse.txt").write_text(VERSE * 20)
    (path / "rows.tsv").write_text(ROWS)
    return path


def train(
    folder: Path, data: str = "text.txt", *, name: str = "run", small: dict[str, Any] = BLOCKS, **options: Any
) -> Any:
    """Train a small model on a file of a folder or on built-in data; by default for two steps."""
    settings = {**small, **options.pop("settings", {})}
    path = data if data.startswith("@") else folder / data
    return satchel.train(path, out=folder / name, force=True, **{"settings": settings, "steps": 2, **options})


def count_ngrams(folder: Path, data: str = "text.txt") -> Any:
    """Estimate an n-gram model on a file of a folder."""
    return satchel.train(folder / data, model="ngram", task="lm", tokenizer="word", out=folder / "ngram", force=True)


def _train_bpe(folder: Path, data: str, model: str, **options: Any) -> Any:
    settings = {"training.learning_rate": 0.02, **options.pop("settings", {})}
    return train(folder, data, name=model, model=model, tokenizer="bpe:280", settings=settings, **options)


@pytest.fixture(scope="module")
def lstm(folder: Path) -> Any:
    """An LSTM language model with words of several tokens."""
    return _train_bpe(folder, "verse.txt", "lstm", steps=20, small=SMALL)


@pytest.fixture(scope="module")
def bpe_backpack(folder: Path) -> Any:
    """A Backpack language model with words of several tokens, interpolated with an n-gram model."""
    settings = {"model.layers": 1, "model.context": 32, "model.senses": 3, "model.ngram": 2}
    return _train_bpe(folder, "verse.txt", "backpack", steps=30, settings=settings)


@pytest.fixture(scope="module")
def bpe_classifier(folder: Path) -> Any:
    """A classifier with bigrams and words of several tokens."""
    rows = ["good\ta fine day", "bad\ta grim night", "good\tfine and good", "bad\tgrim, grim night"]
    (folder / "days.tsv").write_text("label\ttext\n" + "\n".join(rows * 8) + "\n")
    return _train_bpe(folder, "days.tsv", "dan", steps=20, small=SMALL, settings={"model.bigrams": 64})


@pytest.fixture(scope="module")
def bpe_tagger(folder: Path) -> Any:
    """A tagger with words of several tokens."""
    rows = ["the cat sat.\tD N V", "a dog ran\tD N V", "dogs ran\tN V", "the dogs sat.\tD N V"]
    (folder / "tags.tsv").write_text("text\ttags\n" + "\n".join(rows * 8) + "\n")
    return _train_bpe(folder, "tags.tsv", "transformer", steps=20, settings={"model.layers": 1, "model.context": 32})


@pytest.fixture
def backpack() -> Backpack:
    """A small Backpack whose weights are large enough that its outputs differ."""
    encoder = make("backpack")
    assert isinstance(encoder, Backpack)
    return enlarge(encoder)


def enlarge(module: M) -> M:
    """Draw all parameters from a normal distribution with standard deviation 0.3."""
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return module


def untrained(network: Any) -> Any:
    """Return the subject of a language network without a run folder; its tokens are named after their ids."""

    def tokens_of(ids: Iterable[int]) -> tuple[str, ...]:
        return tuple(f"word {id_}" for id_ in ids)

    tokenizer = SimpleNamespace(
        text_of=lambda id_: tokens_of([id_])[0], tokens_of=tokens_of, size=VOCABULARY - 1, boundary=10, unknown=None
    )
    return SimpleNamespace(
        network=network, task="lm", tokenizer=tokenizer, source_tokenizer=tokenizer, folder=Path("none"), labels=()
    )
