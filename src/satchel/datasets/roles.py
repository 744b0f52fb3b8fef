"""Sentences whose subjects, objects and referents are known, made by a small grammar: who has to be found is known too.

    the queen beside the monk greeted her uncle near the nuns and watched him rest with the twins before she slept

What follows the first verb agrees with its subject, what follows the second with its object, and what follows a
pronoun is what its referent does. Other people stand between: to look at the word before, or at the person who is
nearest, is not enough. Nothing but a person's own word says what it does, and nothing but a pronoun who is meant: one
of the three who take part, who are a he, a she and a they, so that none of them is to be expected.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import mean
from typing import Literal

Gender = Literal["he", "she", "they"]
GENDERS: tuple[Gender, ...] = ("he", "she", "they")
POSSESSIVES: dict[str, Gender] = {"his": "he", "her": "she", "their": "they"}
OBJECTS: dict[str, Gender] = {"him": "he", "her": "she", "them": "they"}
# What people do when they are watched (a row) and by themselves (a column): one of each gender.
WATCHED = ("pray", "dance", "rest")
ALONE = ("laughed", "slept", "wept")
PEOPLE = (
    (("monk", "nun", "pilgrims"), ("abbot", "abbess", "novices"), ("priest", "priestess", "believers")),
    (("king", "queen", "lords"), ("prince", "princess", "pages"), ("duke", "duchess", "knights")),
    (("uncle", "aunt", "cousins"), ("father", "mother", "parents"), ("grandson", "granddaughter", "twins")),
)
PLACES = ("beside", "near", "behind", "opposite", "below")
VERBS = ("greeted", "visited", "called", "found", "praised", "followed", "trusted", "answered")
WATCHING = ("watched", "heard", "saw", "helped", "let", "made")
TIMES = ("before", "after", "while", "when", "until")
# How many others stand behind a subject, or an object.
OTHERS = (1, 2)


@dataclass(frozen=True)
class Person:
    """A word for a person, and all there is to know of it."""

    word: str
    gender: Gender
    watched: str
    alone: str


NAMED = {
    word: Person(word, gender, watched, alone)
    for watched, row in zip(WATCHED, PEOPLE, strict=True)
    for alone, words in zip(ALONE, row, strict=True)
    for gender, word in zip(GENDERS, words, strict=True)
}
EVERYBODY = tuple(NAMED.values())


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, and where those stand who take part."""

    words: tuple[str, ...]
    subject: int
    object: int
    company: int
    referent: int  # of the last pronoun: one of them

    @property
    def text(self) -> str:
        """The sentence."""
        return " ".join(self.words)

    @property
    def tags(self) -> str:
        """The role of each word; - where it has none. Of a pronoun it is whose place it takes."""
        tags = ["verb" if word in VERBS + WATCHING else "-" for word in self.words]
        for role in ("subject", "object", "company"):
            tags[getattr(self, role)] = role
        tags[self.company - 4] = f"pronoun/{tags[self.object]}"
        tags[-2] = f"pronoun/{tags[self.referent]}"
        return " ".join(tags)


def sentence(chance: random.Random) -> Sentence:
    """Return a sentence, every choice of which is as likely as any other. Of those who take part no two are alike."""
    subject = chance.choice(EVERYBODY)
    acted_on = chance.choice([person for person in EVERYBODY if person.gender != subject.gender])
    company = chance.choice([person for person in EVERYBODY if person.gender not in (subject.gender, acted_on.gender)])
    words = ["the", subject.word, *_others(chance), chance.choice(VERBS), _form(POSSESSIVES, subject), acted_on.word]
    first, second = 1, len(words) - 1
    words += [*_others(chance), "and", chance.choice(WATCHING), _form(OBJECTS, acted_on), acted_on.watched]
    words += ["with", "the", company.word]
    third = len(words) - 1
    place, referent = chance.choice([(first, subject), (second, acted_on), (third, company)])
    words += [chance.choice(TIMES), referent.gender, referent.alone]
    return Sentence(tuple(words), first, second, third, place)


def _others(chance: random.Random) -> list[str]:
    """Return people who have nothing to do with what happens."""
    others = [(chance.choice(PLACES), "the", chance.choice(EVERYBODY).word) for _ in range(chance.choice(OTHERS))]
    return [word for phrase in others for word in phrase]


def _form(forms: dict[str, Gender], person: Person) -> str:
    return next(form for form, gender in forms.items() if gender == person.gender)


def expected(words: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """Return where words have to look, as places of who looks and of who is looked at.

    - subject: from the first verb to its subject. The second verb has none of its own;
    - object: from both verbs to whom they act on; it stands behind the first, so that only who reads ahead finds it;
    - referent: from a pronoun to the person it stands for. (`her` in `her uncle` is none.)

    Words before or after the sentence, and sentences that are cut off, do no harm: what is not there is not told.
    """
    found: dict[str, list[tuple[int, int]]] = {"subject": [], "object": [], "referent": []}
    people = [place for place, word in enumerate(words) if word in NAMED]
    verbs = [next((place for place, word in enumerate(words) if word in kind), None) for kind in (VERBS, WATCHING)]
    verb, watching = verbs
    if verb is None or not people or people[0] > verb:
        return found
    subject, acted_on = people[0], verb + 2
    company = [place for place in people if tuple(words[max(0, place - 2) : place]) == ("with", "the")]
    found["subject"].append((verb, subject))
    if acted_on not in people or words[verb + 1] not in POSSESSIVES:
        return found
    found["object"] += [(place, acted_on) for place in verbs if place is not None]
    if watching is not None and any(word in OBJECTS for word in words[watching + 1 : watching + 2]):
        found["referent"].append((watching + 1, acted_on))
    meant: dict[str, int] = {NAMED[words[place]].gender: place for place in (subject, acted_on, *company)}
    found["referent"] += [
        (place, meant[word]) for place, word in enumerate(words) if word in meant and place > acted_on
    ]
    return found


def entropy_per_word() -> float:
    """Return the bits per word that nobody can do without; the end of a sentence counts as a word.

    No two ways of choosing make the same sentence: its entropy is that of the choices.
    """
    bits, lengths = [], []
    for first, second in product(OTHERS, repeat=2):
        others = first + second
        people = [len(EVERYBODY) * part for part in (1, 2 / 3, 1 / 3)]
        choices = [*people, len(OTHERS) ** 2, len(VERBS), len(WATCHING), len(TIMES), 3]
        bits.append(sum(map(math.log2, choices)) + others * math.log2(len(PLACES) * len(EVERYBODY)))
        # Fifteen words without the others, and the end; three for each of them.
        lengths.append(16 + 3 * others)
    return mean(bits) / mean(lengths)
