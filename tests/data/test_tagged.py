"""Tags are assigned to the last token of their unit; the unit is inferred from all rows."""

import numpy as np
import pytest

from satchel.data.batches import NO_TARGET
from satchel.data.tagged import Unit, infer_unit, split_tags, split_units, tag_targets, tokenize_tagged
from satchel.errors import DataError
from satchel.text.tables import TaggedText
from satchel.text.tokenizer import Tokenizer, TokenizerSettings
from satchel.text.tokenizer_training import char_tokenizer, train_tokenizer, word_tokenizer

CHARACTERS = char_tokenizer(list("abc "))
PUNCTUATION = train_tokenizer(TokenizerSettings(kind="word", split="punctuation"), ["go, on"], 6)
WORDS = word_tokenizer(["a", "bb"])


@pytest.mark.parametrize(
    ("tokenizer", "unit", "texts", "tagged"),
    [
        (CHARACTERS, "word", ["ab c", "", "c"], ["b", "c", "c"]),
        (CHARACTERS, "character", ["ab c", ""], ["a", "b", " ", "c"]),
        (PUNCTUATION, "token", ["go, on"], ["go", ",", "on"]),
    ],
)
def test_the_tag_of_a_unit_is_at_its_last_token(
    tokenizer: Tokenizer, unit: Unit, texts: list[str], tagged: list[str]
) -> None:
    tokens, positions = tokenize_tagged(texts, tokenizer, unit)
    assert [tokenizer.text_of(int(tokens.ids[position])) for position in positions] == tagged
    assert np.asarray(tokens.ids).tolist().count(tokenizer.boundary) == len(texts) + 1
    targets = tag_targets(np.arange(len(positions)), positions, len(tokens.ids))
    assert targets[positions].tolist() == list(range(len(positions)))
    assert (targets != NO_TARGET).sum() == len(positions)


def test_texts_and_tags_are_split_into_units() -> None:
    row = TaggedText("go, on", "A B", 2)
    assert split_units(row.text, "token", PUNCTUATION) == ["go", ",", "on"]
    assert split_units(row.text, "word", PUNCTUATION) == ["go,", "on"]
    assert split_units(row.text, "character", PUNCTUATION) == list("go, on")
    assert split_tags(row, "word") == ["A", "B"]
    assert split_tags(row, "character") == ["A", "B"]
    assert split_tags(TaggedText("abc", "ABC", 2), "character") == ["A", "B", "C"]
    assert split_tags(TaggedText("a", "NOUN", 2), "character") == ["NOUN"]


@pytest.mark.parametrize(
    ("rows", "unit"),
    [
        ([("a bb", "0123"), ("bb", "01")], "character"),
        # A single character with one tag fits both units: the other row decides.
        ([("a", "N"), ("a bb", "D N")], "word"),
        ([("bb", "NN"), ("a bb", "D N")], "word"),
        ([("a bb", "0 1 2 3"), ("bb", "01"), ("a", "0")], "character"),
        ([("bb", "B-X I-X"), ("a", "B-X")], "character"),
        ([("a", "B-X"), ("b", "O")], "word"),
    ],
)
def test_the_unit_is_inferred_from_all_rows(rows: list[tuple[str, str]], unit: Unit) -> None:
    assert infer_unit([TaggedText(text, tags, 2) for text, tags in rows], WORDS, "x") == unit


@pytest.mark.parametrize(
    ("text", "tags", "message"),
    [
        ("a bb", "D N N", "x, line 3: found 3 tags for 2 words and 4 characters\n"),
        ("a bb", "DNN", "x, line 3: found 1 tag for 2 words and 4 characters\n"),
    ],
)
def test_a_wrong_number_of_tags_is_an_error(text: str, tags: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        infer_unit([TaggedText("a", "N", 2), TaggedText(text, tags, 3)], WORDS, "x")
