"""`@polysemy`: sentences with words of two senses, drawn from a small grammar with known senses and entropy.

The topic of a sentence determines the sense of its adjective, and the sense determines the group of endings. Neither
the topic nor the adjective alone determines the ending: `sick` is positive for a trick and negative for a boss, and
the endings after the positive sense of one word follow the negative sense of another. The words are in `polysemy.toml`.
"""

import math
import random
from collections.abc import Sized
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Literal

from satchel.config import read_toml

_VOCABULARY = read_toml(Path(__file__).with_suffix(".toml"))

Polarity = Literal["positive", "negative", "neutral"]
AMBIGUOUS: dict[str, tuple[str, str, int, int]] = _VOCABULARY["ambiguous"]
UNAMBIGUOUS: dict[str, tuple[Polarity, int]] = _VOCABULARY["unambiguous"]
TOPIC_SPECIFIC: list[str] = _VOCABULARY["topic_specific"]
TOPICS: list[tuple[str, str, str, str]] = _VOCABULARY["topics"]
DETERMINERS: list[str] = _VOCABULARY["determiners"]
DEGREES: list[str] = _VOCABULARY["degrees"]
ENDINGS: list[list[str]] = _VOCABULARY["endings"]
TAILS: list[str] = _VOCABULARY["tails"]


@dataclass(frozen=True)
class Adjective:
    """An adjective in the context of a topic: its sense, polarity and group of endings."""

    word: str
    sense: str | None  # None if the word has one sense
    polarity: Polarity
    ending: int


@dataclass(frozen=True)
class Sentence:
    """A sentence: the text before its adjective, the adjective, and the text after it."""

    before: str
    adjective: Adjective
    after: str

    @property
    def text(self) -> str:
        """The whole sentence."""
        return f"{self.before} {self.adjective.word} {self.after}"

    @property
    def beginning(self) -> str:
        """The sentence up to and including its adjective."""
        return f"{self.before} {self.adjective.word}"

    @property
    def tags(self) -> str:
        """Space-separated tags: `word/sense` for an ambiguous word, `-` for others."""
        tag = f"{self.adjective.word}/{self.adjective.sense}" if self.adjective.sense else "-"
        return " ".join([*("-" for _ in self.before.split()), tag, *("-" for _ in self.after.split())])


def draw_sentence(rng: random.Random) -> Sentence:
    """Return a sentence; every choice is uniformly distributed."""
    nouns, verbs, positive, negative = rng.choice(TOPICS)
    adjective = rng.choice(_adjectives(positive, negative))
    subject = f"{rng.choice(DETERMINERS)} {rng.choice(nouns.split())} {rng.choice(verbs.split('|'))}"
    before = _join(subject, rng.choice(DEGREES))
    return Sentence(before, adjective, _join(rng.choice(ENDINGS[adjective.ending]), rng.choice(TAILS)))


def _adjectives(positive: str, negative: str) -> list[Adjective]:
    """Return the adjectives of a topic."""
    ambiguous = [word for word in positive.split() if word in AMBIGUOUS]
    adjectives = [Adjective(word, AMBIGUOUS[word][0], "positive", AMBIGUOUS[word][2]) for word in ambiguous]
    adjectives += [Adjective(word, AMBIGUOUS[word][1], "negative", AMBIGUOUS[word][3]) for word in negative.split()]
    unambiguous = [word for word in UNAMBIGUOUS if word in positive.split() or word not in TOPIC_SPECIFIC]
    return adjectives + [Adjective(word, None, *UNAMBIGUOUS[word]) for word in unambiguous]


def _join(*phrases: str) -> str:
    return " ".join(filter(None, phrases))


def entropy_per_word() -> float:
    """Return the entropy in bits per word: the lowest possible loss. The end of a sentence counts as a word.

    Different choices produce different sentences, so the entropy of a sentence is that of its choices.
    """
    bits, lengths = [], []
    for nouns, verb_phrases, positive, negative in TOPICS:
        adjectives, verbs = _adjectives(positive, negative), verb_phrases.split("|")
        choices: list[Sized] = [TOPICS, DETERMINERS, nouns.split(), verbs, DEGREES, adjectives, ENDINGS[0], TAILS]
        bits.append(sum(math.log2(len(options)) for options in choices))
        endings = mean(mean(map(_word_count, ENDINGS[adjective.ending])) for adjective in adjectives)
        # The determiner, the noun, the adjective and the end of the sentence count one word each.
        lengths.append(4 + endings + sum(mean(map(_word_count, options)) for options in (verbs, DEGREES, TAILS)))
    return mean(bits) / mean(lengths)


def _word_count(text: str) -> int:
    return len(text.split())
