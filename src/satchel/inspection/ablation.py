"""Ablation of attention heads: models whose heads output zero, and the cost of removing each head.

Shapes: B batch, H heads, T time, V width of the values of a head.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
from torch import Tensor, nn

from satchel import charts
from satchel.data.tokens import TokenFile, decode_documents
from satchel.errors import SettingsError
from satchel.inspection.patched import Patch, patched, with_network
from satchel.inspection.sites import site_paths
from satchel.inspection.subject import Subject, unsupported
from satchel.nn.attention import MultiHead
from satchel.predictor import Floats
from satchel.progress import Progress, silent

# Layer and index of a head.
Head = tuple[int, int]
# Number of tokens of a text on which the cost of a head is measured.
SAMPLED_TOKENS = 20_000
Measure = Literal["bits_per_byte", "bits_per_token", "accuracy"]
S = TypeVar("S", bound=Subject)


@dataclass(frozen=True)
class HeadCost:
    """The measure without a head, and its deterioration: increase of the bits or decrease of the accuracy."""

    layer: int
    head: int
    value: float
    cost: float


@dataclass(frozen=True)
class HeadCosts:
    """The cost of removing each head; `whole` is the measure of the unchanged model."""

    measure: Measure
    whole: float
    rows: tuple[HeadCost, ...]

    @property
    def costs(self) -> Floats:
        """The costs as an array (layers, heads); nan for heads that do not exist."""
        layers, heads = (1 + max(getattr(row, name) for row in self.rows) for name in ("layer", "head"))
        costs_LH = np.full((layers, heads), np.nan)
        for row in self.rows:
            costs_LH[row.layer, row.head] = row.cost
        return costs_LH

    def document(self) -> dict[str, Any]:
        """Return the keys of `look ablation --json`."""
        return {"measure": self.measure, "whole": self.whole, "heads": [asdict(row) for row in self.rows]}

    def picture(self) -> "charts.Figure":
        """Return a heat map of the costs: layers by heads."""
        return charts.head_ablation(self.costs, unit=self.measure.replace("_", " "))


def heads_of(network: nn.Module) -> list[Head]:
    """Return all heads of `trace.attention`; for a translator, those of the self-attention of the decoder."""
    layers = _attention_layers(network).values()
    return [(number, head) for number, layer in enumerate(layers) for head in range(layer.heads)]


def zero_heads(network: nn.Module, heads: Iterable[Head]) -> dict[str, Patch]:
    """Return the patches, by site, that set the outputs of heads to zero."""
    layers, known = _attention_layers(network), set(heads_of(network))
    by_layer: defaultdict[int, list[int]] = defaultdict(list)
    for layer, head in heads:
        if (layer, head) not in known:
            count = next(iter(layers.values())).heads if layers else 0
            expected = f"layers 0 to {len(layers) - 1} with heads 0 to {count - 1}" if layers else "a model with heads"
            raise SettingsError(f"head {head} of layer {layer} does not exist; expected {expected}")
        by_layer[layer].append(head)
    names = list(layers)
    return {f"{names[layer]}.outputs": partial(_zero, heads=numbers) for layer, numbers in by_layer.items()}


def _zero(outputs_BHTV: Tensor, heads: list[int]) -> Tensor:
    return outputs_BHTV.index_fill(1, outputs_BHTV.new_tensor(heads).long(), 0)


def _attention_layers(network: nn.Module) -> dict[str, MultiHead]:
    """Return the self-attention layers by public name, without those of the source encoder of a translator."""
    paths = {name.removesuffix(".outputs"): path.removesuffix(".outputs") for name, path in site_paths(network).items()}
    layers = {
        name: network.get_submodule(path)
        for name, path in paths.items()
        if name.endswith("attention") and "reader." not in name
    }
    return {name: layer for name, layer in layers.items() if isinstance(layer, MultiHead)}


def without_heads(subject: S, heads: Iterable[Head] = ()) -> S:
    """Return a copy of a model whose given heads output zero. It shares the parameters of the model."""
    heads = list(heads)
    if not heads:
        return with_network(subject, subject.network)
    _check_heads(subject)
    return with_network(subject, patched(subject.network, zero_heads(subject.network, heads)))


def head_costs(
    subject: S, measure: Measure, measured: Callable[[S], float], *, progress: Progress = silent
) -> HeadCosts:
    """Return the cost of removing each head; `measured` computes the measure of a model."""
    heads = _check_heads(subject)
    whole, sign = measured(subject), -1 if measure == "accuracy" else 1
    rows = []
    for number, (layer, head) in enumerate(heads):
        progress("removing heads", number / len(heads))
        value = measured(without_heads(subject, [(layer, head)]))
        rows.append(HeadCost(layer, head, value, sign * (value - whole)))
    return HeadCosts(measure, whole, tuple(rows))


def _check_heads(subject: Subject) -> list[Head]:
    heads = [] if subject.network is None else heads_of(subject.network)
    if not heads:
        raise unsupported(subject, "has no attention heads", "train with --model transformer or backpack")
    return heads


def bits_measure(subject: Subject, tokens: TokenFile) -> tuple[Measure, Callable[[Any], float]]:
    """Return the measure of a language model on the first tokens of a text, and the function that computes it.

    It is bits per byte, or bits per token if the tokenizer does not preserve the text. The text is cut at the end of a
    document if there is one.
    """
    boundary = subject.tokenizer.boundary
    ids = tokens.ids[: SAMPLED_TOKENS + 1]
    (ends,) = (ids[1:] == boundary).nonzero()
    if len(ids) < len(tokens.ids) and len(ends):
        ids = ids[: ends[-1] + 2]
    size = sum(len(text.encode()) for text in decode_documents(ids, subject.tokenizer))
    if subject.settings.data.documents == "line":
        size += int((ids[1:] == boundary).sum())  # line ends
    is_lossless = tokens.counts.lossless and size > 0
    units = size if is_lossless else len(ids) - 1

    def measured(each: Subject) -> float:
        return -float(each.predictor.score(ids).logprobs.sum()) / math.log(2) / units

    return "bits_per_byte" if is_lossless else "bits_per_token", measured
