"""Traces: the values at all sites of a network in one forward pass over a text.

Shapes: T time, S source time, H heads, D width, V vocabulary, G gates, N senses.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from satchel import charts
from satchel.charts import html
from satchel.data.examples import tokenize_texts
from satchel.data.tagged import tokenize_tagged
from satchel.errors import SettingsError
from satchel.evaluation.likelihood import SEES_TARGETS
from satchel.inspection.heads import GENERAL, ChosenHead, choose_head, same
from satchel.inspection.sites import site_paths, unknown_site
from satchel.inspection.subject import Subject
from satchel.inspection.targets import inner_ids
from satchel.nn.inference import inference
from satchel.nn.sites import recording
from satchel.predictor import Floats, Ids
from satchel.tasks.translation import PairBatch, TranslationNetwork, pair_batch
from satchel.text.display import with_roles
from satchel.text.tokenizer import Tokenizer
from satchel.text.windows import Window, pair_documents, pair_notes, select_window, whole_window

# Sites of the hidden states. They are small and recorded immediately; other sites are recorded on first use.
HIDDEN = ("*embedded", "*blocks.*.output", "*.states", "*encoded")
# Sites whose first axis is the unique tokens of the batch instead of the batch.
BY_UNIQUE_TOKEN = ("senses", "source_senses", "sense_network.*", "source_sense_network.*")

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Targets:
    """The predicted tokens of a traced text, its tags or its label, with ids and surprisal in nats.

    `notes` holds further values by name: the weight of the network interpolated with an n-gram model (`gate`), or the
    `order` of the n-gram that was used.
    """

    tokens: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    surprise: Floats = field(default_factory=lambda: np.empty(0))
    notes: Mapping[str, Array] = field(default_factory=dict)


class Trace:
    """The values at the sites of a network in a forward pass over one text.

    `trace[name]` is the value at a site as an array without the batch axis, `trace.tensor(name)` the same as a tensor,
    `trace.sites` the names of all sites, `trace.window` the traced part of the text. Values of quadratic size are not
    stored in advance: the first access runs the forward pass again and records them.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        network: nn.Module | None = None,
        batch: Tensor | PairBatch | None = None,
        *,
        source: Sequence[str] = (),
        targets: Targets | None = None,
        window: Window | None = None,
        source_window: Window | None = None,
        remarks: Sequence[str] = (),
    ) -> None:
        self.tokens, self.source = tuple(tokens), tuple(source)
        self.targets = targets or Targets()
        self.window, self.source_window = window or whole_window(len(self.tokens)), source_window
        self._remarks = tuple(remarks)
        self._network, self._batch = network, batch
        self._paths = {} if network is None else site_paths(network)
        self._values: dict[str, Tensor] = {}
        self.read(*HIDDEN)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user, for example on the parts of the texts that are not traced."""
        return (*pair_notes(self.source_window, self.window), *self._remarks)

    def windows(self) -> dict[str, dict[str, int]]:
        """Return the traced windows as fields of JSON: `window`, and for a translator `source_window`."""
        return pair_documents(self.source_window, self.window)

    def __repr__(self) -> str:
        return f"<Trace of {len(self.tokens):,} tokens, {len(self._paths):,} sites>"

    def _repr_html_(self) -> str:
        targets, bits = self.targets, self.targets.surprise / math.log(2)
        parts = [html.lines([repr(self), *self.notes])]
        if targets.tokens:
            values = [f"{value:.1f}" for value in bits]
            parts += [html.tinted(targets.tokens, bits.tolist(), values), html.lines(["surprisal in bits"])]
        layers = {name: len(getattr(self, name)) for name in ("attention", "source_attention", "cross")}
        available = {
            **{f"trace.{name}[layer, head]": f"{n} layer{'s' * (n > 1)}" if n else "" for name, n in layers.items()},
            "trace.hidden[site]": f"{len(self.hidden):,} sites" if self.hidden else "",
            "trace.gates[site]": ", ".join(self._ending("gates")),
            "trace.sense_weights": "of each sense of each token" if "sense_weights" in self._paths else "",
            "trace.logits": "of all classes" if "logits" in self._paths else "",
            **{f"trace.targets.notes[{name!r}]": "of each token" for name in targets.notes},
        }
        parts.append(html.table(["value", "available"], [(name, text) for name, text in available.items() if text]))
        if self._paths:
            parts.append(html.folded("trace[site]: all sites", html.lines(self._paths)))
        return "".join(parts)

    # --- sites

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of all sites."""
        return tuple(self._paths)

    def __getitem__(self, name: str) -> Array:
        return np.asarray(self.tensor(name).cpu().numpy())

    def tensor(self, name: str) -> Tensor:
        """Return the value at a site."""
        if name not in self._paths:
            raise unknown_site(name, self._network)
        if name not in self.read(name):
            raise SettingsError(f"site {name} has no value: this network does not use it in its forward pass")
        return self._values[name]

    def read(self, *patterns: str) -> dict[str, Tensor]:
        """Return the values at all sites whose names match a pattern (`*.weights`), in one forward pass."""
        names = [name for name in self._paths if _matches(name, patterns)]
        missing = {name: self._paths[name] for name in names if name not in self._values}
        if missing and self._network is not None:
            with inference(self._network), recording(self._network, *missing.values()) as recorded:
                self._network(self._batch)
            for name, path in missing.items():
                if values := recorded[path]:
                    self._values[name] = values[0] if _matches(name, BY_UNIQUE_TOKEN) else _concatenated(values)
        return {name: self._values[name] for name in names if name in self._values}

    def discard(self, *patterns: str) -> None:
        """Drop the recorded values at sites whose names match a pattern."""
        self._values = {name: value for name, value in self._values.items() if not _matches(name, patterns)}

    def _ending(self, suffix: str) -> list[str]:
        return [name for name in self._paths if name == suffix or name.endswith(f".{suffix}")]

    # --- frequently used values

    @property
    def attention(self) -> "AttentionMaps":
        """Self-attention weights by layer and head; for a translator, those of the target."""
        return self.maps("own")

    @property
    def source_attention(self) -> "AttentionMaps":
        """Self-attention weights of the source of a translation."""
        return self.maps("source")

    @property
    def cross(self) -> "AttentionMaps":
        """Cross-attention weights from the target to the source of a translation."""
        return self.maps("cross")

    def maps(self, which: str | None = None) -> "AttentionMaps":
        """Return attention weights: self-attention (`own`), that of the `source`, `cross`-attention, or of `senses`.

        The default is the first of own, cross and senses that the model has.
        """
        weights = self._ending("weights")
        cross = [*self._ending("cross.weights"), *self._ending("alignment")]
        source = [name for name in weights if "reader." in name]
        own = [name for name in weights if name not in (*source, *cross)]
        if self.source:
            names = "decoder", "encoder"
        else:
            names = "contextualiser" if any(name.startswith("contextualiser.") for name in own) else "", ""
        kinds = {
            "own": (own, self.tokens, self.tokens, names[0]),
            "source": (source, self.source, self.source, names[1]),
            "cross": (cross, self.tokens, self.source, "cross-attention"),
            "senses": (self._ending("sense_weights"), self.tokens, (*self.source, *self.tokens), "sense attention"),
        }
        available = [name for name, (sites, *_) in kinds.items() if sites]
        if which is None:
            which = next((name for name in ("own", "cross", "senses") if name in available), "own")
        if which not in kinds:
            raise SettingsError(f"which={which}: expected own, source, cross or senses")
        return AttentionMaps(self, *kinds[which], which, available)

    @property
    def hidden(self) -> dict[str, Array]:
        """The hidden states (T, D) by site, from the embedding to the input of the head."""
        names = sorted(self.read(*HIDDEN), key=lambda name: name.endswith("encoded"))
        return {name: self[name] for name in names}

    @property
    def gates(self) -> dict[str, Array]:
        """The gates (T, G, D) of recurrent layers by site."""
        return {name: self[name] for name in self._ending("gates")}

    @property
    def sense_weights(self) -> Array:
        """The sense weights (N, T, S) of each source token at each position."""
        return self["sense_weights"]

    @property
    def logits(self) -> Array:
        """The logits of the next token (T, V), of the tags at each position, or of the labels."""
        return self["logits"]

    @property
    def surprise(self) -> Floats:
        """Surprisal of each of `targets.tokens` in nats."""
        return self.targets.surprise

    # --- figures

    def attention_map(
        self, layer: int | None = None, head: int | None = None, which: str | None = None, *, mean: bool = False
    ) -> "charts.Figure":
        """Return a heat map of attention weights, with selectors of layer and head if none is given.

        Without a head, the head of `maps(which).choose(layer)` is shown first; with `mean`, the mean over all heads, or
        over those of the layer.
        """
        maps = self.maps(which)
        view = maps.view(layer, head, mean=mean)
        if layer is not None and (head is not None or maps.heads == 1):
            figure = charts.attention_map(maps.rows, maps.columns, maps[layer, head or 0], view.title, view.notes)
        else:
            heads = maps.named(layer, head)
            figure = charts.attention_maps(
                maps.rows, maps.columns, heads, maps.title, shown=view.shown, notes=view.notes
            )
        return figure.with_notes(self.notes)

    def head_lines(
        self, layer: int | None = None, head: int | None = None, which: str | None = None
    ) -> "charts.Figure":
        """Return lines from each query token to the tokens it attends to, for one head."""
        maps = self.maps(which)
        view = maps.view(layer, head)
        heads = maps.named(layer, head)
        figure = charts.head_lines(maps.rows, maps.columns, heads, maps.title, shown=view.shown, notes=view.notes)
        return figure.with_notes(self.notes)

    def grid(self, layer: int | None = None, which: str | None = None) -> "charts.Figure":
        """Return a grid of small heat maps, one for each head."""
        maps = self.maps(which)
        title = f"{maps.title} per {maps.unit}"
        return charts.heads_grid(maps.rows, maps.columns, maps.named(layer), title).with_notes(self.notes)

    def surprise_strip(self) -> "charts.Figure":
        """Return the text with each token coloured by its surprisal in bits."""
        bits = (self.surprise / math.log(2)).tolist()
        return charts.surprise_strip(self.targets.tokens, bits).with_notes(self.notes)


class AttentionView(NamedTuple):
    """The head or mean that a view shows first: names of layer and head, title, and notes on the choice."""

    shown: tuple[str, str]
    title: str
    notes: tuple[str, ...] = ()
    choice: ChosenHead | None = None


class AttentionMaps:
    """Attention weights by layer: `maps[layer]` is (H, T, S), `maps[layer, head]` is (T, S); recorded on first use.

    `rows` are the T query tokens, `columns` the S key tokens. `module` is the part of the network that has the
    attention, such as `contextualiser`; empty for the encoder itself. Senses of a Backpack count as heads.
    """

    def __init__(
        self,
        trace: Trace,
        names: Sequence[str],
        rows: Sequence[str],
        columns: Sequence[str],
        module: str,
        which: str,
        available: Sequence[str],
    ) -> None:
        self._trace, self.names, self.module = trace, tuple(names), module
        self.which, self._available = which, tuple(available)
        self.rows, self.columns = tuple(rows), tuple(columns)

    @property
    def unit(self) -> str:
        """What a head is called: head, or sense."""
        return "sense" if self.which == "senses" else "head"

    @property
    def title(self) -> str:
        """Title of figures."""
        return {
            "own": "Self-attention weights",
            "source": "Self-attention weights",
            "cross": "Cross-attention weights",
            "senses": "Sense attention weights",
        }[self.which]

    def name(self, layer: int, head: int) -> tuple[str, str]:
        """Return the names of a layer and a head, such as `contextualiser layer 0` and `head 3`."""
        number = "" if self.which == "senses" else f"layer {layer}"
        return f"{self.module} {number}".strip(), f"{self.unit} {head}"

    def named(
        self, layer: int | None = None, head: int | None = None
    ) -> Iterator[tuple[tuple[int | str, int | str], Array]]:
        """Return (names of layer and head, weights) of the heads of `select`."""
        return ((self.name(*place), weights_TS) for place, weights_TS in self.select(layer, head))

    def choose(self, layer: int | None = None) -> ChosenHead:
        """Return the head that is shown by default, among all heads or those of a layer, and the reason.

        It is the head with the largest ratio of pattern weight to uniform attention over patterns other than `first`
        and `new` with at least 10 queries, otherwise the head with the lowest mean entropy.
        """
        self._check()
        is_square = self.rows == self.columns
        # Masked weights are exactly 0.
        causal = is_square and not np.triu(self[layer or 0], 1).any()
        expected = {name: pattern(self.rows) for name, pattern in GENERAL.items()} if is_square else {}
        if self.which == "cross" and len(self._trace.targets.tokens) == len(self.rows):
            # Queries are compared as the tokens that they predict.
            expected = {"same": same(self._trace.targets.tokens, self.columns)}
        return choose_head(_Selected(self, layer), expected, causal=causal)

    def view(self, layer: int | None = None, head: int | None = None, *, mean: bool = False) -> AttentionView:
        """Return the head that a view shows first: the given one, the mean over heads, or the chosen head."""
        self._check(layer, head)
        if mean:
            if head is not None:
                raise SettingsError(f"a mean and {self.unit} {head} exclude each other", "give one of them")
            of_layer = "mean over layers" if layer is None and len(self) > 1 else self.name(layer or 0, 0)[0]
            shown = of_layer, f"mean over {self.unit}s" if self.heads > 1 else f"{self.unit} 0"
            return AttentionView(shown, f"{self.title}, {', '.join(shown)}")
        if head is not None or (self.heads == 1 and (layer is not None or len(self) == 1)):
            shown = self.name(layer or 0, head or 0)
            return AttentionView(shown, f"{self.title}, {', '.join(shown)}")
        choice = self.choose(layer)
        shown = self.name(choice.layer, choice.head)
        reason = choice.reason if layer is None else choice.reason.replace("all heads", f"the heads of {shown[0]}")
        notes = (f"{', '.join(shown)} is shown first: {reason}",)
        return AttentionView(shown, f"{self.title}, {', '.join(shown)}", notes, choice)

    def document(
        self,
        layer: int | None = None,
        head: int | None = None,
        *,
        mean: bool = False,
        length: int | None = None,
        has_weights: bool = True,
    ) -> dict[str, Any]:
        """Return the keys of `look attention --json`: the weights of all heads, those of a layer, or one head.

        With `length`, only the first query tokens; in self-attention also only the first key tokens. Without
        `has_weights`, no weights.
        """
        shown, part = self.view(layer, head, mean=mean), self.part(length)
        heads = [
            {"layer": layer_number, "head": head_number, "weights": weights_TS[part].tolist()}
            for (layer_number, head_number), weights_TS in (self.select(layer, head) if has_weights else ())
        ]
        return {
            **with_roles({"rows": list(self.rows[part[0]]), "columns": list(self.columns[part[1]])}),
            "which": self.which,
            "layers": [self.name(number, 0)[0] for number in range(len(self))],
            "title": shown.title,
            "chosen": None if shown.choice is None else shown.choice.document(),
            **({"mean": self.mean(layer)[part].tolist()} if mean else {}),
            "maps": heads,
            **self._trace.windows(),
        }

    def part(self, length: int | None) -> tuple[slice, slice]:
        """Return the rows and columns of the first `length` query tokens, in self-attention of as many key tokens."""
        return slice(length), slice(length if self.which in ("own", "source") else None)

    def thumbnails(self, size: int) -> tuple[Array, Array]:
        """Return the weights of all heads as images (L, H, R, C) of 8 bits with up to `size` pixels per side.

        A pixel is the mean weight of a block of cells, divided by the largest pixel of the head, times 255. Also
        returns the largest pixels (L, H).
        """
        images: dict[tuple[int, int], Array] = {}
        for layer, head, weights_TS in self.each():
            images[layer, head] = _block_means(_block_means(weights_TS, size).T, size).T
        shape = len(self), self.heads
        images_LHRC = np.stack(list(images.values())).reshape(*shape, *next(iter(images.values())).shape)
        largest_LH = images_LHRC.max(axis=(2, 3))
        scaled_LHRC = images_LHRC / np.maximum(largest_LH, 1e-300)[..., None, None]
        return (255 * scaled_LHRC).round().astype(np.uint8), largest_LH

    @property
    def heads(self) -> int:
        """Number of heads of a layer."""
        return len(self[0]) if self.names else 0

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int | tuple[int, int]) -> Array:
        layer, head = index if isinstance(index, tuple) else (index, None)
        self._check()
        if not 0 <= layer < len(self):
            raise SettingsError(f"layer {layer} does not exist; expected layers 0 to {len(self) - 1}")
        weights = self._trace[self.names[layer]]
        # Attention of a recurrent decoder has no axis of heads.
        weights_HTS = weights if weights.ndim == 3 else weights[None]
        if head is None:
            return weights_HTS
        if not 0 <= head < len(weights_HTS):
            raise SettingsError(f"head {head} does not exist; expected heads 0 to {len(weights_HTS) - 1}")
        return np.asarray(weights_HTS[head])

    def each(self) -> Iterator[tuple[int, int, Array]]:
        """Yield layer, head and weights of all heads; only one layer is in memory at a time."""
        for layer, name in enumerate(self.names):
            was_recorded = name in self._trace._values
            for head, weights_TS in enumerate(self[layer]):
                yield layer, head, weights_TS
            if not was_recorded:
                self._trace.discard(name)

    def select(self, layer: int | None = None, head: int | None = None) -> Iterator[tuple[tuple[int, int], Array]]:
        """Return ((layer, head), weights) of all heads, of the heads of one layer, or of one head."""
        self._check(layer, head)
        if layer is None and head is None:
            return (((number, index), weights_TS) for number, index, weights_TS in self.each())
        number = layer or 0
        indices = range(len(self[number])) if head is None else [head]
        return (((number, index), self[number, index]) for index in indices)

    def mean(self, layer: int | None = None) -> Array:
        """Return the mean over all heads of one layer or of all layers."""
        if layer is not None:
            return np.asarray(self[layer].mean(axis=0))
        total_TS = sum((weights_TS for _, _, weights_TS in self.each()), np.zeros(self[0].shape[1:]))
        return total_TS / (len(self) * self.heads)

    def _check(self, layer: int | None = None, head: int | None = None) -> None:
        """Raise SettingsError if the model has no such attention, or if a head is given without a layer."""
        if not self.names:
            kind = {"own": "self-attention", "source": "self-attention of a source", "cross": "cross-attention"}
            others = ", ".join(self._available)
            remedy = (
                f"it has attention of: {others} (--which)"
                if others
                else "use a run with attention, for example one trained with --model transformer"
            )
            raise SettingsError(f"this model has no {kind.get(self.which, 'sense attention')}", remedy)
        if head is not None and layer is None and len(self) > 1:
            cause = f"head {head} is given without a layer; the model has {len(self)} layers"
            raise SettingsError(cause, "give the layer too")


def _block_means(values_TS: Array, size: int) -> Array:
    """Return the means of up to `size` blocks of consecutive rows, whose lengths differ by at most 1."""
    bounds = np.linspace(0, len(values_TS), min(size, len(values_TS)) + 1).round().astype(np.int64)
    sums_RS = np.add.reduceat(values_TS.astype(np.float64), bounds[:-1], axis=0)
    return np.asarray(sums_RS / np.diff(bounds)[:, None])


class _Selected(NamedTuple):
    """The heads of one layer, or all heads."""

    maps: AttentionMaps
    layer: int | None

    def each(self) -> Iterator[tuple[int, int, Array]]:
        """Yield layer, head and weights."""
        for (layer, head), weights_TS in self.maps.select(self.layer):
            yield layer, head, weights_TS


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _concatenated(values: Sequence[Tensor]) -> Tensor:
    """Return the value of a site without the batch axis; a recurrent decoder passes it once for each step."""
    return values[0][0] if len(values) == 1 else torch.cat([value[0] for value in values], dim=-2)


# --- forward passes -------------------------------------------------------------------------------------


def text_batch(network: nn.Module, ids_T: Ids) -> Tensor:
    """Return the ids (1, T) of a text, at most as many as the context, on the device of the network."""
    return torch.as_tensor(np.asarray(ids_T, np.int64), device=next(network.parameters()).device)[None]


def one_pair(network: TranslationNetwork, source: Ids, target: Ids, boundaries: tuple[int, int]) -> PairBatch:
    """Return a batch of one source and one target on the device of the network."""
    device = network.head.weight.device
    return PairBatch(*(part.to(device) for part in pair_batch([source], [target], *boundaries)))


def trace_text(subject: Subject, text: str, start: int | None = None) -> Trace:
    """Return the trace of a language model, classifier or tagger over a text.

    If the text exceeds the context, its last tokens are traced, or the window that begins at the token `start`.
    """
    find = {"lm": _next_tokens, "classify": _label, "tag": _tags}[subject.task]
    ids_T, targets, positions_N = find(subject, text)
    context = getattr(getattr(subject.network, "encoder", None), "context", None)
    window = select_window(len(ids_T), context, start)
    inside_N = (positions_N >= window.start) & (positions_N < window.stop)
    if subject.task == "classify":
        inside_N[:] = True
    targets = Targets(
        tuple(compress(targets.tokens, inside_N)),
        tuple(compress(targets.ids, inside_N)),
        targets.surprise[inside_N],
        {name: values[inside_N] for name, values in targets.notes.items()},
    )
    tokens = subject.tokenizer.tokens_of(ids_T[window.part], as_context=True)
    network = subject.network
    batch = None if network is None else text_batch(network, ids_T[window.part])
    remarks = [SEES_TARGETS] if "target_in_input" in targets.notes else []
    return Trace(tokens, network, batch, targets=targets, window=window, remarks=remarks)


def pair_windows(subject: Subject, source: str, target: str) -> tuple[tuple[Ids, Window], tuple[Ids, Window]]:
    """Return the ids that a translator reads of a source and of a target, with their windows.

    A translation is predicted from its start, so that the first tokens of a long text are read.
    """
    longest = subject.settings.model.context - 1

    def read(tokenizer: Tokenizer, text: str) -> tuple[Ids, Window]:
        ids = np.asarray(tokenizer.encode(text).ids, np.int64)
        return ids[:longest], Window(0, min(longest, len(ids)), len(ids))

    return read(subject.source_tokenizer, source), read(subject.tokenizer, target)


def trace_translation(subject: Subject, source: str, target: str) -> Trace:
    """Return the trace of a translator over a source and a target."""
    tokenizers = subject.source_tokenizer, subject.tokenizer
    (source_ids, source_window), (target_ids, window) = pair_windows(subject, source, target)
    boundaries = subject.source_tokenizer.boundary, subject.tokenizer.boundary
    (logprobs,) = subject.predictor.score([source_ids], [target_ids])
    # The last prediction is the end of the translation, unless the translation is truncated.
    inputs = target_ids if window.is_whole else target_ids[:-1]
    predicted = np.append(target_ids, boundaries[1])[: len(inputs) + 1]
    return Trace(
        tokenizers[1].tokens_of([boundaries[1], *inputs], as_context=True),
        subject.network,
        one_pair(subject.network, source_ids, inputs, boundaries),
        source=tokenizers[0].tokens_of([*source_ids, boundaries[0]]),
        targets=Targets(tokenizers[1].tokens_of(predicted), tuple(predicted.tolist()), -logprobs[: len(predicted)]),
        window=window,
        source_window=source_window,
    )


# Ids of a text, its targets, and the position at which each target is predicted.
_Predicted = tuple[Ids, Targets, Ids]


def _next_tokens(subject: Subject, text: str) -> _Predicted:
    boundary = subject.tokenizer.boundary
    ids_T: Ids = np.concatenate([[boundary], subject.tokenizer.encode(text).ids]).astype(np.int64)
    has_end = subject.settings.data.documents != "stream"
    scored = np.append(ids_T, boundary) if has_end else ids_T
    scores = subject.predictor.score(scored)
    targets = Targets(
        subject.tokenizer.tokens_of(scored[1:]), tuple(scored[1:].tolist()), -scores.logprobs, scores.notes
    )
    return ids_T, targets, np.arange(len(scored) - 1)


def _label(subject: Subject, text: str) -> _Predicted:
    tokens = tokenize_texts([text], subject.tokenizer)
    return inner_ids(tokens), _best(subject, subject.predictor.label(tokens.ids)), np.zeros(1, np.int64)


def _tags(subject: Subject, text: str) -> _Predicted:
    tokens, positions_N = tokenize_tagged([text], subject.tokenizer, subject.run.facts["unit"])
    logprobs_NC = subject.predictor.label(tokens.ids)[positions_N]
    return inner_ids(tokens), _best(subject, logprobs_NC), np.asarray(positions_N, np.int64) - 1


def _best(subject: Subject, logprobs_NC: Floats) -> Targets:
    """Return the most probable label of each row."""
    best_N = logprobs_NC.argmax(axis=1)
    return Targets(tuple(subject.labels[id_] for id_ in best_N), tuple(best_N.tolist()), -logprobs_NC.max(axis=1))
