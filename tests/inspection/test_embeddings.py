"""Vectors of words: which are alike by themselves and in context, and where they lie in a plane."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import satchel
from satchel.data.tokens import open_tokens
from satchel.errors import DataError, RunError, SettingsError
from satchel.inspection.embeddings import WordVectors, cosines, nearest, pca
from satchel.inspection.hidden_states import hidden_layers, mean_by_word, read_states, source_encoder
from satchel.tasks.translation import TranslationNetwork
from satchel.text.words import Word
from tests.models import test_pair
from tests.models.encoders import SETTINGS, make

SMALL: dict[str, Any] = {"model.width": 16, "training.threads": 1}
DEEP: dict[str, Any] = {**SMALL, "model.layers": 2, "model.heads": 2, "model.context": 16}
TEXT = "the cat sat on the mat\nthe dog sat on the log\na bird saw the cat and a dog\n" * 30
TAGGED = "text\ttags\n" + "the cat sat\td n v\na dog ran off\td n v p\nthe old dog sat\td a n v\n" * 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors")
    (path / "text.txt").write_text(TEXT)
    (path / "tagged.tsv").write_text(TAGGED)
    return path


def trained(folder: Path, kind: str, data: str = "text.txt", tokenizer: str = "word", **settings: Any) -> Any:
    """Return a model of a few steps, whose weights are large enough to be told apart."""
    rule = {"data.documents": "line"} if data == "text.txt" else {}
    model = satchel.train(
        folder / data if "." in data else data,
        model=kind,
        tokenizer=tokenizer,
        steps=2,
        settings={**(DEEP if kind in ("transformer", "backpack") else SMALL), **rule, **settings},
        out=folder / "run",
        force=True,
    )
    chance = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=chance) * 0.3)
    return model


# --- states of many texts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", SETTINGS)
def test_texts_read_together_have_the_states_they_have_alone(name: str, causal: bool) -> None:
    encoder = make(name, causal=causal)
    layers = hidden_layers(encoder)
    pieces = [np.array(ids) for ids in ([3, 1, 4, 1, 5], [9, 2], [6, 5, 3])]
    found = dict(read_states(encoder, pieces, layers))
    assert sorted(found) == [0, 1, 2]
    for row, piece in enumerate(pieces):
        ((_, alone),) = read_states(encoder, [piece], layers)
        for site in layers:
            assert found[row][site].shape == (len(piece), encoder.width)
            np.testing.assert_allclose(found[row][site], alone[site], atol=1e-12)


def test_layers_go_from_the_words_to_what_the_head_gets_and_none_is_named_twice() -> None:
    assert hidden_layers(make("usual")) == ("embedded", "blocks.0.output", "blocks.1.output", "encoded")
    # Without a norm after them, the last block or the last states are what the head gets.
    assert hidden_layers(make("post-norm")) == ("embedded", "blocks.0.output", "blocks.1.output")
    assert hidden_layers(make("lstm")) == ("embedded", "layers.0.states", "layers.1.states")
    assert hidden_layers(make("dan")) == ("embedded", "encoded")
    assert hidden_layers(make("backpack")) == ("embedded", "contextualiser.blocks.0.output", "encoded")


@pytest.mark.parametrize("name", test_pair.SETTINGS)
def test_what_reads_the_source_of_a_translator_is_an_encoder_of_its_own(name: str) -> None:
    network = TranslationNetwork(test_pair.make_pair(test_pair.SETTINGS[name])).eval()
    encoder = source_encoder(network)
    layers = hidden_layers(encoder)
    assert layers[0] == "embedded"
    ((_, states),) = read_states(encoder, [np.array([1, 2, 3])], layers)
    assert {value.shape for value in states.values()} == {(3, encoder.width)}


def test_the_vector_of_a_word_is_the_mean_of_its_tokens() -> None:
    states_TD = np.array([[1.0, 0.0], [3.0, 2.0], [0.0, 4.0]])
    np.testing.assert_array_equal(mean_by_word(states_TD, [Word("a", 0, 2), Word("b", 2, 3)]), [[2, 1], [0, 4]])


# --- arithmetic ----------------------------------------------------------------------------------------------


def test_cosines_and_the_nearest() -> None:
    vectors_VD = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0], [0.0, 0.0], [2.0, 0.0]])
    alike_V = cosines(vectors_VD, vectors_VD[:1])[0]
    np.testing.assert_allclose(alike_V, [1, 0, 0.5**0.5, 0, 1])
    values, places = nearest(alike_V, 2, excluded=[0])
    assert places.tolist() == [4, 2]
    np.testing.assert_allclose(values, [1, 0.5**0.5])
    assert nearest(alike_V, 9)[1].tolist() == [0, 4, 2, 1, 3]


def test_many_vectors_are_compared_in_parts_with_the_same_result() -> None:
    vectors_VD = np.random.default_rng(0).normal(size=(5000, 3))
    unit = vectors_VD / np.linalg.norm(vectors_VD, axis=1, keepdims=True)
    np.testing.assert_allclose(cosines(vectors_VD, vectors_VD[:2]), unit[:2] @ unit.T, atol=1e-12)


def test_points_on_a_line_lie_on_a_line() -> None:
    along = np.array([0.0, 1.0, 2.0, 5.0])
    coordinates, variance = pca(np.array([7.0, 1.0, 0.0]) + along[:, None] * np.array([3.0, -4.0, 0.0]))
    assert variance == pytest.approx((1, 0))
    # The second number of the direction is the largest, and counts as positive: the points go the other way.
    np.testing.assert_allclose(coordinates[:, 0], -5 * (along - along.mean()), atol=1e-12)
    np.testing.assert_allclose(coordinates[:, 1], 0, atol=1e-12)


def test_a_plane_keeps_distances_within_it_and_says_how_much_it_shows() -> None:
    points_ND = np.random.default_rng(0).normal(size=(30, 5)) * [5, 3, 0, 0, 0]
    coordinates, variance = pca(points_ND)
    assert sum(variance) == pytest.approx(1)
    assert variance[0] > variance[1]
    np.testing.assert_allclose(
        np.linalg.norm(coordinates[0] - coordinates[1:], axis=1),
        np.linalg.norm(points_ND[0] - points_ND[1:], axis=1),
    )


def test_one_point_and_one_number_have_a_place_too() -> None:
    assert pca(np.ones((1, 4)))[0].tolist() == [[0, 0]]
    assert pca(np.ones((1, 4)))[1] == (0, 0)
    coordinates, _ = pca(np.array([[1.0], [3.0]]))
    np.testing.assert_allclose(coordinates, [[-1, 0], [1, 0]])


# --- words by themselves -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dan", "window", "gru", "transformer", "backpack"])
def test_the_twin_of_a_word_is_its_nearest_neighbour_in_every_network(folder: Path, kind: str) -> None:
    model = trained(folder, kind)
    cat, dog = (int(model.tokenizer.encode(word).ids[0]) for word in ("cat", "dog"))
    with torch.no_grad():
        model.network.encoder.embedding.weight[dog] = model.network.encoder.embedding.weight[cat]
    found = model.vectors.neighbours("cat", top=3)
    assert found.words[0] == ("dog", pytest.approx(1))
    assert found.words[1][1] < 0.99
    assert len(found.words) == 3
    assert {"cat", "<end>", "<unk>"}.isdisjoint(word for word, _ in model.vectors.neighbours("cat", top=100).words)
    assert model.vectors.similarity("cat", "dog").joined == pytest.approx(1)
    if kind == "backpack":
        assert len(model.similar("cat")) == model.settings.model.senses
        assert len(model.similarity("cat", "dog").by_sense) == model.settings.model.senses
    else:
        (only,) = model.similar("cat", 3)
        assert only == found
        assert model.similarity("cat", "mat").joined == pytest.approx(model.vectors.similarity("cat", "mat").joined)


def test_what_all_words_share_is_taken_away_before_they_are_compared(folder: Path) -> None:
    model = trained(folder, "transformer")
    before = model.vectors.similarity("cat", "mat").joined
    with torch.no_grad():
        model.network.encoder.embedding.weight += 100
    again = WordVectors(model)
    assert again.similarity("cat", "mat").joined == pytest.approx(before, abs=1e-3)


def test_a_word_of_several_tokens_has_the_mean_of_their_vectors(folder: Path) -> None:
    model = trained(folder, "transformer", tokenizer="bpe:280")
    ids = model.tokenizer.encode(" dogs").ids
    assert len(ids) > 1
    weight = model.network.encoder.embedding.weight.detach().numpy()
    np.testing.assert_allclose(model.vectors.vector("dogs"), weight[ids].mean(axis=0) - weight.mean(axis=0), atol=1e-6)


def test_taggers_and_translators_have_neighbours_too(folder: Path) -> None:
    tagger = trained(folder, "gru", "tagged.tsv")
    assert len(tagger.similar("cat", 2)[0].words) == 2
    assert tagger.vectors.in_context("dog", ["a dog ran off", "the old dog sat"]).similarity.shape == (2, 2, 2)
    pairs = {"data.size": 50, "model.context": 64}
    translator = trained(folder, "transformer", "@reverse", "char", **pairs)
    assert len(translator.similar("a", 2)[0].words) == 2
    found = translator.vectors.in_context("abcde", ["abcde", "fghij abcde"])
    assert found.sites[-1] == "encoded"
    np.testing.assert_allclose(found.similarity[0], 1)
    assert found.occurrences[0].neighbours


# --- words in context ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dan", "window", "gru", "transformer", "backpack"])
def test_after_the_same_words_a_causal_model_takes_a_word_for_the_same(folder: Path, kind: str) -> None:
    model = trained(folder, kind)
    sentences = ["the cat sat on the mat", "the cat saw a dog", "a dog saw the cat"]
    found = model.vectors.in_context("cat", sentences)
    assert found.similarity.shape == (len(found.sites), 3, 3)
    np.testing.assert_allclose(found.similarity[:, 0, 1], 1, atol=1e-5)
    # The word itself is the same everywhere; what came before it is not.
    np.testing.assert_allclose(found.similarity[0], 1, atol=1e-5)
    assert found.similarity[-1, 0, 2] < 0.99
    assert found.layer == len(found.sites) - 1


def test_what_comes_later_counts_where_the_whole_text_is_read(folder: Path) -> None:
    tagger = trained(folder, "gru", "tagged.tsv")
    found = tagger.vectors.in_context("dog", ["the dog sat", "the dog ran off"])
    assert found.similarity[0, 0, 1] == pytest.approx(1)
    assert found.similarity[-1, 0, 1] < 0.99


def test_the_same_sentence_is_found_in_the_training_text_once(folder: Path) -> None:
    model = trained(folder, "transformer")
    found = model.vectors.in_context("log", ["the dog sat on the log", "a bird saw the log"], top=3)
    same, other = found.occurrences
    assert (same.context.before, same.context.word, same.context.after) == ("the dog sat on the", "log", "")
    assert same.neighbours[0].similarity == pytest.approx(1)
    assert (same.neighbours[0].context.before, same.neighbours[0].context.word) == ("dog sat on the", "log")
    assert same.neighbours[1].similarity < 0.999
    assert other.neighbours[0].similarity < 0.999
    values = [each.similarity for each in other.neighbours]
    assert len(values) == 3
    assert values == sorted(values, reverse=True)


def test_every_place_of_a_word_counts_and_pieces_of_words_are_joined(folder: Path) -> None:
    model = trained(folder, "transformer", tokenizer="bpe:280")
    found = model.vectors.in_context("dogs", ["dogs and dogs"], layer=1)
    assert [each.context.before for each in found.occurrences] == ["", "dogs and"]
    assert found.layer == 1
    assert found.similarity[0, 0, 1] < 1  # one begins the text and has no space before it


def test_a_sentence_longer_than_the_context_is_cut_and_that_is_said(folder: Path) -> None:
    model = trained(folder, "transformer")
    found = model.vectors.in_context("cat", ["the cat " + "sat on the mat " * 5])
    assert "sentence 1 exceeds the context: only its first 15 tokens" in found.notes[0]
    with pytest.raises(DataError, match="'dog' is not in"):
        model.vectors.in_context("dog", ["the cat " + "sat on the mat " * 5 + "dog"])


def test_what_cannot_be_asked_is_told(folder: Path) -> None:
    model = trained(folder, "transformer")
    with pytest.raises(DataError, match="'dog' is not in 'the cat sat'") as error:
        model.vectors.in_context("dog", ["the cat sat"])
    assert "its words: the cat sat" in str(error.value)
    with pytest.raises(SettingsError, match=r"expected 0 \(embedded\) to 3 \(encoded\)"):
        model.vectors.in_context("cat", ["the cat"], layer=4)
    with pytest.raises(SettingsError, match="expected one or more"):
        model.vectors.in_context("cat", [])
    with pytest.raises(SettingsError, match="expected 1 or more"):
        model.vectors.neighbours("cat", 0)
    with pytest.raises(SettingsError, match="expected 1 or more"):
        model.vectors.in_context("cat", ["the cat"], top=0)
    with pytest.raises(DataError, match="not in the vocabulary"):
        model.vectors.neighbours("zebra")
    counted = satchel.train(folder / "text.txt", model="ngram", out=folder / "counted", force=True)
    with pytest.raises(RunError, match="has no embeddings"):
        counted.similar("cat")


def test_without_the_training_text_a_word_is_still_compared_with_itself(folder: Path) -> None:
    model = trained(folder, "transformer")
    (model.folder / "tokens" / "train.safetensors").unlink()
    found = model.vectors.in_context("cat", ["the cat", "a cat"])
    np.testing.assert_allclose(found.similarity[0], 1, atol=1e-5)
    assert found.occurrences[0].neighbours == ()
    assert "has no training text" in found.notes[0]
    with pytest.raises(RunError, match="name the words"):
        model.vectors.map()


# --- maps ----------------------------------------------------------------------------------------------------


def test_a_map_has_the_words_the_text_has_most_often_and_those_most_like_them(folder: Path) -> None:
    model = trained(folder, "transformer")
    found = model.vectors.map(count=4, top=2)
    ids = open_tokens(model.folder / "tokens" / "train.safetensors").ids
    counts = np.bincount(ids, minlength=model.tokenizer.size)[: model.tokenizer.size]
    often = {model.tokenizer.text_of(id_): int(count) for id_, count in enumerate(counts)}
    assert found.points[0].word == "the"
    assert [often[point.word] for point in found.points] == sorted(often.values(), reverse=True)[:4]
    near = model.vectors.neighbours("the", 2).words
    assert [word for word, _ in found.points[0].neighbours] == [word for word, _ in near]
    assert [alike for _, alike in found.points[0].neighbours] == pytest.approx([alike for _, alike in near])
    assert 0 < found.explained_variance[1] <= found.explained_variance[0] < 1
    assert len(model.vectors.map().points) == model.tokenizer.size - 1  # all but what is unknown
    words = model.vectors.map(["cat", "dog", "mat"])
    own_ND = np.array([model.vectors.vector(word) for word in ("cat", "dog", "mat")])
    np.testing.assert_allclose([(point.x, point.y) for point in words.points], pca(own_ND)[0])
    with pytest.raises(SettingsError, match="expected 1 or more"):
        model.vectors.map(count=0)
    with pytest.raises(RunError, match="has no sense vectors"):
        model.vectors.map(["cat"], sense=0)


def test_senses_have_a_map_each(folder: Path) -> None:
    model = trained(folder, "backpack")
    found = model.vectors.map(["cat", "dog", "mat"], sense=3, top=2)
    assert found.what == "sense 3"
    for point, word in zip(found.points, ("cat", "dog", "mat"), strict=True):
        near = model.similar(word, 2)[3].words
        assert [each for each, _ in point.neighbours] == [each for each, _ in near]
        assert [alike for _, alike in point.neighbours] == pytest.approx([alike for _, alike in near])
    assert found.points != model.vectors.map(["cat", "dog", "mat"], sense=2, top=2).points
    with pytest.raises(SettingsError, match="sense 99 does not exist"):
        model.vectors.map(["cat"], sense=99)


def test_a_word_in_context_has_a_map_of_its_places(folder: Path) -> None:
    model = trained(folder, "transformer")
    sentences = ["the cat sat", "the cat saw a dog", "a dog saw the cat"]
    found = model.vectors.map_in_context("cat", sentences, top=2)
    first, same, other = found.points
    assert (first.x, first.y) == pytest.approx((same.x, same.y), abs=1e-4)
    assert abs(first.x - other.x) > 1e-2
    assert found.explained_variance == pytest.approx((1, 0), abs=1e-4)
    assert other.context is not None
    assert other.context.before == "a dog saw the"
    near = model.vectors.in_context("cat", sentences, top=2).occurrences[2].neighbours
    assert other.neighbours == tuple((each.context.marked, each.similarity) for each in near)
    assert "[" in other.neighbours[0][0]
    assert found.what == "cat at encoded"
