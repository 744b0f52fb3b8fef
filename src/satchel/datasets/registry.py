"""Registry of the built-in data sets. They need no download: they are generated, or part of the Python installation."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from satchel.config import read_toml
from satchel.datasets import polysemy, python_docs, roles, strings
from satchel.datasets.generated import Row, RowGenerator, SplitName, line_generator, row_generator
from satchel.errors import DataError
from satchel.text.reading import Corpus, DataSettings, DocumentRule, Task
from satchel.text.sources import bytes_source


@dataclass(frozen=True)
class Dataset:
    """A built-in data set: its name, task, description, generator and default settings."""

    name: str
    task: Task
    description: str
    generator: RowGenerator
    documents: DocumentRule = "file"  # default of data.documents
    tokenizer: str = "word"  # default of tokenizer.kind
    valid: float = 0.05  # default of data.valid: the fraction held out
    length: int | None = None  # default context length in tokens: that of the longest document
    variants: Mapping[str, str] = field(default_factory=dict)  # names of the same data for other tasks, by task


def _target(row: Row) -> str:
    """Return the target of a pair, as the key that decides its split: all forms of a date are in the same split."""
    return row[0]


GENERATORS: dict[str, RowGenerator] = {
    "@python-docs": python_docs.documents,
    "@python-modules": python_docs.labelled_docstrings,
    "@ab": strings.all_strings,
    "@counting": row_generator(strings.draw_substring, lambda string: (strings.counts_before(string), string)),
    "@counting-both": row_generator(strings.draw_substring, lambda string: (strings.counts_elsewhere(string), string)),
    "@recall": line_generator("recall", strings.draw_line),
    "@polysemy": line_generator("polysemy", lambda rng: polysemy.draw_sentence(rng).text),
    "@polysemy-senses": row_generator(polysemy.draw_sentence, lambda sentence: (sentence.tags, sentence.text)),
    "@polysemy-polarity": row_generator(
        polysemy.draw_sentence, lambda sentence: (sentence.adjective.polarity, sentence.beginning)
    ),
    "@roles": line_generator("roles", lambda rng: roles.draw_sentence(rng).text),
    "@roles-tags": row_generator(roles.draw_sentence, lambda sentence: (sentence.tags, sentence.text)),
    "@copy": row_generator(strings.draw_letters, lambda string: (string, string), key=_target),
    "@reverse": row_generator(strings.draw_letters, lambda string: (string[::-1], string), key=_target),
    "@dates": row_generator(strings.draw_date, lambda row: row, key=_target),
}
DATASETS = {
    name: Dataset(name, generator=GENERATORS[name], **values)
    for name, values in read_toml(Path(__file__).with_suffix(".toml")).items()
}


def dataset_for_task(name: str, task: str) -> str:
    """Return the name of the variant of a built-in data set for a task; return other names unchanged."""
    return DATASETS[name].variants.get(task, name) if name in DATASETS else name


def read_dataset(
    name: str, settings: DataSettings, seed: int, progress: Callable[[str], None], split: SplitName = "train"
) -> Corpus:
    """Return a built-in data set as a corpus: one source per document (lm), or one table in JSON Lines format.

    The splits of randomly generated data are disjoint; other data sets ignore the seed and the split.
    """
    if name not in DATASETS:
        raise DataError(f"{name} is not a built-in data set", f"expected {', '.join(DATASETS)}")
    dataset = DATASETS[name]
    rows = []
    for row in dataset.generator(settings, seed, split):
        rows.append(row)
        progress(f"generating {name}: {len(rows):,} documents")
    if dataset.task == "lm":
        return Corpus(name, tuple(bytes_source(document, text.encode()) for document, text in rows), settings)
    columns = {
        "classify": (settings.label_column, settings.text_column),
        "tag": (settings.tags_column, settings.text_column),
        "translate": (settings.target_column, settings.source_column),
    }[dataset.task]
    table = "".join(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n" for row in rows)
    return Corpus(name, (bytes_source(f"{name[1:]}.jsonl", table.encode()),), settings)
