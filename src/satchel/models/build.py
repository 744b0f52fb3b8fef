"""Construction of encoders and pair models from settings, and named model sizes."""

from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from satchel.models.backpack import Backpack, BackpackSettings
from satchel.models.backpack_pair import BackpackPair, BackpackPairSettings
from satchel.models.dan import Dan, DanSettings
from satchel.models.encoder import CausalEncoder
from satchel.models.pair import DecoderOnly, PairModel
from satchel.models.recurrent import Recurrent, RecurrentSettings
from satchel.models.recurrent_pair import RecurrentPair, RecurrentPairSettings
from satchel.models.transformer import Transformer, TransformerSettings
from satchel.models.transformer_pair import TransformerPair, TransformerPairSettings
from satchel.models.window import Window, WindowSettings

EncoderSettings = Annotated[
    DanSettings | WindowSettings | RecurrentSettings | TransformerSettings | BackpackSettings,
    Field(discriminator="kind"),
]

PairSettings = Annotated[
    RecurrentPairSettings | TransformerPairSettings | BackpackPairSettings, Field(discriminator="kind")
]

# Encoders by kind.
ENCODERS: dict[str, Callable[..., CausalEncoder]] = {
    "dan": Dan,
    "window": Window,
    **dict.fromkeys(("rnn", "gru", "lstm"), Recurrent),
    "transformer": Transformer,
    "backpack": Backpack,
}

# Named sizes: width, layers, heads, context, senses; for recurrent encoders: width, layers.
SIZES = {
    "nano": (128, 4, 4, 128, 8),
    "tiny": (256, 5, 4, 256, 16),
    "micro": (384, 6, 6, 512, 16),
    "mini": (640, 8, 8, 512, 16),
    "small": (768, 12, 12, 512, 16),
}
RECURRENT_SIZES = {"nano": (128, 1), "tiny": (256, 2), "micro": (512, 2), "mini": (650, 2), "small": (1024, 2)}


def build_encoder(settings: EncoderSettings, vocabulary: int, *, causal: bool) -> CausalEncoder:
    """Return an encoder with initial weights."""
    return ENCODERS[settings.kind](settings, vocabulary, causal=causal)


def build_pair(settings: PairSettings, source_vocabulary: int, vocabulary: int) -> PairModel:
    """Return a pair model with initial weights."""
    match settings:
        case RecurrentPairSettings():
            return RecurrentPair(settings, source_vocabulary, vocabulary)
        case BackpackPairSettings():
            return BackpackPair(settings, source_vocabulary, vocabulary)
        case TransformerPairSettings(form="decoder-only"):
            # The context window contains source and target.
            doubled = settings.model_copy(update={"context": 2 * settings.context})
            return DecoderOnly(Transformer(doubled, vocabulary, causal=True))
        case TransformerPairSettings():
            return TransformerPair(
                settings, source_vocabulary, vocabulary, layers=settings.decoder_layers, shared=settings.shared
            )


def size_tree(kind: str, size: str) -> dict[str, int]:
    """Return the settings of a named size for a kind of encoder."""
    width, layers, heads, context, senses = SIZES[size]
    if kind in ("transformer", "backpack"):
        tree = {"width": width, "layers": layers, "heads": heads, "context": context}
        return {**tree, "senses": senses} if kind == "backpack" else tree
    if kind in ("rnn", "gru", "lstm"):
        width, layers = RECURRENT_SIZES[size]
        return {"width": width, "layers": layers}
    return {"width": width}
