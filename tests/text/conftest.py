"""Tokenizers shared by the tests of this folder."""

import pytest

from satchel.text.tokenizer import Tokenizer
from tests.text.samples import train


@pytest.fixture(scope="session")
def trained() -> dict[str, Tokenizer]:
    """One tokenizer of each kind."""
    return {
        "byte": train("byte"),
        "bpe": train("bpe", size=400),
        "unigram": train("unigram", size=400),
        "char": train("char"),
        "word": train("word"),
        "punctuation": train("word", split="punctuation"),
    }
