"""Parameter counts of published models, beside those printed in the papers. presets.toml lists the models."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from satchel.models.backpack import Backpack
from satchel.models.backpack import published as backpack_settings
from satchel.models.costs import Costs, count
from satchel.models.transformer import Transformer, gpt2
from satchel.nn.attention import MultiHead
from satchel.nn.blocks import Block, FeedForward
from satchel.nn.shapes import shapes_only

# A network, its embedding, which is also the output matrix, and the number of tokens encoded at once.
Network = tuple[nn.Module, nn.Embedding, int]


@dataclass(frozen=True)
class Preset:
    """A published model: its shape and the published number of parameters."""

    name: str
    shape: dict[str, int]
    published: int
    note: str = ""

    def count(self) -> Costs:
        """Return the costs of the model."""
        builders: dict[str, Callable[..., Network]] = {"gpt3": _gpt, "vaswani": _pair, "backpack": _backpack}
        with shapes_only():
            network, embedding, length = builders[self.name.split("-")[0]](*self.shape.values())
        return count(network, length, tied_logits=embedding)


def _gpt(layers: int, width: int, heads: int, head_width: int) -> Network:
    shape = {"width": width, "layers": layers, "heads": heads, "key_width": head_width, "value_width": head_width}
    encoder = Transformer(gpt2(**shape, context=2048), vocabulary=50257, causal=True)
    return encoder, encoder.embedding, encoder.context


def _pair(layers: int, width: int, hidden: int, heads: int, key_width: int, value_width: int) -> Network:
    def attention() -> MultiHead:
        return MultiHead(width, heads, key_width=key_width, value_width=value_width, bias=False)

    embedding = nn.Embedding(37000, width)
    blocks = [Block(attention(), FeedForward(width, hidden, "relu"), norm="post") for _ in range(2 * layers)]
    cross_attention = [nn.ModuleList([attention(), nn.LayerNorm(width)]) for _ in range(layers)]
    return nn.ModuleList([embedding, *blocks, *cross_attention]), embedding, 512


def _backpack(layers: int, width: int, heads: int, senses: int) -> Network:
    settings = backpack_settings(width=width, layers=layers, heads=heads, context=512, senses=senses)
    encoder = Backpack(settings, vocabulary=50264, causal=True)
    return encoder, encoder.embedding, encoder.context


_ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PRESETS = {name: Preset(name, **row) for name, row in _ROWS.items()}
