"""Small encoders of every kind, for tests that hold for all."""

import torch

from satchel.models.build import build_encoder
from satchel.models.contract import CausalEncoder
from satchel.models.dan import DanSettings
from satchel.models.recurrent import RecurrentSettings
from satchel.models.transformer import TransformerSettings
from satchel.models.window import WindowSettings

VOCABULARY = 11


def transformer(**options: object) -> TransformerSettings:
    tree = {"width": 12, "layers": 2, "heads": 3, "context": 16, **options}
    return TransformerSettings.model_validate(tree)


SETTINGS: dict[str, DanSettings | WindowSettings | RecurrentSettings | TransformerSettings] = {
    "dan": DanSettings(width=12),
    "window": WindowSettings(width=12, window=3, layers=2),
    "rnn": RecurrentSettings(kind="rnn", width=12),
    "gru": RecurrentSettings(kind="gru", width=12, layers=2),
    "lstm": RecurrentSettings(kind="lstm", width=12, layers=2),
    "no positions": transformer(positions="none"),
    "learned": transformer(positions="learned"),
    "sinusoidal": transformer(positions="sinusoidal"),
    "rotary": transformer(positions="rotary"),
    "alibi": transformer(positions="alibi"),
    "narrow": transformer(attention="narrow"),
    "wide": transformer(attention="wide"),
    "own widths": transformer(heads=5, key_width=4, value_width=6),
    "post-norm": transformer(norm="post", feedforward="relu"),
    "no norm": transformer(norm="none", scale="width"),
    "modern": transformer(norm_kind="rms", feedforward="swiglu", normalise=True, bias=False, positions="rotary"),
    "no residuals": transformer(residual=False, feedforward="squared-relu"),
    "no blocks": transformer(layers=0),
}


def make(name: str, *, causal: bool = True, seed: int = 0) -> CausalEncoder:
    """Return a small encoder with random weights, in float64, as it is after training."""
    torch.manual_seed(seed)
    return build_encoder(SETTINGS[name], VOCABULARY, causal=causal).double().eval()
