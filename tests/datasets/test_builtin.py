"""Built-in data: what is generated, and what is inside every Python."""

import random
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from satchel.datasets import builtin
from satchel.datasets.builtin import PARTS, generate, part_of, read_builtin
from satchel.datasets.corpora import infer_task, open_corpus
from satchel.errors import DataError
from satchel.text.reading import Corpus, DataSettings
from satchel.text.tables import read_examples


def silent(stage: str) -> None:
    del stage


def texts(corpus: Corpus) -> list[str]:
    return ["".join(corpus.texts(source)) for source in corpus.sources]


# --- @ab


def test_ab_is_every_string_of_four_and_what_comes_next() -> None:
    (text,) = texts(open_corpus("@ab", DataSettings()))
    assert text.split("\n") == [
        "AAAAA", "AAABB", "AABAB", "AABBB", "ABAAB", "ABABB", "ABBAB", "ABBBB",
        "BAAAB", "BAABB", "BABAB", "BABBB", "BBAAB", "BBABB", "BBBAB", "BBBBB", "",
    ]  # fmt: skip


@pytest.mark.parametrize("length", [1, 2, 7])
def test_ab_has_other_lengths(length: int) -> None:
    corpus = open_corpus("@ab", DataSettings(length=length), seed=3)
    lines = [piece.text for piece in corpus.pieces("line")]
    assert len(set(lines)) == len(lines) == 2**length
    assert all(len(line) == length + 1 and line[-1] == ("B" if "B" in line[:-1] else "A") for line in lines)


def test_what_is_not_built_in_is_told_with_what_is() -> None:
    with pytest.raises(
        DataError, match=r"there is no built-in data named @nope\nthere is @python-docs, @python-modules, @ab"
    ):
        open_corpus("@nope", DataSettings())


# --- @python-docs


@pytest.fixture(scope="module")
def docs() -> Corpus:
    return read_builtin("@python-docs", DataSettings(), 0, silent)


def test_the_docs_are_enough_text_and_no_document_comes_twice(docs: Corpus) -> None:
    found = texts(docs)
    assert len(found) > 3000
    assert sum(map(len, found)) > 1_500_000
    assert len(set(found)) == len(found)
    assert len({source.name for source in docs.sources}) == len(found)
    assert all(len(text) >= 60 and text.endswith("\n\n") and text.strip() for text in found)
    assert not any(line.endswith(" ") for text in found for line in text.split("\n"))
    assert any(source.name == "topics/lambda" for source in docs.sources)
    assert infer_task(docs) == "lm"


def test_the_docs_are_parsed_and_nothing_is_imported_or_run(docs: Corpus) -> None:
    program = """
import sys
from satchel.datasets import builtin
from satchel.text.reading import DataSettings
events = []
before = set(sys.modules)
sys.addaudithook(lambda event, arguments: events.append((event, arguments[:1])))
corpus = builtin.read_builtin("@python-docs", DataSettings(), 7, lambda stage: None)
watched = ("import", "exec", "os.system", "subprocess.Popen", "socket.connect")
caught = [event for event in events if event[0] in watched]
names = ("tkinter", "turtle", "antigravity", "this", "pydoc_data.topics", "idlelib", "xmlrpc", "curses", "sqlite3")
print(corpus.identity(), [name for name in names if name in sys.modules], sorted(set(sys.modules) - before), caught)
"""
    # Warnings are errors in these tests, and shown in that process: the docs are the same, and nothing is said.
    command = [sys.executable, "-W", "always", "-c", program]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout == f"{docs.identity()} [] [] []\n"
    assert done.stderr == ""


# --- generated examples


def make(rng: random.Random) -> str:
    return f"{rng.randrange(500)} plus {rng.randrange(500)}"


def test_the_same_arguments_give_the_same_examples() -> None:
    for part in PARTS:
        first = list(generate(make, 200, 1, part))
        random.seed(5)
        assert list(generate(make, 200, 1, part)) == first
        assert list(generate(make, 200, 2, part)) != first
    # More examples are the same ones, and more.
    assert list(generate(make, 400, 1))[:200] == list(generate(make, 200, 1))


def test_parts_have_their_sizes_and_share_no_example() -> None:
    found = {part: list(generate(make, 3000, 0, part)) for part in PARTS}
    assert [len(found[part]) for part in PARTS] == [3000, 300, 300]
    for one in PARTS:
        assert {part_of(example) for example in found[one]} == {one}
        for other in PARTS:
            assert one == other or set(found[one]).isdisjoint(found[other])
    assert len(list(generate(make, 1, 0, "test"))) == 1


def test_about_eight_in_ten_are_for_training() -> None:
    counts = [sum(part_of(str(number)) == part for number in range(10_000)) for part in PARTS]
    assert 7800 < counts[0] < 8200
    assert 850 < counts[1] < 1150
    assert 850 < counts[2] < 1150


def test_python_modules_are_fifty_labels_of_texts_that_are_in_one_module_only() -> None:
    corpus = open_corpus("@python-modules", DataSettings())
    assert infer_task(corpus) == "classify"
    rows = list(read_examples(corpus))
    counts = Counter(row.label for row in rows)
    assert len(counts) == 50
    assert {"asyncio", "email", "unittest"} <= set(counts)
    assert len({row.text for row in rows}) == len(rows) > 3000
    assert max(counts.values()) > 10 * min(counts.values())
    homes: dict[str, set[str]] = {}
    for path in builtin._sources(Path(sysconfig.get_path("stdlib"))):
        for name, text in builtin._documents(path):
            homes.setdefault(text, set()).add(name.split("/")[0].split(":")[0])
    assert any(len(found) > 1 for text, found in homes.items() if len(text) >= 20)
    assert all(len(homes[row.text]) == 1 for row in rows)
    assert open_corpus("@python-modules", DataSettings()).identity() == corpus.identity()
