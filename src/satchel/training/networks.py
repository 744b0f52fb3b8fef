"""Networks: their settings, what is built of them, and what that costs. It needs torch: it is imported where needed."""

from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import nn

from satchel import tensors
from satchel.errors import RunError, SettingsError
from satchel.inspection import trace
from satchel.models.build import EncoderSettings, PairSettings, build_encoder, build_pair
from satchel.models.costs import Costs, count, meta_device
from satchel.models.encoder import CausalEncoder, Encoder
from satchel.models.presets import PRESETS as PRESETS
from satchel.models.presets import Preset as Preset
from satchel.models.settings import ModelSettings
from satchel.models.transformer import TransformerSettings
from satchel.models.transformer_pair import TransformerPairSettings
from satchel.ngram.tables import Table, table_from_arrays
from satchel.nn.sites import sites
from satchel.runs import folder as runs
from satchel.tasks.classification import ClassificationNetwork
from satchel.tasks.language import LanguageNetwork
from satchel.tasks.tagging import TaggingNetwork
from satchel.tasks.translation import TranslationNetwork
from satchel.text.tokenizer import Tokenizer, default_size
from satchel.training import saving
from satchel.training.run_settings import SharedSettings
from satchel.training.settings import TrainingSettings

Network = LanguageNetwork | TaggingNetwork | ClassificationNetwork | TranslationNetwork

# Where nobody said how many tokens there are: as many as a megabyte of text gets.
USUAL_SIZE = default_size(1 << 20)


class OwnSettings(ModelSettings):
    """An encoder of the user's own: only its name is known here."""

    kind: Literal["own"] = Field("own", description="an encoder of your own")
    name: str = Field(description="its class")


class TrainedSettings(SharedSettings):
    """What the settings of all networks have."""

    training: TrainingSettings = TrainingSettings()

    @property
    def vocabulary(self) -> int:
        """How many ids there are, the document boundary among them, as far as is known before there is a text."""
        return (self.tokenizer.size or USUAL_SIZE) + 1


class NetworkSettings(TrainedSettings):
    """The whole tree of settings of a network that reads one text."""

    task: Literal["lm", "tag", "classify"] = Field("lm", description="lm, tag or classify")
    model: Annotated[EncoderSettings | OwnSettings, Field(discriminator="kind")] = Field(
        default_factory=TransformerSettings
    )

    @model_validator(mode="after")
    def _stands_where_it_can(self) -> "NetworkSettings":
        if self.model.ngram and self.task != "lm":
            raise ValueError(f"model.ngram: only language models stand on n-grams, and the task is {self.task}")
        return self


class TranslationSettings(TrainedSettings):
    """The whole tree of settings of a network that reads one text and writes another."""

    task: Literal["translate"] = Field("translate", description="a translator of texts")
    model: PairSettings = Field(default_factory=TransformerPairSettings)

    @model_validator(mode="after")
    def _fits(self) -> "TranslationSettings":
        model = self.model
        if model.ngram:
            raise ValueError("model.ngram: only language models stand on n-grams, and the task is translate")
        if self.training.compile:
            raise ValueError("training.compile: pair models are not compiled")
        one = isinstance(model, TransformerPairSettings) and model.form == "decoder-only"
        if not self.tokenizer.joint and (model.shared or one):
            raise ValueError("model.shared: words that have other tokens cannot have the same vectors")
        return self


def network_costs(settings: TrainedSettings, vocabulary: int) -> Costs:
    """Return what the network would cost, without making it; of a pair, for a source and a target token."""
    if isinstance(settings, TranslationSettings):
        with meta_device():
            pair = build_pair(settings.model, vocabulary, vocabulary)
        return count(pair, settings.model.context, tied_logits=pair.words)
    assert isinstance(settings, NetworkSettings)
    if isinstance(settings.model, OwnSettings):
        raise SettingsError("an encoder of your own is only known to your program")
    length = getattr(settings.model, "context", 1)
    is_causal = settings.task == "lm"
    with meta_device():
        encoder = build_encoder(settings.model, vocabulary, causal=is_causal)
    return count(encoder, length, tied_logits=encoder.embedding if is_causal else None)


def site_names(settings: TrainedSettings, vocabulary: int, labels: int) -> list[str]:
    """Return the names of the network's sites, as traces have them, without making it."""
    with meta_device():
        if isinstance(settings, TranslationSettings):
            return [trace.short(name) for name in sites(build_translator(settings, vocabulary, vocabulary))]
        assert isinstance(settings, NetworkSettings)
        if isinstance(settings.model, OwnSettings):
            return []
        return [trace.short(name) for name in sites(build_network(settings, vocabulary, labels))]


def build_network(
    settings: NetworkSettings, vocabulary: int, labels: int, own: Any = None, ngram: Table | None = None
) -> LanguageNetwork | TaggingNetwork | ClassificationNetwork:
    """Return a new network for the task of some settings; its weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.training.seed)
        encoder = _encoder(settings, vocabulary, own)
        if settings.task == "lm":
            assert isinstance(encoder, CausalEncoder)
            return LanguageNetwork(encoder, ngram=ngram)
        if settings.task == "tag":
            return TaggingNetwork(encoder, labels)
        return ClassificationNetwork(encoder, labels, settings.model.pooling)


def build_translator(settings: TranslationSettings, source_vocabulary: int, vocabulary: int) -> TranslationNetwork:
    """Return a new network that translates; its weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.training.seed)
        return TranslationNetwork(build_pair(settings.model, source_vocabulary, vocabulary))


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


def load_translator(
    run: Path,
    settings: TranslationSettings,
    tokenizers: tuple[Tokenizer, Tokenizer],
    arrays: dict[str, tensors.Array],
) -> TranslationNetwork:
    """Return the network of a run that translates, whose weights are these; sources and targets have their tokens."""
    network = build_translator(settings, *(tokenizer.size + 1 for tokenizer in tokenizers))
    saving.load_weights(network, arrays, str(run / runs.MODEL))
    return network.eval()


def load_network(
    run: Path, settings: NetworkSettings, tokenizer: Tokenizer, labels: int, arrays: dict[str, tensors.Array], own: Any
) -> LanguageNetwork | TaggingNetwork | ClassificationNetwork:
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
