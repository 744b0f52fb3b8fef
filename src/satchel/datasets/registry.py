"""Data that needs no download: generated, or already inside every Python. Named with an @."""

import ast
import functools
import hashlib
import inspect
import json
import math
import random
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice, product
from pathlib import Path
from typing import Literal, TypeVar

from satchel.datasets import polysemy, roles, transductions
from satchel.errors import DataError
from satchel.text.reading import Corpus, DataSettings, DocumentRule, Task, bytes_source

E = TypeVar("E")
Part = Literal["train", "valid", "test"]
PARTS: tuple[Part, ...] = ("train", "valid", "test")
# Parts of the standard library that hold no prose of their own, or another project's.
NOT_READ = {"site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "__pycache__"}
SHORTEST_DOCSTRING = 60
SHORTEST_LABELLED = 20
MODULES = 50
COUNTED = 20  # letters of a string of @counting


@dataclass(frozen=True)
class Builtin:
    """A corpus that is made on the spot: its name, what it is for, and its documents."""

    name: str
    task: Task
    title: str
    documents: DocumentRule
    tokenizer: str  # what suits it
    make: Callable[[DataSettings, int, Part], Iterator[tuple[str, str]]]  # names, labels, tags or targets, and texts
    valid: float = 0.05  # what is held out where nobody says
    length: int | None = None  # of its longest document, in tokens, where it matters that it is seen whole
    variants: Mapping[str, str] = field(default_factory=dict)  # the same for other tasks, by name


def variant(name: str, task: str) -> str:
    """Return the name of the built-in data that is meant for a task; other names are as they are."""
    builtin = BUILTINS.get(name)
    return builtin.variants.get(task, name) if builtin is not None else name


def read_builtin(
    name: str, settings: DataSettings, seed: int, progress: Callable[[str], None], part: Part = "train"
) -> Corpus:
    """Return a built-in corpus: one source for each of its documents, or a table of labelled texts or of pairs.

    What is generated has parts that share nothing; what is not is the same in each.
    """
    if name not in BUILTINS:
        raise DataError(f"there is no built-in data named {name}", f"there is {', '.join(BUILTINS)}")
    builtin = BUILTINS[name]
    made = []
    for label, text in builtin.make(settings, seed, part):
        made.append((label, text))
        progress(f"making {name}: {len(made):,} documents")
    if builtin.task == "lm":
        return Corpus(name, tuple(bytes_source(label, text.encode()) for label, text in made), settings)
    columns = {
        "classify": (settings.label_column, settings.text_column),
        "tag": (settings.tags_column, settings.text_column),
        "translate": (settings.target_column, settings.source_column),
    }[builtin.task]
    rows = "".join(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n" for row in made)
    return Corpus(name, (bytes_source(f"{name[1:]}.jsonl", rows.encode()),), settings)


# --- the machinery of generated data ---------------------------------------------------------------


def generate(
    make: Callable[[random.Random], E],
    size: int,
    seed: int,
    part: Part = "train",
    *,
    said: Callable[[E], str] = str,
) -> Iterator[E]:
    """Return `size` examples for training, or a tenth as many for another part.

    What an example says decides which part it belongs to, so that no two parts share one; its number
    and the seed decide what it says, so that the same arguments always give the same examples.
    """
    wanted = size if part == "train" else max(1, size // 10)
    drawn = (make(random.Random(f"{seed} {number}")) for number in count())
    yield from islice((example for example in drawn if part_of(said(example)) == part), wanted)


def part_of(example: str) -> Part:
    """Return the part an example belongs to: eight in ten train, one valid, one test."""
    digest = hashlib.blake2b(example.encode(), digest_size=2).digest()
    return PARTS[max(0, int.from_bytes(digest, "big") % 10 - 7)]


# --- @ab ---------------------------------------------------------------------------------------------


def _ab(settings: DataSettings, seed: int, part: Part) -> Iterator[tuple[str, str]]:
    """Every string of As and Bs, and what comes next: A after As alone, B after any B."""
    del seed, part
    strings = ("".join(letters) for letters in product("AB", repeat=settings.length))
    yield "ab", "".join(f"{string}{'B' if 'B' in string else 'A'}\n" for string in strings)


# --- @counting and @counting-both ----------------------------------------------------------------------


def counted_before(string: str) -> str:
    """Return how often the character at each place stands before it, 2 at most."""
    return "".join(str(min(2, string[:place].count(letter))) for place, letter in enumerate(string))


def counted_elsewhere(string: str) -> str:
    """Return how often the character at each place stands at other places, 2 at most."""
    return "".join(str(min(2, string.count(letter) - 1)) for letter in string)


def _counting(settings: DataSettings, seed: int, part: Part) -> Iterator[tuple[str, str]]:
    for string in _strings(settings, seed, part):
        yield counted_before(string), string


def _counting_both(settings: DataSettings, seed: int, part: Part) -> Iterator[tuple[str, str]]:
    for string in _strings(settings, seed, part):
        yield counted_elsewhere(string), string


def _strings(settings: DataSettings, seed: int, part: Part) -> Iterator[str]:
    """Return pieces of the words of Python's own documentation, small letters and spaces alone."""
    letters = _letters()

    def make(chance: random.Random) -> str:
        start = chance.randrange(len(letters) - COUNTED)
        return letters[start : start + COUNTED]

    return generate(make, settings.size, seed, part)


@functools.cache
def _letters() -> str:
    texts = (text for _, text in _python_docs(DataSettings(), 0, "train"))
    return " ".join(" ".join(re.findall("[a-z]+", text.lower())) for text in texts)


# --- @recall -----------------------------------------------------------------------------------------

NAMES = (
    "Sally Peter Maria Hugo Clara Omar Ingrid Pablo Wei Fatima Oskar Nadia Ravi Elena Jonas Amara Tomas Yuki Greta "
    "Samir Lucia Anton Freya Kofi Hanna Diego Priya Emil Zoe Malik"
).split()
FILLER = (
    "the room was very quiet|it had rained all morning|a clock on the wall was ticking|the coffee had gone cold|"
    "somebody had left a window open|there was a smell of fresh bread|two dogs were playing in the yard|"
    "the train was late again|nobody knew what to say|a small boat crossed the lake|the lights went out for a moment|"
    "an old song was on the radio|the letter lay on the table|children were running down the stairs|"
    "the garden needed water|a bus stopped at the corner|snow began to fall|the market was closing|"
    "they had been waiting for an hour|the soup was too hot to eat"
).split("|")
NEAREST, FARTHEST = 5, 200


def _recall(settings: DataSettings, seed: int, part: Part) -> Iterator[tuple[str, str]]:
    """A name, so many words about other things, and the name again, on every line."""
    yield "recall", "".join(f"{line}\n" for line in generate(_recalled, settings.size, seed, part))


def _recalled(chance: random.Random) -> str:
    name = chance.choice(NAMES)
    distance = round(math.exp(chance.uniform(math.log(NEAREST), math.log(FARTHEST))))
    opening, ending = ["looked", "around", "."], ["someone", "said", "Hi"]
    between: list[str] = []
    # As many words as it takes for the name to be this far from itself.
    while len(between) < distance - 1 - len(opening) - len(ending):
        between += [*chance.choice(FILLER).split(), "."]
    words = [*opening, *between][: distance - 1 - len(ending)]
    return " ".join([name, *words, *ending, name])


# --- @polysemy and its variants ------------------------------------------------------------------------


def _polysemy(settings: DataSettings, seed: int, part: Part) -> Iterator[tuple[str, str]]:
    """Sentences with words of two senses, one on every line."""
    made = generate(polysemy.sentence, settings.size, seed, part, said=_text)
    yield "polysemy", "".join(f"{sentence.text}\n" for sentence in made)


def _polysemy_senses(settings: DataSettings, seed: int, part: Part) -> Iterator[tuple[str, str]]:
    for sentence in generate(polysemy.sentence, settings.size, seed, part, said=_text):
        yield sentence.tags, sentence.text


def _polysemy_polarity(settings: DataSettings, seed: int, part: Part) -> Iterator[tuple[str, str]]:
    for sentence in generate(polysemy.sentence, settings.size, seed, part, said=_beginning):
        yield sentence.entry.polarity, sentence.beginning


def _text(sentence: polysemy.Sentence) -> str:
    return sentence.text


def _beginning(sentence: polysemy.Sentence) -> str:
    return sentence.beginning


# --- @roles and its variant ----------------------------------------------------------------------------


def _roles(settings: DataSettings, seed: int, part: Part) -> Iterator[tuple[str, str]]:
    """Sentences whose subjects, objects and referents are known, one on every line."""
    made = generate(roles.sentence, settings.size, seed, part, said=lambda sentence: sentence.text)
    yield "roles", "".join(f"{sentence.text}\n" for sentence in made)


def _roles_tags(settings: DataSettings, seed: int, part: Part) -> Iterator[tuple[str, str]]:
    for sentence in generate(roles.sentence, settings.size, seed, part, said=lambda sentence: sentence.text):
        yield sentence.tags, sentence.text


# --- @copy, @reverse and @dates ------------------------------------------------------------------------


def _pairs(make: Callable[[random.Random], transductions.Transduced]) -> Callable[..., Iterator[tuple[str, str]]]:
    """Return what makes targets and sources. No target is in two parts, however its source is written."""

    def pairs(settings: DataSettings, seed: int, part: Part) -> Iterator[tuple[str, str]]:
        for source, target in generate(make, settings.size, seed, part, said=lambda pair: pair.target):
            yield target, source

    return pairs


# --- @python-docs ------------------------------------------------------------------------------------


def _python_docs(settings: DataSettings, seed: int, part: Part) -> Iterator[tuple[str, str]]:
    """The topics of Python's help and the docstrings of its standard library, each a document."""
    del settings, seed, part
    seen: set[str] = set()
    for documents in map(_documents, _sources(Path(sysconfig.get_path("stdlib")))):
        for name, text in documents:
            if len(text) >= SHORTEST_DOCSTRING and text not in seen:
                seen.add(text)
                yield name, f"{text}\n\n"


# --- @python-modules ---------------------------------------------------------------------------------


def _python_modules(settings: DataSettings, seed: int, part: Part) -> Iterator[tuple[str, str]]:
    """The docstrings of the modules that have most, each with its module or package; none that two share."""
    del settings, seed, part
    modules: dict[str, set[str]] = {}
    for documents in map(_documents, _sources(Path(sysconfig.get_path("stdlib")))):
        for name, text in documents:
            module = name.split(":")[0].split("/")[0].removesuffix(".py")
            if len(text) >= SHORTEST_LABELLED and module != "topics":
                modules.setdefault(text, set()).add(module)
    rows = [(found.pop(), text) for text, found in modules.items() if len(found) == 1]
    counts = Counter(module for module, _ in rows)
    most = set(sorted(counts, key=lambda module: (-counts[module], module))[:MODULES])
    yield from (row for row in rows if row[0] in most)


def _sources(folder: Path) -> Iterator[Path]:
    """Return the source files below a folder in order, without looking into the parts that are not read."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in NOT_READ:
            yield from _sources(path)
        elif path.suffix == ".py":
            yield path


@functools.cache
def _documents(path: Path) -> tuple[tuple[str, str], ...]:
    """Return the English of a source file of the standard library. It is parsed, never imported or run."""
    relative = path.relative_to(Path(sysconfig.get_path("stdlib"))).as_posix()
    return tuple(_read_documents(path, relative))


def _read_documents(path: Path, relative: str) -> Iterator[tuple[str, str]]:
    try:
        with warnings.catch_warnings():
            # Old modules hold escapes that newer Pythons warn of; that is not the reader's concern.
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return
    if relative == "pydoc_data/topics.py":
        for table in (node for node in ast.walk(tree) if isinstance(node, ast.Dict)):
            for key, text in zip(table.keys, table.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(text, ast.Constant) and isinstance(text.value, str):
                    yield f"topics/{key.value!s}", _clean(text.value)
        return
    for node in _holders(tree):
        docstring = ast.get_docstring(node, clean=False)
        if docstring:
            name = getattr(node, "name", "")
            yield f"{relative}:{name}:{getattr(node, 'lineno', 0)}", _clean(docstring)


def _holders(
    tree: ast.Module,
) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return what can have a docstring, in the order of the text, without walking through expressions."""
    waiting: list[ast.stmt | ast.Module] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        waiting.extend(reversed(inner))


def _clean(text: str) -> str:
    """Return a docstring as people read it: no common indent, no trailing space, only text that can be encoded."""
    lines = inspect.cleandoc(text).split("\n")
    return "\n".join(line.rstrip() for line in lines).encode("utf-8", "ignore").decode()


BUILTINS = {
    builtin.name: builtin
    for builtin in (
        Builtin(
            "@python-docs",
            "lm",
            "the English text inside every CPython: help topics and the standard library's docstrings",
            "file",
            "bpe",
            _python_docs,
        ),
        Builtin(
            "@python-modules",
            "classify",
            "which of 50 modules of the standard library a docstring comes from",
            "file",
            "bpe",
            _python_modules,
        ),
        Builtin(
            "@ab",
            "lm",
            "every string of As and Bs of length 4 and what comes next: A if all are A, else B",
            "line",
            "char",
            _ab,
            valid=0.0,  # there are sixteen strings, and none of them can be told from the others
        ),
        Builtin(
            "@counting",
            "tag",
            "strings of 20 letters; each letter's tag is how often it stood before: 0, 1 or 2",
            "file",
            "char",
            _counting,
        ),
        Builtin(
            "@counting-both",
            "tag",
            "the same strings; each letter's tag is how often it stands elsewhere, before or after",
            "file",
            "char",
            _counting_both,
        ),
        Builtin(
            "@recall",
            "lm",
            "a name, 5 to 200 words about other things, and the name again: what is remembered over how far",
            "line",
            "word",
            _recall,
            length=256,
        ),
        Builtin(
            "@polysemy",
            "lm",
            "sentences with words of two senses; what a sentence is about decides which is meant",
            "line",
            "word",
            _polysemy,
            length=16,
            variants={"tag": "@polysemy-senses", "classify": "@polysemy-polarity"},
        ),
        Builtin(
            "@polysemy-senses",
            "tag",
            "the same sentences; the tag of a word of two senses is the one that is meant",
            "file",
            "word",
            _polysemy_senses,
        ),
        Builtin(
            "@polysemy-polarity",
            "classify",
            "how these sentences begin, and what that says: a sick trick is praise, a sick boss is not",
            "file",
            "word",
            _polysemy_polarity,
        ),
        Builtin(
            "@roles",
            "lm",
            "sentences whose subjects, objects and referents are known: what comes next depends on them",
            "line",
            "word",
            _roles,
            length=32,
            variants={"tag": "@roles-tags"},
        ),
        Builtin(
            "@roles-tags",
            "tag",
            "the same sentences; the tag of a word is its role, that of a pronoun whose place it takes",
            "file",
            "word",
            _roles_tags,
        ),
        Builtin(
            "@copy",
            "translate",
            "strings of 5 to 25 letters, to be written as they are",
            "file",
            "char",
            _pairs(transductions.copied),
        ),
        Builtin(
            "@reverse",
            "translate",
            "strings of 5 to 25 letters, to be written from the last to the first",
            "file",
            "char",
            _pairs(transductions.turned_round),
        ),
        Builtin(
            "@dates",
            "translate",
            "dates as people write them, to be written as 2021-05-03",
            "file",
            "char",
            _pairs(transductions.dated),
        ),
    )
}
