"""Linear probes: accuracy at each layer, baselines and the control task."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from satchel.errors import DataError, RunError
from satchel.inspection.probing import MAX_WORDS, accuracy, baselines, control_tags, probe_layers
from tests.inspection.conftest import BLOCKS, SMALL, count_ngrams, train

RNG = np.random.default_rng(0)
WORDS = 2000
TYPES = [f"word {number}" for number in range(600)]


def every_fourth(count: int) -> Any:
    return np.arange(count) % 4 == 0


# --- probes on vectors ----------------------------------------------------------------------------------


def test_a_linear_function_of_the_vectors_is_learned_and_random_tags_are_not() -> None:
    vectors_ND = RNG.normal(size=(WORDS, 12))
    direction = RNG.normal(size=(12, 3))
    planted_N = (vectors_ND @ direction).argmax(axis=1)
    assert accuracy(vectors_ND, planted_N, every_fourth(WORDS)) > 0.95
    drawn_N = RNG.integers(0, 3, WORDS)
    assert accuracy(vectors_ND, drawn_N, every_fourth(WORDS)) == pytest.approx(1 / 3, abs=0.08)


def test_scale_offset_and_constant_coordinates_do_not_matter() -> None:
    vectors_ND = RNG.normal(size=(400, 5))
    tags_N = (vectors_ND[:, 0] > 0).astype(np.int64)
    plain = accuracy(vectors_ND, tags_N, every_fourth(400))
    moved = np.concatenate([1e6 + 1e-3 * vectors_ND, np.full((400, 1), 7.0)], axis=1)
    assert accuracy(moved, tags_N, every_fourth(400)) == pytest.approx(plain, abs=0.01)


def test_held_out_words_are_not_used_for_fitting() -> None:
    vectors_ND = RNG.normal(size=(400, 5))
    tags_N = (vectors_ND[:, 0] > 0).astype(np.int64)
    swapped_N = np.where(every_fourth(400), 1 - tags_N, tags_N)
    assert accuracy(vectors_ND, tags_N, every_fourth(400)) == pytest.approx(
        1 - accuracy(vectors_ND, swapped_N, every_fourth(400))
    )
    # A tag of held-out words only cannot be predicted.
    unseen_N = np.where(every_fourth(400), 5, tags_N)
    assert accuracy(vectors_ND, unseen_N, every_fourth(400)) == 0


def test_the_accuracy_is_deterministic() -> None:
    vectors_ND, tags_N = RNG.normal(size=(300, 8)), RNG.integers(0, 4, 300)
    assert accuracy(vectors_ND, tags_N, every_fourth(300)) == accuracy(vectors_ND, tags_N, every_fourth(300))


# --- control task and baselines ---------------------------------------------------------------------------


def test_selectivity_is_large_only_if_the_vectors_contain_the_tags() -> None:
    of_type = RNG.normal(size=(len(TYPES), 10))
    types_N = RNG.integers(0, len(TYPES), WORDS)
    vectors_ND = of_type[types_N] + 0.1 * RNG.normal(size=(WORDS, 10))
    tags_N = (of_type[types_N, :2] > 0).astype(np.int64) @ np.array([1, 2])
    words = [TYPES[number] for number in types_N]
    informative, noise = probe_layers(
        {"seen": vectors_ND, "noise": RNG.normal(size=(WORDS, 10))}, words, tags_N, every_fourth(WORDS), 0
    )
    assert (informative.layer, informative.site) == (0, "seen")
    assert informative.accuracy > 0.9
    assert informative.control < 0.5
    assert informative.selectivity == pytest.approx(informative.accuracy - informative.control)
    assert informative.selectivity > 0.4

    assert noise.accuracy < 0.4
    assert abs(noise.selectivity) < 0.15


def test_control_tags_are_random_and_fixed_for_each_word_type() -> None:
    words = [TYPES[number] for number in RNG.integers(0, len(TYPES), WORDS)]
    tags_N = np.where(RNG.random(WORDS) < 0.8, 0, 1)
    drawn_N = control_tags(words, tags_N, seed=0)
    assert len({(word, int(tag)) for word, tag in zip(words, drawn_N, strict=True)}) == len(set(words))
    assert (drawn_N == 0).mean() == pytest.approx(0.8, abs=0.06)
    np.testing.assert_array_equal(drawn_N, control_tags(words, tags_N, seed=0))
    assert (drawn_N != control_tags(words, tags_N, seed=1)).any()


def test_baselines_count_the_tags_of_words_that_are_not_held_out() -> None:
    words, tags_N = ["a", "a", "a", "b", "b", "c", "a", "b", "c"], np.array([0, 0, 1, 1, 1, 1, 0, 1, 2])
    result = baselines(words, tags_N, np.array([0, 0, 0, 0, 0, 0, 1, 1, 1], bool))
    assert result.majority == pytest.approx(1 / 3)  # tag 1
    assert result.by_word == pytest.approx(2 / 3)  # a is 0, b is 1
    unseen = baselines(["a", "a", "b"], np.array([1, 1, 1]), np.array([0, 0, 1], bool))
    assert unseen.by_word == 1  # b is not among the fitted words


# --- trained models -------------------------------------------------------------------------------------


def sentences(count: int, length: int = 8) -> list[str]:
    rng = np.random.default_rng(3)
    return [" ".join(rng.choice(list("abcdef"), length)) for _ in range(count)]


def previous(text: str) -> str:
    """Return tags that name the previous word."""
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
    small = BLOCKS if kind == "transformer" else SMALL
    return train(folder, model=kind, tokenizer="word", small=small, settings={"data.documents": "line", **settings})


@pytest.mark.item(94)
def test_the_previous_word_is_predictable_from_the_layer_above_but_not_from_the_embedding(folder: Path) -> None:
    result = trained(folder, "window", **{"model.width": 64, "model.window": 2}).probe(folder / "previous.tsv")
    assert (result.unit, result.rows) == ("word", (112, 38))
    assert result.words == (112 * 8, 38 * 8)
    assert len(result.tags) == 7
    static, above = result.layers
    assert result.layers[0] == static
    assert (static.site, above.site) == ("embedded", "encoded")
    # Without the context, one of six words is guessed.
    assert static.accuracy < 0.3
    assert above.accuracy > 0.9
    assert result.baselines.majority < 0.3
    assert result.baselines.by_word < 0.3
    # The control task has one tag for each of the six words, which the embedding identifies.
    assert static.control == pytest.approx(1)


@pytest.mark.parametrize("kind", ["dan", "gru", "transformer", "backpack"])
def test_the_word_itself_is_predictable_from_the_embedding_of_every_network(folder: Path, kind: str) -> None:
    small = {"model.layers": 1, "model.heads": 2, "model.context": 16, "model.senses": 2} if kind == "backpack" else {}
    result = trained(folder, kind, **small).probe(folder / "itself.tsv")
    assert result.layers[0].accuracy == 1
    assert len(result.layers) >= 2
    assert result.baselines.by_word == 1


def test_tags_beyond_the_context_are_omitted_and_counted(folder: Path) -> None:
    model = trained(folder, "transformer", **{"model.context": 6})
    result = model.probe(folder / "itself.tsv")
    # The context of 6 contains the boundary token and five of eight words.
    assert sum(result.words) == 60 * 5
    assert result.notes == ("60 rows longer than the context of 6 tokens: 180 tags beyond it omitted",)


def test_words_with_a_tag_that_is_left_out_are_ignored(folder: Path) -> None:
    model = trained(folder, "gru")
    result = model.probe(folder / "itself.tsv", leave_out=["A", "B"])
    assert result.tags == ("C", "D", "E", "F")
    letters = sum(text.split().count(letter) for text in sentences(300)[:60] for letter in "cdef")
    assert sum(result.words) == letters


def test_rows_with_the_same_text_are_all_held_out_or_all_fitted(folder: Path) -> None:
    times = (3, 5, 20, 40)
    texts = [text for text, count in zip(sentences(4), times, strict=True) for _ in range(count)]
    (folder / "twice.tsv").write_text("text\ttags\n" + "".join(f"{text}\t{text}\n" for text in texts))
    result = trained(folder, "gru").probe(folder / "twice.tsv")
    # One of four distinct texts is held out.
    assert result.rows[1] in times
    assert sum(result.rows) == sum(times)


def test_tags_can_belong_to_characters_and_words_can_have_several_tokens(folder: Path) -> None:
    joined = [text.replace(" ", "") for text in sentences(40)]
    (folder / "letters.tsv").write_text("text\ttags\n" + "".join(f"{text}\t{text.upper()}\n" for text in joined))
    model = train(folder, model="gru", tokenizer="char", small=SMALL)
    assert model.probe(folder / "letters.tsv").unit == "character"
    result = model.probe(folder / "itself.tsv")
    assert result.unit == "word"
    # A word consists of its letter and the space before it.
    assert result.layers[0].accuracy > 0.98


def test_built_in_senses_can_be_probed(folder: Path) -> None:
    model = train(folder, "@polysemy", model="gru", small=SMALL, settings={"data.size": 500})
    result = model.probe("@polysemy", leave_out=["-"])
    assert result.data == "@polysemy-senses"
    assert all("/" in tag for tag in result.tags)
    assert sum(result.rows) == sum(result.words)  # one ambiguous word in each row
    assert max(result.words) < MAX_WORDS


def test_only_the_first_rows_of_a_large_table_are_used(folder: Path) -> None:
    count = MAX_WORDS // 50 + 30
    rows = "".join(f"{text}\t{text}\n" for text in sentences(count, 50))
    (folder / "large.tsv").write_text(f"text\ttags\n{rows}")
    result = trained(folder, "gru").probe(folder / "large.tsv")
    assert sum(result.words) == MAX_WORDS
    assert result.notes == (f"only the first {MAX_WORDS // 50:,} of {count:,} rows are used",)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.txt", "a b\n" * 30, "is not a table"),
        ("one.tsv", "text\ttags\na b\tX X\nb a\tX X\n", "2 rows with 1 tag; expected 2 or more of each"),
        ("row.tsv", "text\ttags\na b\tX Y\n", "1 row with 2 tags"),
        ("uneven.tsv", "text\ttags\na b\tX Y\na b\tX\n", "1 tag for 2 words"),
        ("empty.tsv", "text\ttags\n", "has no rows"),
        ("labels.tsv", "text\tlabel\na b\tX\n", "has no column tags"),
    ],
)
def test_an_invalid_table_is_an_error(folder: Path, tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        trained(folder, "gru").probe(tmp_path / name)


def test_an_ngram_model_has_no_layers(folder: Path) -> None:
    with pytest.raises(RunError, match="has no embeddings"):
        count_ngrams(folder).probe(folder / "itself.tsv")
