"""Small encoders of every kind."""

import torch

from satchel.models.backpack import BackpackSettings
from satchel.models.build import build_encoder
from satchel.models.dan import DanSettings
from satchel.models.encoder import CausalEncoder
from satchel.models.recurrent import RecurrentSettings
from satchel.models.transformer import TransformerSettings, gpt2
from satchel.models.window import WindowSettings

VOCABULARY = 11


def transformer(**options: object) -> TransformerSettings:
    return gpt2(**{"width": 12, "layers": 2, "heads": 3, "context": 16, **options})


def backpack(**options: object) -> BackpackSettings:
    given = {"width": 12, "layers": 1, "heads": 3, "context": 16, "senses": 4, **options}
    return BackpackSettings.model_validate(given)


SETTINGS: dict[str, DanSettings | WindowSettings | RecurrentSettings | TransformerSettings] = {
    "dan": DanSettings(width=12),
    "pairs": DanSettings(width=12, bigrams=7, average="root"),
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
    "usual": TransformerSettings(width=12, layers=2, heads=3, context=16),
    "modern": transformer(norm_kind="rms", feedforward="swiglu", normalise=True, bias=False, positions="rotary"),
    "no residuals": transformer(residual=False, feedforward="squared-relu"),
    "no blocks": transformer(layers=0),
    "backpack": backpack(),
    "mean of senses": backpack(senses=5, output="mean", positions="learned", bias=True),
    "lstm backpack": backpack(contextualiser="lstm"),
    "uniform backpack": backpack(contextualiser="uniform"),
    "table of senses": backpack(sense_source="table"),
    "near senses": backpack(nearness=0.7),
}

# Encoders with `contextualise`; a table has sense vectors for ids only.
OF_VECTORS = [name for name in SETTINGS if name != "table of senses"]


def make(name: str, *, causal: bool = True, seed: int = 0) -> CausalEncoder:
    """Return a small encoder in float64, with random weights where the initial weights are zero."""
    torch.manual_seed(seed)
    encoder = build_encoder(SETTINGS[name], VOCABULARY, causal=causal)
    for parameter in encoder.parameters():
        if parameter.dim() > 1 and not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    return encoder.double().eval()
