"""The head that is shown by default, and attention maps of every encoder."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from satchel.inspection.heads import GENERAL, choose_head
from satchel.inspection.trace import Trace, text_batch
from satchel.models.encoder import Encoder
from satchel.nn.attention import MultiHead
from satchel.tasks.classification import ClassificationNetwork
from satchel.tasks.language import LanguageNetwork
from tests.models.encoders import make

IDS = np.array([10, 3, 1, 4, 1, 5, 9, 2, 3, 1, 4, 1])
TOKENS = ("<start>", *(f"w{number}" for number in IDS[1:]))


class Heads:
    """Attention weights by (layer, head)."""

    def __init__(self, **heads: Any) -> None:
        self.heads = heads

    def each(self) -> Iterator[tuple[int, int, Any]]:
        for number, weights_TS in enumerate(self.heads.values()):
            yield 0, number, weights_TS


def to(offset: int, size: int, share: float) -> Any:
    """Return weights on the position at an offset before the query; the rest is uniform over visible positions."""
    uniform = np.tri(size) / np.arange(1, size + 1)[:, None]
    return share * np.eye(size)[np.maximum(0, np.arange(size) - offset)] + (1 - share) * uniform


def chosen(tokens: list[str], **heads: Any) -> Any:
    return choose_head(Heads(**heads), {name: each(tokens) for name, each in GENERAL.items()}, causal=True)


def test_the_head_with_the_largest_ratio_of_pattern_weight_to_chance_is_chosen() -> None:
    tokens = [f"w{number}" for number in range(20)]
    first = np.eye(20)[np.zeros(20, int)]
    result = chosen(tokens, first=first, weak=to(1, 20, 0.3), strong=to(1, 20, 0.6))
    assert (result.head, result.pattern, result.queries) == (2, "previous", 19)
    assert result.weight / result.chance > 2
    assert "previous" in result.reason


def test_the_reason_states_small_weights_with_two_significant_digits() -> None:
    result = chosen([f"w{number}" for number in range(500)], previous=to(1, 500, 0.002))
    assert f"{result.weight:.2g} on the pattern" in result.reason
    assert f"({result.chance:.2g})" in result.reason
    assert f"{result.weight:.2g}" != f"{result.weight:.2f}"


def test_patterns_with_fewer_than_ten_queries_do_not_count() -> None:
    tokens = [f"w{number}" for number in range(20)]
    repeated = [*tokens[:10], *tokens[:9], "last"]
    same = to(10, 20, 0.9)
    assert chosen(repeated, same=same, previous=to(1, 20, 0.2)).pattern != "same"
    assert chosen([*tokens[:10], *tokens[:10]], same=same, previous=to(1, 20, 0.2)).pattern in ("same", "earlier")


def test_without_such_a_pattern_the_head_with_the_lowest_entropy_is_chosen() -> None:
    result = chosen(["a", "b", "c", "d"], uniform=to(0, 4, 0.0), sharp=to(1, 4, 0.9))
    assert (result.head, result.pattern) == (1, None)
    assert "lowest mean entropy" in result.reason


class Named(Encoder):
    """An encoder whose attention module has another name."""

    def __init__(self) -> None:
        super().__init__(11, 12, causal=False)
        self.mixer = MultiHead(12, 2)

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the output of the attention."""
        del keep_BT
        return self.mixer(x_BTD)  # type: ignore[no-any-return]


def test_attention_is_found_in_any_module() -> None:
    torch.manual_seed(0)
    network = ClassificationNetwork(Named(), 3).eval()
    maps = Trace(TOKENS, network, text_batch(network, IDS)).attention
    assert maps.names == ("mixer.weights",)
    assert maps[0].shape == (2, 12, 12)
    assert maps.view().shown[0] == "layer 0"


@pytest.mark.parametrize("name", ["lstm backpack", "uniform backpack"])
def test_a_backpack_without_self_attention_has_sense_attention(name: str) -> None:
    network = LanguageNetwork(make(name)).eval()
    trace = Trace(TOKENS, network, text_batch(network, IDS))
    maps = trace.maps()
    assert (maps.which, maps.heads) == ("senses", 4)
    assert "Sense attention weights" in trace.attention_map().title
    assert any("sense " in name for name in maps.view().shown)
