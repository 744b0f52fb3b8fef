"""Sentences whose subjects, objects and referents are known: what the text says is what the grammar meant."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from satchel.datasets import roles
from satchel.datasets.builtin import BUILTINS, PARTS, variant
from satchel.text.reading import DataSettings

MADE = [roles.sentence(random.Random(number)) for number in range(500)]


def test_where_to_look_is_found_in_the_text_alone() -> None:
    for made in MADE:
        verb, watching = (place for place, tag in enumerate(made.tags.split()) if tag == "verb")
        last = len(made.words) - 2
        assert roles.expected(made.words) == {
            "subject": [(verb, made.subject)],
            "object": [(verb, made.object), (watching, made.object)],
            "referent": [(watching + 1, made.object), (last, made.referent)],
        }
    assert {made.tags.split()[made.referent] for made in MADE} == {"subject", "object", "company"}


def test_what_comes_next_is_told_by_who_has_to_be_found() -> None:
    for made in MADE:
        found = {role: dict(places) for role, places in roles.expected(made.words).items()}
        ((verb, subject),) = found["subject"].items()
        watching, pronoun, last = max(found["object"]), *found["referent"]
        people = {place: roles.NAMED[made.words[place]] for place in (subject, made.object, made.company)}
        assert roles.POSSESSIVES[made.words[verb + 1]] == people[subject].gender
        assert roles.OBJECTS[made.words[watching + 1]] == people[found["object"][watching]].gender
        assert made.words[pronoun + 1] == people[found["referent"][pronoun]].watched
        assert made.words[last] == people[found["referent"][last]].gender
        assert made.words[last + 1] == people[found["referent"][last]].alone
        assert len({person.gender for person in people.values()}) == 3


def test_the_person_who_is_nearest_is_not_the_one() -> None:
    for made in MADE:
        people = [place for place, word in enumerate(made.words) if word in roles.NAMED]
        for places in roles.expected(made.words).values():
            for query, key in places:
                if key < query and key != made.company:
                    assert max(place for place in people if place < query) > key
    # And nobody is told by how far away, nor by any other word than their own.
    distances = {query - key for made in MADE for query, key in roles.expected(made.words)["referent"]}
    assert len(distances) > 4
    for rest in roles.WATCHED:
        assert len({person.alone for person in roles.EVERYBODY if person.watched == rest}) == len(roles.ALONE)


def test_the_tags_are_the_roles() -> None:
    for made in MADE:
        tags = made.tags.split()
        assert len(tags) == len(made.words)
        assert (tags[made.subject], tags[made.object], tags[made.company]) == ("subject", "object", "company")
        assert Counter(tag.split("/")[0] for tag in tags if tag != "-") == {
            "subject": 1, "object": 1, "company": 1, "verb": 2, "pronoun": 2,
        }  # fmt: skip
        for (pronoun, referent), last in zip(roles.expected(made.words)["referent"], (False, True), strict=True):
            assert tags[pronoun] == f"pronoun/{tags[referent]}"
            assert (pronoun == len(tags) - 2) == last
    rows = list(BUILTINS["@roles-tags"].make(DataSettings(size=50), 0, "train"))
    lines = next(BUILTINS["@roles"].make(DataSettings(size=50), 0, "train"))[1].splitlines()
    assert [text for _, text in rows] == lines
    assert variant("@roles", "tag") == "@roles-tags"
    assert variant("@roles", "lm") == "@roles"


def test_sentences_that_are_cut_off_or_have_words_around_them_do_no_harm() -> None:
    for made in MADE[:50]:
        whole = roles.expected(made.words)
        for length in range(len(made.words) + 1):
            found = roles.expected(made.words[:length])
            assert all(set(places) <= set(whole[role]) for role, places in found.items())
            assert all(max(pair) < length for places in found.values() for pair in places)
        around = roles.expected(["<start>", *made.words, "."])
        assert around == {role: [(a + 1, b + 1) for a, b in places] for role, places in whole.items()}
    nothing = roles.expected(())
    assert not any(nothing.values())
    assert roles.expected("greeted by the king he slept".split()) == nothing
    assert roles.expected("he greeted the king before he slept".split()) == nothing
    assert roles.expected("the king greeted the nun before he slept".split()) == {**nothing, "subject": [(2, 1)]}
    assert roles.expected("when he slept the king greeted his nun".split())["referent"] == []


def test_parts_share_no_sentence_and_the_seed_says_all() -> None:
    made = {part: next(BUILTINS["@roles"].make(DataSettings(size=1000), 3, part))[1].splitlines() for part in PARTS}
    assert [len(made[part]) for part in PARTS] == [1000, 100, 100]
    assert not set(made["train"]) & set(made["valid"] + made["test"])
    assert not set(made["valid"]) & set(made["test"])
    assert next(BUILTINS["@roles"].make(DataSettings(size=1000), 3, "train"))[1].splitlines() == made["train"]
    assert next(BUILTINS["@roles"].make(DataSettings(size=1000), 4, "train"))[1].splitlines() != made["train"]
    length = BUILTINS["@roles"].length
    assert length is not None
    assert max(len(line.split()) + 1 for line in made["train"]) <= length


class Scripted:
    """Chooses as it is told, and notes how many choices there were."""

    def __init__(self, script: Sequence[int]) -> None:
        self.script, self.sizes = list(script), list[int]()

    def choice(self, options: Sequence[Any]) -> Any:
        number = len(self.sizes)
        self.sizes.append(len(options))
        return options[self.script[number] if number < len(self.script) else 0]


def all_ways(make: Callable[[Any], Any], script: tuple[int, ...] = ()) -> Iterator[tuple[Any, float]]:
    """Return everything that can be made, and how likely it is."""
    scripted = Scripted(script)
    made = make(scripted)
    yield made, 1 / math.prod(scripted.sizes)
    for place in range(len(script), len(scripted.sizes)):
        same = (*script, *(0 for _ in range(place - len(script))))
        for option in range(1, scripted.sizes[place]):
            yield from all_ways(make, (*same, option))


def test_the_entropy_is_that_of_all_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    # All sentences of a smaller grammar can be counted.
    monkeypatch.setattr(roles, "EVERYBODY", roles.EVERYBODY[:3])
    for name in ("PLACES", "VERBS", "WATCHING", "TIMES"):
        monkeypatch.setattr(roles, name, getattr(roles, name)[: 2 if name == "WATCHING" else 1])
    chances: Counter[str] = Counter()
    for made, chance in all_ways(roles.sentence):
        chances[made.text] += chance  # type: ignore[assignment]
    assert math.isclose(sum(chances.values()), 1)
    bits = -sum(chance * math.log2(chance) for chance in chances.values())
    words = sum(chance * (len(text.split()) + 1) for text, chance in chances.items())
    assert math.isclose(roles.entropy_per_word(), bits / words)
