"""Networks: their settings, what is built of them, and what that costs. It needs torch: it is imported where needed."""

from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import nn

from satchel import tensors
from satchel.api.settings import SharedSettings
from satchel.errors import RunError, SettingsError
from satchel.models.build import EncoderSettings, build_encoder
from satchel.models.contract import CausalEncoder, Encoder
from satchel.models.costs import Costs, count, weightless
from satchel.models.presets import PRESETS as PRESETS
from satchel.models.presets import Preset as Preset
from satchel.models.settings import ModelSettings
from satchel.models.transformer import TransformerSettings
from satchel.ngram.tables import Table, table_from_arrays
from satchel.runs import folder as runs
from satchel.tasks.classification import ClassificationNetwork, NetworkLabeller
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from satchel.tasks.tagging import NetworkTagger, TaggingNetwork
from satchel.text.tokenizer import Tokenizer, default_size
from satchel.training import saving
from satchel.training.settings import TrainingSettings

Network = LanguageNetwork | TaggingNetwork | ClassificationNetwork

# Where nobody said how many tokens there are: as many as a megabyte of text gets.
USUAL_SIZE = default_size(1 << 20)


class OwnSettings(ModelSettings):
    """An encoder of the user's own: only its name is known here."""

    kind: Literal["own"] = Field("own", description="an encoder of your own")
    name: str = Field(description="its class")


class NetworkSettings(SharedSettings):
    """The whole tree of settings of a network."""

    task: Literal["lm", "tag", "classify"] = Field("lm", description="lm, tag or classify")
    model: Annotated[EncoderSettings | OwnSettings, Field(discriminator="kind")] = Field(
        default_factory=TransformerSettings
    )
    training: TrainingSettings = TrainingSettings()

    @model_validator(mode="after")
    def _stands_where_it_can(self) -> "NetworkSettings":
        if self.model.ngram and self.task != "lm":
            raise ValueError(f"model.ngram: only language models stand on n-grams, and the task is {self.task}")
        return self

    @property
    def vocabulary(self) -> int:
        """How many ids there are, the document boundary among them, as far as is known before there is a text."""
        return (self.tokenizer.size or USUAL_SIZE) + 1


def network_costs(settings: NetworkSettings, vocabulary: int) -> Costs:
    """Return what the network would cost, without making it."""
    if isinstance(settings.model, OwnSettings):
        raise SettingsError("an encoder of your own is only known to your program")
    length = getattr(settings.model, "context", 1)
    is_causal = settings.task == "lm"
    with weightless():
        encoder = build_encoder(settings.model, vocabulary, causal=is_causal)
    return count(encoder, length, tied_logits=encoder.embedding if is_causal else None)


def build_network(
    settings: NetworkSettings, vocabulary: int, labels: int, own: Any = None, ngram: Table | None = None
) -> Network:
    """Return a new network for the task of some settings; its weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.training.seed)
        encoder = _encoder(settings, vocabulary, own)
        if settings.task == "lm":
            assert isinstance(encoder, CausalEncoder)
            return LanguageNetwork(encoder, ngram=ngram)
        if settings.task == "tag":
            return TaggingNetwork(encoder, labels)
        return ClassificationNetwork(encoder, labels)


def _encoder(settings: NetworkSettings, vocabulary: int, own: Any) -> Encoder:
    causal = settings.task == "lm"
    if not isinstance(settings.model, OwnSettings):
        return build_encoder(settings.model, vocabulary, causal=causal)
    if own is None:
        raise RunError(
            f"its encoder is {settings.model.name}, which is not part of satchel", "give one: model=MyEncoder(...)"
        )
    encoder = own if isinstance(own, nn.Module) else own(vocabulary)
    if not isinstance(encoder, CausalEncoder if causal else Encoder):
        wanted = "CausalEncoder" if causal else "Encoder"
        raise SettingsError(f"model: found {type(encoder).__name__}, expected a satchel.models.{wanted}")
    if encoder.causal != causal or encoder.embedding.num_embeddings != vocabulary:
        found = f"{encoder.embedding.num_embeddings:,} ids{', causal' if encoder.causal else ''}"
        raise SettingsError(
            f"model: its encoder is for {found}; expected {vocabulary:,} ids{', causal' if causal else ', not causal'}",
            "give a function of the number of ids instead: model=lambda vocabulary: MyEncoder(vocabulary)",
        )
    return encoder


def load_network(
    run: Path, settings: NetworkSettings, tokenizer: Tokenizer, labels: int, arrays: dict[str, tensors.Array], own: Any
) -> Network:
    """Return the network of a run, whose weights are these."""
    ngram = read_ngram(run, settings.model.ngram, tokenizer) if settings.model.ngram else None
    network = build_network(settings, tokenizer.size + 1, labels, own, ngram)
    saving.load_weights(network, arrays, str(run / runs.MODEL))
    return network.eval()


def read_ngram(run: Path, order: int, tokenizer: Tokenizer) -> Table:
    """Return the n-gram that the network of a run stands on."""
    path = run / runs.NGRAM
    arrays, metadata = tensors.read(path)
    if metadata.get("tokenizer") != tokenizer.sha256:
        raise RunError("belongs to another run: its tokenizer is another one", where=str(path))
    return table_from_arrays(arrays, tokenizer.size + 1, order, str(path))


def predictor_of(network: Network, boundary: int) -> NetworkPredictor | NetworkLabeller | NetworkTagger:
    """Return what evaluation and generation ask."""
    match network:
        case LanguageNetwork():
            return NetworkPredictor(network, boundary)
        case TaggingNetwork():
            return NetworkTagger(network, boundary)
        case ClassificationNetwork():
            return NetworkLabeller(network, boundary)
