"""Senses of a Backpack: promoted tokens, similarity of words, and use in a text."""

import numpy as np
import pytest
import torch

from satchel.inspection.senses import (
    Sense,
    SenseUsage,
    SenseVectors,
    Share,
    _mean_cosine,
    amounts,
    sample_pieces,
)
from satchel.models.backpack import Backpack
from satchel.tasks.language import LanguageNetwork
from tests.inspection.conftest import untrained
from tests.models.encoders import VOCABULARY


@pytest.fixture
def senses(backpack: Backpack) -> SenseVectors:
    return SenseVectors(untrained(LanguageNetwork(backpack)))


def test_a_sense_promotes_the_tokens_with_the_largest_logits_of_its_centred_vector(
    backpack: Backpack, senses: SenseVectors
) -> None:
    described = senses._describe("three", [3], top=4, contexts=0)
    with torch.no_grad():
        vectors = backpack.lookup(torch.arange(VOCABULARY))
        outputs = backpack.embedding.weight - backpack.embedding.weight.mean(dim=0)
        logits = (vectors[3] - vectors.mean(dim=0)) @ outputs.T
    assert len(described.senses) == 4
    for sense, logits_V in zip(described.senses, logits, strict=True):
        order = [f"word {id_}" for id_ in logits_V.argsort(descending=True).tolist()]
        assert [name for name, _ in sense.promotes] == order[:4]
        assert [name for name, _ in sense.suppresses] == order[::-1][:4]
        assert sense.promotes[0][1] == pytest.approx(logits_V.max().item())
        assert -1 <= sense.coherence <= 1
        assert sense.share is None


def test_a_sense_of_a_word_of_several_tokens_is_a_weighted_mean_over_its_tokens(senses: SenseVectors) -> None:
    parts = torch.stack([senses.of_ids([id_]) for id_ in (3, 5)])
    whole = senses.of_ids([3, 5])
    for sense in range(4):
        first, second, both = parts[0, sense], parts[1, sense], whole[sense]
        weight = ((both - second) @ (first - second)) / (first - second).square().sum()
        assert 0 <= weight <= 1
        torch.testing.assert_close(both, weight * first + (1 - weight) * second)


def test_neighbours_are_sorted_by_cosine_similarity_and_exclude_the_word(
    senses: SenseVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(senses, "_ids", lambda word: [int(word)])
    neighbours = senses.neighbours("3", 3)
    assert len(neighbours) == 4
    for each in neighbours:
        cosines = [cosine for _, cosine in each.words]
        assert cosines == sorted(cosines, reverse=True)
        assert {"word 3", "word 10"}.isdisjoint(name for name, _ in each.words)
    nearest, cosine = neighbours[0].words[0]
    similarity = senses.similarity("3", nearest.removeprefix("word "))
    assert similarity.by_sense[0] == pytest.approx(cosine)
    assert similarity.least == min(similarity.by_sense) <= similarity.joined <= 1
    assert similarity.any_pair >= max(similarity.by_sense) - 1e-12
    assert senses.similarity("3", "3").by_sense == pytest.approx([1] * 4)


def test_one_sense_of_the_vocabulary_is_that_of_each_token(senses: SenseVectors) -> None:
    vectors_VD = senses.one_sense(2)
    np.testing.assert_allclose(vectors_VD, [senses.of_ids([id_])[2].numpy() for id_ in range(VOCABULARY)])


def test_the_amount_of_a_sense_is_the_length_of_the_vectors_it_adds(backpack: Backpack) -> None:
    text = np.array([3, 1, 4, 1, 5])
    amounts_TN = amounts(backpack, text)
    assert amounts_TN.shape == (5, 4)
    # The weights of each sense sum to one at each of the five positions.
    with torch.no_grad():
        lengths_TN = backpack.lookup(torch.from_numpy(text)).norm(dim=-1).numpy()
    np.testing.assert_allclose((amounts_TN / lengths_TN).sum(axis=0), 5 * backpack.scale)


def test_the_shares_of_senses_are_sums_over_all_occurrences_of_a_word(backpack: Backpack) -> None:
    pieces = [np.array([3, 1, 4, 1, 5]), np.array([1, 4, 2])]
    usage = SenseUsage(backpack, pieces)
    first, second = (amounts(backpack, piece) for piece in pieces)
    ones = first[1] + first[3] + second[0]
    share = usage.share([1])
    assert share is not None
    assert share.occurrences == 3
    assert share.values_N == pytest.approx(ones / ones.sum())
    pairs = first[1] + first[2] + second[0] + second[1]
    share = usage.share([1, 4])
    assert share is not None
    assert share.values_N == pytest.approx(pairs / pairs.sum())
    assert usage.share([9]) is None
    assert usage.share([4, 1, 5, 1]) is not None  # in two pieces
    assert usage.share(list(range(9))) is None


def test_a_sense_is_rarely_used_only_if_the_interval_of_its_share_is_low() -> None:
    generator = np.random.default_rng(0)
    amounts_PN = np.abs(generator.normal(size=(200, 4))) * np.array([1.0, 1.0, 0.02, 0.2])

    def senses(share: Share) -> list[bool]:
        described = [Sense(n, (), (), float(share.values_N[n]), 0.0, None, (), share.interval(n)) for n in range(4)]
        return [each.is_rarely_used(4) for each in described]

    share = Share(amounts_PN)
    low, high = share.interval(2) or (0.0, 0.0)
    assert low < share.values_N[2] < high < 0.025
    assert senses(share) == [False, False, True, False]
    # A single occurrence is no evidence.
    assert Share(amounts_PN[:1]).interval(2) is None
    assert senses(Share(amounts_PN[:1])) == [False] * 4


def test_the_chance_level_of_coherence_is_that_of_random_directions(senses: SenseVectors) -> None:
    described = senses._describe("three", [3], top=4, contexts=0)
    chance, outputs_VD = described.coherence_chance, senses._outputs_VD
    assert -1 <= chance.low < chance.mean < chance.high <= 1
    # Senses in random directions have values inside the interval about as often as it states.
    directions = torch.randn(1000, outputs_VD.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    values = [float(_mean_cosine(outputs_VD[(outputs_VD @ each).topk(4).indices])) for each in directions]
    assert np.mean([chance.low <= value <= chance.high for value in values]) > 0.9
    assert np.mean(values) == pytest.approx(chance.mean, abs=0.05)
    assert described.document()["coherence_chance"] == {"mean": chance.mean, "low": chance.low, "high": chance.high}
    assert f"of random directions {chance.mean:.2f}" in described._repr_html_()


def test_contexts_of_a_sense_are_those_with_its_largest_share(backpack: Backpack) -> None:
    text = np.array([3, 1, 4, 1, 5])
    usage = SenseUsage(backpack, [text])
    amounts_PN = amounts(backpack, text)[[1, 3]]
    shares_PN = amounts_PN / amounts_PN.sum(axis=1, keepdims=True)
    for sense in range(4):
        start = 1 + 2 * int(shares_PN[:, sense].argmax())
        contexts = usage.contexts([1], sense, 2, around=2)
        assert len(contexts) == 2
        assert np.concatenate(contexts[0]).tolist() == text[max(0, start - 2) : start + 3].tolist()
    assert usage.contexts([9], 0, 2, around=2) == []


def test_a_sample_of_pieces_is_spread_over_all_documents() -> None:
    text = np.array([9, 1, 2, 3, 9, 4, 9, 5, 6, 7, 8, 9])
    assert [piece.tolist() for piece in sample_pieces(text, 9, 3, 100)] == [[9, 1, 2], [3], [9, 4], [9, 5, 6], [7, 8]]
    assert [piece.tolist() for piece in sample_pieces(text, 9, 3, 6)] == [[9, 1, 2], [9, 4], [7, 8]]
    following = sample_pieces(text, 9, 3, 6, following=1)
    assert [piece.tolist() for piece in following] == [[9, 1, 2, 3], [9, 4, 9], [7, 8, 9]]
