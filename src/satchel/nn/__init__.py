"""Layers: attention, position encodings, Transformer blocks, recurrent layers, sites. Layers take plain arguments."""

from satchel.nn.attention import Additive, Dot, General, MultiHead, attend, causal_mask, self_attend, softmax
from satchel.nn.blocks import Block, FeedForward
from satchel.nn.inference import inference
from satchel.nn.kv_cache import KeyValues
from satchel.nn.positions import Alibi, Learned, Rotary, Sinusoidal, sinusoids
from satchel.nn.recurrence import RecurrentLayer
from satchel.nn.sites import Site, hooked, recording, sites

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
    "hooked",
    "inference",
    "recording",
    "self_attend",
    "sinusoids",
    "sites",
    "softmax",
]
