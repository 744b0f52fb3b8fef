"""What senses promote, how alike words are by them, and how much they are used."""

import numpy as np
import pytest
import torch

from satchel.inspection.senses import SenseView, Use, amounts, pieces_of, similarity
from satchel.models.backpack import Backpack
from tests.models.encoders import VOCABULARY


def test_a_sense_promotes_the_words_its_centred_vector_points_to(backpack: Backpack) -> None:
    view = SenseView(backpack, backpack.embedding.weight)
    found = view.promoted(view.of_word([3]), top=4)
    with torch.no_grad():
        senses = backpack.lookup(torch.arange(VOCABULARY))
        outputs = backpack.embedding.weight - backpack.embedding.weight.mean(dim=0)
        scores = (senses[3] - senses.mean(dim=0)) @ outputs.T
    assert len(found) == 4
    for sense, own in zip(found, scores, strict=True):
        order = own.argsort(descending=True).tolist()
        assert [id_ for id_, _ in sense.promotes] == order[:4]
        assert [id_ for id_, _ in sense.suppresses] == order[::-1][:4]
        assert sense.promotes[0][1] == pytest.approx(own.max().item())
        assert -1 <= sense.coherence <= 1


def test_a_word_of_several_tokens_is_a_mean_of_their_senses(backpack: Backpack) -> None:
    view = SenseView(backpack, backpack.embedding.weight)
    parts = torch.stack([view.of_word([id_]) for id_ in (3, 5)])
    whole = view.of_word([3, 5])
    # For each sense, somewhere on the line between the two.
    for sense in range(4):
        first, second, both = parts[0, sense], parts[1, sense], whole[sense]
        share = ((both - second) @ (first - second)) / (first - second).square().sum()
        assert 0 <= share <= 1
        torch.testing.assert_close(both, share * first + (1 - share) * second)


def test_the_likest_words_come_first_and_a_word_is_most_like_itself(backpack: Backpack) -> None:
    view = SenseView(backpack, backpack.embedding.weight)
    own = view.of_word([3])
    values, ids = view.nearest(own, 3, excluded=[])
    assert (ids[:, 0] == 3).all()
    np.testing.assert_allclose(values[:, 0], 1)
    others, without = view.nearest(own, 3, excluded=[3])
    assert 3 not in without
    assert (np.diff(others, axis=1) <= 0).all()
    found = similarity(own, view.of_word([int(without[0, 0])]))
    assert found.by_sense[0] == pytest.approx(others[0, 0])
    assert found.least == min(found.by_sense) <= found.joined <= 1
    assert found.any_pair >= max(found.by_sense) - 1e-12


def test_the_use_of_senses_is_the_length_of_what_they_add(backpack: Backpack) -> None:
    text = np.array([3, 1, 4, 1, 5])
    used = amounts(backpack, text)
    assert used.shape == (5, 4)
    # Each of five positions has one unit of each sense to give away.
    with torch.no_grad():
        lengths = backpack.lookup(torch.from_numpy(text)).norm(dim=-1).numpy()
    np.testing.assert_allclose((used / lengths).sum(axis=0), 5 * backpack.scale)


def test_the_shares_of_a_words_senses_are_those_of_all_its_places(backpack: Backpack) -> None:
    pieces = [np.array([3, 1, 4, 1, 5]), np.array([1, 4, 2])]
    use = Use(backpack, pieces)
    both = [amounts(backpack, piece) for piece in pieces]
    ones = both[0][1] + both[0][3] + both[1][0]
    assert use.shares([1]) == pytest.approx(ones / ones.sum())
    pairs = both[0][1] + both[0][2] + both[1][0] + both[1][1]
    assert use.shares([1, 4]) == pytest.approx(pairs / pairs.sum())
    assert use.shares([9]) is None
    assert use.shares([4, 1, 5, 1]) is not None
    assert use.shares(list(range(9))) is None


def test_a_sense_is_shown_where_it_adds_most_of_what_its_word_adds(backpack: Backpack) -> None:
    piece = np.array([3, 1, 4, 1, 5])
    use = Use(backpack, [piece])
    used = amounts(backpack, piece)[[1, 3]]
    for sense in range(4):
        first = 1 + 2 * int((used / used.sum(axis=1, keepdims=True))[:, sense].argmax())
        found = use.most([1], sense, 2, around=2)
        before, word, after = found[0]
        assert [*before, *word, *after] == piece[max(0, first - 2) : first + 3].tolist()
        assert len(found) == 2
    assert use.most([9], 0, 2, around=2) == []


def test_pieces_are_read_as_documents_are_and_come_from_all_over() -> None:
    text = np.array([9, 1, 2, 3, 9, 4, 9, 5, 6, 7, 8, 9])
    assert [piece.tolist() for piece in pieces_of(text, 9, 3, 100)] == [[9, 1, 2], [3], [9, 4], [9, 5, 6], [7, 8]]
    assert [piece.tolist() for piece in pieces_of(text, 9, 3, 6)] == [[9, 1, 2], [9, 4], [7, 8]]
    assert [piece.tolist() for piece in pieces_of(text, 9, 3, 6, following=1)] == [[9, 1, 2, 3], [9, 4, 9], [7, 8, 9]]
