"""Settings shared by the encoders."""

from typing import Any, Literal

from pydantic import Field

from satchel.config import Settings

Pooling = Literal["mean", "root"]

DROPOUT: Any = Field(0.0, ge=0, lt=1, description="Fraction of activations dropped in training")


class ModelSettings(Settings):
    """Settings of the network around an encoder."""

    ngram: int = Field(
        0, ge=0, le=10, description="lm: order of the n-gram model interpolated with the network; 0: none"
    )
    pooling: Pooling = Field(
        "mean", description="classify: divide the sum of the encodings by their number (mean) or its square root (root)"
    )
