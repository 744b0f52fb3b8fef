"""Parameter counts of published models, beside those printed in the papers.

GPT-3 (Brown et al., 2020, table 2.1), the Transformer (Vaswani et al., 2017, table 3), Backpacks (Hewitt et al., 2023).
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from satchel.models.backpack import Backpack
from satchel.models.backpack import published as backpack_settings
from satchel.models.costs import Costs, count, meta_device
from satchel.models.transformer import Transformer, gpt2
from satchel.nn.attention import MultiHead
from satchel.nn.blocks import Block, FeedForward

GPT_VOCABULARY, GPT_CONTEXT = 50257, 2048
PAIR_VOCABULARY, PAIR_LENGTH = 37000, 512
BACKPACK_VOCABULARY, BACKPACK_CONTEXT, BACKPACK_SENSES = 50264, 512, 16


@dataclass(frozen=True)
class Preset:
    """A published model: its shape, the published number of parameters, and a function that counts its costs."""

    name: str
    shape: dict[str, int]
    published: float
    count: Callable[[], Costs]
    note: str = ""


def _gpt(layers: int, width: int, heads: int, head_width: int) -> Callable[[], Costs]:
    def count_costs() -> Costs:
        settings = gpt2(
            width=width,
            layers=layers,
            heads=heads,
            key_width=head_width,
            value_width=head_width,
            context=GPT_CONTEXT,
        )
        with meta_device():
            encoder = Transformer(settings, GPT_VOCABULARY, causal=True)
        return count(encoder, GPT_CONTEXT, tied_logits=encoder.embedding)

    return count_costs


def _pair(layers: int, width: int, hidden: int, heads: int, key_width: int, value_width: int) -> Callable[[], Costs]:
    def count_costs() -> Costs:
        def attention() -> MultiHead:
            return MultiHead(width, heads, key_width=key_width, value_width=value_width, bias=False)

        with meta_device():
            embedding = nn.Embedding(PAIR_VOCABULARY, width)
            blocks = [Block(attention(), FeedForward(width, hidden, "relu"), norm="post") for _ in range(2 * layers)]
            cross_attention = [nn.ModuleList([attention(), nn.LayerNorm(width)]) for _ in range(layers)]
        network = nn.ModuleList([embedding, *blocks, *cross_attention])
        return count(network, PAIR_LENGTH, tied_logits=embedding)

    return count_costs


def _gpts() -> list[Preset]:
    rows = [
        ("gpt3-small", 12, 768, 12, 64, 125e6, ""),
        ("gpt3-medium", 24, 1024, 16, 64, 350e6, ""),
        ("gpt3-large", 24, 1536, 16, 96, 760e6, ""),
        (
            "gpt3-xl",
            24,
            2048,
            24,
            128,
            1.3e9,
            "24 heads of 128 exceed the width of 2048; 16 heads give the published number",
        ),
        ("gpt3-2.7b", 32, 2560, 32, 80, 2.7e9, ""),
        ("gpt3-6.7b", 32, 4096, 32, 128, 6.7e9, ""),
        ("gpt3-13b", 40, 5140, 40, 128, 13e9, "40 heads of 128 give a width of 5120 instead of the printed 5140"),
        ("gpt3-175b", 96, 12288, 96, 128, 175e9, ""),
    ]
    return [
        Preset(
            name,
            {"layers": layers, "width": width, "heads": heads, "head width": head},
            published,
            _gpt(layers, width, heads, head),
            note,
        )
        for name, layers, width, heads, head, published, note in rows
    ]


def _transformers() -> list[Preset]:
    base = {"layers": 6, "width": 512, "hidden": 2048, "heads": 8, "d_k": 64, "d_v": 64}
    changes: list[tuple[str, dict[str, int], float]] = [
        ("vaswani-base", {}, 65e6),
        ("vaswani-a1", {"heads": 1, "d_k": 512, "d_v": 512}, 65e6),
        ("vaswani-a2", {"heads": 4, "d_k": 128, "d_v": 128}, 65e6),
        ("vaswani-a3", {"heads": 16, "d_k": 32, "d_v": 32}, 65e6),
        ("vaswani-a4", {"heads": 32, "d_k": 16, "d_v": 16}, 65e6),
        ("vaswani-b1", {"d_k": 16}, 58e6),
        ("vaswani-b2", {"d_k": 32}, 60e6),
        ("vaswani-c1", {"layers": 2}, 36e6),
        ("vaswani-c2", {"layers": 4}, 50e6),
        ("vaswani-c3", {"layers": 8}, 80e6),
        ("vaswani-c4", {"width": 256, "hidden": 2048, "d_k": 32, "d_v": 32}, 28e6),
        ("vaswani-c5", {"width": 1024, "d_k": 128, "d_v": 128}, 168e6),
        ("vaswani-c6", {"hidden": 1024}, 53e6),
        ("vaswani-c7", {"hidden": 4096}, 90e6),
        ("vaswani-big", {"width": 1024, "hidden": 4096, "heads": 16}, 213e6),
    ]
    presets = []
    for name, change, published in changes:
        shape = base | change
        note = (
            "with a shared vocabulary of 37,000, about 2 M fewer parameters than published (rounded)"
            if not change
            else ""
        )
        presets.append(Preset(name, shape, published, _pair(*shape.values()), note))
    return presets


def _backpack(layers: int, width: int, heads: int) -> Callable[[], Costs]:
    def count_costs() -> Costs:
        settings = backpack_settings(
            width=width, layers=layers, heads=heads, context=BACKPACK_CONTEXT, senses=BACKPACK_SENSES
        )
        with meta_device():
            encoder = Backpack(settings, BACKPACK_VOCABULARY, causal=True)
        return count(encoder, BACKPACK_CONTEXT, tied_logits=encoder.embedding)

    return count_costs


def _backpacks() -> list[Preset]:
    rows = [
        ("backpack-micro", 6, 384, 6, 40e6),
        ("backpack-mini", 8, 640, 8, 100e6),
        ("backpack-small", 12, 768, 12, 170e6),
    ]
    return [
        Preset(
            name,
            {"layers": layers, "width": width, "heads": heads, "senses": BACKPACK_SENSES},
            published,
            _backpack(layers, width, heads),
        )
        for name, layers, width, heads, published in rows
    ]


PRESETS = {preset.name: preset for preset in [*_gpts(), *_transformers(), *_backpacks()]}
