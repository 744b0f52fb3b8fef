"""Settings of runs that train a network. Imports torch, as the settings of an encoder are defined beside it."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from satchel.models.build import EncoderSettings, PairSettings
from satchel.models.settings import ModelSettings
from satchel.models.transformer import TransformerSettings
from satchel.models.transformer_pair import TransformerPairSettings
from satchel.text.tokenizer_training import default_size
from satchel.training.settings import RunSettings, TrainingSettings

# Vocabulary size assumed if the settings give none: the default for 1 MB of text.
DEFAULT_VOCABULARY = default_size(1 << 20)


class CustomSettings(ModelSettings):
    """An encoder defined by the user's program."""

    kind: Literal["own"] = Field("own", description="encoder defined by your program")
    name: str = Field(description="qualified name of its class")


class NetworkRunSettings(RunSettings):
    """Base class of the settings of networks."""

    training: TrainingSettings = TrainingSettings()

    @property
    def vocabulary(self) -> int:
        """Expected number of token ids, including the document boundary."""
        return (self.tokenizer.size or DEFAULT_VOCABULARY) + 1


class EncoderRunSettings(NetworkRunSettings):
    """Settings of a network with one encoder."""

    task: Literal["lm", "tag", "classify"] = Field("lm", description="lm, tag or classify")
    model: Annotated[EncoderSettings | CustomSettings, Field(discriminator="kind")] = Field(
        default_factory=TransformerSettings
    )

    @model_validator(mode="after")
    def _check_ngram(self) -> "EncoderRunSettings":
        if self.model.ngram and self.task != "lm":
            raise ValueError(f"model.ngram: only language models use an n-gram model, and the task is {self.task}")
        return self


class PairRunSettings(NetworkRunSettings):
    """Settings of a translator."""

    task: Literal["translate"] = Field("translate", description="translator")
    model: PairSettings = Field(default_factory=TransformerPairSettings)

    @model_validator(mode="after")
    def _check_combinations(self) -> "PairRunSettings":
        model = self.model
        if model.ngram:
            raise ValueError("model.ngram: only language models use an n-gram model, and the task is translate")
        if self.training.compile:
            raise ValueError("training.compile: translators cannot be compiled")
        decoder_only = isinstance(model, TransformerPairSettings) and model.form == "decoder-only"
        if not self.tokenizer.joint and (model.shared or decoder_only):
            raise ValueError("model.shared: source and target share embeddings, which needs tokenizer.joint=true")
        return self
