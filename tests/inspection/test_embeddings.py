"""Word vectors: neighbours by embedding, similarity in context, and maps by PCA."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from satchel.data.tokens import open_tokens
from satchel.errors import DataError, RunError, SettingsError
from satchel.inspection.embeddings import WordVectors, cosines, nearest, pca
from satchel.runs import folder as runs
from tests.inspection.conftest import BLOCKS, SMALL, count_ngrams, train

TEXT = "the cat sat on the mat\nthe dog sat on the log\na bird saw the cat and a dog\n" * 30
TAGGED = "text\ttags\n" + "the cat sat\td n v\na dog ran off\td n v p\nthe old dog sat\td a n v\n" * 10
KINDS = ["dan", "window", "gru", "transformer", "backpack"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("embeddings")
    (path / "text.txt").write_text(TEXT)
    (path / "tagged.tsv").write_text(TAGGED)
    return path


def random_model(folder: Path, kind: str, data: str = "text.txt", tokenizer: str = "word", **settings: Any) -> Any:
    """Return a model with random weights that are large enough that all vectors differ."""
    small = BLOCKS if kind in ("transformer", "backpack") else SMALL
    documents = {"data.documents": "line"} if data == "text.txt" else {}
    model = train(folder, data, model=kind, tokenizer=tokenizer, small=small, settings={**documents, **settings})
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng) * 0.3)
    return model


# --- arithmetic -----------------------------------------------------------------------------------------


def test_the_nearest_vectors_have_the_largest_cosine_similarities() -> None:
    vectors_VD = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0], [0.0, 0.0], [2.0, 0.0]])
    cosines_V = cosines(vectors_VD, vectors_VD[:1])[0]
    np.testing.assert_allclose(cosines_V, [1, 0, 0.5**0.5, 0, 1])
    values, indices = nearest(cosines_V, 2, excluded=[0])
    assert indices.tolist() == [4, 2]
    np.testing.assert_allclose(values, [1, 0.5**0.5])
    assert nearest(cosines_V, 9)[1].tolist() == [0, 4, 2, 1, 3]


def test_cosine_similarities_do_not_depend_on_the_batch_size() -> None:
    vectors_VD = np.random.default_rng(0).normal(size=(5000, 3))
    unit = vectors_VD / np.linalg.norm(vectors_VD, axis=1, keepdims=True)
    np.testing.assert_allclose(cosines(vectors_VD, vectors_VD[:2]), unit[:2] @ unit.T, atol=1e-12)


def test_points_on_a_line_have_one_principal_component() -> None:
    distances = np.array([0.0, 1.0, 2.0, 5.0])
    coordinates, variance = pca(np.array([7.0, 1.0, 0.0]) + distances[:, None] * np.array([3.0, -4.0, 0.0]))
    assert variance == pytest.approx((1, 0))
    # The largest coefficient of the component, the second, is made positive.
    np.testing.assert_allclose(coordinates[:, 0], -5 * (distances - distances.mean()), atol=1e-12)
    np.testing.assert_allclose(coordinates[:, 1], 0, atol=1e-12)


def test_two_components_keep_the_distances_of_points_in_a_plane() -> None:
    points_ND = np.random.default_rng(0).normal(size=(30, 5)) * [5, 3, 0, 0, 0]
    coordinates, variance = pca(points_ND)
    assert sum(variance) == pytest.approx(1)
    assert variance[0] > variance[1]
    distances, expected = (np.linalg.norm(each[0] - each[1:], axis=1) for each in (coordinates, points_ND))
    np.testing.assert_allclose(distances, expected)


@pytest.mark.parametrize(("vectors", "expected"), [([[1, 1, 1, 1]], [[0, 0]]), ([[1], [3]], [[-1, 0], [1, 0]])])
def test_missing_components_are_zero(vectors: list[list[float]], expected: list[list[float]]) -> None:
    coordinates, variance = pca(np.array(vectors))
    np.testing.assert_allclose(coordinates, expected)
    assert variance[1] == 0


# --- embeddings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_with_the_same_embedding_is_the_nearest_neighbour(folder: Path, kind: str) -> None:
    model = random_model(folder, kind)
    cat, dog = (int(model.tokenizer.encode(word).ids[0]) for word in ("cat", "dog"))
    with torch.no_grad():
        model.network.encoder.embedding.weight[dog] = model.network.encoder.embedding.weight[cat]
    neighbours = model.vectors.neighbours("cat", top=3)
    assert neighbours.words[0] == ("dog", pytest.approx(1))
    assert neighbours.words[1][1] < 0.99
    assert len(neighbours.words) == 3
    assert {"cat", "<end>", "<unk>"}.isdisjoint(word for word, _ in model.vectors.neighbours("cat", top=100).words)
    assert model.vectors.similarity("cat", "dog").joined == pytest.approx(1)
    if kind == "backpack":
        assert len(model.similar("cat")) == model.settings.model.senses
        assert len(model.similarity("cat", "dog").by_sense) == model.settings.model.senses
    else:
        assert model.similar("cat", 3) == [neighbours]
        assert model.similarity("cat", "mat") == model.vectors.similarity("cat", "mat")


def test_the_mean_embedding_does_not_affect_similarities(folder: Path) -> None:
    model = random_model(folder, "transformer")
    before = model.vectors.similarity("cat", "mat").joined
    with torch.no_grad():
        model.network.encoder.embedding.weight += 100
    assert WordVectors(model).similarity("cat", "mat").joined == pytest.approx(before, abs=1e-3)


def test_the_vector_of_a_word_is_the_mean_of_the_embeddings_of_its_tokens(folder: Path) -> None:
    model = random_model(folder, "transformer", tokenizer="bpe:280")
    ids = model.tokenizer.encode(" dogs").ids
    assert len(ids) > 1
    weight = model.network.encoder.embedding.weight.detach().numpy()
    np.testing.assert_allclose(model.vectors.vector("dogs"), weight[ids].mean(axis=0) - weight.mean(axis=0), atol=1e-6)


def test_taggers_and_the_source_words_of_translators_have_vectors(folder: Path) -> None:
    tagger = random_model(folder, "gru", "tagged.tsv")
    assert len(tagger.similar("cat", 2)[0].words) == 2
    in_context = tagger.vectors.in_context("dog", ["a dog ran off", "the old dog sat"])
    assert in_context.similarity.shape == (2, 2, 2)
    pairs = {"data.size": 50, "model.context": 64}
    translator = random_model(folder, "transformer", "@reverse", "char", **pairs)
    assert len(translator.similar("a", 2)[0].words) == 2
    in_context = translator.vectors.in_context("abcde", ["abcde", "fghij abcde"])
    assert in_context.sites[-1] == "encoded"
    np.testing.assert_allclose(in_context.similarity[0], 1)
    assert in_context.occurrences[0].neighbours


# --- words in context -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_causal_model_only_the_text_before_a_word_changes_its_vectors(folder: Path, kind: str) -> None:
    model = random_model(folder, kind)
    sentences = ["the cat sat on the mat", "the cat saw a dog", "a dog saw the cat"]
    in_context = model.vectors.in_context("cat", sentences)
    assert in_context.similarity.shape == (len(in_context.sites), 3, 3)
    assert in_context.layer == len(in_context.sites) - 1
    np.testing.assert_allclose(in_context.similarity[:, 0, 1], 1, atol=1e-5)
    np.testing.assert_allclose(in_context.similarity[0], 1, atol=1e-5)
    assert in_context.similarity[-1, 0, 2] < 0.99


def test_in_a_tagger_the_text_after_a_word_changes_its_vectors(folder: Path) -> None:
    tagger = random_model(folder, "gru", "tagged.tsv")
    in_context = tagger.vectors.in_context("dog", ["the dog sat", "the dog ran off"])
    assert in_context.similarity[0, 0, 1] == pytest.approx(1)
    assert in_context.similarity[-1, 0, 1] < 0.99


def test_neighbours_in_context_are_distinct_contexts_of_the_training_text(folder: Path) -> None:
    model = random_model(folder, "transformer")
    in_context = model.vectors.in_context("log", ["the dog sat on the log", "a bird saw the log"], top=3)
    same, other = in_context.occurrences
    assert (same.context.before, same.context.word, same.context.after) == ("the dog sat on the", "log", "")
    first = same.neighbours[0]
    assert first.similarity == pytest.approx(1)
    assert (first.context.before, first.context.word) == ("dog sat on the", "log")
    assert same.neighbours[1].similarity < 0.999
    similarities = [each.similarity for each in other.neighbours]
    assert len(similarities) == 3
    assert similarities[0] < 0.999
    assert similarities == sorted(similarities, reverse=True)


def test_every_occurrence_of_a_word_of_several_tokens_is_listed(folder: Path) -> None:
    model = random_model(folder, "transformer", tokenizer="bpe:280")
    in_context = model.vectors.in_context("dogs", ["dogs and dogs"], layer=1)
    assert [each.context.before for each in in_context.occurrences] == ["", "dogs and"]
    assert in_context.layer == 1
    assert in_context.similarity[0, 0, 1] < 1  # the first has no space before it, and other tokens


def test_a_sentence_longer_than_the_context_is_truncated_and_this_is_noted(folder: Path) -> None:
    model = random_model(folder, "transformer")
    long = "the cat " + "sat on the mat " * 5
    in_context = model.vectors.in_context("cat", [long])
    assert "sentence 1 exceeds the context: only its first 15 tokens" in in_context.notes[0]
    with pytest.raises(DataError, match="'dog' is not in"):
        model.vectors.in_context("dog", [f"{long}dog"])


def test_invalid_requests_are_errors(folder: Path) -> None:
    vectors = random_model(folder, "transformer").vectors
    requests: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: vectors.in_context("dog", ["the cat sat"]), DataError, r"'dog' is not in .*\nits words: the cat sat"),
        (lambda: vectors.in_context("cat", ["the cat"], layer=4), SettingsError, r"0 \(embedded\) to 3 \(encoded\)"),
        (lambda: vectors.in_context("cat", []), SettingsError, "expected one or more"),
        (lambda: vectors.in_context("cat", ["the cat"], top=0), SettingsError, "expected 1 or more"),
        (lambda: vectors.neighbours("cat", 0), SettingsError, "expected 1 or more"),
        (lambda: vectors.neighbours("zebra"), DataError, "not in the vocabulary"),
        (lambda: vectors.map(count=0), SettingsError, "expected 1 or more"),
        (lambda: vectors.map(["cat"], sense=0), RunError, "has no sense vectors"),
    ]
    for call, error, message in requests:
        with pytest.raises(error, match=message):
            call()
    with pytest.raises(RunError, match=r"has no embeddings \(task=lm, model.kind=ngram\)"):
        count_ngrams(folder).similar("cat")


def test_without_the_training_text_there_are_no_neighbours_in_context(folder: Path) -> None:
    model = random_model(folder, "transformer")
    (model.folder / runs.TRAIN_TOKENS).unlink()
    in_context = model.vectors.in_context("cat", ["the cat", "a cat"])
    np.testing.assert_allclose(in_context.similarity[0], 1, atol=1e-5)
    assert in_context.occurrences[0].neighbours == ()
    assert "has no training text" in in_context.notes[0]
    with pytest.raises(RunError, match="name the words"):
        model.vectors.map()


# --- maps -----------------------------------------------------------------------------------------------


def test_a_map_shows_the_most_frequent_words_and_their_neighbours(folder: Path) -> None:
    model = random_model(folder, "transformer")
    result = model.vectors.map(count=4, top=2)
    ids = open_tokens(model.folder / runs.TRAIN_TOKENS).ids
    counts = np.bincount(ids, minlength=model.tokenizer.size)[: model.tokenizer.size]
    frequency = {model.tokenizer.text_of(id_): int(count) for id_, count in enumerate(counts)}
    assert result.points[0].word == "the"
    assert [frequency[point.word] for point in result.points] == sorted(frequency.values(), reverse=True)[:4]
    neighbours = model.vectors.neighbours("the", 2).words
    assert [word for word, _ in result.points[0].neighbours] == [word for word, _ in neighbours]
    assert [cosine for _, cosine in result.points[0].neighbours] == pytest.approx([cosine for _, cosine in neighbours])
    assert 0 < result.explained_variance[1] <= result.explained_variance[0] < 1
    assert len(model.vectors.map().points) == model.tokenizer.size - 1  # all but the unknown token
    words = ["cat", "dog", "mat"]
    coordinates = [(point.x, point.y) for point in model.vectors.map(words).points]
    np.testing.assert_allclose(coordinates, pca(np.array([model.vectors.vector(word) for word in words]))[0])


def test_each_sense_has_a_map(folder: Path) -> None:
    model = random_model(folder, "backpack")
    words = ["cat", "dog", "mat"]
    result = model.vectors.map(words, sense=3, top=2)
    assert result.what == "sense 3"
    for point, word in zip(result.points, words, strict=True):
        neighbours = model.similar(word, 2)[3].words
        assert [each for each, _ in point.neighbours] == [each for each, _ in neighbours]
        assert [cosine for _, cosine in point.neighbours] == pytest.approx([cosine for _, cosine in neighbours])
    assert result.points != model.vectors.map(words, sense=2, top=2).points
    with pytest.raises(SettingsError, match="sense 99 does not exist"):
        model.vectors.map(["cat"], sense=99)


def test_a_map_of_a_word_in_context_shows_its_occurrences(folder: Path) -> None:
    model = random_model(folder, "transformer")
    sentences = ["the cat sat", "the cat saw a dog", "a dog saw the cat"]
    result = model.vectors.map_in_context("cat", sentences, top=2)
    first, same, other = result.points
    assert (first.x, first.y) == pytest.approx((same.x, same.y), abs=1e-4)
    assert abs(first.x - other.x) > 1e-2
    assert result.explained_variance == pytest.approx((1, 0), abs=1e-4)
    assert other.context is not None
    assert other.context.before == "a dog saw the"
    neighbours = model.vectors.in_context("cat", sentences, top=2).occurrences[2].neighbours
    assert other.neighbours == tuple((each.context.marked, each.similarity) for each in neighbours)
    assert "[" in other.neighbours[0][0]
    assert result.what == "cat at encoded"
