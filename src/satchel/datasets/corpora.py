"""Opening a corpus: a file, a folder, two aligned files, standard input (`-`), or a built-in data set (`@name`)."""

import os
from collections.abc import Callable
from pathlib import Path

from satchel.datasets.generated import SplitName
from satchel.datasets.registry import read_dataset
from satchel.errors import DataError
from satchel.text import tables
from satchel.text.columns import table_format
from satchel.text.reading import Corpus, DataSettings, Task
from satchel.text.sources import file_source, folder_sources, stdin_source


def open_corpus(
    data: str | Path,
    settings: DataSettings,
    seed: int = 0,
    progress: Callable[[str], None] = lambda stage: None,
    split: SplitName = "train",
) -> Corpus:
    """Return the corpus with this name or path; the seed and the split apply to generated data only."""
    name = str(data)
    if name == "-":
        return Corpus(name, (stdin_source(),), settings)
    if name.startswith("@"):
        return read_dataset(name, settings, seed, progress, split)
    path = Path(name)
    if not name:
        raise DataError("the name of the data is empty", "expected a file or a folder")
    # os.path.exists returns False for names that are too long; Path.exists raises OSError.
    if not os.path.exists(path) and "," in name:
        paths = [Path(part) for part in name.split(",")]
        if len(paths) != 2:
            raise DataError(f"found {len(paths)} names separated by commas, expected two aligned files", where=name)
        return Corpus(name, tuple(map(file_source, paths)), settings)
    if os.path.isdir(path):
        sources, skipped = folder_sources(path)
        return Corpus(name, sources, settings, skipped)
    return Corpus(name, (file_source(path),), settings)


def infer_task(corpus: Corpus) -> Task:
    """Return the task of a corpus: translate for aligned files, by its columns for a table, else lm."""
    if is_pair(corpus):
        return "translate"
    if len(corpus.sources) > 1 or not table_format(corpus.sources[0].name):
        return "lm"
    return tables.infer_task(corpus)


def require_text(corpus: Corpus) -> Corpus:
    """Return the corpus; raise DataError if it is a table, which is not read as plain text."""
    if len(corpus.sources) == 1 and table_format(corpus.sources[0].name):
        raise DataError(
            "is a table, and language models read plain text",
            "to use the file as it is, copy it to a file with the extension .txt",
            where=corpus.sources[0].where,
        )
    return corpus


def is_pair(corpus: Corpus) -> bool:
    """Return whether a corpus consists of two aligned files."""
    return len(corpus.sources) == 2 and not os.path.exists(corpus.name) and "," in corpus.name
