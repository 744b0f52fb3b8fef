"""Contributions of word senses to a logit of a Backpack. They are exact: with the bias they sum to the logit.

Shapes: T time, S source time, N senses, D width, C classes, W words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from satchel import charts
from satchel.charts import html
from satchel.inspection.subject import Subject, backpack_of, json_fields
from satchel.inspection.targets import Logit, Target, find_logit, label_logits
from satchel.models.backpack import Backpack
from satchel.nn.inference import inference
from satchel.nn.sites import recording
from satchel.predictor import Floats, Ids
from satchel.tasks.language import LanguageNetwork
from satchel.text.display import visible
from satchel.text.windows import Window

# Number of senses listed in a notebook.
LISTED_SENSES = 8


@dataclass(frozen=True)
class Contributions:
    """Contribution of each sense of each word to a logit.

    `values` (W, N) are raw: with `constant`, the bias of the head, they sum to `logit`. `centred` (W, N) leaves out two
    constants: the mean of the output vectors of all classes, which does not affect the softmax, and the mean sense
    vector of the vocabulary, which all words share. With the sense weight w, the sense vector c, its mean m, the output
    vector e of the target and the mean output vector u (zero with `versus`):

        values = w c . e        centred = w (c - m) . (e - u)        bias = logit - sum of centred

    `shared_senses` is the sum of w m . (e - u), and `mean_logit` the sum of w c . u; with `constant` they are the parts
    of `bias`. A word has one or more tokens. `window` are the tokens of the text that are used.
    """

    words: tuple[str, ...]
    target: str
    versus: str | None
    values: Floats
    centred: Floats
    shared_senses: float
    mean_logit: float
    constant: float = 0.0
    notes: tuple[str, ...] = ()
    window: Window | None = None

    @property
    def positions(self) -> tuple[int, ...]:
        """Index of each word in the text, from 0."""
        return tuple(range(len(self.words)))

    @property
    def logit(self) -> float:
        """The explained logit, or difference of logits."""
        return float(self.values.sum()) + self.constant

    @property
    def bias(self) -> float:
        """The logit minus the sum of the centred contributions."""
        return self.shared_senses + self.mean_logit + self.constant

    @property
    def bias_parts(self) -> dict[str, float]:
        """The parts of the bias by name."""
        return {name: float(getattr(self, name)) for name in ("shared_senses", "mean_logit", "constant")}

    @property
    def title(self) -> str:
        """Title of charts."""
        versus = "" if self.versus is None else f" minus that of {visible(self.versus, spaces=True)}"
        return f"Contributions to the logit of {visible(self.target, spaces=True)}{versus}"

    def decomposition(self, *, raw: bool = False) -> "Decomposition":
        """Return the centred contributions and the bias; with `raw`, the raw ones and the bias of the head."""
        if raw:
            return Decomposition(self, self.values, self.constant, "head bias")
        return Decomposition(self, self.centred, self.bias, "bias")

    def __sub__(self, other: "Contributions") -> "Contributions":
        """Return the contributions to the difference of two logits of the same text."""
        return replace(
            self, versus=other.target, **{name: getattr(self, name) - getattr(other, name) for name in PARTS}
        )

    def document(self) -> dict[str, Any]:
        """Return the keys of `look contributions --json`."""
        names = ("words", "positions", "target", "versus", "values", "constant", "centred", "bias", "bias_parts")
        return json_fields(self, *names, "logit", "notes", "window")

    def picture(self, *, raw: bool = False) -> "charts.Figure":
        """Return a heat map of the contributions: words by senses, with totals by word."""
        shown = self.decomposition(raw=raw)
        return charts.sense_contributions(
            self.words, shown.values, self.title, bias=shown.bias, notes=[shown.summary, *self.notes]
        )

    def _repr_html_(self) -> str:
        shown = self.decomposition()
        by_word = shown.values.sum(axis=1).tolist()
        rows = [
            [visible(word, spaces=True), *map(str, place), f"{value:+.4f}"] for word, *place, value in shown.largest()
        ]
        return (
            html.lines([self.title])
            + html.tinted(self.words, by_word, [f"{value:+.2f}" for value in by_word])
            + html.lines([shown.summary, *self.notes])
            + html.table(["word", "position", "sense", "contribution"], rows)
        )


@dataclass(frozen=True)
class Decomposition:
    """Contributions (W, N) as displayed, and the rest of the logit with its name."""

    explained: Contributions
    values: Floats
    bias: float
    bias_name: str

    @property
    def summary(self) -> str:
        """The logit as a sum."""
        is_raw = self.bias_name == "head bias"
        name = "logit" if self.explained.versus is None else "difference of logits"
        parts = [f"{part.replace('_', ' ')} {value:+.4f}" for part, value in self.explained.bias_parts.items() if value]
        return (
            f"{name} {self.explained.logit:+.4f} = {'raw' if is_raw else 'centred'} contributions "
            f"{self.values.sum():+.4f} + {self.bias_name} {self.bias:+.4f}"
            + (f" ({', '.join(parts)})" if parts and not is_raw else "")
        )

    def largest(self, count: int = LISTED_SENSES) -> list[tuple[str, int, int, float]]:
        """Return the words, their positions, senses and contributions of largest magnitude."""
        order = np.argsort(-np.abs(self.values), axis=None, kind="stable")[:count]
        cells = zip(*np.unravel_index(order, self.values.shape), strict=True)
        words, positions = self.explained.words, self.explained.positions
        return [(words[word], positions[word], int(sense), float(self.values[word, sense])) for word, sense in cells]


# The fields that are linear in the logit.
PARTS = ("values", "centred", "shared_senses", "mean_logit", "constant")


def contributions(
    subject: Subject,
    text: str,
    target: Target | None = None,
    versus: str | int | None = None,
    start: int | None = None,
) -> Contributions:
    """Return the contributions to the logit of a target given a text, or to its difference from another logit."""
    backpack_of(subject)
    return project([find_logit(subject, text, target, versus, start)])[0]


def label_contributions(subject: Subject, text: str, means_ND: Tensor | None = None) -> list[Contributions]:
    """Return the contributions to the logit of each label of a classifier.

    `means_ND` are the `mean_senses` of the Backpack, computed once for several texts.
    """
    backpack_of(subject)
    return project(label_logits(subject, text), means_ND)


def project(logits: Sequence[Logit], means_ND: Tensor | None = None) -> list[Contributions]:
    """Return the contributions to each of several logits of the same text.

    The senses are projected on the directions of the logits. Long texts are encoded in windows of the context length.
    `means_ND` are the `mean_senses` of the Backpack.
    """
    first = logits[0]
    directions_CD, means_CD = (
        torch.stack([getattr(each, name) for each in logits]) for name in ("direction_D", "mean_D")
    )
    encoder = first.encoder
    assert isinstance(encoder, Backpack), "only the logits of a Backpack are sums over senses"
    shared_CN = (directions_CD - means_CD) @ (encoder.mean_senses() if means_ND is None else means_ND).T
    values, centred = [shared_CN[:, None][:, :0]], [shared_CN[:, None][:, :0]]
    shared_C, mean_C = (torch.zeros_like(shared_CN[:, 0]) for _ in range(2))
    windows = zip(first.ids_T.split(encoder.context), first.weights_T.split(encoder.context), strict=True)
    for ids, weights in windows if len(first.ids_T) else ():
        counts_SN, senses_SND = sense_counts(encoder, ids, weights)
        units_CSN, mean_units_CSN = (
            torch.einsum("snd,cd->csn", senses_SND, each_CD) for each_CD in (directions_CD, means_CD)
        )
        values.append(counts_SN * units_CSN)
        centred.append(counts_SN * (units_CSN - mean_units_CSN - shared_CN[:, None]))
        shared_C = shared_C + shared_CN @ counts_SN.sum(dim=0)
        mean_C = mean_C + (counts_SN * mean_units_CSN).sum(dim=(1, 2))
    return [
        Contributions(
            tuple(word.text for word in each.words),
            each.target,
            each.versus,
            each.by_word(values_SN),
            each.by_word(centred_SN),
            float(shared),
            float(mean),
            each.constant,
            each.notes,
            each.window,
        )
        for each, values_SN, centred_SN, shared, mean in zip(
            logits, _array(torch.cat(values, dim=1)), _array(torch.cat(centred, dim=1)), shared_C, mean_C, strict=True
        )
    ]


def by_position(
    network: LanguageNetwork,
    ids_T: Ids,
    target: int | None = None,
    versus: int | None = None,
    means_ND: Tensor | None = None,
) -> Floats:
    """Return the contributions (T, S, N) of each token to a logit at every position of a text, up to the context.

    The logit is that of `target`, by default of the following token, minus that of `versus`. They are raw; with
    `means_ND`, the mean senses of the vocabulary, they are centred.
    """
    encoder, outputs_VD = network.encoder, network.head.weight.detach().double()
    assert isinstance(encoder, Backpack), "only the logits of a Backpack are sums over senses"
    ids = torch.as_tensor(np.asarray(ids_T, np.int64), device=outputs_VD.device)
    targets_T = ids[1:] if target is None else torch.full_like(ids[1:], target)
    directions_TD = outputs_VD[targets_T]
    if versus is not None:
        directions_TD = directions_TD - outputs_VD[versus]
    elif means_ND is not None:
        directions_TD = directions_TD - outputs_VD.mean(dim=0)
    weights_NTS, senses_SND = record_senses(encoder, ids[:-1])
    units_TSN = torch.einsum("snd,td->tsn", senses_SND if means_ND is None else senses_SND - means_ND, directions_TD)
    return _array(weights_NTS.permute(1, 2, 0) * units_TSN)


# --- senses and their weights ---------------------------------------------------------------------------


def sense_counts(backpack: Backpack, ids_T: Tensor, weights_T: Tensor) -> tuple[Tensor, Tensor]:
    """Return the total sense weights (S, N) in a weighted sum of encodings, and the sense vectors (S, N, D)."""
    weights_NTS, senses_SND = record_senses(backpack, ids_T)
    return torch.einsum("nts,t->sn", weights_NTS, weights_T.double()), senses_SND


def record_senses(backpack: Backpack, ids_T: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sense weights (N, T, S) at each position of a text, and the sense vectors (S, N, D)."""
    with inference(backpack), recording(backpack, "senses", "sense_weights") as recorded:
        backpack.encode(ids_T[None])
    _, inverse_S = ids_T.unique(return_inverse=True)
    return recorded["sense_weights"][0][0].double() * backpack.scale, recorded["senses"][0].double()[inverse_S]


def _array(tensor: Tensor) -> Floats:
    return np.asarray(tensor.cpu().numpy())
