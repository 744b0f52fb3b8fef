"""`@polysemy`: sentences with words of two senses, drawn from a small grammar with known senses and entropy.

The topic of a sentence determines the sense of its adjective, and the sense determines the group of endings. Neither
the topic nor the adjective alone determines the ending: `sick` is positive for a trick and negative for a boss, and
the endings after the positive sense of one word follow the negative sense of another.
"""

import math
import random
from dataclasses import dataclass
from statistics import mean
from typing import Literal

# Ambiguous adjectives: positive sense, negative sense, and the group of ENDINGS after each of them.
AMBIGUOUS: dict[str, tuple[str, str, int, int]] = {
    "sick": ("great", "ill", 0, 1),
    "wild": ("thrilling", "dangerous", 1, 0),
    "cool": ("stylish", "unfriendly", 2, 3),
    "cold": ("refreshing", "heartless", 3, 2),
    "hot": ("popular", "burning", 4, 5),
    "sharp": ("clever", "painful", 5, 4),
    "cheap": ("affordable", "shoddy", 0, 2),
    "mean": ("skilful", "cruel", 2, 0),
    "sweet": ("kind", "sugary", 1, 3),
    "tight": ("together", "narrow", 3, 1),
    "light": ("easy", "weak", 0, 4),
    "dry": ("witty", "dull", 4, 0),
    "rich": ("tasty", "heavy", 2, 5),
    "loud": ("lively", "noisy", 5, 2),
}
Polarity = Literal["positive", "negative", "neutral"]
# Adjectives with one sense: polarity and group of ENDINGS.
UNAMBIGUOUS: dict[str, tuple[Polarity, int]] = {
    "great": ("positive", 1),
    "lovely": ("positive", 4),
    "awful": ("negative", 3),
    "boring": ("negative", 5),
    "local": ("neutral", 0),
    "recent": ("neutral", 2),
    "calm": ("positive", 0),
    "patient": ("positive", 2),
    "grateful": ("positive", 3),
    "strong": ("positive", 5),
}
# Unambiguous adjectives used only with the topics that list them.
TOPIC_SPECIFIC = ("calm", "patient", "grateful", "strong")
# Topics: nouns, verbs, adjectives used in their positive sense, adjectives used in their negative sense (as many).
TOPICS: tuple[tuple[str, str, str, str], ...] = (
    (
        "trick stunt move jump flip kick dive spin goal serve",
        "was",
        "sick wild mean tight",
        "cheap light dry sweet",
    ),
    (
        "fever flu virus cough infection rash allergy poison headache injury",
        "made me|made him|made us|made her",
        "calm patient grateful strong",
        "sick hot cold light",
    ),
    (
        "jacket hat coat dress scarf shirt suit sweater belt bag",
        "was",
        "sick cool sharp light",
        "cheap tight loud hot",
    ),
    (
        "boss teacher waiter driver coach neighbour landlord doctor clerk guard",
        "was",
        "sharp sweet dry cool",
        "mean cold sick loud",
    ),
    (
        "drink juice tea wine beer cider lemonade coffee milkshake cocktail",
        "was",
        "cold light dry cheap",
        "sweet hot rich sharp",
    ),
    (
        "soup cake stew lunch curry pie sauce pudding breakfast roast",
        "was",
        "rich sweet hot cheap",
        "cold dry sharp light",
    ),
    (
        "band concert show song album choir orchestra festival singer drummer",
        "was",
        "tight loud wild hot",
        "cheap dry cold sweet",
    ),
    (
        "dog horse cat parrot goat pony donkey rabbit puppy bull",
        "was",
        "sweet sharp cool light",
        "wild mean sick loud",
    ),
    (
        "room hotel flat house office cabin cellar attic kitchen tent",
        "was",
        "cheap cool light dry",
        "hot cold tight loud",
    ),
    (
        "storm sea winter wind river rain gale tide blizzard thunder",
        "was",
        "light dry",
        "wild mean",
    ),
    (
        "welcome answer letter smile speech reply greeting remark message toast",
        "was",
        "sweet light rich loud",
        "cool cold sharp dry",
    ),
    (
        "joke story film novel play poem lecture sketch riddle tale",
        "was",
        "dry sick wild mean",
        "light cheap rich cool",
    ),
)
DETERMINERS = ("That", "This", "The", "Their", "Our", "Her")
DEGREES = ("", "really", "so", "quite")
# Groups of endings; the sense of the adjective selects the group.
ENDINGS: tuple[tuple[str, str, str], ...] = (
    ("and everyone cheered", "and people clapped", "and they shouted"),
    ("so we left early", "so she went home", "so he walked away"),
    ("because nobody had asked", "because it rained", "because time was short"),
    ("but I stayed", "but we waited", "but they came back"),
    ("until it got dark", "until the bell rang", "until morning"),
    ("when you told us", "when I arrived", "when she looked"),
)
TAILS = ("", "again", "as usual", "in the end")


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
    adjectives = [
        Adjective(word, AMBIGUOUS[word][0], "positive", AMBIGUOUS[word][2])
        for word in positive.split()
        if word in AMBIGUOUS
    ]
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
        choices = [TOPICS, DETERMINERS, nouns.split(), verbs, DEGREES, adjectives, ENDINGS[0], TAILS]
        bits.append(sum(math.log2(len(options)) for options in choices))
        endings = mean(mean(map(_word_count, ENDINGS[adjective.ending])) for adjective in adjectives)
        # The determiner, the noun, the adjective and the end of the sentence count one word each.
        lengths.append(4 + endings + sum(mean(map(_word_count, options)) for options in (verbs, DEGREES, TAILS)))
    return mean(bits) / mean(lengths)


def _word_count(text: str) -> int:
    return len(text.split())
