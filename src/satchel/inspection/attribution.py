"""Attribution of a logit to the tokens of a text, for every encoder, by approximations on the embeddings.

Each method compares the embedding of a token with a reference embedding in its place: the mean of the embedding matrix,
or each of a sample of its rows. For a Backpack, `contributions` are exact.
Shapes: T time, D width, N reference embeddings, R rows of a batch, K integration steps.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from satchel import charts
from satchel.charts import html
from satchel.errors import SettingsError
from satchel.evaluation.similarity import spearman
from satchel.inspection.contributions import project
from satchel.inspection.subject import json_fields
from satchel.inspection.targets import Logit
from satchel.models.backpack import Backpack
from satchel.models.encoder import Encoder
from satchel.nn.inference import evaluation_mode
from satchel.predictor import Floats
from satchel.text.display import visible
from satchel.text.windows import Window

Method = Literal["occlusion", "gradient", "integrated"]
METHODS: tuple[Method, ...] = get_args(Method)
# Column of the exact contributions of a Backpack.
EXACT = "exact"
# Reference embedding: the mean of the embedding matrix, or the average result over a fixed sample of its rows.
Instead = Literal["mean", "words"]
INSTEADS: tuple[Instead, ...] = get_args(Instead)
SAMPLED_WORDS = 16

# Integrated gradients start with this number of steps and double it until the completeness gap is small, up to a
# maximum that counts the steps from all reference embeddings.
FIRST_STEPS = 8
MAX_STEPS = 1024
# The completeness gap is small below this fraction of `score - baseline`, or below that of the sum of magnitudes.
RELATIVE_GAP = 0.01
RELATIVE_GAP_OF_MAGNITUDES = 0.001
# Maximum number of embeddings in a batch.
BATCH_TOKENS = 1 << 11
# Maximum relative difference between encoding ids and encoding their embeddings; larger ones are not rounding errors.
ENCODING_TOLERANCE = 1e-3


class _OfLogit:
    """Names of the explained logit and of the words and tokens of its text."""

    explained: Logit

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the text."""
        return tuple(word.text for word in self.explained.words)

    @property
    def positions(self) -> tuple[int, ...]:
        """Index of each word in the text, from 0."""
        return tuple(range(len(self.words)))

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the text."""
        return self.explained.tokens

    @property
    def window(self) -> Window:
        """The tokens of the text that are used."""
        return self.explained.window

    @property
    def target(self) -> str:
        """The class of the logit."""
        return self.explained.target

    @property
    def versus(self) -> str | None:
        """The class whose logit is subtracted."""
        return self.explained.versus


@dataclass(frozen=True)
class Attributions(_OfLogit):
    """Attribution of a logit to tokens (`token_values`) and words (`values`) by one method.

    `score` is the logit of the text, `baseline` the logit with a reference embedding at every position. A method is
    complete if its values sum to `score - baseline`.
    """

    method: Method
    explained: Logit
    token_values: Floats
    score: float
    baseline: float
    steps: int | None = None  # of integrated gradients

    @cached_property
    def values(self) -> Floats:
        """Attribution to each word: the sum over its tokens."""
        return self.explained.by_word(self.token_values)

    @property
    def gap(self) -> float:
        """Completeness gap: the sum of the values minus `score - baseline`."""
        return float(self.token_values.sum()) - (self.score - self.baseline)

    @property
    def is_complete(self) -> bool:
        """Whether the completeness gap is small."""
        magnitudes = RELATIVE_GAP_OF_MAGNITUDES * float(np.abs(self.token_values).sum())
        return abs(self.gap) <= max(RELATIVE_GAP * abs(self.score - self.baseline), magnitudes)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user."""
        if self.steps is None or self.is_complete:
            return self.explained.notes
        return (*self.explained.notes, f"{self.method}: the completeness gap is large after {self.steps} steps")

    def check(self) -> str:
        """Return the sum of the values and the completeness gap as a line of text."""
        whole = self.score - self.baseline
        relative = f" ({abs(self.gap / whole):.1%})" if whole else ""
        steps = f", {self.steps} steps" if self.steps else ""
        total = f"sum {self.token_values.sum():+.4f} of {whole:+.4f}"
        return f"{self.method}: {total}, completeness gap {self.gap:+.4f}{relative}{steps}"

    def _repr_html_(self) -> str:
        texts = [f"{value:+.2f}" for value in self.values.tolist()]
        return html.tinted(self.words, self.values.tolist(), texts) + html.lines([self.check(), *self.notes])


@dataclass(frozen=True)
class ComparedAttributions(_OfLogit):
    """Attributions of the same logit by several methods and, for a Backpack, its exact contributions.

    `exact` are the centred contributions by word, and `bias` the rest of the logit; `exact` is None for other models.
    """

    explained: Logit
    score: float
    baseline: float
    methods: tuple[Attributions, ...]
    exact: Floats | None = None
    bias: float = 0.0

    @cached_property
    def correlations(self) -> dict[str, float]:
        """Rank correlation (Spearman) of each method with `exact`."""
        return {} if self.exact is None else {each.method: spearman(each.values, self.exact) for each in self.methods}

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user."""
        return tuple(dict.fromkeys(note for each in self.methods for note in each.notes))

    @property
    def by_method(self) -> dict[str, Floats]:
        """The values by word of each method, and of `exact`."""
        values: dict[str, Floats] = {each.method: each.values for each in self.methods}
        return values if self.exact is None else {**values, EXACT: self.exact}

    @property
    def title(self) -> str:
        """Title of charts."""
        return f"Attribution of the logit of {self._name} to words"

    @property
    def _name(self) -> str:
        versus = "" if self.versus is None else f" minus that of {visible(self.versus, spaces=True)}"
        return visible(self.target, spaces=True) + versus

    def only(self, method: str) -> "ComparedAttributions":
        """Return the result of one method, or of the exact contributions."""
        chosen = tuple(each for each in self.methods if each.method == method)
        return replace(self, methods=chosen, exact=self.exact if method == EXACT else None)

    @property
    def columns(self) -> list[str]:
        """The names of the columns of `rows` and `sums`."""
        return ["word", *self.by_method]

    def rows(self) -> list[list[str]]:
        """Return a table row for each word: the word and its value by each method."""
        words = [visible(word, spaces=True) for word in self.words]
        return [_row(*row) for row in zip(words, *self.by_method.values(), strict=True)]

    def sums(self) -> list[list[str]]:
        """Return table rows for each method: sum of the values, the rest of the logit, completeness gap, and logit.

        The rest is the logit with reference embeddings; for the exact contributions it is their bias. The sum and the
        rest minus the gap are the logit.
        """
        sums = {name: float(values.sum()) for name, values in self.by_method.items()}
        rests = {name: self.bias if name == EXACT else self.baseline for name in sums}
        parts = {
            "(sum of words)": sums,
            "(baseline; exact: bias)" if EXACT in sums else "(baseline)": rests,
            "(completeness gap)": {name: sums[name] + rests[name] - self.score for name in sums},
            "(logit)": dict.fromkeys(sums, self.score),
        }
        return [_row(name, *values.values()) for name, values in parts.items()]

    def picture(self) -> "charts.Figure":
        """Return a heat map: words by methods."""
        return charts.attribution(self.words, self.by_method, self.title, notes=[*self.checks(), *self.notes])

    def checks(self) -> list[str]:
        """Return lines of text: score and baseline, the completeness of each method, the rank correlations."""
        lines = [f"logit of {self._name}: {self.score:+.4f}; with reference embeddings: {self.baseline:+.4f}"]
        lines += [each.check() for each in self.methods]
        if self.exact is not None:
            lines.append(f"exact: sum {self.exact.sum():+.4f}; the logit is this plus the bias {self.bias:+.4f}")
            if self.versus is None:
                lines.append(
                    "the bias of exact contains the mean of all logits, which a difference of two logits excludes"
                )
            correlations = ", ".join(f"{method} {value:.2f}" for method, value in self.correlations.items())
            lines += [f"rank correlation with the exact contributions: {correlations}"] if correlations else []
        return lines

    def document(self) -> dict[str, Any]:
        """Return the keys of `look attribution --json`."""
        return {
            **json_fields(
                self, "words", "positions", "target", "versus", "score", "baseline", "exact", "notes", "window"
            ),
            "logit": self.score,
            "methods": {
                each.method: {
                    **json_fields(each, "values", "tokens", "token_values", "gap", "steps"),
                    "rank_correlation": self.correlations.get(each.method),
                }
                for each in self.methods
            },
            "bias": None if self.exact is None else self.bias,
        }

    def _repr_html_(self) -> str:
        return html.table(self.columns, [*self.rows(), *self.sums()]) + html.lines([*self.checks(), *self.notes])


def _row(name: str, *values: float) -> list[str]:
    return [name, *(f"{value:+.4f}" for value in values)]


def compare_methods(
    explained: Logit,
    methods: Sequence[Method] = METHODS,
    *,
    instead: Instead = "mean",
    steps: int | None = None,
    raw: bool = False,
) -> ComparedAttributions:
    """Return the attributions of a logit by several methods and, for a Backpack, its exact contributions.

    The contributions are centred, or with `raw` the raw ones.
    """
    attributions = tuple(attribute(explained, method, instead=instead, steps=steps) for method in methods)
    compared = ComparedAttributions(explained, attributions[0].score, attributions[0].baseline, attributions)
    if not isinstance(explained.encoder, Backpack):
        return compared
    (exact,) = project([explained])
    shown = exact.decomposition(raw=raw)
    return replace(compared, exact=shown.values.sum(axis=1), bias=shown.bias)


def compare_chosen(
    explained: Logit, method: str | None = None, *, instead: Instead = "mean", raw: bool = False
) -> ComparedAttributions:
    """Return the result of one method, or of `exact` contributions, by name; None for all of them."""
    chosen = [each for each in METHODS if method in (None, each)] or METHODS
    result = compare_methods(explained, chosen, instead=instead, raw=raw)
    if method is None:
        return result
    if method not in result.by_method:
        raise SettingsError(f"--method {method}: unknown value", f"expected {', '.join(result.by_method)}")
    return result.only(method)


def attribute(
    explained: Logit, method: Method = "integrated", *, instead: Instead = "mean", steps: int | None = None
) -> Attributions:
    """Return the attribution of a logit to the tokens of its text.

    `occlusion` is the decrease of the logit if the embedding of a token is replaced by the reference. `gradient` is
    the gradient at the text times the difference to the reference. `integrated` averages the gradient along the
    straight line from the reference (Gauss-Legendre quadrature); by default with as many steps as completeness needs.
    """
    for name, value, known in (("method", method, METHODS), ("instead", instead, INSTEADS)):
        if value not in known:
            raise SettingsError(f"{name}={value} is unknown; expected {' or '.join(known)}")
    if steps is not None and steps < 1:
        raise SettingsError(f"steps={steps} is too small; expected 1 or more")
    check_contextualise(explained)
    with _gradients(explained.encoder):
        x_TD, references_ND = _embeddings(explained), _references(explained.encoder, instead)
        with torch.no_grad():
            score = _values(explained, x_TD[None]).item()
            baselines = [_values(explained, each_D.expand(1, *x_TD.shape)).item() for each_D in references_ND]
        baseline = float(np.mean(baselines))
        if method == "occlusion":
            return Attributions(method, explained, _occlusion(explained, x_TD, references_ND), score, baseline)
        if method == "gradient":
            mean_1D, one = references_ND.mean(dim=0, keepdim=True), np.ones(1)
            return Attributions(method, explained, _gradient(explained, x_TD, mean_1D, one, one), score, baseline)
        count = steps or FIRST_STEPS
        while True:
            values_T = _gradient(explained, x_TD, references_ND, *_quadrature(count))
            attributions = Attributions(method, explained, values_T, score, baseline, count)
            if steps or attributions.is_complete or 2 * count * len(references_ND) > MAX_STEPS:
                return attributions
            count *= 2


def check_contextualise(explained: Logit) -> None:
    """Raise an error if the encodings of a text cannot be computed from its embeddings."""
    encoder = explained.encoder
    if isinstance(encoder, Backpack) and encoder.settings.sense_source == "table":
        raise SettingsError(
            "model.sense_source=table: senses are looked up by token id, not computed from embeddings",
            "use `satchel look contributions`, which is exact, or train with model.sense_source=network",
        )
    remedy = "contextualise() applied to embeddings must equal encode() applied to their ids"
    with _gradients(encoder), torch.no_grad():
        parts = explained.ids_T[None].split(_window(explained), dim=1)
        expected_RTD = torch.cat([encoder.encode(part) for part in parts], dim=1)
        try:
            difference = (_encode(explained, _embeddings(explained)[None]) - expected_RTD).abs().max()
        except (AssertionError, NotImplementedError) as error:
            raise SettingsError(f"{type(encoder).__name__} cannot encode embeddings: {error}", remedy) from error
    if difference > ENCODING_TOLERANCE * expected_RTD.abs().max():
        raise SettingsError(f"{type(encoder).__name__} encodes embeddings differently from their ids", remedy)


# --- computation ----------------------------------------------------------------------------------------


def _values(explained: Logit, x_RTD: Tensor) -> Tensor:
    """Return the logit for each row of embeddings, in double precision."""
    used = explained.weights_T.nonzero().flatten()
    encoded_RTD = _encode(explained, x_RTD)[:, used].double()
    return (
        torch.einsum("rtd,t->rd", encoded_RTD, explained.weights_T[used]) @ explained.direction_D + explained.constant
    )


def _encode(explained: Logit, x_RTD: Tensor) -> Tensor:
    """Return the encodings of rows of embeddings. Long texts are encoded in windows of the context length."""
    encoder, parts = explained.encoder, x_RTD.split(_window(explained), dim=1)
    return torch.cat([encoder.encoded(encoder.contextualise(part)) for part in parts], dim=1)


def _window(explained: Logit) -> int:
    return explained.encoder.context or len(explained.ids_T)


def _embeddings(explained: Logit) -> Tensor:
    """Return the embeddings (T, D) of the text."""
    with torch.no_grad():
        return explained.encoder.embed(explained.ids_T[None])[0]


def _references(encoder: Encoder, instead: Instead) -> Tensor:
    """Return the reference embeddings (N, D). The sample is the same in each call."""
    table_VD = encoder.embedding.weight.detach()
    if instead == "mean":
        return table_VD.double().mean(dim=0, keepdim=True).to(table_VD)
    sample = torch.randperm(len(table_VD), generator=torch.Generator().manual_seed(0))[:SAMPLED_WORDS]
    return table_VD[sample.to(table_VD.device)]


def _occlusion(explained: Logit, x_TD: Tensor, references_ND: Tensor) -> Floats:
    """Return the mean decrease of the logit over all references that replace a token, for each token."""
    positions = torch.arange(len(x_TD), device=x_TD.device).repeat_interleave(len(references_ND))
    references = references_ND.repeat(len(x_TD), 1)
    decreases, whole_R = [], x_TD.new_empty(0)
    rows = _batch_rows(x_TD)
    with torch.no_grad():
        for positions_R, references_RD in zip(positions.split(rows), references.split(rows), strict=True):
            x_RTD = x_TD.repeat(len(positions_R), 1, 1)
            if len(whole_R) != len(positions_R):
                # Rounding depends on the row and the size of a batch: compare each row with the same row of the text.
                whole_R = _values(explained, x_RTD)
            x_RTD[torch.arange(len(positions_R)), positions_R] = references_RD
            decreases.append(whole_R - _values(explained, x_RTD))
    return np.asarray(torch.cat(decreases).view(len(x_TD), -1).mean(dim=1).cpu().numpy())


def _gradient(explained: Logit, x_TD: Tensor, references_ND: Tensor, points_K: Floats, weights_K: Floats) -> Floats:
    """Return the weighted mean gradient at K points between reference (0) and text (1), times their difference.

    The result is the mean over all references.
    """
    count, steps = len(references_ND), len(points_K)
    points, weights = (torch.as_tensor(each, device=x_TD.device).repeat(count) for each in (points_K, weights_K))
    references = references_ND.repeat_interleave(steps, dim=0)
    values_T = torch.zeros(len(x_TD), dtype=torch.float64, device=x_TD.device)
    for part in torch.arange(count * steps).split(_batch_rows(x_TD)):
        references_R1D, points_R11 = references[part, None], points[part, None, None].to(x_TD)
        difference_RTD = x_TD - references_R1D
        x_RTD = (references_R1D + points_R11 * difference_RTD).requires_grad_()
        (gradients_RTD,) = torch.autograd.grad(_values(explained, x_RTD).sum(), x_RTD)
        values_T += torch.einsum("r,rtd,rtd->t", weights[part] / count, gradients_RTD.double(), difference_RTD.double())
    return np.asarray(values_T.cpu().numpy())


def _batch_rows(x_TD: Tensor) -> int:
    return max(1, BATCH_TOKENS // len(x_TD))


@cache
def _quadrature(steps: int) -> tuple[Floats, Floats]:
    """Return the points and weights of Gauss-Legendre quadrature on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(steps)
    return (points + 1) / 2, weights / 2


@contextlib.contextmanager
def _gradients(encoder: Encoder) -> Iterator[None]:
    """Set the encoder to evaluation mode with gradients enabled, also inside `torch.inference_mode`."""
    # cuDNN's recurrent layers have a backward pass in training mode only.
    with (
        evaluation_mode(encoder),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.backends.cudnn.flags(enabled=False),
    ):
        yield
