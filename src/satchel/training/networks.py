"""Build encoders from settings, and count their costs."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from torch import nn

from satchel import tensors
from satchel.errors import RunError, SettingsError
from satchel.models.build import build_encoder
from satchel.models.costs import Costs, count, meta_device
from satchel.models.encoder import CausalEncoder, Encoder
from satchel.ngram.tables import Table, table_from_arrays
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.training.network_settings import CustomSettings, EncoderRunSettings

# Returns a sample of the network's output at a training step: a text, and for translators its source.
Sampler: TypeAlias = Callable[[int], dict[str, str]]


class Sizes(NamedTuple):
    """Numbers of token ids, including the boundary, and of labels."""

    vocabulary: int
    source_vocabulary: int
    labels: int = 0


def encoder_costs(settings: EncoderRunSettings, vocabulary: int, *, causal: bool) -> Costs:
    """Return the costs of an encoder; of a causal one, including the logits."""
    if isinstance(settings.model, CustomSettings):
        raise SettingsError("model.kind=own: the costs of an encoder defined by your program are unknown")
    with meta_device():
        encoder = build_encoder(settings.model, vocabulary, causal=causal)
    return count(encoder, getattr(settings.model, "context", 1), tied_logits=encoder.embedding if causal else None)


def new_encoder(settings: EncoderRunSettings, vocabulary: int, custom_encoder: Any, *, causal: bool) -> Any:
    """Return a new Encoder, or if `causal` a CausalEncoder.

    `custom_encoder` is an encoder of the user's program, or a function of the vocabulary size that returns one.
    """
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
    path = run.path / runs.NGRAM
    arrays, metadata = tensors.read(path)
    if metadata.get("tokenizer") != run.tokenizer.sha256:
        raise RunError("belongs to another run: it has a different tokenizer", where=str(path))
    return table_from_arrays(arrays, run.tokenizer.size + 1, order, str(path))
