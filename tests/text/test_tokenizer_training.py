"""Training of tokenizers: determinism and vocabulary sizes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from satchel.errors import SettingsError
from satchel.text.tokenizer import UNKNOWN, Tokenizer, parse_tokenizer
from satchel.text.tokenizer_files import read_tokenizer
from satchel.text.tokenizer_training import default_size
from tests.text.samples import train


@pytest.mark.parametrize("kind", ["byte", "bpe", "unigram", "char", "word"])
def test_training_twice_gives_the_same_tokenizer(kind: str, trained: dict[str, Tokenizer]) -> None:
    size = 400 if kind in ("bpe", "unigram") else None
    for _ in range(3):
        assert train(kind, size=size).json == trained[kind].json


def test_training_in_another_process_gives_the_same_tokenizer(shared: Path) -> None:
    # The order of the library's hash tables differs between processes.
    program = """
import sys
from pathlib import Path
from satchel.text.tokenizer import TokenizerSettings
from satchel.text.tokenizer_training import train_tokenizer
text = Path(sys.argv[1]).read_text(encoding="utf-8")[:100_000]
for kind in ("word", "bpe", "unigram"):
    pieces = [text[i : i + 1000] for i in range(0, len(text), 1000)]
    print(train_tokenizer(TokenizerSettings(kind=kind), pieces, len(text)).sha256)
"""
    command = [sys.executable, "-c", program, str(shared / "tiny-shakespeare" / "input.txt")]
    first, second = (subprocess.run(command, capture_output=True, check=True).stdout for _ in range(2))
    assert first == second
    assert len(first.split()) == 3


@pytest.mark.parametrize("text", ["", "a", "\0" * 50, "\n" * 50, "   ", "ab" * 400, "é"])
@pytest.mark.parametrize("kind", ["char", "word", "bpe", "unigram"])
def test_a_tokenizer_can_be_trained_on_a_very_short_text(kind: str, text: str) -> None:
    tokenizer = train(kind, text)
    encoding = tokenizer.encode(text)
    assert encoding.unknown == 0
    if kind != "word":
        assert tokenizer.decode(encoding.ids) == text
    assert read_tokenizer(tokenizer.json.encode(), "x").sha256 == tokenizer.sha256


def test_training_on_a_very_long_word_is_fast() -> None:
    # Without a limit of the length of pre-tokens this takes minutes.
    rng = np.random.default_rng(0)
    letters = "".join(map(chr, rng.integers(97, 102, 300_000)))
    assert train("bpe", letters, size=300).size == 300
    assert train("bpe", "\n" * 300_000, size=260).size == 260


# --- sizes


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("size", [1, 100, 256])
def test_byte_level_vocabularies_are_larger_than_the_number_of_bytes(kind: str, size: int) -> None:
    with pytest.raises(SettingsError, match="expected a size above 256: the vocabulary contains every byte"):
        parse_tokenizer(f"{kind}:{size}")


def test_size_limits_the_vocabulary(shared: Path) -> None:
    text = (shared / "tiny-shakespeare" / "input.txt").read_text(encoding="utf-8")[:50_000]
    for kind in ("bpe", "unigram"):
        for size in (257, 300, 1000):
            assert 256 <= train(kind, text, size=size).size <= size
    assert train("bpe", text, size=300).size == 300
    for kind in ("char", "word"):
        for size in (1, 2, 10):
            assert train(kind, text, size=size).size == size


def test_the_vocabulary_has_the_most_frequent_tokens_with_at_least_min_count() -> None:
    text = "b b b a a c c d"
    assert train("word", text, size=2).spellings == ["b", UNKNOWN]
    assert train("word", text, size=3).spellings == ["b", "a", UNKNOWN]
    assert train("word", text, min_count=2).spellings == ["b", "a", "c", UNKNOWN]
    assert train("word", text, min_count=9).spellings == [UNKNOWN]
    assert train("char", text, min_count=3).spellings == [" ", "b", UNKNOWN]
    assert train("char", text, size=4).spellings == [" ", "a", "b", UNKNOWN]
    tokenizer = train("word", text, min_count=2)
    assert tokenizer.encode(text).unknown == 1


def test_words_are_split_at_white_space_and_keep_their_case() -> None:
    assert train("word", "The the, cat's\u00a0x\n").spellings[:-1] == ["The", "cat's", "the,", "x"]
    split = train("word", "The the, cat's", split="punctuation")
    assert sorted(split.spellings[:-1]) == sorted(["The", "the", ",", "cat", "'", "s"])


def test_the_default_size_grows_with_the_text() -> None:
    assert [default_size(count) for count in (0, 300_000, 10**9)] == [500, 1000, 8000]
