"""Probes: a linear map finds what is there and no more, and says what it could learn by heart."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel.errors import DataError, RunError
from satchel.inspection.probing import MAX_WORDS, accuracy, baselines, control_tags, probe_layers
from tests.inspection.test_embeddings import DEEP, SMALL

CHANCE = np.random.default_rng(0)
WORDS = 2000
TYPES = [f"word {number}" for number in range(600)]


def held(count: int) -> Any:
    return np.arange(count) % 4 == 0


# --- the map itself ------------------------------------------------------------------------------------------


def test_a_planted_direction_is_found_and_chance_is_not() -> None:
    vectors_ND = CHANCE.normal(size=(WORDS, 12))
    direction = CHANCE.normal(size=(12, 3))
    planted_N = (vectors_ND @ direction).argmax(axis=1)
    assert accuracy(vectors_ND, planted_N, held(WORDS)) > 0.95
    drawn_N = CHANCE.integers(0, 3, WORDS)
    assert accuracy(vectors_ND, drawn_N, held(WORDS)) == pytest.approx(1 / 3, abs=0.08)


def test_neither_scale_nor_place_nor_a_number_that_never_changes_matters() -> None:
    vectors_ND = CHANCE.normal(size=(400, 5))
    tags_N = (vectors_ND[:, 0] > 0).astype(np.int64)
    plain = accuracy(vectors_ND, tags_N, held(400))
    moved = np.concatenate([1e6 + 1e-3 * vectors_ND, np.full((400, 1), 7.0)], axis=1)
    assert accuracy(moved, tags_N, held(400)) == pytest.approx(plain, abs=0.01)


def test_nothing_of_what_is_held_out_is_learned_from() -> None:
    vectors_ND = CHANCE.normal(size=(400, 5))
    tags_N = (vectors_ND[:, 0] > 0).astype(np.int64)
    swapped_N = np.where(held(400), 1 - tags_N, tags_N)
    assert accuracy(vectors_ND, tags_N, held(400)) == pytest.approx(1 - accuracy(vectors_ND, swapped_N, held(400)))
    # A tag that only held-out words have cannot be found.
    unseen_N = np.where(held(400), 5, tags_N)
    assert accuracy(vectors_ND, unseen_N, held(400)) == 0


def test_the_same_words_give_the_same_answer() -> None:
    vectors_ND, tags_N = CHANCE.normal(size=(300, 8)), CHANCE.integers(0, 4, 300)
    assert accuracy(vectors_ND, tags_N, held(300)) == accuracy(vectors_ND, tags_N, held(300))


# --- what it is compared with --------------------------------------------------------------------------------


def test_the_control_is_lower_where_there_is_something_to_read() -> None:
    of_type = CHANCE.normal(size=(len(TYPES), 10))
    types_N = CHANCE.integers(0, len(TYPES), WORDS)
    vectors_ND = of_type[types_N] + 0.1 * CHANCE.normal(size=(WORDS, 10))
    tags_N = (of_type[types_N, :2] > 0).astype(np.int64) @ np.array([1, 2])
    words = [TYPES[number] for number in types_N]
    found, blind = probe_layers(
        {"seen": vectors_ND, "noise": CHANCE.normal(size=(WORDS, 10))}, words, tags_N, held(WORDS), 0
    )
    assert (found.layer, found.site) == (0, "seen")
    assert found.accuracy > 0.9
    assert found.control < 0.5
    assert found.selectivity == pytest.approx(found.accuracy - found.control)
    assert found.selectivity > 0.4
    # What is not there is not found, and selects nothing.
    assert blind.accuracy < 0.4
    assert abs(blind.selectivity) < 0.15


def test_the_tags_of_the_control_belong_to_words_by_chance_and_always() -> None:
    words = [TYPES[number] for number in CHANCE.integers(0, len(TYPES), WORDS)]
    tags_N = np.where(CHANCE.random(WORDS) < 0.8, 0, 1)
    drawn_N = control_tags(words, tags_N, seed=0)
    assert len({(word, int(tag)) for word, tag in zip(words, drawn_N, strict=True)}) == len(set(words))
    assert (drawn_N == 0).mean() == pytest.approx(0.8, abs=0.06)
    np.testing.assert_array_equal(drawn_N, control_tags(words, tags_N, seed=0))
    assert (drawn_N != control_tags(words, tags_N, seed=1)).any()


def test_counting_is_done_on_what_is_not_held_out() -> None:
    words, tags_N = ["a", "a", "a", "b", "b", "c", "a", "b", "c"], np.array([0, 0, 1, 1, 1, 1, 0, 1, 2])
    found = baselines(words, tags_N, np.array([0, 0, 0, 0, 0, 0, 1, 1, 1], bool))
    assert found.majority == pytest.approx(1 / 3)  # the tag 1
    assert found.by_word == pytest.approx(2 / 3)  # a is 0, b is 1
    unseen = baselines(["a", "a", "b"], np.array([1, 1, 1]), np.array([0, 0, 1], bool))
    assert unseen.by_word == 1  # b was never seen: most have 1


# --- of models -----------------------------------------------------------------------------------------------


def sentences(count: int, length: int = 8) -> list[str]:
    chance = np.random.default_rng(3)
    return [" ".join(chance.choice(list("abcdef"), length)) for _ in range(count)]


def previous(text: str) -> str:
    """Return tags that say which word came before."""
    words = text.split()
    return " ".join(f"after-{word}" for word in ["start", *words[:-1]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("probing")
    texts = sentences(300)
    (path / "text.txt").write_text("".join(f"{text}\n" for text in texts))
    (path / "previous.tsv").write_text("text\ttags\n" + "".join(f"{text}\t{previous(text)}\n" for text in texts[:150]))
    (path / "itself.tsv").write_text("text\ttags\n" + "".join(f"{text}\t{text.upper()}\n" for text in texts[:60]))
    return path


def trained(folder: Path, kind: str, **settings: Any) -> Any:
    return satchel.train(
        folder / "text.txt",
        model=kind,
        tokenizer="word",
        steps=2,
        settings={**(DEEP if kind == "transformer" else SMALL), "data.documents": "line", **settings},
        out=folder / "run",
        force=True,
    )


@pytest.mark.item(94)
def test_the_word_before_is_not_in_a_word_but_in_the_layer_above(folder: Path) -> None:
    found = trained(folder, "window", **{"model.width": 64, "model.window": 2}).probe(folder / "previous.tsv")
    assert (found.unit, found.rows) == ("word", (112, 38))
    assert found.words == (112 * 8, 38 * 8)
    assert len(found.tags) == 7
    static, above = found.layers
    assert found.static == static
    assert (static.site, above.site) == ("embedded", "encoded")
    # Six words and a start: whoever does not know it finds one in six.
    assert static.accuracy < 0.3
    assert above.accuracy > 0.9
    assert found.baselines.majority < 0.3
    assert found.baselines.by_word < 0.3
    # The tags of the control belong to the words themselves, of which there are six.
    assert static.control == pytest.approx(1)


@pytest.mark.parametrize("kind", ["dan", "gru", "transformer", "backpack"])
def test_a_word_is_found_in_its_own_vector_by_every_network(folder: Path, kind: str) -> None:
    small = {"model.layers": 1, "model.heads": 2, "model.context": 16, "model.senses": 2} if kind == "backpack" else {}
    found = trained(folder, kind, **small).probe(folder / "itself.tsv")
    assert found.static.accuracy == 1
    assert len(found.layers) >= 2
    assert found.baselines.by_word == 1


def test_rows_longer_than_the_context_are_cut_and_counted(folder: Path) -> None:
    model = trained(folder, "transformer", **{"model.context": 6})
    found = model.probe(folder / "itself.tsv")
    # A boundary stands before each text: five words of eight are read.
    assert sum(found.words) == 60 * 5
    assert found.notes == ("60 rows longer than the context of 6 tokens: 180 tags beyond it omitted",)


def test_tags_that_are_left_out_are_not_asked_about(folder: Path) -> None:
    model = trained(folder, "gru")
    found = model.probe(folder / "itself.tsv", leave_out=["A", "B"])
    assert found.tags == ("C", "D", "E", "F")
    letters = sum(text.split().count(letter) for text in sentences(300)[:60] for letter in "cdef")
    assert sum(found.words) == letters


def test_rows_of_the_same_text_stand_on_the_same_side(folder: Path) -> None:
    times = (3, 5, 20, 40)
    texts = [text for text, count in zip(sentences(4), times, strict=True) for _ in range(count)]
    (folder / "twice.tsv").write_text("text\ttags\n" + "".join(f"{text}\t{text}\n" for text in texts))
    found = trained(folder, "gru").probe(folder / "twice.tsv")
    # One text of four is held out, however often it is there.
    assert found.rows[1] in times
    assert sum(found.rows) == sum(times)


def test_tags_may_belong_to_characters_and_words_to_several_tokens(folder: Path) -> None:
    joined = [text.replace(" ", "") for text in sentences(40)]
    (folder / "letters.tsv").write_text("text\ttags\n" + "".join(f"{text}\t{text.upper()}\n" for text in joined))
    model = satchel.train(
        folder / "text.txt", model="gru", tokenizer="char", steps=2, settings=SMALL, out=folder / "chars", force=True
    )
    assert model.probe(folder / "letters.tsv").unit == "character"
    found = model.probe(folder / "itself.tsv")
    assert found.unit == "word"
    # A word is its letter and the space before it, where there is one.
    assert found.static.accuracy > 0.98


def test_the_senses_that_come_with_the_package_can_be_asked_about(folder: Path) -> None:
    model = satchel.train(
        "@polysemy",
        model="gru",
        steps=2,
        settings={**SMALL, "data.size": 500},
        out=folder / "polysemy",
        force=True,
    )
    found = model.probe("@polysemy", leave_out=["-"])
    assert found.data == "@polysemy-senses"
    assert all("/" in tag for tag in found.tags)
    assert sum(found.rows) == sum(found.words)  # one ambiguous word in each
    assert max(found.words) < MAX_WORDS


def test_large_tables_are_read_in_part(folder: Path) -> None:
    count = MAX_WORDS // 50 + 30
    rows = "".join(f"{text}\t{text}\n" for text in sentences(count, 50))
    (folder / "large.tsv").write_text(f"text\ttags\n{rows}")
    found = trained(folder, "gru").probe(folder / "large.tsv")
    assert sum(found.words) == MAX_WORDS
    assert found.notes == (f"only the first {MAX_WORDS // 50:,} of {count:,} rows are used",)


def test_what_cannot_be_probed_is_told(folder: Path) -> None:
    model = trained(folder, "gru")
    with pytest.raises(DataError, match="is not a table"):
        model.probe(folder / "text.txt")
    (folder / "one.tsv").write_text("text\ttags\na b\tX X\nb a\tX X\n")
    with pytest.raises(DataError, match="2 rows with 1 tag; expected 2 or more of each"):
        model.probe(folder / "one.tsv")
    (folder / "row.tsv").write_text("text\ttags\na b\tX Y\n")
    with pytest.raises(DataError, match="1 row with 2 tags"):
        model.probe(folder / "row.tsv")
    (folder / "uneven.tsv").write_text("text\ttags\na b\tX Y\na b\tX\n")
    with pytest.raises(DataError, match="found 1 tag for 2 words"):
        model.probe(folder / "uneven.tsv")
    (folder / "empty.tsv").write_text("text\ttags\n")
    with pytest.raises(DataError, match="has no rows"):
        model.probe(folder / "empty.tsv")
    (folder / "labels.tsv").write_text("text\tlabel\na b\tX\n")
    with pytest.raises(DataError, match="has no column tags"):
        model.probe(folder / "labels.tsv")
    counted = satchel.train(folder / "text.txt", model="ngram", out=folder / "counted", force=True)
    with pytest.raises(RunError, match="has no embeddings"):
        counted.probe(folder / "itself.tsv")
