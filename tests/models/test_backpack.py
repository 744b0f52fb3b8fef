"""Backpacks are what was published: the same counts, the same formulas, and every answer a sum over senses."""

import contextlib
import copy
import math

import pytest
import torch
from torch import Tensor, nn

from satchel.models.backpack import Backpack, published
from satchel.models.build import build_encoder
from satchel.models.costs import count, meta_device
from satchel.nn.sites import hooked, recording
from satchel.training.optimizer import Optimizer
from satchel.training.settings import TrainingSettings
from tests.models.encoders import VOCABULARY, backpack, make

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5], [2, 7, 1, 8, 2, 8, 1, 8, 2]])


def small(**options: object) -> Backpack:
    torch.manual_seed(0)
    made = Backpack(published(width=12, layers=2, heads=3, context=16, senses=4, **options), VOCABULARY, causal=True)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made.double().eval()


# --- as published ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "layers", "heads", "transformer", "senses", "weights", "total"),
    [
        (384, 6, 6, 30_145_536, 11_218_560, 295_680, 41_659_776),
        (640, 8, 8, 71_886_080, 31_149_440, 820_480, 103_856_000),
        (768, 12, 12, 124_051_968, 44_850_432, 1_181_184, 170_083_584),
    ],
)
def test_the_published_sizes_have_the_published_parameters(
    width: int, layers: int, heads: int, transformer: int, senses: int, weights: int, total: int
) -> None:
    settings = published(width=width, layers=layers, heads=heads, context=512, senses=16)
    with meta_device():
        made = Backpack(settings, 50264, causal=True)

    def parameters(module: nn.Module | None) -> int:
        assert module is not None
        return sum(parameter.numel() for parameter in module.parameters())

    assert parameters(made) == total
    assert parameters(made.embedding) + parameters(made.contextualiser) == transformer
    assert (parameters(made.sense_network), parameters(made.sense_attention)) == (senses, weights)
    counted = {cost.component: cost.parameters for cost in count(made, 512, tied_logits=made.embedding).components}
    assert (counted["senses"], counted["sense weights"]) == (senses, weights)


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def norm(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def linear(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def by_hand(weights: dict[str, Tensor], ids: list[int], *, layers: int, heads: int, senses: int) -> Tensor:
    """Return what the published formulas give for one text, position by position and sense by sense."""
    embedding = weights["embedding.weight"]
    width, length = embedding.shape[1], len(ids)
    x = torch.stack(
        [embedding[id_] + weights["contextualiser.positions.embedding.weight"][place] for place, id_ in enumerate(ids)]
    )
    for layer in range(layers):
        block = f"contextualiser.blocks.{layer}"
        queries, keys, values = linear(
            norm(x, weights, f"{block}.attention_norm"), weights, f"{block}.attention.project"
        ).split(width, dim=-1)
        found = torch.zeros_like(x)
        own = width // heads
        for head in range(heads):
            part = slice(head * own, (head + 1) * own)
            for place in range(length):
                scores = torch.stack([queries[place, part] @ keys[other, part] for other in range(place + 1)])
                shares = (scores / math.sqrt(own) / (layer + 1)).softmax(0)
                found[place, part] = sum(share * values[other, part] for other, share in enumerate(shares))
        x = x + linear(found, weights, f"{block}.attention.out")
        hidden = gelu(linear(norm(x, weights, f"{block}.feedforward_norm"), weights, f"{block}.feedforward.widen"))
        x = x + linear(hidden, weights, f"{block}.feedforward.narrow")
    x = norm(x, weights, "contextualiser.norm")
    both = linear(x, weights, "sense_attention.project")
    own = width // senses
    sums = torch.zeros(length, width, dtype=x.dtype)
    for place in range(length):
        for sense in range(senses):
            query = both[place, sense * own : (sense + 1) * own]
            start = (senses + sense) * own
            scores = torch.stack([query @ both[other, start : start + own] for other in range(place + 1)])
            for other, share in enumerate((scores / math.sqrt(own)).softmax(0)):
                sums[place] += share * sense_of(weights, embedding[ids[other]], sense)
    return sums


def sense_of(weights: dict[str, Tensor], vector: Tensor, sense: int) -> Tensor:
    first = vector + norm(vector, weights, "sense_network.first_norm")
    inner = gelu(linear(norm(first, weights, "sense_network.second_norm"), weights, "sense_network.block.widen"))
    second = first + linear(inner, weights, "sense_network.block.narrow")
    hidden = gelu(linear(norm(second, weights, "sense_network.last_norm"), weights, "sense_network.widen"))
    flat = linear(hidden, weights, "sense_network.spread")
    return flat[sense * len(vector) : (sense + 1) * len(vector)]


def test_it_computes_what_the_published_formulas_say() -> None:
    made = small()
    weights: dict[str, Tensor] = dict(made.named_parameters())
    with torch.no_grad():
        for row in IDS.tolist():
            expected = by_hand(weights, row, layers=2, heads=3, senses=4)
            torch.testing.assert_close(made.encode(torch.tensor([row]))[0], expected, rtol=1e-12, atol=1e-12)
            mean = small(output="mean").encode(torch.tensor([row]))[0]
            torch.testing.assert_close(mean, expected / 4, rtol=1e-12, atol=1e-12)


# --- what follows from the formulas ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["backpack", "mean of senses", "lstm backpack", "uniform backpack", "table of senses"])
@pytest.mark.parametrize("causal", [True, False])
def test_an_encoding_is_the_sum_of_senses_by_their_weights(name: str, causal: bool) -> None:
    made = make(name, causal=causal)
    assert isinstance(made, Backpack)
    with recording(made, "senses", "sense_weights", "encoded") as found:
        made.encode(IDS)
    (senses,), (weights,), (encoded,) = found["senses"], found["sense_weights"], found["encoded"]
    distinct, where = IDS.unique(return_inverse=True)
    assert senses.shape == (len(distinct), made.settings.senses, 12)
    assert weights.shape == (2, made.settings.senses, 9, 9)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert weights.min() >= 0
    if causal:
        assert torch.equal(weights, weights.tril())
    total = torch.einsum("bnts,bsnd->btd", weights, senses[where]) * made.scale
    torch.testing.assert_close(encoded, total, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [63, 64, 65, 150])
def test_long_texts_in_blocks_equal_those_at_once(length: int) -> None:
    torch.manual_seed(1)
    ids = torch.randint(0, VOCABULARY, (2, length))
    for nearness in (0.0, 0.5):
        made = Backpack(backpack(context=256, nearness=nearness), VOCABULARY, causal=True).double()
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        wanted = torch.randn(2, length, made.width, dtype=torch.float64)
        found, gradients = [], []
        for watched in (False, True):
            made.zero_grad()
            with recording(made, "sense_weights") if watched else contextlib.nullcontext():
                found.append(made.encode(ids))
            (found[-1] * wanted).sum().backward()
            gradients.append({name: part.grad for name, part in made.named_parameters() if part.grad is not None})
        torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)
        assert len(gradients[0]) == len(list(made.parameters()))
        torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-9)


def test_the_senses_of_words_are_made_once_and_anew_when_the_weights_change() -> None:
    made = small()
    with torch.no_grad():
        before = made.encode(IDS)
        torch.testing.assert_close(before, made.contextualise(made.embed(IDS)), rtol=1e-12, atol=1e-12)
        calls = []
        handle = made.sense_network.register_forward_hook(lambda module, given, found: calls.append(found.shape[0]))
        assert torch.equal(made.encode(IDS), before)
        assert not calls
        made.embedding.weight[3] += 1
        after = made.encode(IDS)
        handle.remove()
    assert not torch.equal(after, before)
    assert calls == [VOCABULARY]  # those of some more words cost hardly more
    learned = made.encode(IDS)
    assert learned.requires_grad
    torch.testing.assert_close(learned, after, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_what_is_answered_between_steps_of_learning_is_up_to_date(optimizer: str) -> None:
    made = small().float()
    own = Optimizer(made, TrainingSettings.model_validate({"optimizer": optimizer}))
    for _ in range(3):
        made.train()
        made.encode(IDS).square().sum().backward()
        own.step(1.0)
        own.zero_grad()
        made.eval()
        with torch.inference_mode():
            answered = made.encode(IDS)
        torch.testing.assert_close(answered, made.encode(IDS).detach())


def test_the_mean_of_senses_is_that_of_all_words_as_they_are_now() -> None:
    made = small()
    for _ in range(2):
        with torch.no_grad():
            expected = made.compute_senses(torch.arange(VOCABULARY)).mean(dim=0)
        torch.testing.assert_close(made.mean_senses(), expected, rtol=1e-12, atol=1e-12)
        assert made.mean_senses() is made.mean_senses()
        with torch.no_grad():
            made.embedding.weight[3] += 1


def test_a_table_in_inference_mode_is_there_outside_of_it() -> None:
    made = small()
    with torch.inference_mode():
        before = made.encode(IDS[:1])
    with torch.no_grad():
        torch.testing.assert_close(made.encode(IDS)[:1], before, rtol=1e-12, atol=1e-12)


def test_sites_inside_the_sense_network_are_not_skipped_by_the_cache() -> None:
    made = small()
    with torch.inference_mode():
        before = made.encode(IDS)
        with recording(made, "sense_network.block.hidden") as found:
            made.encode(IDS)
        (hidden,) = found["sense_network.block.hidden"]
        assert len(hidden) == len(IDS.unique())
        with hooked(made, {"sense_network.block.hidden": torch.zeros_like}):
            assert not torch.allclose(made.encode(IDS), before)
        torch.testing.assert_close(made.encode(IDS), before, rtol=0, atol=0)


def test_a_copy_has_an_empty_sense_cache() -> None:
    made = small()
    with torch.inference_mode():
        before = made.encode(IDS)
    copied = copy.deepcopy(made)
    assert copied.sense_cache._rows_VND is None
    nn.init.zeros_(copied.embedding.weight)
    with torch.inference_mode():
        assert not torch.allclose(copied.encode(IDS), before)
        torch.testing.assert_close(made.encode(IDS), before, rtol=0, atol=0)


def test_one_sense_and_weights_that_are_all_alike_make_the_mean_of_words() -> None:
    settings = backpack(senses=1, contextualiser="uniform", sense_source="table")
    made = build_encoder(settings, VOCABULARY, causal=True).double().eval()
    assert isinstance(made, Backpack)
    assert isinstance(made.sense_network, nn.Embedding)
    vectors = made.sense_network(IDS)
    means = vectors.cumsum(dim=1) / torch.arange(1, 10)[None, :, None]
    torch.testing.assert_close(made.encode(IDS), means, rtol=1e-12, atol=1e-12)


def test_what_all_words_share_of_a_sense_is_the_same_everywhere() -> None:
    made = small()
    before = made.encode(IDS)
    shift = torch.randn(12, dtype=torch.float64)

    def add(senses: Tensor) -> Tensor:
        changed = senses.clone()
        changed[:, 2] += shift
        return changed

    with hooked(made, {"senses": add}):
        after = made.encode(IDS)
    torch.testing.assert_close(after - before, shift.expand_as(before), rtol=1e-9, atol=1e-10)


def test_padding_gets_no_weight() -> None:
    keep = torch.ones(2, 9, dtype=torch.bool)
    keep[0, 5:] = False
    for causal in (True, False):
        made = make("backpack", causal=causal)
        with recording(made, "sense_weights") as found:
            made.encode(IDS, keep)
        (weights,) = found["sense_weights"]
        assert torch.equal(weights[0, :, :, 5:], torch.zeros_like(weights[0, :, :, 5:]))
