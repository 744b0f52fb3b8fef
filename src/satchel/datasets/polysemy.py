"""Sentences with words of two senses, made by a small grammar: which sense is meant, and how likely all is, is known.

What a sentence is about decides the sense of the word after it; the sense decides how the sentence goes on. Neither
the thing nor the word alone says that: words that are praise of a trick are blame of a boss, and what follows the
praise of one word follows the blame of another.
"""

import math
import random
from dataclasses import dataclass
from statistics import mean
from typing import Literal

# Each ambiguous word: what it means as praise and as blame, and how sentences go on after either.
WORDS: dict[str, tuple[str, str, int, int]] = {
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
# Words of one sense: what it says, and how sentences go on after it.
PLAIN: dict[str, tuple[Polarity, int]] = {
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
# Those that are said of some topics only.
SELDOM = ("calm", "patient", "grateful", "strong")
# What sentences are about: things, what is said of them, and what is praise and what is blame there; as much of either.
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
class Entry:
    """A word as it is used about a topic: its sense, what that says, and how sentences go on after it."""

    word: str
    sense: str | None  # None where the word has but one
    polarity: Polarity
    ending: int


@dataclass(frozen=True)
class Sentence:
    """A sentence: what comes before the word that may be ambiguous, the word, and what comes after it."""

    before: str
    entry: Entry
    after: str

    @property
    def text(self) -> str:
        """The sentence."""
        return f"{self.before} {self.entry.word} {self.after}"

    @property
    def beginning(self) -> str:
        """The sentence up to its word, and no further."""
        return f"{self.before} {self.entry.word}"

    @property
    def tags(self) -> str:
        """The sense of each word; - where there is but one."""
        own = f"{self.entry.word}/{self.entry.sense}" if self.entry.sense else "-"
        return " ".join([*("-" for _ in self.before.split()), own, *("-" for _ in self.after.split())])


def sentence(chance: random.Random) -> Sentence:
    """Return a sentence, every choice of which is as likely as any other."""
    things, verbs, praise, blame = chance.choice(TOPICS)
    entry = chance.choice(_entries(praise, blame))
    subject = f"{chance.choice(DETERMINERS)} {chance.choice(things.split())} {chance.choice(verbs.split('|'))}"
    before = _joined(subject, chance.choice(DEGREES))
    return Sentence(before, entry, _joined(chance.choice(ENDINGS[entry.ending]), chance.choice(TAILS)))


def _entries(praise: str, blame: str) -> list[Entry]:
    """Return the words that can be said of a topic."""
    used = [word for word in praise.split() if word in WORDS]
    found = [Entry(word, WORDS[word][0], "positive", WORDS[word][2]) for word in used]
    found += [Entry(word, WORDS[word][1], "negative", WORDS[word][3]) for word in blame.split()]
    plain = [word for word in PLAIN if word in praise.split() or word not in SELDOM]
    return found + [Entry(word, None, *PLAIN[word]) for word in plain]


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


def entropy_per_word() -> float:
    """Return the bits per word that nobody can do without; the end of a sentence counts as a word.

    No two ways of choosing make the same sentence: its entropy is that of the choices.
    """
    bits, lengths = [], []
    for things, said, praise, blame in TOPICS:
        entries, verbs = _entries(praise, blame), said.split("|")
        choices = [TOPICS, DETERMINERS, things.split(), verbs, DEGREES, entries, ENDINGS[0], TAILS]
        bits.append(sum(math.log2(len(options)) for options in choices))
        endings = mean(mean(map(_words, ENDINGS[entry.ending])) for entry in entries)
        # What is one word: the determiner, the thing, the word, and the end.
        lengths.append(4 + endings + sum(mean(map(_words, options)) for options in (verbs, DEGREES, TAILS)))
    return mean(bits) / mean(lengths)


def _words(text: str) -> int:
    return len(text.split())
