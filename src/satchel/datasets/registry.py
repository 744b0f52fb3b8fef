"""Registry of the built-in data sets. They need no download: they are generated, or part of the Python installation."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from satchel.datasets import ab, counting, polysemy, python_docs, python_modules, recall, roles, transductions
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


DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            "@python-docs",
            "lm",
            "English text of the Python installation: help topics and docstrings of the standard library",
            python_docs.documents,
            tokenizer="bpe",
        ),
        Dataset(
            "@python-modules",
            "classify",
            "docstrings of the standard library, labelled with their module (50 modules)",
            python_modules.labelled_docstrings,
            tokenizer="bpe",
        ),
        Dataset(
            "@ab",
            "lm",
            "all strings of 4 letters A and B, each followed by A if it has no B, else by B",
            ab.all_strings,
            documents="line",
            tokenizer="char",
            valid=0.0,  # the data set consists of all strings: none can be held out
        ),
        Dataset(
            "@counting",
            "tag",
            "strings of 20 characters; the tag of a character counts its earlier occurrences: 0, 1 or 2 (or more)",
            row_generator(counting.draw_string, lambda string: (counting.counts_before(string), string)),
            tokenizer="char",
        ),
        Dataset(
            "@counting-both",
            "tag",
            "the strings of @counting; the tag of a character counts its other occurrences, earlier and later",
            row_generator(counting.draw_string, lambda string: (counting.counts_elsewhere(string), string)),
            tokenizer="char",
        ),
        Dataset(
            "@recall",
            "lm",
            "lines that begin and end with the same name, 5 to 200 words apart: measures memory over distance",
            line_generator("recall", recall.draw_line),
            documents="line",
            length=256,
        ),
        Dataset(
            "@polysemy",
            "lm",
            "sentences with words of two senses; the topic of the sentence determines the sense",
            line_generator("polysemy", lambda rng: polysemy.draw_sentence(rng).text),
            documents="line",
            length=16,
            variants={"tag": "@polysemy-senses", "classify": "@polysemy-polarity"},
        ),
        Dataset(
            "@polysemy-senses",
            "tag",
            "the sentences of @polysemy; the tag of a word with two senses is its sense",
            row_generator(polysemy.draw_sentence, lambda sentence: (sentence.tags, sentence.text)),
        ),
        Dataset(
            "@polysemy-polarity",
            "classify",
            "beginnings of the sentences of @polysemy, labelled positive, negative or neutral",
            row_generator(polysemy.draw_sentence, lambda sentence: (sentence.adjective.polarity, sentence.beginning)),
        ),
        Dataset(
            "@roles",
            "lm",
            "sentences with annotated subjects, objects and referents of pronouns, which determine the next word",
            line_generator("roles", lambda rng: roles.draw_sentence(rng).text),
            documents="line",
            length=32,
            variants={"tag": "@roles-tags"},
        ),
        Dataset(
            "@roles-tags",
            "tag",
            "the sentences of @roles; the tag of a word is its role, that of a pronoun the role of its referent",
            row_generator(roles.draw_sentence, lambda sentence: (sentence.tags, sentence.text)),
        ),
        Dataset(
            "@copy",
            "translate",
            "strings of 5 to 25 letters; the target equals the source",
            row_generator(transductions.draw_string, lambda string: (string, string), key=_target),
            tokenizer="char",
        ),
        Dataset(
            "@reverse",
            "translate",
            "strings of 5 to 25 letters; the target is the reversed source",
            row_generator(transductions.draw_string, lambda string: (string[::-1], string), key=_target),
            tokenizer="char",
        ),
        Dataset(
            "@dates",
            "translate",
            "dates in nine written forms; the target is the ISO 8601 form (2021-05-03)",
            row_generator(transductions.draw_date, lambda row: row, key=_target),
            tokenizer="char",
        ),
    )
}


def dataset_for_task(name: str, task: str) -> str:
    """Return the name of the variant of a built-in data set for a task; return other names unchanged."""
    dataset = DATASETS.get(name)
    return dataset.variants.get(task, name) if dataset is not None else name


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
