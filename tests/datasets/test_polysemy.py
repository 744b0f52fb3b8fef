"""`@polysemy`: senses, polarities and entropy of the sentences agree with the grammar."""

import math
import random
from collections import Counter, defaultdict
from itertools import product

from satchel.datasets import polysemy
from satchel.datasets.generated import SPLITS, SplitName
from satchel.datasets.registry import DATASETS
from satchel.text.reading import DataSettings


def test_every_ambiguous_word_occurs_in_both_senses() -> None:
    senses = defaultdict(set)
    for *_, positive, negative in polysemy.TOPICS:
        for sign, words in (("+", positive), ("-", negative)):
            for word in set(words.split()) - set(polysemy.TOPIC_SPECIFIC):
                senses[word].add(sign)
    assert len(polysemy.AMBIGUOUS) >= 12
    assert set(senses) == set(polysemy.AMBIGUOUS)
    assert all(signs == {"+", "-"} for signs in senses.values())


def test_neither_the_topic_nor_the_word_alone_determines_the_ending() -> None:
    # Two words share a pair of ending groups, with the polarities exchanged.
    pairs = Counter(
        frozenset(endings)
        for *_, positive, negative in polysemy.AMBIGUOUS.values()
        for endings in [(positive, negative)]
    )
    assert max(pairs.values()) >= 2
    # Each topic has as many positive as negative adjectives.
    for *_, positive, negative in polysemy.TOPICS:
        polarities = Counter(entry.polarity for entry in polysemy._adjectives(positive, negative))
        assert polarities["positive"] == polarities["negative"] > polarities["neutral"] > 0


def test_the_tag_of_an_ambiguous_word_is_its_sense() -> None:
    rows = list(DATASETS["@polysemy-senses"].generator(DataSettings(size=500), 0, "train"))
    assert len(rows) == 500
    for tags, text in rows:
        assert len(tags.split()) == len(text.split())
        for tag, word in zip(tags.split(), text.split(), strict=True):
            assert (word in polysemy.AMBIGUOUS) == (tag != "-")
            if tag != "-":
                assert tag.split("/")[0] == word
                assert tag.split("/")[1] in polysemy.AMBIGUOUS[word][:2]


def test_the_label_is_the_polarity_of_the_sense_and_no_beginning_is_in_two_splits() -> None:
    splits = [labels_by_text(split) for split in SPLITS]
    train, valid, test = splits
    assert train["That trick was sick"] == "positive"
    assert {label for labels in splits for label in labels.values()} == {"positive", "negative", "neutral"}
    assert not set(train) & (set(valid) | set(test))
    assert all(label == "negative" for text, label in train.items() if "fever" in text and "sick" in text)


def labels_by_text(split: SplitName) -> dict[str, str]:
    rows = DATASETS["@polysemy-polarity"].generator(DataSettings(size=20_000), 0, split)
    return {text: label for label, text in rows}


def test_the_entropy_equals_that_of_the_enumerated_sentences() -> None:
    probabilities: defaultdict[str, float] = defaultdict(float)
    words = 0.0
    for nouns, verb_phrases, positive, negative in polysemy.TOPICS:
        adjectives, verbs = polysemy._adjectives(positive, negative), verb_phrases.split("|")
        probability = 1 / (len(polysemy.TOPICS) * 6 * 10 * len(verbs) * 4 * len(adjectives) * 3 * 4)
        for parts in product(polysemy.DETERMINERS, nouns.split(), verbs, polysemy.DEGREES, adjectives, range(3)):
            *beginning, adjective, ending = parts
            for tail in polysemy.TAILS:
                text = " ".join([*beginning, adjective.word, polysemy.ENDINGS[adjective.ending][ending], tail])
                probabilities[" ".join(text.split())] += probability
                words += probability * (len(text.split()) + 1)
    assert math.isclose(sum(probabilities.values()), 1)
    bits = -sum(probability * math.log2(probability) for probability in probabilities.values())
    assert math.isclose(polysemy.entropy_per_word(), bits / words)
    drawn = {polysemy.draw_sentence(random.Random(number)).text for number in range(500)}
    assert drawn <= set(probabilities)
