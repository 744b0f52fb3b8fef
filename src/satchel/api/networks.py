"""The settings of networks, which need torch: imported only where a network is asked for."""

from typing import Literal

from pydantic import Field

from satchel.api.settings import SharedSettings
from satchel.models.build import EncoderSettings, build_encoder
from satchel.models.costs import Costs, count, weightless
from satchel.models.presets import PRESETS as PRESETS
from satchel.models.presets import Preset as Preset
from satchel.models.transformer import TransformerSettings
from satchel.text.tokenizer import default_size

# Where nobody said how many tokens there are: as many as a megabyte of text gets.
USUAL_SIZE = default_size(1 << 20)


class NetworkSettings(SharedSettings):
    """The whole tree of settings of a network."""

    task: Literal["lm"] = Field("lm", description="a language model")
    model: EncoderSettings = Field(default_factory=TransformerSettings)

    @property
    def vocabulary(self) -> int:
        """How many ids there are, the document boundary among them."""
        return (self.tokenizer.size or USUAL_SIZE) + 1


def network_costs(settings: NetworkSettings) -> Costs:
    """Return what the network would cost, without making it."""
    length = getattr(settings.model, "context", 1)
    with weightless():
        encoder = build_encoder(settings.model, settings.vocabulary, causal=True)
    return count(encoder, length, tied_logits=encoder.embedding)
