"""Contributions of word senses to a logit of a Backpack. They are exact: they sum to the logit.

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
    """Contribution of each sense of each word to a logit: `values` (W, N), whose sum plus `constant` is `logit`.

    `centred` is `values` minus the contribution of the mean sense vector of the vocabulary; the sum of the subtracted
    parts is `shared` (N,). `constant` is the bias of the head. A word has one or more tokens. `window` are the tokens
    of the text that are used.
    """

    words: tuple[str, ...]
    target: str
    versus: str | None
    values: Floats
    centred: Floats
    shared: Floats
    constant: float = 0.0
    notes: tuple[str, ...] = ()
    window: Window | None = None

    @property
    def logit(self) -> float:
        """The explained logit, or difference of logits."""
        return float(self.values.sum()) + self.constant

    @property
    def bias(self) -> float:
        """Part of the logit that is the same for all words."""
        return float(self.shared.sum())

    @property
    def title(self) -> str:
        """Title of charts."""
        versus = "" if self.versus is None else f" minus that of {visible(self.versus, spaces=True)}"
        return f"Contribution to the logit of {visible(self.target, spaces=True)}{versus}"

    def __sub__(self, other: "Contributions") -> "Contributions":
        """Return the contributions to the difference of two logits of the same text."""
        return replace(
            self, versus=other.target, **{name: getattr(self, name) - getattr(other, name) for name in PARTS}
        )

    def largest(self, count: int = LISTED_SENSES) -> list[tuple[str, int, float]]:
        """Return the words, senses and contributions of largest magnitude."""
        order = np.argsort(-np.abs(self.values), axis=None, kind="stable")[:count]
        cells = zip(*np.unravel_index(order, self.values.shape), strict=True)
        return [(self.words[word], int(sense), float(self.values[word, sense])) for word, sense in cells]

    def document(self) -> dict[str, Any]:
        """Return the keys of `look contributions --json`."""
        names = ("words", "target", "versus", "values", "centred", "bias", "constant", "logit", "notes", "window")
        return json_fields(self, *names)

    def picture(self) -> "charts.Figure":
        """Return a heat map of the contributions: words by senses."""
        return charts.sense_contributions(self.words, self.values, self.title).with_notes(self.notes)

    def _repr_html_(self) -> str:
        by_word = self.values.sum(axis=1).tolist()
        total = f"sum over words {sum(by_word):+.4f}, bias {self.constant:+.4f}, logit {self.logit:+.4f}"
        rows = [(visible(word, spaces=True), str(sense), f"{value:+.4f}") for word, sense, value in self.largest()]
        return (
            html.lines([self.title])
            + html.tinted(self.words, by_word, [f"{value:+.2f}" for value in by_word])
            + html.lines([total, *self.notes])
            + html.table(["word", "sense", "contribution"], rows)
        )


# The fields that are linear in the logit.
PARTS = ("values", "centred", "shared", "constant")


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


def label_contributions(subject: Subject, text: str) -> list[Contributions]:
    """Return the contributions to the logit of each label of a classifier."""
    backpack_of(subject)
    return project(label_logits(subject, text))


def above_mean(by_label: Sequence[Contributions]) -> list[Contributions]:
    """Return the contributions to each logit minus the mean over all labels, which does not affect the softmax."""
    means = {name: np.mean([getattr(each, name) for each in by_label], axis=0) for name in PARTS}
    return [replace(each, **{name: getattr(each, name) - mean for name, mean in means.items()}) for each in by_label]


def project(logits: Sequence[Logit]) -> list[Contributions]:
    """Return the contributions to each of several logits of the same text.

    The senses are projected on the directions of the logits. Long texts are encoded in windows of the context length.
    """
    first, directions_CD = logits[0], torch.stack([each.direction_D for each in logits])
    encoder = first.encoder
    assert isinstance(encoder, Backpack), "only the logits of a Backpack are sums over senses"
    shared_CN = (encoder.mean_senses() @ directions_CD.T).T
    values, centred, shared = [shared_CN[:, None][:, :0]], [shared_CN[:, None][:, :0]], torch.zeros_like(shared_CN)
    windows = zip(first.ids_T.split(encoder.context), first.weights_T.split(encoder.context), strict=True)
    for ids, weights in windows if len(first.ids_T) else ():
        counts_SN, senses_SND = sense_counts(encoder, ids, weights)
        units_CSN = torch.einsum("snd,cd->csn", senses_SND, directions_CD)
        values.append(counts_SN * units_CSN)
        centred.append(counts_SN * (units_CSN - shared_CN[:, None]))
        shared = shared + counts_SN.sum(dim=0) * shared_CN
    parts = zip(
        logits, _array(torch.cat(values, dim=1)), _array(torch.cat(centred, dim=1)), _array(shared), strict=True
    )
    return [
        Contributions(
            tuple(word.text for word in each.words),
            each.target,
            each.versus,
            each.by_word(values_SN),
            each.by_word(centred_SN),
            shared_N,
            each.constant,
            each.notes,
            each.window,
        )
        for each, values_SN, centred_SN, shared_N in parts
    ]


def by_position(network: LanguageNetwork, ids_T: Ids, target: int | None = None, versus: int | None = None) -> Floats:
    """Return the contributions (T, S, N) of each token to a logit at every position of a text, up to the context.

    The logit is that of `target`, by default of the following token, minus that of `versus`, by default the mean over
    the vocabulary.
    """
    encoder, outputs_VD = network.encoder, network.head.weight.detach().double()
    assert isinstance(encoder, Backpack), "only the logits of a Backpack are sums over senses"
    ids = torch.as_tensor(np.asarray(ids_T, np.int64), device=outputs_VD.device)
    targets_T = ids[1:] if target is None else torch.full_like(ids[1:], target)
    versus_D = outputs_VD.mean(dim=0) if versus is None else outputs_VD[versus]
    weights_NTS, senses_SND = record_senses(encoder, ids[:-1])
    units_TSN = torch.einsum("snd,td->tsn", senses_SND, outputs_VD[targets_T] - versus_D)
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
