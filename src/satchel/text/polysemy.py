"""Sentences with words of two senses, made by a small grammar: which sense is meant, and how likely all is, is known.

An opening says what it is about, and that decides the sense of the word after it; the sense decides how the sentence
goes on. Neither the opening nor the word alone says that: words that are praise of a trick are blame of a boss, and
what follows the praise of one word follows the blame of another.
"""

import math
import random
from dataclasses import dataclass
from statistics import mean

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
# Words of one sense: whether that is praise, and how sentences go on after it.
PLAIN: dict[str, tuple[bool, int]] = {
    "great": (True, 1),
    "lovely": (True, 4),
    "awful": (False, 3),
    "boring": (False, 5),
}
# What sentences are about: how they begin, and what is praise and what is blame there.
TOPICS: tuple[tuple[str, str, str], ...] = (
    (
        "That trick was|Her stunt was|The new move was|His jump was",
        "sick wild mean tight sharp loud",
        "cheap light dry",
    ),
    ("That fever made me|The flu made him|This virus made us|My cough made her", "", "sick hot cold light dry"),
    ("That jacket was|Her hat was|Those shoes were|The coat was", "sick cool sharp hot light rich", "cheap tight loud"),
    ("My boss was|Her teacher was|That waiter was|Our driver was", "sharp sweet dry", "mean cold sick cool"),
    ("That drink was|The juice was|His tea was|This wine was", "cold light dry cheap", "sweet hot rich"),
    ("That soup was|His cake was|The stew was|Our lunch was", "rich sweet hot cheap", "cold dry sharp"),
    (
        "That band was|Their concert was|The show was|Her song was",
        "tight loud wild sick hot mean",
        "cheap dry cold sweet",
    ),
    ("That dog was|Their horse was|The cat was|Our parrot was", "sweet sharp cool", "wild mean sick loud"),
    ("That room was|Our hotel was|The flat was|Their house was", "cheap cool light dry", "hot cold tight loud"),
    ("That storm was|The sea was|Last winter was|This wind was", "light dry", "wild mean loud cold"),
    ("Their welcome was|His answer was|The letter was|Her smile was", "sweet light", "cool cold sharp dry"),
)
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
    """A word as it is used about a topic: its sense, whether that is praise, and how sentences go on after it."""

    word: str
    sense: str | None  # None where the word has but one
    is_praise: bool
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

    @property
    def polarity(self) -> str:
        """What the sentence says of what it is about."""
        return "positive" if self.entry.is_praise else "negative"


def sentence(chance: random.Random) -> Sentence:
    """Return a sentence, every choice of which is as likely as any other."""
    openings, praise, blame = chance.choice(TOPICS)
    entry = chance.choice(_entries(praise, blame))
    before = _joined(chance.choice(openings.split("|")), chance.choice(DEGREES))
    return Sentence(before, entry, _joined(chance.choice(ENDINGS[entry.ending]), chance.choice(TAILS)))


def _entries(praise: str, blame: str) -> list[Entry]:
    """Return the words that can be said of a topic."""
    found = [Entry(word, WORDS[word][0], True, WORDS[word][2]) for word in praise.split()]
    found += [Entry(word, WORDS[word][1], False, WORDS[word][3]) for word in blame.split()]
    return found + [Entry(word, None, is_praise, ending) for word, (is_praise, ending) in PLAIN.items()]


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


def entropy_per_word() -> float:
    """Return the bits per word that nobody can do without; the end of a sentence counts as a word.

    No two ways of choosing make the same sentence: its entropy is that of the choices.
    """
    bits, lengths = [], []
    for openings, praise, blame in TOPICS:
        entries = _entries(praise, blame)
        starts = openings.split("|")
        choices = len(TOPICS) * len(starts) * len(entries) * len(DEGREES) * len(ENDINGS[0]) * len(TAILS)
        bits.append(math.log2(choices))
        endings = [mean(len(ending.split()) for ending in ENDINGS[entry.ending]) for entry in entries]
        words = (mean(len(part.split()) for part in parts) for parts in (starts, DEGREES, TAILS))
        lengths.append(sum(words) + mean(endings) + 2)
    return mean(bits) / mean(lengths)
