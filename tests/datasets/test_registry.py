"""Registry of built-in data sets: lookup by name and task, and the properties shared by all of them."""

import json

import pytest

from satchel.datasets.corpora import infer_task, open_corpus
from satchel.datasets.generated import SPLITS
from satchel.datasets.registry import DATASETS, dataset_for_task
from satchel.errors import DataError
from satchel.text.reading import DataSettings

# Data sets drawn at random; the others are the same for every seed and split.
GENERATED = sorted(set(DATASETS) - {"@python-docs", "@python-modules", "@ab"})


def test_an_unknown_name_raises_an_error_that_lists_the_data_sets() -> None:
    with pytest.raises(
        DataError, match=r"@nope is not a built-in data set\nexpected @python-docs, @python-modules, @ab"
    ):
        open_corpus("@nope", DataSettings())


@pytest.mark.parametrize("name", DATASETS)
def test_the_columns_of_each_data_set_imply_its_task(name: str) -> None:
    assert infer_task(open_corpus(name, DataSettings(size=10))) == DATASETS[name].task


@pytest.mark.parametrize("name", GENERATED)
def test_splits_are_disjoint_and_depend_on_the_seed(name: str) -> None:
    def lines(split: str, seed: int = 3) -> list[str]:
        corpus = open_corpus(name, DataSettings(size=200), seed, split=split)  # type: ignore[arg-type]
        return "".join(corpus.texts(corpus.sources[0])).splitlines()

    splits = {split: lines(split) for split in SPLITS}
    assert [len(splits[split]) for split in SPLITS] == [200, 20, 20]
    assert not set(splits["train"]) & set(splits["valid"] + splits["test"])
    assert not set(splits["valid"]) & set(splits["test"])
    assert lines("train") == splits["train"]
    assert lines("train", seed=4) != splits["train"]


@pytest.mark.parametrize("name", [name for name, dataset in DATASETS.items() if dataset.length])
def test_the_default_length_covers_the_longest_line(name: str) -> None:
    corpus = open_corpus(name, DataSettings(size=1000))
    # The end of a document is one more token.
    assert max(len(piece.text.split()) + 1 for piece in corpus.pieces("line")) <= (DATASETS[name].length or 0)


@pytest.mark.parametrize(
    ("name", "task", "variant"),
    [
        ("@polysemy", "classify", "@polysemy-polarity"),
        ("@polysemy", "tag", "@polysemy-senses"),
        ("@polysemy", "lm", "@polysemy"),
        ("@roles", "tag", "@roles-tags"),
        ("@roles", "lm", "@roles"),
        ("@ab", "tag", "@ab"),
        ("my.txt", "tag", "my.txt"),
    ],
)
def test_a_data_set_has_variants_for_other_tasks(name: str, task: str, variant: str) -> None:
    assert dataset_for_task(name, task) == variant


def test_tables_use_the_column_names_of_the_settings() -> None:
    corpus = open_corpus("@copy", DataSettings(size=1, source_column="a", target_column="b"))
    row = json.loads("".join(corpus.texts(corpus.sources[0])))
    assert set(row) == {"a", "b"}
