"""Encoders (ids to one vector per position) and pair models (target vectors given a source)."""

from satchel.models.backpack import Backpack, BackpackSettings
from satchel.models.backpack_pair import BackpackPair, BackpackPairSettings
from satchel.models.build import build_encoder, build_pair
from satchel.models.dan import Dan, DanSettings
from satchel.models.encoder import CausalEncoder, Contextualiser, Encoder, State
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
    "Contextualiser",
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
