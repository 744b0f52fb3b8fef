"""`@ab`: all strings of As and Bs and the letter after each."""

import pytest

from satchel.datasets.corpora import open_corpus
from satchel.text.reading import DataSettings


def test_the_default_is_every_string_of_four_letters_and_its_next_letter() -> None:
    corpus = open_corpus("@ab", DataSettings())
    assert "".join(corpus.texts(corpus.sources[0])).split("\n") == [
        "AAAAA", "AAABB", "AABAB", "AABBB", "ABAAB", "ABABB", "ABBAB", "ABBBB",
        "BAAAB", "BAABB", "BABAB", "BABBB", "BBAAB", "BBABB", "BBBAB", "BBBBB", "",
    ]  # fmt: skip


@pytest.mark.parametrize("length", [1, 2, 7])
def test_the_length_of_the_strings_is_a_setting(length: int) -> None:
    corpus = open_corpus("@ab", DataSettings(length=length), seed=3)
    lines = [piece.text for piece in corpus.pieces("line")]
    assert len(set(lines)) == len(lines) == 2**length
    assert all(len(line) == length + 1 and line[-1] == ("B" if "B" in line[:-1] else "A") for line in lines)
