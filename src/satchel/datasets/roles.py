"""`@roles`: sentences with known subjects, objects and pronoun referents, drawn from a small grammar.

    the queen beside the monk greeted her uncle near the nuns and watched him rest with the twins before she slept

The possessive after the first verb agrees with the subject, the pronoun after the second verb with the object. The
infinitive after a pronoun and the final verb depend on the noun that the pronoun refers to. Distractor nouns stand in
between, so attending to the previous word or to the nearest noun does not solve the task. The subject, the object and
the noun after `with the` (the company) have different pronouns; the last pronoun refers to each with equal probability.
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
OBJECT_PRONOUNS: dict[str, Gender] = {"him": "he", "her": "she", "them": "they"}
INFINITIVES = ("pray", "dance", "rest")
FINAL_VERBS = ("laughed", "slept", "wept")
# The row of a noun determines its infinitive, the column its final verb, the place in a cell its pronoun.
NOUNS = (
    (("monk", "nun", "pilgrims"), ("abbot", "abbess", "novices"), ("priest", "priestess", "believers")),
    (("king", "queen", "lords"), ("prince", "princess", "pages"), ("duke", "duchess", "knights")),
    (("uncle", "aunt", "cousins"), ("father", "mother", "parents"), ("grandson", "granddaughter", "twins")),
)
PREPOSITIONS = ("beside", "near", "behind", "opposite", "below")
FIRST_VERBS = ("greeted", "visited", "called", "found", "praised", "followed", "trusted", "answered")
SECOND_VERBS = ("watched", "heard", "saw", "helped", "let", "made")
CONJUNCTIONS = ("before", "after", "while", "when", "until")
# Possible numbers of distractors after the subject, and after the object.
DISTRACTOR_COUNTS = (1, 2)


@dataclass(frozen=True)
class Person:
    """A noun for a person, with the pronoun, infinitive and final verb that agree with it."""

    word: str
    gender: Gender
    infinitive: str
    final_verb: str


PERSONS = tuple(
    Person(word, gender, infinitive, final_verb)
    for infinitive, row in zip(INFINITIVES, NOUNS, strict=True)
    for final_verb, words in zip(FINAL_VERBS, row, strict=True)
    for gender, word in zip(GENDERS, words, strict=True)
)
PERSON_BY_WORD = {person.word: person for person in PERSONS}


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, and the positions of its subject, object and company."""

    words: tuple[str, ...]
    subject: int
    object: int
    company: int
    referent: int  # position of the noun that the last pronoun refers to

    @property
    def text(self) -> str:
        """The whole sentence."""
        return " ".join(self.words)

    @property
    def tags(self) -> str:
        """Space-separated roles: subject, object, company, verb, `pronoun/` and the role of its referent, or `-`."""
        tags = ["verb" if word in FIRST_VERBS + SECOND_VERBS else "-" for word in self.words]
        for role in ("subject", "object", "company"):
            tags[getattr(self, role)] = role
        tags[self.company - 4] = f"pronoun/{tags[self.object]}"
        tags[-2] = f"pronoun/{tags[self.referent]}"
        return " ".join(tags)


def draw_sentence(rng: random.Random) -> Sentence:
    """Return a sentence; every choice is uniformly distributed."""
    subject = rng.choice(PERSONS)
    object_ = rng.choice([person for person in PERSONS if person.gender != subject.gender])
    company = rng.choice([person for person in PERSONS if person.gender not in (subject.gender, object_.gender)])
    words = ["the", subject.word, *_distractors(rng), rng.choice(FIRST_VERBS), _form(POSSESSIVES, subject)]
    words.append(object_.word)
    subject_position, object_position = 1, len(words) - 1
    words += [*_distractors(rng), "and", rng.choice(SECOND_VERBS), _form(OBJECT_PRONOUNS, object_), object_.infinitive]
    words += ["with", "the", company.word]
    company_position = len(words) - 1
    position, referent = rng.choice(
        [(subject_position, subject), (object_position, object_), (company_position, company)]
    )
    words += [rng.choice(CONJUNCTIONS), referent.gender, referent.final_verb]
    return Sentence(tuple(words), subject_position, object_position, company_position, position)


def _distractors(rng: random.Random) -> list[str]:
    """Return prepositional phrases with nouns that are neither subject, object nor company."""
    phrases = [
        (rng.choice(PREPOSITIONS), "the", rng.choice(PERSONS).word) for _ in range(rng.choice(DISTRACTOR_COUNTS))
    ]
    return [word for phrase in phrases for word in phrase]


def _form(forms: dict[str, Gender], person: Person) -> str:
    return next(form for form, gender in forms.items() if gender == person.gender)


def expected_attention(words: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """Return for each role the (query, key) positions that an attention head for this role connects.

    - subject: the first verb and its subject;
    - object: each of the two verbs and its object, which follows the first verb;
    - referent: a pronoun and the noun that it refers to (a possessive such as `her` in `her uncle` is not included).

    The sentence may be truncated or surrounded by other words; positions outside of it are omitted.
    """
    pairs: dict[str, list[tuple[int, int]]] = {"subject": [], "object": [], "referent": []}
    nouns = [position for position, word in enumerate(words) if word in PERSON_BY_WORD]
    verbs = [
        next((position for position, word in enumerate(words) if word in group), None)
        for group in (FIRST_VERBS, SECOND_VERBS)
    ]
    first_verb, second_verb = verbs
    if first_verb is None or not nouns or nouns[0] > first_verb:
        return pairs
    subject, object_ = nouns[0], first_verb + 2
    company = [position for position in nouns if tuple(words[max(0, position - 2) : position]) == ("with", "the")]
    pairs["subject"].append((first_verb, subject))
    if object_ not in nouns or words[first_verb + 1] not in POSSESSIVES:
        return pairs
    pairs["object"] += [(verb, object_) for verb in verbs if verb is not None]
    if second_verb is not None and any(word in OBJECT_PRONOUNS for word in words[second_verb + 1 : second_verb + 2]):
        pairs["referent"].append((second_verb + 1, object_))
    referents: dict[str, int] = {
        PERSON_BY_WORD[words[position]].gender: position for position in (subject, object_, *company)
    }
    pairs["referent"] += [
        (position, referents[word]) for position, word in enumerate(words) if word in referents and position > object_
    ]
    return pairs


def entropy_per_word() -> float:
    """Return the entropy in bits per word: the lowest possible loss. The end of a sentence counts as a word.

    Different choices produce different sentences, so the entropy of a sentence is that of its choices.
    """
    bits, lengths = [], []
    for after_subject, after_object in product(DISTRACTOR_COUNTS, repeat=2):
        distractors = after_subject + after_object
        persons = [len(PERSONS) * fraction for fraction in (1, 2 / 3, 1 / 3)]
        choices = [*persons, len(DISTRACTOR_COUNTS) ** 2, len(FIRST_VERBS), len(SECOND_VERBS), len(CONJUNCTIONS), 3]
        bits.append(sum(map(math.log2, choices)) + distractors * math.log2(len(PREPOSITIONS) * len(PERSONS)))
        # 15 words without distractors, the end of the sentence, and three words per distractor.
        lengths.append(16 + 3 * distractors)
    return mean(bits) / mean(lengths)
