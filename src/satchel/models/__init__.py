"""Encoders: token ids in, one context-sensitive vector per position out; and pair models, which read one text first."""

from satchel.models.backpack import Backpack, BackpackSettings
from satchel.models.backpack_pair import BackpackPair, BackpackPairSettings
from satchel.models.build import build_encoder, build_pair
from satchel.models.dan import Dan, DanSettings
from satchel.models.encoder import CausalEncoder, Encoder, State
from satchel.models.pair import DecoderOnly, PairModel, PairState
from satchel.models.recurrent import Recurrent, RecurrentSettings
from satchel.models.recurrent_pair import RecurrentPair, RecurrentPairSettings
from satchel.models.transformer import Transformer, TransformerSettings
from satchel.models.transformer_pair import TransformerPair, TransformerPairSettings
from satchel.models.window import Window, WindowSettings

__all__ = [
    "Backpack",
    "BackpackPair",
    "BackpackPairSettings",
    "BackpackSettings",
    "CausalEncoder",
    "Dan",
    "DanSettings",
    "DecoderOnly",
    "Encoder",
    "PairModel",
    "PairState",
    "Recurrent",
    "RecurrentPair",
    "RecurrentPairSettings",
    "RecurrentSettings",
    "State",
    "Transformer",
    "TransformerPair",
    "TransformerPairSettings",
    "TransformerSettings",
    "Window",
    "WindowSettings",
    "build_encoder",
    "build_pair",
]
