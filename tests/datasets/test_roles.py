"""`@roles`: the annotations of the sentences agree with the grammar."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from satchel.datasets import roles
from satchel.datasets.registry import DATASETS
from satchel.text.reading import DataSettings

SENTENCES = [roles.draw_sentence(random.Random(number)) for number in range(500)]


def test_expected_attention_is_inferred_from_the_words_alone() -> None:
    for sentence in SENTENCES:
        first, second = (position for position, tag in enumerate(sentence.tags.split()) if tag == "verb")
        last = len(sentence.words) - 2
        assert roles.expected_attention(sentence.words) == {
            "subject": [(first, sentence.subject)],
            "object": [(first, sentence.object), (second, sentence.object)],
            "referent": [(second + 1, sentence.object), (last, sentence.referent)],
        }
    assert {sentence.tags.split()[sentence.referent] for sentence in SENTENCES} == {"subject", "object", "company"}


def test_the_attended_noun_determines_the_next_word() -> None:
    for sentence in SENTENCES:
        keys = {role: dict(pairs) for role, pairs in roles.expected_attention(sentence.words).items()}
        ((verb, subject),) = keys["subject"].items()
        second_verb, pronoun, last = max(keys["object"]), *keys["referent"]
        persons = {
            position: roles.PERSON_BY_WORD[sentence.words[position]]
            for position in (subject, sentence.object, sentence.company)
        }
        assert roles.POSSESSIVES[sentence.words[verb + 1]] == persons[subject].gender
        assert roles.OBJECT_PRONOUNS[sentence.words[second_verb + 1]] == persons[keys["object"][second_verb]].gender
        assert sentence.words[pronoun + 1] == persons[keys["referent"][pronoun]].infinitive
        assert sentence.words[last] == persons[keys["referent"][last]].gender
        assert sentence.words[last + 1] == persons[keys["referent"][last]].final_verb
        assert len({person.gender for person in persons.values()}) == 3


def test_the_nearest_noun_is_a_distractor() -> None:
    for sentence in SENTENCES:
        nouns = [position for position, word in enumerate(sentence.words) if word in roles.PERSON_BY_WORD]
        for pairs in roles.expected_attention(sentence.words).values():
            for query, key in pairs:
                if key < query and key != sentence.company:
                    assert max(position for position in nouns if position < query) > key


def test_neither_distance_nor_the_infinitive_identifies_the_referent() -> None:
    distances = {
        query - key for sentence in SENTENCES for query, key in roles.expected_attention(sentence.words)["referent"]
    }
    assert len(distances) > 4
    for infinitive in roles.INFINITIVES:
        final_verbs = {person.final_verb for person in roles.PERSONS if person.infinitive == infinitive}
        assert len(final_verbs) == len(roles.FINAL_VERBS)


def test_the_tag_of_a_word_is_its_role() -> None:
    for sentence in SENTENCES:
        tags = sentence.tags.split()
        assert len(tags) == len(sentence.words)
        assert [tags[sentence.subject], tags[sentence.object], tags[sentence.company]] == [
            "subject",
            "object",
            "company",
        ]
        assert Counter(tag.split("/")[0] for tag in tags if tag != "-") == {
            "subject": 1, "object": 1, "company": 1, "verb": 2, "pronoun": 2,
        }  # fmt: skip
        for (pronoun, referent), last in zip(
            roles.expected_attention(sentence.words)["referent"], (False, True), strict=True
        ):
            assert tags[pronoun] == f"pronoun/{tags[referent]}"
            assert (pronoun == len(tags) - 2) == last


def test_the_tagged_sentences_are_those_of_the_language_model() -> None:
    rows = list(DATASETS["@roles-tags"].generator(DataSettings(size=50), 0, "train"))
    ((_, document),) = DATASETS["@roles"].generator(DataSettings(size=50), 0, "train")
    assert [text for _, text in rows] == document.splitlines()


def test_truncated_and_surrounded_sentences_have_the_same_attention_pairs() -> None:
    for sentence in SENTENCES[:50]:
        whole = roles.expected_attention(sentence.words)
        for length in range(len(sentence.words) + 1):
            truncated = roles.expected_attention(sentence.words[:length])
            assert all(set(pairs) <= set(whole[role]) for role, pairs in truncated.items())
            assert all(max(pair) < length for pairs in truncated.values() for pair in pairs)
        surrounded = roles.expected_attention(["<start>", *sentence.words, "."])
        assert surrounded == {role: [(a + 1, b + 1) for a, b in pairs] for role, pairs in whole.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("greeted by the king he slept", {}),
        ("he greeted the king before he slept", {}),
        ("the king greeted the nun before he slept", {"subject": [(2, 1)]}),
        ("when he slept the king greeted his nun", {"subject": [(5, 4)], "object": [(5, 7)]}),
    ],
)
def test_other_sentences_have_few_attention_pairs(text: str, expected: dict[str, list[tuple[int, int]]]) -> None:
    assert roles.expected_attention(text.split()) == {"subject": [], "object": [], "referent": [], **expected}


class Scripted:
    """Stands in for random.Random: chooses the options of a script and records the number of options."""

    def __init__(self, script: Sequence[int]) -> None:
        self.script, self.sizes = list(script), list[int]()

    def choice(self, options: Sequence[Any]) -> Any:
        number = len(self.sizes)
        self.sizes.append(len(options))
        return options[self.script[number] if number < len(self.script) else 0]


def enumerate_draws(draw: Callable[[Any], Any], script: tuple[int, ...] = ()) -> Iterator[tuple[Any, float]]:
    """Yield every possible result of `draw` and its probability."""
    scripted = Scripted(script)
    result = draw(scripted)
    yield result, 1 / math.prod(scripted.sizes)
    for position in range(len(script), len(scripted.sizes)):
        prefix = (*script, *(0 for _ in range(position - len(script))))
        for option in range(1, scripted.sizes[position]):
            yield from enumerate_draws(draw, (*prefix, option))


def test_the_entropy_equals_that_of_the_enumerated_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    # The full grammar has too many sentences to enumerate.
    monkeypatch.setattr(roles, "PERSONS", roles.PERSONS[:3])
    for name in ("PREPOSITIONS", "FIRST_VERBS", "SECOND_VERBS", "CONJUNCTIONS"):
        monkeypatch.setattr(roles, name, getattr(roles, name)[: 2 if name == "SECOND_VERBS" else 1])
    probabilities: Counter[str] = Counter()
    for sentence, probability in enumerate_draws(roles.draw_sentence):
        probabilities[sentence.text] += probability  # type: ignore[assignment]
    assert math.isclose(sum(probabilities.values()), 1)
    bits = -sum(probability * math.log2(probability) for probability in probabilities.values())
    words = sum(probability * (len(text.split()) + 1) for text, probability in probabilities.items())
    assert math.isclose(roles.entropy_per_word(), bits / words)
