"""Encoders: token ids in, one context-sensitive vector per position out."""

from satchel.models.backpack import Backpack, BackpackSettings
from satchel.models.build import build_encoder
from satchel.models.contract import CausalEncoder, Encoder, State
from satchel.models.dan import Dan, DanSettings
from satchel.models.recurrent import Recurrent, RecurrentSettings
from satchel.models.transformer import Transformer, TransformerSettings
from satchel.models.window import Window, WindowSettings

__all__ = [
    "Backpack",
    "BackpackSettings",
    "CausalEncoder",
    "Dan",
    "DanSettings",
    "Encoder",
    "Recurrent",
    "RecurrentSettings",
    "State",
    "Transformer",
    "TransformerSettings",
    "Window",
    "WindowSettings",
    "build_encoder",
]
