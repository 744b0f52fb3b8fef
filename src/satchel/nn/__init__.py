"""Layers: attention, positions, blocks, recurrence, sites. They take plain arguments and know nothing of text."""

from satchel.nn.attention import Additive, Dot, General, KeyValues, MultiHead, attend, causal_mask, self_attend, softmax
from satchel.nn.blocks import Block, FeedForward
from satchel.nn.positions import Alibi, Learned, Rotary, Sinusoidal, sinusoids
from satchel.nn.recurrence import RecurrentLayer
from satchel.nn.sites import Site, recording, sites, watching

__all__ = [
    "Additive",
    "Alibi",
    "Block",
    "Dot",
    "FeedForward",
    "General",
    "KeyValues",
    "Learned",
    "MultiHead",
    "RecurrentLayer",
    "Rotary",
    "Sinusoidal",
    "Site",
    "attend",
    "causal_mask",
    "recording",
    "self_attend",
    "sinusoids",
    "sites",
    "softmax",
    "watching",
]
