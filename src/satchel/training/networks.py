"""Networks: their settings, encoders and costs. Imports torch, as the settings of an encoder are defined beside it."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import Field, model_validator
from torch import nn

from satchel.errors import RunError, SettingsError
from satchel.models.build import EncoderSettings, PairSettings, build_encoder
from satchel.models.costs import Costs, count
from satchel.models.encoder import CausalEncoder, Encoder
from satchel.models.settings import ModelSettings
from satchel.models.transformer import TransformerSettings
from satchel.models.transformer_pair import TransformerPairSettings
from satchel.ngram.tables import Table, table_from_arrays
from satchel.nn.shapes import shapes_only
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
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
        if getattr(self.model, "causal", None) is not None and self.task != "lm":
            raise ValueError(
                f"model.causal: only language models have a causal mask, and the task is {self.task}: "
                "each position sees the whole text"
            )
        if self.model.ngram and not self.is_causal:
            raise ValueError("model.ngram: a network with model.causal=false is not interpolated with an n-gram model")
        return self

    @property
    def is_causal(self) -> bool:
        """Whether a position sees no later ones; True for language models unless model.causal is false."""
        return self.task == "lm" and getattr(self.model, "causal", None) is not False


class PairRunSettings(NetworkRunSettings):
    """Settings of a translator."""

    task: Literal["translate"] = Field("translate", description="translator")
    model: PairSettings = Field(default_factory=TransformerPairSettings)

    @model_validator(mode="after")
    def _check_combinations(self) -> "PairRunSettings":
        model = self.model
        if model.ngram:
            raise ValueError("model.ngram: only language models use an n-gram model, and the task is translate")
        if getattr(model, "causal", None) is not None:
            raise ValueError("model.causal: only language models can be trained without causal mask")
        if self.training.compile:
            raise ValueError("training.compile: translators cannot be compiled")
        decoder_only = isinstance(model, TransformerPairSettings) and model.form == "decoder-only"
        if not self.tokenizer.joint and (model.shared or decoder_only):
            raise ValueError("model.shared: source and target share embeddings, which needs tokenizer.joint=true")
        return self


# Returns a sample of the network's output at a training step: a text, and for translators its source.
Sampler: TypeAlias = Callable[[int], dict[str, str]]


class Sizes(NamedTuple):
    """Numbers of token ids, including the boundary, and of labels."""

    vocabulary: int
    source_vocabulary: int
    labels: int = 0


def encoder_costs(settings: EncoderRunSettings, vocabulary: int) -> Costs:
    """Return the costs of an encoder; of a language model, including the logits."""
    if isinstance(settings.model, CustomSettings):
        raise SettingsError("model.kind=own: the costs of an encoder defined by your program are unknown")
    with shapes_only():
        encoder = build_encoder(settings.model, vocabulary, causal=settings.is_causal)
    tied_logits = encoder.embedding if settings.task == "lm" else None
    return count(encoder, getattr(settings.model, "context", 1), tied_logits=tied_logits)


def new_encoder(settings: EncoderRunSettings, vocabulary: int, custom_encoder: Any) -> Any:
    """Return a new Encoder, or for a causal language model a CausalEncoder.

    `custom_encoder` is an encoder of the user's program, or a function of the vocabulary size that returns one.
    """
    causal = settings.is_causal
    if not isinstance(settings.model, CustomSettings):
        return build_encoder(settings.model, vocabulary, causal=causal)
    if custom_encoder is None:
        raise RunError(
            f"its encoder {settings.model.name} is not part of satchel", "pass the encoder: model=MyEncoder(...)"
        )
    encoder = custom_encoder if isinstance(custom_encoder, nn.Module) else custom_encoder(vocabulary)
    expected = CausalEncoder if causal else Encoder
    if not isinstance(encoder, expected):
        raise SettingsError(f"model: found {type(encoder).__name__}, expected a satchel.models.{expected.__name__}")
    if encoder.causal != causal or encoder.embedding.num_embeddings != vocabulary:
        raise SettingsError(
            f"model: found an encoder with {encoder.embedding.num_embeddings:,} ids and causal={encoder.causal}, "
            f"expected {vocabulary:,} ids and causal={causal}",
            "pass a function of the number of ids: model=lambda vocabulary: MyEncoder(vocabulary)",
        )
    return encoder


def read_ngram(run: RunFolder, order: int) -> Table:
    """Return the n-gram model interpolated with the network of a run."""
    arrays = run.arrays(runs.NGRAM)
    return table_from_arrays(arrays, run.tokenizer.size + 1, order, str(run.path / runs.NGRAM))
