"""What the settings of every encoder have."""

from typing import Literal

from pydantic import Field

from satchel.config import Settings

Pooling = Literal["mean", "root"]


class ModelSettings(Settings):
    """What a network is made of, besides its encoder."""

    ngram: int = Field(0, ge=0, le=10, description="lm: stand on an n-gram of this order; 0 on none")
    pooling: Pooling = Field(
        "mean", description="classify: the mean of a text's vectors, or their sum over the root of their number"
    )
