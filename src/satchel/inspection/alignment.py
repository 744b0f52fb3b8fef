"""Alignment of a translation: attention weights or, for a Backpack, exact contributions of source words.

Shapes: S source tokens with the boundary, T target tokens with the boundary, X source and target tokens, N senses,
D width, L layers, H heads.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from satchel import charts
from satchel.data.batches import split_documents
from satchel.errors import SettingsError
from satchel.evaluation.lexicon import Lexicon, learn_lexicon
from satchel.inspection.subject import Subject, json_fields
from satchel.inspection.trace import one_pair, pair_windows
from satchel.models.backpack_pair import BackpackPair
from satchel.models.pair import DecoderOnly
from satchel.models.recurrent_pair import RecurrentPair
from satchel.nn.attention import MultiHead
from satchel.nn.inference import inference
from satchel.nn.sites import recording, sites
from satchel.predictor import Floats, Ids
from satchel.runs import folder as runs
from satchel.tasks.translation import TranslationNetwork
from satchel.text.windows import Window, pair_documents, pair_notes
from satchel.text.words import words_of


@dataclass(frozen=True)
class Alignment:
    """Attention weights from target words to source words or, for a Backpack, contributions of source words.

    Contributions (`is_exact`) and `others`, those of the preceding target words, sum to the logit of a target word
    minus the mean logit of the vocabulary.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    values: Floats  # (target, source)
    is_exact: bool = False
    others: Floats | None = None  # (target,)
    # Tokens of the texts that are used.
    windows: tuple[Window, Window] | None = None  # source, target

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the parts of the texts that are not used."""
        return () if self.windows is None else pair_notes(*self.windows)

    def document(self) -> dict[str, Any]:
        """Return the alignment as JSON, rounded to six decimals."""
        document: dict[str, Any] = {
            **json_fields(self, "source", "target"),
            "values": [[round(float(value), 6) for value in row] for row in self.values],
            "exact": self.is_exact,
        }
        if self.windows is not None:
            document |= pair_documents(*self.windows)
        if self.others is not None:
            document["others"] = [round(float(value), 6) for value in self.others]
        return document

    def picture(self) -> "charts.Figure":
        """Return a heat map: target words by source words."""
        figure = charts.alignment(self.source, self.target, self.values, signed=self.is_exact)
        return figure.with_notes(self.notes)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.picture()._repr_mimebundle_(include, exclude)


def align(
    subject: Subject, source: str, target: str, *, layer: int | None = None, head: int | None = None
) -> Alignment:
    """Return the alignment of a source and a target.

    For a Backpack these are contributions; with a layer or a head, attention weights of its Transformer.
    """
    tokenizers = subject.source_tokenizer, subject.tokenizer
    boundaries = tokenizers[0].boundary, tokenizers[1].boundary
    (ids_S, source_window), (ids_T, window) = pair_windows(subject, source, target)
    # The end of a truncated translation is not predicted.
    predicted = [*ids_T.tolist(), boundaries[1]][: len(ids_T) + window.is_whole]
    sources = words_of(tokenizers[0], [*ids_S.tolist(), boundaries[0]])
    targets = words_of(tokenizers[1], predicted)
    starts = [word.start for word in targets]
    is_exact = isinstance(subject.network.pair, BackpackPair) and layer is None and head is None
    if is_exact:
        values_TX = contributions(subject.network, ids_S, ids_T, boundaries, above_mean=True)[: len(predicted)].sum(
            axis=2
        )
        values_TS, others = values_TX[:, : len(ids_S) + 1], values_TX[:, len(ids_S) + 1 :].sum(axis=1)
    else:
        values_TS = attention_weights(subject.network, ids_S, ids_T, boundaries, layer, head)[: len(predicted)]
    values = np.add.reduceat(values_TS, [word.start for word in sources], axis=1)
    values = np.add.reduceat(values, starts, axis=0)
    if not is_exact:
        # Contributions to the tokens of a target word add up; its attention weights are a mean and sum to 1.
        values /= np.array([[word.stop - word.start] for word in targets])
    return Alignment(
        tuple(word.text for word in sources),
        tuple(word.text for word in targets),
        values,
        is_exact,
        np.add.reduceat(others, starts) if is_exact else None,
        (source_window, window),
    )


def attention_weights(
    network: TranslationNetwork,
    source: Ids,
    target: Ids,
    boundaries: tuple[int, int],
    layer: int | None = None,
    head: int | None = None,
) -> Floats:
    """Return the attention weights (T, S) of each predicted target token on the source tokens.

    The default is the mean over all layers and heads.
    """
    pattern = _site_pattern(network, layer, head)
    batch = one_pair(network, source, target, boundaries)
    with inference(network), recording(network, pattern) as recorded:
        network.encoded(batch)
    by_layer = [torch.cat(values, dim=-2)[0] for values in recorded.values()]
    weights_LHTS = torch.stack([weights if weights.dim() == 3 else weights[None] for weights in by_layer])
    if layer is not None:
        weights_LHTS = weights_LHTS[layer : layer + 1]
    if head is not None:
        weights_LHTS = weights_LHTS[:, head : head + 1]
    mean_TS = weights_LHTS.mean(dim=(0, 1))
    if isinstance(network.pair, DecoderOnly):
        # One sequence of source and target: the rows of the target, and the columns of the source.
        mean_TS = mean_TS[len(source) :, : len(source) + 1]
    return np.asarray(mean_TS.double().cpu().numpy())


def _site_pattern(network: TranslationNetwork, layer: int | None, head: int | None) -> str:
    pair = network.pair
    if isinstance(pair, RecurrentPair):
        if pair.score is None:
            raise SettingsError("this translator has no attention", "train with model.attention set")
        if layer is not None or head is not None:
            raise SettingsError("--layer, --head: a recurrent translator has one attention layer without heads")
        return "pair.alignment"
    suffix = ".attention.weights" if isinstance(pair, DecoderOnly) else ".cross.weights"
    layers = sum(name.endswith(suffix) and "blocks." in name and ".reader." not in name for name in sites(network))
    heads = next(module.heads for module in network.modules() if isinstance(module, MultiHead))
    for name, number, count in (("layer", layer, layers), ("head", head, heads)):
        if number is not None and not 0 <= number < count:
            raise SettingsError(f"--{name} {number} does not exist; expected {name}s 0 to {count - 1}")
    return f"*blocks.*{suffix}"


def contributions(
    network: TranslationNetwork, source: Ids, target: Ids, boundaries: tuple[int, int], *, above_mean: bool = False
) -> Floats:
    """Return the contribution (T, X, N) of each sense of each token to the logit of each target token.

    The tokens are those of the source with its boundary, then the boundary and the preceding tokens of the target.
    They sum to the logit; with `above_mean`, to the logit minus the mean logit of the vocabulary.
    """
    pair, batch = network.pair, one_pair(network, source, target, boundaries)
    assert isinstance(pair, BackpackPair), "only the logits of a Backpack are sums over senses"
    with inference(network), recording(pair, "source_senses", "senses", "sense_weights") as recorded:
        network.encoded(batch)
        senses = [
            recorded[name][0][ids.unique(return_inverse=True)[1][0]]
            for name, ids in (("source_senses", batch.sources), ("senses", batch.inputs))
        ]
        outputs_VD = network.head.weight.double()
        directions_TD = outputs_VD[batch.targets[0]]
        if above_mean:
            directions_TD = directions_TD - outputs_VD.mean(dim=0)
        units_TXN = torch.einsum("xnd,td->txn", torch.cat(senses).double(), directions_TD)
        values_TXN = pair.scale * recorded["sense_weights"][0][0].double().permute(1, 2, 0) * units_TXN
    return np.asarray(values_TXN.cpu().numpy())


def training_lexicon(subject: Subject) -> Lexicon:
    """Return the source token with the largest translation probability for each target token of the training pairs."""
    files = (runs.TRAIN_SOURCES, subject.source_tokenizer), (runs.TRAIN_TOKENS, subject.tokenizer)
    sources, targets = (
        split_documents(runs.run_tokens(subject.folder, name, tokenizer).ids, tokenizer.boundary)
        for name, tokenizer in files
    )
    return learn_lexicon(sources.to_list(), targets.to_list(), subject.tokenizer.size + 1)
