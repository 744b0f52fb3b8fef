"""Gradient of the loss with respect to earlier input embeddings, against hand-written and numerical derivatives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import satchel
from satchel.errors import RunError, SettingsError
from satchel.inspection.gradients import spread_targets, token_characters
from tests.inspection.conftest import SMALL, count_ngrams, train

PREFIX = "the cat sat on the dog"


def lstm_loss(model: Any, embedded_TD: torch.Tensor, target: int) -> torch.Tensor:
    """Return the loss of the target after embeddings, by the equations of an LSTM in float64."""
    parameters = {name: value.detach().double() for name, value in model.network.named_parameters()}
    weights = [
        next(value for name, value in parameters.items() if name.endswith(suffix))
        for suffix in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    ]
    hidden = cell = embedded_TD.new_zeros(embedded_TD.shape[1])
    for vector in embedded_TD:
        gates = weights[0] @ vector + weights[2] + weights[1] @ hidden + weights[3]
        take, keep, new, give = gates.chunk(4)
        cell = keep.sigmoid() * cell + take.sigmoid() * new.tanh()
        hidden = give.sigmoid() * cell.tanh()
    logits = parameters["encoder.embedding.weight"] @ hidden
    loss: torch.Tensor = torch.logsumexp(logits, 0) - logits[target]
    return loss


@pytest.mark.item(47)
def test_norms_equal_those_of_a_hand_written_lstm_and_of_finite_differences(lstm: Any) -> None:
    result = lstm.gradients(PREFIX)
    ids = [lstm.tokenizer.boundary, *lstm.tokenizer.encode(PREFIX).ids]
    embedded = lstm.network.encoder.embedding.weight.detach().double()[ids[:-1]].requires_grad_()
    (gradient,) = torch.autograd.grad(lstm_loss(lstm, embedded, ids[-1]), embedded)
    assert result.distances == tuple(range(1, len(ids)))
    np.testing.assert_allclose(result.norms, gradient.norm(dim=1).numpy()[::-1], rtol=1e-4)
    for position in (0, len(ids) - 2):
        slopes = []
        for place in range(embedded.shape[1]):
            losses = []
            for step in (1e-6, -1e-6):
                moved = embedded.detach().clone()
                moved[position, place] += step
                losses.append(float(lstm_loss(lstm, moved, ids[-1])))
            slopes.append((losses[0] - losses[1]) / 2e-6)
        assert result.norms[len(ids) - 2 - position] == pytest.approx(np.linalg.norm(slopes), rel=1e-4)


def test_norms_of_a_file_are_means_over_its_predicted_tokens(lstm: Any, tmp_path: Path) -> None:
    text = "The dog saw the cat. The mat is flat; the log is not."
    (tmp_path / "text.txt").write_text(text)
    ids = lstm.tokenizer.encode(text).ids
    several = lstm.gradients(data=tmp_path / "text.txt", positions=2, length=3)
    targets = spread_targets(np.arange(len(ids) + 1), 2)
    one = [lstm.gradients(lstm.tokenizer.decode(ids[:target]), length=3) for target in targets]
    np.testing.assert_allclose(several.norms, np.mean([each.norms[:3] for each in one], axis=0), rtol=1e-4)
    assert several.counts == (2, 2, 2)
    assert several.notes == ()
    assert "used the last 3 of the" in one[1].notes[0]


def test_a_window_does_not_cross_the_start_of_a_document(folder: Path) -> None:
    model = train(folder, "verse.txt", name="lines", model="rnn", small=SMALL, settings={"data.documents": "line"})
    (folder / "two.txt").write_text("The mat is flat.\nThe cat\n")
    result = model.gradients(data=folder / "two.txt", positions=1)
    assert len(result.norms) == len(model.tokenizer.encode("The cat").ids) + 1


def test_an_untrained_network_has_the_weights_of_the_seed(folder: Path) -> None:
    model = train(folder, "verse.txt", name="first", model="transformer", tokenizer="char", steps=1)
    other = train(folder, "verse.txt", name="second", model="transformer", tokenizer="char", steps=3)
    first, second = (each.gradients("The cat", untrained=True) for each in (model, other))
    np.testing.assert_array_equal(first.norms, second.norms)
    assert not np.allclose(other.gradients("The cat").norms, first.norms)
    # The output matrices of the blocks are zero before training: only the last input token has a gradient.
    assert first.norms[0] > 0
    np.testing.assert_array_equal(first.norms[1:], 0)
    assert "initialised with 0" in first.notes[0]
    assert first.zero_notes == ["gradient 0 at 6 of 7 distances (not drawn)"]


@pytest.mark.parametrize("kind", ["dan", "window", "rnn", "backpack"])
def test_every_kind_of_network_has_gradients(folder: Path, kind: str) -> None:
    settings = {"model.senses": 2, "model.heads": 2, "model.context": 8} if kind == "backpack" else {}
    model = train(folder, name=kind, model=kind, tokenizer="word", small=SMALL, settings=settings)
    norms = model.gradients("the cat sat on the mat").norms
    assert len(norms) == 6
    if kind == "window":  # a window of four tokens
        assert (norms[:4] > 0).all()
        np.testing.assert_array_equal(norms[4:], 0)
    else:
        assert (norms > 0).all()


def test_models_without_input_embeddings_and_wrong_lengths_are_refused(folder: Path, lstm: Any) -> None:
    with pytest.raises(RunError, match="has no input embeddings"):
        count_ngrams(folder).gradients("the cat", untrained=True)
    settings = {"model.sense_source": "table", "model.senses": 2}
    table = train(folder, name="table", model="backpack", tokenizer="word", settings=settings)
    with pytest.raises(RunError, match="looked up by token id"):
        table.gradients("the cat")
    with pytest.raises(SettingsError, match="context of the model is 16"):
        train(folder, name="short", model="transformer", tokenizer="word").gradients("the cat", length=17)
    with pytest.raises(satchel.SatchelError, match="no tokens"):
        lstm.gradients("")
    with pytest.raises(SettingsError, match="either a text or data"):
        lstm.gradients()


def test_distances_in_characters_follow_the_tokens(lstm: Any, folder: Path) -> None:
    result = lstm.gradients("the café sat")
    ids = lstm.tokenizer.encode("the café sat").ids
    sizes = [len(lstm.tokenizer.bytes_of(int(each)).decode("utf-8", "ignore")) for each in ids[:-1]]
    assert result.characters[-1] == sum(sizes) or not all(sizes)
    assert token_characters(lstm.tokenizer)[ids].sum() == len("the café sat")
    other = train(folder, "verse.txt", name="char", model="lstm", tokenizer="char", small=SMALL)
    spec = result.picture(other.gradients("the café sat")).spec()
    assert "distance from the predicted token (characters)" in str(spec)
