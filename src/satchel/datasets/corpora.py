"""What `DATA` on the command line can name: a file, a folder, two aligned files, `-`, or a built-in."""

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from satchel.datasets import builtin
from satchel.errors import DataError
from satchel.text import tables
from satchel.text.reading import Corpus, DataSettings, Task, file_source, folder_sources, stdin_source


def open_corpus(
    data: str | Path,
    settings: DataSettings,
    seed: int = 0,
    progress: Callable[[str], None] = lambda stage: None,
    part: builtin.Part = "train",
) -> Corpus:
    """Return the corpus that `data` names; of generated data, one part."""
    name = str(data)
    if name == "-":
        return Corpus(name, (stdin_source(),), settings)
    if name.startswith("@"):
        return builtin.read_builtin(name, settings, seed, progress, part)
    path = Path(name)
    if not name:
        raise DataError("found an empty name", "name a file or a folder")
    # Unlike those of Path, these say no, and do not fail, where a name is too long to be one.
    if not os.path.exists(path) and "," in name:
        pair = [Path(part) for part in name.split(",")]
        if len(pair) != 2:
            raise DataError(f"found {len(pair)} names joined by commas, expected two aligned files", where=name)
        return Corpus(name, tuple(file_source(part) for part in pair), settings)
    if os.path.isdir(path):
        sources, skipped = folder_sources(path)
        return Corpus(name, sources, settings, skipped)
    return Corpus(name, (file_source(path),), settings)


def infer_task(corpus: Corpus) -> Task:
    """Return what a corpus is for, from what is there."""
    if is_pair(corpus):
        return "translate"
    source = corpus.sources[0]
    if len(corpus.sources) > 1 or not tables.table_format(source.name):
        return "lm"
    first = next(islice(tables.read_rows(corpus, source), 1), None)
    return tables.infer_task(first.values, corpus.settings) if first else "lm"


def is_pair(corpus: Corpus) -> bool:
    """Return whether a corpus is two aligned files."""
    return len(corpus.sources) == 2 and not os.path.exists(corpus.name) and "," in corpus.name
