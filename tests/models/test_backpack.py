"""Backpacks: published parameter counts and formulas, and outputs that are sums over senses."""

import contextlib
import copy
import math

import pytest
import torch
from torch import Tensor, nn

from satchel.models.backpack import Backpack, published
from satchel.models.build import build_encoder
from satchel.models.costs import count
from satchel.nn.inference import inference
from satchel.nn.sites import hooked, recording
from satchel.training.optimizer import Optimizer
from satchel.training.settings import TrainingSettings
from tests.models.encoders import VOCABULARY, backpack, make

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5], [2, 7, 1, 8, 2, 8, 1, 8, 2]])


def small(**options: object) -> Backpack:
    torch.manual_seed(0)
    encoder = Backpack(published(width=12, layers=2, heads=3, context=16, senses=4, **options), VOCABULARY, causal=True)
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.3)
    return encoder.double().eval()


# --- as published ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "layers", "heads", "transformer", "senses", "weights", "total"),
    [
        (384, 6, 6, 30_145_536, 11_218_560, 295_680, 41_659_776),
        (640, 8, 8, 71_886_080, 31_149_440, 820_480, 103_856_000),
        (768, 12, 12, 124_051_968, 44_850_432, 1_181_184, 170_083_584),
    ],
)
def test_the_published_sizes_have_the_published_number_of_parameters(
    width: int, layers: int, heads: int, transformer: int, senses: int, weights: int, total: int
) -> None:
    settings = published(width=width, layers=layers, heads=heads, context=512, senses=16)
    with torch.device("meta"):
        encoder = Backpack(settings, 50264, causal=True)

    def parameters(module: nn.Module | None) -> int:
        assert module is not None
        return sum(parameter.numel() for parameter in module.parameters())

    assert parameters(encoder) == total
    assert parameters(encoder.embedding) + parameters(encoder.contextualiser) == transformer
    assert (parameters(encoder.sense_network), parameters(encoder.sense_attention)) == (senses, weights)
    counted = {
        cost.component: cost.parameters for cost in count(encoder, 512, tied_logits=encoder.embedding).components
    }
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
    """Return the encodings of a text by the published formulas, computed for each position and sense."""
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
        attended = torch.zeros_like(x)
        head_width = width // heads
        for head in range(heads):
            part = slice(head * head_width, (head + 1) * head_width)
            for place in range(length):
                scores = torch.stack([queries[place, part] @ keys[other, part] for other in range(place + 1)])
                attention = (scores / math.sqrt(head_width) / (layer + 1)).softmax(0)
                attended[place, part] = sum(weight * values[other, part] for other, weight in enumerate(attention))
        x = x + linear(attended, weights, f"{block}.attention.out")
        hidden = gelu(linear(norm(x, weights, f"{block}.feedforward_norm"), weights, f"{block}.feedforward.widen"))
        x = x + linear(hidden, weights, f"{block}.feedforward.narrow")
    x = norm(x, weights, "contextualiser.norm")
    both = linear(x, weights, "sense_attention.project")
    key_width = width // senses
    sums = torch.zeros(length, width, dtype=x.dtype)
    for place in range(length):
        for sense in range(senses):
            query = both[place, sense * key_width : (sense + 1) * key_width]
            start = (senses + sense) * key_width
            scores = torch.stack([query @ both[other, start : start + key_width] for other in range(place + 1)])
            for other, weight in enumerate((scores / math.sqrt(key_width)).softmax(0)):
                sums[place] += weight * sense_of(weights, embedding[ids[other]], sense)
    return sums


def sense_of(weights: dict[str, Tensor], vector: Tensor, sense: int) -> Tensor:
    first = vector + norm(vector, weights, "sense_network.first_norm")
    inner = gelu(linear(norm(first, weights, "sense_network.second_norm"), weights, "sense_network.block.widen"))
    second = first + linear(inner, weights, "sense_network.block.narrow")
    hidden = gelu(linear(norm(second, weights, "sense_network.last_norm"), weights, "sense_network.widen"))
    flat = linear(hidden, weights, "sense_network.spread")
    return flat[sense * len(vector) : (sense + 1) * len(vector)]


def test_encodings_equal_the_published_formulas() -> None:
    encoder = small()
    weights: dict[str, Tensor] = dict(encoder.named_parameters())
    with torch.no_grad():
        for row in IDS.tolist():
            expected = by_hand(weights, row, layers=2, heads=3, senses=4)
            torch.testing.assert_close(encoder.encode(torch.tensor([row]))[0], expected, rtol=1e-12, atol=1e-12)
            mean = small(output="mean").encode(torch.tensor([row]))[0]
            torch.testing.assert_close(mean, expected / 4, rtol=1e-12, atol=1e-12)


# --- properties ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["backpack", "mean of senses", "lstm backpack", "uniform backpack", "table of senses"])
@pytest.mark.parametrize("causal", [True, False])
def test_an_encoding_is_the_weighted_sum_of_sense_vectors(name: str, causal: bool) -> None:
    encoder = make(name, causal=causal)
    assert isinstance(encoder, Backpack)
    with recording(encoder, "senses", "sense_weights", "encoded") as records:
        encoder.encode(IDS)
    (senses,), (weights,), (encoded,) = records["senses"], records["sense_weights"], records["encoded"]
    distinct, where = IDS.unique(return_inverse=True)
    assert senses.shape == (len(distinct), encoder.settings.senses, 12)
    assert weights.shape == (2, encoder.settings.senses, 9, 9)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert weights.min() >= 0
    if causal:
        assert torch.equal(weights, weights.tril())
    total = torch.einsum("bnts,bsnd->btd", weights, senses[where]) * encoder.scale
    torch.testing.assert_close(encoded, total, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [63, 64, 65, 150])
def test_sums_in_blocks_equal_sums_of_the_whole_sequence(length: int) -> None:
    torch.manual_seed(1)
    ids = torch.randint(0, VOCABULARY, (2, length))
    for nearness in (0.0, 0.5):
        encoder = Backpack(backpack(context=256, nearness=nearness), VOCABULARY, causal=True).double()
        for parameter in encoder.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        direction = torch.randn(2, length, encoder.width, dtype=torch.float64)
        encodings, gradients = [], []
        for watched in (False, True):
            encoder.zero_grad()
            with recording(encoder, "sense_weights") if watched else contextlib.nullcontext():
                encodings.append(encoder.encode(ids))
            (encodings[-1] * direction).sum().backward()
            gradients.append({name: part.grad for name, part in encoder.named_parameters() if part.grad is not None})
        torch.testing.assert_close(encodings[0], encodings[1], rtol=1e-12, atol=1e-12)
        assert len(gradients[0]) == len(list(encoder.parameters()))
        torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-9)


def test_sense_vectors_are_computed_once_per_token_and_call() -> None:
    encoder, calls = small(), list[int]()
    encoder.sense_network.register_forward_hook(lambda module, inputs, output: calls.append(output.shape[0]))
    with inference(encoder):
        before = encoder.encode(IDS[:, :4])
        torch.testing.assert_close(encoder.encode(IDS)[:, :4], before, rtol=1e-12, atol=1e-12)
        encoder.encode(IDS)
    assert calls == [len(IDS[:, :4].unique()), len(IDS.unique()) - len(IDS[:, :4].unique())]
    with inference(encoder):
        torch.testing.assert_close(encoder.encode(IDS)[:, :4], before, rtol=1e-12, atol=1e-12)
    assert calls[2:] == [len(IDS.unique())]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_inference_between_training_steps_uses_the_new_parameters(optimizer: str) -> None:
    encoder = small().float()
    trainer = Optimizer(encoder, TrainingSettings.model_validate({"optimizer": optimizer}))
    for _ in range(3):
        encoder.train()
        encoder.encode(IDS).square().sum().backward()
        trainer.step(1.0)
        trainer.zero_grad()
        with inference(encoder):
            answered = encoder.encode(IDS)
        torch.testing.assert_close(answered, encoder.encode(IDS).detach())


def test_the_mean_of_senses_follows_the_parameters() -> None:
    encoder = small()
    for _ in range(2):
        with torch.no_grad():
            expected = encoder.sense_lookup.compute(torch.arange(VOCABULARY)).mean(dim=0)
        torch.testing.assert_close(encoder.mean_senses(), expected, rtol=1e-12, atol=1e-12)
        encoder.embedding.weight.data[3] += 1


def test_sites_inside_the_sense_network_are_never_skipped() -> None:
    encoder = small()
    with inference(encoder):
        before = encoder.encode(IDS)
        with recording(encoder, "sense_network.block.hidden") as records:
            encoder.encode(IDS)
        (hidden,) = records["sense_network.block.hidden"]
        assert len(hidden) == len(IDS.unique())
        with hooked(encoder, {"sense_network.block.hidden": torch.zeros_like}):
            assert not torch.allclose(encoder.encode(IDS), before)
        torch.testing.assert_close(encoder.encode(IDS), before, rtol=0, atol=0)


def test_a_copy_has_its_own_senses() -> None:
    encoder = small()
    copied = copy.deepcopy(encoder)
    nn.init.zeros_(copied.embedding.weight)
    with inference(encoder):
        before = encoder.encode(IDS)
        assert not torch.allclose(copied.encode(IDS), before)
        torch.testing.assert_close(encoder.encode(IDS), before, rtol=0, atol=0)


def test_one_sense_with_uniform_weights_is_the_mean_of_the_embeddings() -> None:
    settings = backpack(senses=1, contextualiser="uniform", sense_source="table")
    encoder = build_encoder(settings, VOCABULARY, causal=True).double().eval()
    assert isinstance(encoder, Backpack)
    assert isinstance(encoder.sense_network, nn.Embedding)
    vectors = encoder.sense_network(IDS)
    means = vectors.cumsum(dim=1) / torch.arange(1, 10)[None, :, None]
    torch.testing.assert_close(encoder.encode(IDS), means, rtol=1e-12, atol=1e-12)


def test_a_constant_added_to_a_sense_of_all_tokens_shifts_all_encodings_equally() -> None:
    encoder = small()
    before = encoder.encode(IDS)
    shift = torch.randn(12, dtype=torch.float64)

    def add(senses: Tensor) -> Tensor:
        changed = senses.clone()
        changed[:, 2] += shift
        return changed

    with hooked(encoder, {"senses": add}):
        after = encoder.encode(IDS)
    torch.testing.assert_close(after - before, shift.expand_as(before), rtol=1e-9, atol=1e-10)


def test_padding_has_no_sense_weight() -> None:
    keep = torch.ones(2, 9, dtype=torch.bool)
    keep[0, 5:] = False
    for causal in (True, False):
        encoder = make("backpack", causal=causal)
        with recording(encoder, "sense_weights") as records:
            encoder.encode(IDS, keep)
        (weights,) = records["sense_weights"]
        assert torch.equal(weights[0, :, :, 5:], torch.zeros_like(weights[0, :, :, 5:]))
