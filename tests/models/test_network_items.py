"""What the lectures say of recurrence, attention, depth and positions, on networks that learn in a second."""

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
    """Return texts that begin with a name, go on with other words, and ask at their end which name it was."""
    names_B = torch.randint(0, NAMES, (texts,))
    talk_BT = torch.randint(NAMES, NAMES + FILLERS, (texts, distance))
    asked_B1 = torch.full((texts, 1), NAMES + FILLERS)
    return torch.cat([names_B[:, None], talk_BT, asked_B1], dim=1), names_B


def recalled(encoder: CausalEncoder, distances: tuple[int, ...], updates: int = 100) -> dict[int, float]:
    """Train an encoder to recall names over the farthest of some distances; return how often it does, by distance."""
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
        asked = {distance: names_and_talk(500, distance) for distance in distances}
        return {each: float((answers(ids).argmax(-1) == names).float().mean()) for each, (ids, names) in asked.items()}


@pytest.mark.item(11, 66)
def test_an_rnn_forgets_a_name_and_attention_finds_it_in_one_layer() -> None:
    torch.manual_seed(0)
    vocabulary, distances = NAMES + FILLERS + 1, (2, 60)
    attends = TransformerSettings(width=32, layers=1, heads=2, context=64, positions="none")
    found = recalled(build_encoder(attends, vocabulary, causal=True), distances)
    assert min(found.values()) > 0.95
    recurs = RecurrentSettings(kind="rnn", width=32)
    assert recalled(build_encoder(recurs, vocabulary, causal=True), distances)[60] < 0.5


@pytest.mark.item(66)
def test_attention_has_one_step_to_the_farthest_word_and_recurrence_as_many_as_lie_between() -> None:
    """What the last vector owes the first word does not fade with the distance, if all words are alike."""

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
def test_queries_are_learned_so_that_a_word_finds_what_belongs_to_it() -> None:
    """Compared as they are, words find themselves; what they learn to ask for is their partner."""
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
        with torch.no_grad(), recording(attention, "weights") as found:
            attention(x_BTD)
        return found["weights"][0][0, 0].argmax(dim=-1)

    assert looked_at().tolist() == list(range(words))
    weight = attention.project.weight
    optimizer = torch.optim.Adam([weight], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(10 * attention(x_BTD)[0], partner).backward()
        assert weight.grad is not None
        weight.grad[words:] = 0  # keys and values stay as they are: what is learned is W^Q
        optimizer.step()
    assert looked_at().tolist() == partner.tolist()
    assert not torch.allclose(weight[:words], identity, atol=0.5)


def at_depth(**options: Any) -> tuple[float, float]:
    """Return how large the vectors after many layers are, and the gradient before them, beside those of one layer."""
    found = []
    for layers in (1, 24):
        torch.manual_seed(0)
        settings = TransformerSettings(width=32, layers=layers, heads=2, **options)
        encoder = Transformer(settings, 5, causal=True)
        for name, parameter in encoder.named_parameters():
            if parameter.dim() > 1:  # as if something had been learned
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5 if "embedding" not in name else 1.0)
        x_BTD = torch.randn(1, 8, 32, requires_grad=True)
        encoded = encoder.contextualise(x_BTD)
        (encoded * torch.randn_like(encoded)).sum().backward()
        assert x_BTD.grad is not None
        found.append((float(encoded.detach().norm()), float(x_BTD.grad.norm())))
    (size, gradient), (deep_size, deep_gradient) = found
    return deep_size / size, deep_gradient / gradient


@pytest.mark.item(58)
def test_residuals_keep_gradients_from_getting_too_large_or_too_small_with_depth() -> None:
    for activation in ("relu", "squared-relu"):
        _, kept = at_depth(feedforward=activation)
        assert 0.5 < kept < 2
    _, faded = at_depth(feedforward="relu", residual=False)
    _, grown = at_depth(feedforward="squared-relu", residual=False)
    assert faded < 0.2
    assert grown > 5


@pytest.mark.item(59)
def test_norms_keep_the_scale_of_deep_networks_and_can_be_left_out() -> None:
    for place in ("pre", "post"):
        size, gradient = at_depth(norm=place)
        assert size == pytest.approx(1, abs=0.1)
        assert gradient < 1e2
    size, _ = at_depth(norm="none", feedforward="relu")
    assert size > 1e3


@pytest.mark.item(74)
@torch.no_grad()
@pytest.mark.parametrize("positions", ["none", "learned", "sinusoidal", "rotary"])
def test_without_positions_what_stood_before_cannot_be_told_from_what_comes_after(positions: Any) -> None:
    """Letter counting: who sees the whole string and no places gives a letter the same vector wherever the others are.

    A causal network still can: what it sees is what stood before.
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
def test_every_family_is_measured_on_the_same_held_out_text_in_the_same_unit(verse: Path, tmp_path: Path) -> None:
    for kind, settings in FAMILIES.items():
        budget: dict[str, Any] = {} if kind == "ngram" else {"steps": 2}
        satchel.train(verse, model=kind, tokenizer="char", valid=0.2, settings=settings, out=tmp_path / kind, **budget)
    runs = [tmp_path / kind for kind in FAMILIES]
    found = compare(runs)
    assert found.metric == "bits_per_byte"
    assert [row.value for row in found.rows] == pytest.approx(
        [satchel.load(run).evaluate().bits_per_byte for run in runs]
    )
