"""`@python-docs` and `@python-modules`: docstrings of the standard library, parsed and not imported."""

import subprocess
import sys
from collections import Counter

import pytest

from satchel.datasets.corpora import open_corpus
from satchel.datasets.python_docs import standard_library
from satchel.text.reading import Corpus, DataSettings
from satchel.text.tables import read_examples


@pytest.fixture(scope="module")
def docs() -> Corpus:
    return open_corpus("@python-docs", DataSettings())


def test_the_documents_are_distinct_and_enough_text_to_train_on(docs: Corpus) -> None:
    texts = ["".join(docs.texts(source)) for source in docs.sources]
    assert len(texts) > 3000
    assert sum(map(len, texts)) > 1_500_000
    assert len(set(texts)) == len(texts)
    assert len({source.name for source in docs.sources}) == len(texts)
    assert all(len(text) >= 60 and text.endswith("\n\n") and text.strip() for text in texts)
    assert not any(line.endswith(" ") for text in texts for line in text.split("\n"))
    assert any(source.name == "topics/lambda" for source in docs.sources)


def test_source_files_are_parsed_without_importing_or_executing_them(docs: Corpus) -> None:
    program = """
import sys
from satchel.datasets.corpora import open_corpus
from satchel.text.reading import DataSettings
events = []
before = set(sys.modules)
sys.addaudithook(lambda event, arguments: events.append((event, arguments[:1])))
corpus = open_corpus("@python-docs", DataSettings(), 7)
watched = ("import", "exec", "os.system", "subprocess.Popen", "socket.connect")
caught = [event for event in events if event[0] in watched]
names = ("tkinter", "turtle", "antigravity", "this", "pydoc_data.topics", "idlelib", "xmlrpc", "curses", "sqlite3")
print(corpus.identity(), [name for name in names if name in sys.modules], sorted(set(sys.modules) - before), caught)
"""
    # The tests turn warnings into errors; the new process prints them, and stderr must stay empty.
    command = [sys.executable, "-W", "always", "-c", program]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout == f"{docs.identity()} [] [] []\n"
    assert done.stderr == ""


def test_python_modules_has_fifty_labels_and_no_text_of_two_modules() -> None:
    corpus = open_corpus("@python-modules", DataSettings())
    rows = list(read_examples(corpus))
    counts = Counter(row.label for row in rows)
    assert len(counts) == 50
    assert {"asyncio", "email", "unittest"} <= set(counts)
    assert len({row.text for row in rows}) == len(rows) > 3000
    assert max(counts.values()) > 10 * min(counts.values())
    modules: dict[str, set[str]] = {}
    for name, text in standard_library():
        modules.setdefault(text, set()).add(name.split("/")[0].split(":")[0])
    assert any(len(names) > 1 for text, names in modules.items() if len(text) >= 20)
    assert all(len(modules[row.text]) == 1 for row in rows)
    assert open_corpus("@python-modules", DataSettings()).identity() == corpus.identity()
