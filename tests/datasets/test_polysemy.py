"""Sentences with words of two senses: the senses, the polarity and the entropy are what the grammar says."""

import math
import random
from collections import Counter, defaultdict
from itertools import product

from satchel.datasets import polysemy
from satchel.datasets.builtin import BUILTINS, PARTS, Part, variant
from satchel.text.reading import DataSettings


def test_there_are_enough_words_of_two_senses_and_both_are_used() -> None:
    senses = defaultdict(set)
    for *_, praise, blame in polysemy.TOPICS:
        for sign, words in (("+", praise), ("-", blame)):
            for word in set(words.split()) - set(polysemy.SELDOM):
                senses[word].add(sign)
    assert len(polysemy.WORDS) >= 12
    assert set(senses) == set(polysemy.WORDS)
    assert all(found == {"+", "-"} for found in senses.values())


def test_neither_the_topic_nor_the_word_alone_says_how_a_sentence_goes_on() -> None:
    # For two words the same two endings follow praise and blame, the other way round.
    pairs = Counter(
        frozenset(endings) for *_, praise, blame in polysemy.WORDS.values() for endings in [(praise, blame)]
    )
    assert max(pairs.values()) >= 2
    # And of every thing as much is praise as is blame.
    for *_, praise, blame in polysemy.TOPICS:
        polarities = Counter(entry.polarity for entry in polysemy._entries(praise, blame))
        assert polarities["positive"] == polarities["negative"] > polarities["neutral"] > 0


def test_the_tags_say_which_sense_is_meant() -> None:
    rows = list(BUILTINS["@polysemy-senses"].make(DataSettings(size=500), 0, "train"))
    assert len(rows) == 500
    for tags, text in rows:
        assert len(tags.split()) == len(text.split())
        for tag, word in zip(tags.split(), text.split(), strict=True):
            assert (word in polysemy.WORDS) == (tag != "-")
            if tag != "-":
                assert tag.split("/")[0] == word
                assert tag.split("/")[1] in polysemy.WORDS[word][:2]


def test_the_polarity_is_that_of_the_sense_and_no_beginning_is_in_two_parts() -> None:
    parts = [dict_of(part) for part in PARTS]
    train, valid, test = parts
    assert train["That trick was sick"] == "positive"
    assert {label for part in parts for label in part.values()} == {"positive", "negative", "neutral"}
    assert not set(train) & (set(valid) | set(test))
    assert all(label == "negative" for text, label in train.items() if "fever" in text and "sick" in text)


def dict_of(part: Part) -> dict[str, str]:
    rows = BUILTINS["@polysemy-polarity"].make(DataSettings(size=20_000), 0, part)
    return {text: label for label, text in rows}


def test_the_entropy_is_that_of_all_sentences() -> None:
    chances: defaultdict[str, float] = defaultdict(float)
    words = 0.0
    for things, said, praise, blame in polysemy.TOPICS:
        entries, verbs = polysemy._entries(praise, blame), said.split("|")
        chance = 1 / (len(polysemy.TOPICS) * 6 * 10 * len(verbs) * 4 * len(entries) * 3 * 4)
        for parts in product(polysemy.DETERMINERS, things.split(), verbs, polysemy.DEGREES, entries, range(3)):
            *beginning, entry, ending = parts
            for tail in polysemy.TAILS:
                text = " ".join([*beginning, entry.word, polysemy.ENDINGS[entry.ending][ending], tail])
                chances[" ".join(text.split())] += chance
                words += chance * (len(text.split()) + 1)
    assert math.isclose(sum(chances.values()), 1)
    bits = -sum(chance * math.log2(chance) for chance in chances.values())
    assert math.isclose(polysemy.entropy_per_word(), bits / words)
    made = {polysemy.sentence(random.Random(number)).text for number in range(500)}
    assert made <= set(chances)


def test_a_task_has_its_variant() -> None:
    assert variant("@polysemy", "classify") == "@polysemy-polarity"
    assert variant("@polysemy", "tag") == "@polysemy-senses"
    assert variant("@polysemy", "lm") == "@polysemy"
    assert variant("@ab", "tag") == "@ab"
    assert variant("my.txt", "tag") == "my.txt"
