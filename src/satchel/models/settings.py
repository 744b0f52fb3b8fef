"""Settings shared by encoders and pair models."""

from typing import Any, Literal

from pydantic import Field

from satchel.config import Settings

Pooling = Literal["mean", "root"]

# Maximum sizes, checked before a network is built.
LARGEST_WIDTH, LARGEST_CONTEXT, MOST_LAYERS = 1 << 16, 1 << 20, 512

DROPOUT: Any = Field(0.0, ge=0, lt=1, description="Fraction of activations dropped in training")
DECODER_LAYERS: Any = Field(None, ge=0, le=512, description="Number of decoder blocks; default the same as layers")
SHARED: Any = Field(True, description="Source and target tokens share one embedding")
PAIR_CONTEXT: Any = Field(
    256, ge=1, le=LARGEST_CONTEXT, description="Maximum length in tokens; longer texts are translated in parts"
)


class ModelSettings(Settings):
    """Settings of the network around an encoder."""

    ngram: int = Field(
        0, ge=0, le=10, description="lm: order of the n-gram model interpolated with the network; 0: none"
    )
    pooling: Pooling = Field(
        "mean", description="classify: divide the sum of the encodings by their number (mean) or its square root (root)"
    )
