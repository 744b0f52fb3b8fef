"""Lecture items on recurrence, attention, depth and positions, with networks that train in a second."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import satchel
from satchel.api.compare import compare
from satchel.models import build_encoder
from satchel.models.encoder import CausalEncoder
from satchel.models.recurrent import Recurrent, RecurrentSettings
from satchel.models.transformer import Transformer, TransformerSettings
from satchel.nn.attention import MultiHead
from satchel.nn.sites import recording

NAMES, FILLERS = 8, 4


def names_and_talk(texts: int, distance: int) -> tuple[Tensor, Tensor]:
    """Return texts of a name, other tokens, and a final token after which the name is the target."""
    names_B = torch.randint(0, NAMES, (texts,))
    talk_BT = torch.randint(NAMES, NAMES + FILLERS, (texts, distance))
    asked_B1 = torch.full((texts, 1), NAMES + FILLERS)
    return torch.cat([names_B[:, None], talk_BT, asked_B1], dim=1), names_B


def recalled(encoder: CausalEncoder, distances: tuple[int, ...], updates: int = 100) -> dict[int, float]:
    """Train an encoder to recall a name at the largest distance; return the accuracy by distance."""
    torch.manual_seed(0)
    head = nn.Linear(encoder.width, NAMES)
    parameters = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=5e-3)

    def answers(ids_BT: Tensor) -> Tensor:
        scores: Tensor = head(encoder.encode(ids_BT)[:, -1])
        return scores

    for _ in range(updates):
        ids_BT, names_B = names_and_talk(32, max(distances))
        optimizer.zero_grad()
        F.cross_entropy(answers(ids_BT), names_B).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    with torch.no_grad():
        questions = {distance: names_and_talk(500, distance) for distance in distances}
        return {
            each: float((answers(ids).argmax(-1) == names).float().mean()) for each, (ids, names) in questions.items()
        }


@pytest.mark.item(11, 66)
def test_attention_recalls_a_name_that_an_rnn_forgets() -> None:
    torch.manual_seed(0)
    vocabulary, distances = NAMES + FILLERS + 1, (2, 60)
    attends = TransformerSettings(width=32, layers=1, heads=2, context=64, positions="none")
    accuracies = recalled(build_encoder(attends, vocabulary, causal=True), distances)
    assert min(accuracies.values()) > 0.95
    recurs = RecurrentSettings(kind="rnn", width=32)
    assert recalled(build_encoder(recurs, vocabulary, causal=True), distances)[60] < 0.5


@pytest.mark.item(66)
def test_gradients_vanish_with_the_distance_in_an_rnn_but_not_with_attention() -> None:
    """With equal tokens, the gradient of the last output at the first token does not decrease with the distance."""

    def owed(encoder: CausalEncoder, length: int) -> float:
        x_BTD = torch.linspace(-1, 1, encoder.width).expand(1, length, -1).clone().requires_grad_()
        encoder.contextualise(x_BTD)[0, -1, 0].backward()
        assert x_BTD.grad is not None
        return float(x_BTD.grad[0, 0].norm() / x_BTD.grad[0, -2].norm())

    torch.manual_seed(0)
    settings = TransformerSettings(width=16, layers=1, heads=2, positions="none")
    attends = Transformer(settings, 3, causal=True)
    nn.init.normal_(attends.get_parameter("blocks.0.attention.out.weight"))
    recurs = Recurrent(RecurrentSettings(kind="lstm", width=16), 3, causal=True)
    assert [owed(attends, length) for length in (5, 100)] == pytest.approx([1, 1], rel=1e-3)
    assert owed(recurs, 100) < 1e-6 < owed(recurs, 5)


@pytest.mark.item(26)
def test_learned_queries_attend_to_the_partner_of_a_token() -> None:
    """Without projections a token attends to itself; with a learned query projection it attends to its partner."""
    torch.manual_seed(0)
    words = 6
    partner = torch.arange(words).roll(words // 2)
    attention = MultiHead(words, 1, bias=False, scale="none")
    identity = torch.eye(words)
    with torch.no_grad():
        attention.project.weight.copy_(torch.cat([4 * identity, identity, identity]))
        attention.out.weight.copy_(identity)
    x_BTD = identity[None]

    def looked_at() -> Tensor:
        with torch.no_grad(), recording(attention, "weights") as records:
            attention(x_BTD)
        return records["weights"][0][0, 0].argmax(dim=-1)

    assert looked_at().tolist() == list(range(words))
    weight = attention.project.weight
    optimizer = torch.optim.Adam([weight], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(10 * attention(x_BTD)[0], partner).backward()
        assert weight.grad is not None
        weight.grad[words:] = 0  # only W^Q is trained
        optimizer.step()
    assert looked_at().tolist() == partner.tolist()
    assert not torch.allclose(weight[:words], identity, atol=0.5)


def at_depth(**options: Any) -> tuple[float, float]:
    """Return the ratios of output norm and input gradient norm of a deep network to those of one layer."""
    scales = []
    for layers in (1, 24):
        torch.manual_seed(0)
        settings = TransformerSettings(width=32, layers=layers, heads=2, **options)
        encoder = Transformer(settings, 5, causal=True)
        for name, parameter in encoder.named_parameters():
            if parameter.dim() > 1:  # larger than the initial weights
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5 if "embedding" not in name else 1.0)
        x_BTD = torch.randn(1, 8, 32, requires_grad=True)
        encoded = encoder.contextualise(x_BTD)
        (encoded * torch.randn_like(encoded)).sum().backward()
        assert x_BTD.grad is not None
        scales.append((float(encoded.detach().norm()), float(x_BTD.grad.norm())))
    (size, gradient), (deep_size, deep_gradient) = scales
    return deep_size / size, deep_gradient / gradient


@pytest.mark.item(58)
def test_residual_connections_keep_the_scale_of_gradients_with_depth() -> None:
    for activation in ("relu", "squared-relu"):
        _, kept = at_depth(feedforward=activation)
        assert 0.5 < kept < 2
    _, faded = at_depth(feedforward="relu", residual=False)
    _, grown = at_depth(feedforward="squared-relu", residual=False)
    assert faded < 0.2
    assert grown > 5


@pytest.mark.item(59)
def test_norms_keep_the_scale_of_activations_with_depth() -> None:
    for place in ("pre", "post"):
        size, gradient = at_depth(norm=place)
        assert size == pytest.approx(1, abs=0.1)
        assert gradient < 1e2
    size, _ = at_depth(norm="none", feedforward="relu")
    assert size > 1e3


@pytest.mark.item(74)
@torch.no_grad()
@pytest.mark.parametrize("positions", ["none", "learned", "sinusoidal", "rotary"])
def test_without_positions_earlier_and_later_tokens_are_indistinguishable(positions: Any) -> None:
    """Letter counting: without positions and mask, the vector of a letter does not depend on the order of the others.

    A causal network distinguishes them: it attends to earlier letters only.
    """
    torch.manual_seed(0)
    settings = TransformerSettings(width=16, layers=2, heads=2, positions=positions)
    before, after = torch.tensor([[1, 1, 0, 2]]), torch.tensor([[2, 1, 0, 1]])
    for causal in (False, True):
        encoder = Transformer(settings, 3, causal=causal)
        for parameter in encoder.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter)
        same = torch.allclose(encoder.encode(before)[0, 2], encoder.encode(after)[0, 2], atol=1e-4)
        assert same == (positions == "none" and not causal)


FAMILIES: dict[str, dict[str, Any]] = {
    "ngram": {},
    "dan": {"model.width": 16},
    "window": {"model.width": 16},
    "rnn": {"model.width": 16},
    "lstm": {"model.width": 16},
    "transformer": {"model.width": 16, "model.heads": 2, "model.layers": 1},
    "backpack": {"model.width": 16, "model.heads": 2, "model.layers": 1, "model.senses": 2},
}


@pytest.mark.item(96)
def test_all_families_are_evaluated_on_the_same_held_out_text_in_the_same_unit(verse: Path, tmp_path: Path) -> None:
    for kind, settings in FAMILIES.items():
        budget: dict[str, Any] = {} if kind == "ngram" else {"steps": 2}
        satchel.train(verse, model=kind, tokenizer="char", valid=0.2, settings=settings, out=tmp_path / kind, **budget)
    runs = [tmp_path / kind for kind in FAMILIES]
    comparison = compare(runs)
    assert comparison.metric == "bits_per_byte"
    assert [row.value for row in comparison.rows] == pytest.approx(
        [satchel.load(run, task="lm").evaluate().bits_per_byte for run in runs]
    )
