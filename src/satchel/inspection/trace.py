"""Traces: one forward pass of a network over a text, and what passed each of its sites.

Letters: T time, S time of what is looked at, H heads, D width, V vocabulary.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from satchel.charts import html
from satchel.errors import SettingsError
from satchel.nn.inference import inference
from satchel.nn.sites import recording, sites
from satchel.predictor import Floats, Ids
from satchel.tasks.translation import PairBatch, TranslationNetwork, pair_batch

if TYPE_CHECKING:
    from satchel.charts.figures import Figure

# The hidden states: they are small, and kept as they pass. All else is read when it is asked for.
HIDDEN = ("*embedded", "*blocks.*.output", "*.states", "*encoded")
# What people ask for stands below these parts of a network; names of sites are told without them.
PREFIXES = ("encoder.", "pair.", "head.")
# Senses belong to the distinct words of a batch, not to its rows.
OF_WORDS = (
    "senses",
    "source_senses",
    "sense_network.block.hidden",
    "source_sense_network.block.hidden",
)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Told:
    """What was asked for: tokens, tags or a label, their numbers, and how surprising each was, in nats.

    `notes` holds what the model says of each answer: the share of the network beside its n-gram (`gate`), or the
    `order` of the n-gram that answered.
    """

    tokens: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    surprise: Floats = field(default_factory=lambda: np.empty(0))
    notes: Mapping[str, Array] = field(default_factory=dict)


class Trace:
    """What a network did with a text, by site.

    `trace[name]` is what passed a site, without the axis of the batch, as an array (`tensor(name)`: as a tensor);
    `trace.sites` are the names. Nothing that is as large as the square of the text is made before it is asked for:
    then the network goes the same way again, and is looked at there.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        network: nn.Module | None = None,
        forward: Callable[[], Tensor] | None = None,
        *,
        source: Sequence[str] = (),
        told: Told | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.tokens, self.source = tuple(tokens), tuple(source)
        self.told = told or Told()
        self.remarks = tuple(notes)
        self._network, self._forward = network, forward
        self._names = {} if network is None else {short(name): name for name in sites(network)}
        self._read: dict[str, Tensor] = {}
        hidden = [name for name in self._names if any(fnmatchcase(name, pattern) for pattern in HIDDEN)]
        if hidden:
            self.read(*hidden)

    def __repr__(self) -> str:
        return f"<Trace of {len(self.tokens):,} tokens through {len(self._names):,} sites>"

    def _repr_html_(self) -> str:
        told, bits = self.told, self.told.surprise / math.log(2)
        parts = [html.lines([repr(self), *self.remarks])]
        if told.tokens:
            parts += [html.tinted(told.tokens, bits.tolist(), [f"{cost:.1f}" for cost in bits]), html.lines(["bits"])]
        asked = {
            "trace.attention[layer, head]": _layers(self.attention),
            "trace.source_attention[layer, head]": _layers(self.source_attention),
            "trace.cross[layer, head]": _layers(self.cross),
            "trace.hidden[site]": f"{len(self.hidden):,} sites" if self.hidden else "",
            "trace.gates[site]": ", ".join(self._ending("gates")),
            "trace.sense_weights": "of each sense of each word" if "sense_weights" in self._names else "",
            "trace.logits": "of what may come" if "logits" in self._names else "",
            **{f"trace.told.notes[{name!r}]": "of each token" for name in told.notes},
        }
        parts.append(html.table(["ask", "for"], [(name, what) for name, what in asked.items() if what]))
        if self._names:
            parts.append(html.folded("trace[site]: all sites", html.lines(self._names)))
        return "".join(parts)

    # --- sites

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of all sites."""
        return tuple(self._names)

    def __getitem__(self, name: str) -> Array:
        return np.asarray(self.tensor(name).cpu().numpy())

    def tensor(self, name: str) -> Tensor:
        """Return what passed a site."""
        if name not in self._names:
            there = ", ".join(self._names) or "none: it is no network"
            raise SettingsError(f"there is no site {name}", f"there is {there}")
        if name not in self._read:
            self.read(name)
        if name not in self._read:
            raise SettingsError(f"nothing passed the site {name}", "this network does not use it")
        return self._read[name]

    def read(self, *patterns: str) -> dict[str, Tensor]:
        """Return what passed all sites whose names fit a pattern (`*.weights`), in one pass."""
        wanted = [name for name in self._names if any(fnmatchcase(name, pattern) for pattern in patterns)]
        missing = [name for name in wanted if name not in self._read]
        if missing:
            assert self._network is not None
            assert self._forward is not None
            full = [self._names[name] for name in missing]
            with inference(self._network), recording(self._network, *full) as found:
                self._forward()
            for name, values in zip(missing, (found[each] for each in full), strict=True):
                if values:
                    self._read[name] = values[0] if name in OF_WORDS else _joined(values)
        return {name: self._read[name] for name in wanted if name in self._read}

    def forget(self, *patterns: str) -> None:
        """Keep nothing of sites whose names fit a pattern: what is asked for again is read again."""
        for name in [name for name in self._read if any(fnmatchcase(name, pattern) for pattern in patterns)]:
            del self._read[name]

    # --- what people ask for

    @property
    def attention(self) -> "Maps":
        """Who looked at whom in the text itself, by layer and head; of a translator, in the translation."""
        return self.maps("own")

    @property
    def source_attention(self) -> "Maps":
        """Who looked at whom in the source of a translation."""
        return self.maps("source")

    @property
    def cross(self) -> "Maps":
        """Where in the source the words of a translation looked."""
        return self.maps("cross")

    def maps(self, which: str = "own") -> "Maps":
        """Return who looked at whom: in the text itself (`own`), in its `source`, or from it into that (`cross`)."""
        match which:
            case "own":
                names = self._ending("attention.weights", without="reader.")
                return Maps(self, names, self.tokens, self.tokens, "attention")
            case "source":
                names = [name for name in self._ending("attention.weights") if "reader." in name]
                return Maps(self, names, self.source, self.source, "source attention")
            case "cross":
                names = [*self._ending("cross.weights"), *self._ending("alignment")]
                return Maps(self, names, self.tokens, self.source, "attention to a source")
        raise SettingsError(f"which: found {which}, no such text", "expected own, source or cross")

    @property
    def hidden(self) -> dict[str, Array]:
        """The hidden states (T, D) by site, from the words themselves to what the head gets."""
        names = [name for name in self._read if any(fnmatchcase(name, pattern) for pattern in HIDDEN)]
        return {name: self[name] for name in sorted(names, key=lambda name: name.endswith("encoded"))}

    @property
    def gates(self) -> dict[str, Array]:
        """The gates of recurrent layers over time (T, G, D)."""
        return {name: self[name] for name in self._ending("gates")}

    @property
    def sense_weights(self) -> Array:
        """How much each sense of each word counted at each position (N, T, S)."""
        return self["sense_weights"]

    @property
    def logits(self) -> Array:
        """The scores: of all tokens at each position (T, V), or of the labels."""
        return self["logits"]

    @property
    def surprise(self) -> Floats:
        """How surprising each of `told.tokens` was, in nats."""
        return self.told.surprise

    # --- pictures

    def attention_map(self, layer: int | None = None, head: int | None = None, which: str = "own") -> "Figure":
        """Return how much each word looks at each: of one head, or with selectors of layer and head."""
        from satchel import charts

        maps = self.maps(which)
        if layer is not None and head is not None:
            return charts.attention_map(
                maps.rows, maps.columns, maps[layer, head], f"Attention weights, layer {layer}, head {head}"
            )
        return charts.attention_maps(maps.rows, maps.columns, maps.chosen(layer, head))

    def head_lines(self, layer: int | None = None, head: int | None = None, which: str = "own") -> "Figure":
        """Return lines from each word to those it looks at, a colour for each head; a page has selectors."""
        from satchel import charts

        maps = self.maps(which)
        return charts.head_lines(maps.rows, maps.columns, maps.chosen(layer, head))

    def grid(self, layer: int | None = None, which: str = "own") -> "Figure":
        """Return a small map of each head, all beside one another."""
        from satchel import charts

        maps = self.maps(which)
        return charts.heads_grid(maps.rows, maps.columns, maps.chosen(layer))

    def surprise_strip(self) -> "Figure":
        """Return the text, each token tinted by how many bits it costs."""
        from satchel import charts

        return charts.surprise_strip(self.told.tokens, (self.told.surprise / math.log(2)).tolist())

    def _ending(self, end: str, without: str | None = None) -> list[str]:
        return [
            name
            for name in self._names
            if (name == end or name.endswith(f".{end}")) and not (without and without in name)
        ]


class Maps:
    """Maps of who looked at whom: `maps[layer]` is (H, T, S), `maps[layer, head]` (T, S); made when asked for.

    `rows` are the T words that look, `columns` the S words that are looked at.
    """

    def __init__(
        self, trace: Trace, names: Sequence[str], rows: Sequence[str], columns: Sequence[str], what: str
    ) -> None:
        self._trace, self.names, self._what = trace, tuple(names), what
        self.rows, self.columns = tuple(rows), tuple(columns)

    @property
    def layers(self) -> int:
        return len(self.names)

    @property
    def heads(self) -> int:
        """How many heads a layer has."""
        return len(self[0]) if self.names else 0

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, place: int | tuple[int, int]) -> Array:
        layer, head = place if isinstance(place, tuple) else (place, None)
        self._check()
        if not 0 <= layer < self.layers:
            raise SettingsError(f"layer {layer}: found layers 0 to {self.layers - 1}")
        found = self._trace[self.names[layer]]
        maps_HTS = found if found.ndim == 3 else found[None]
        if head is None:
            return maps_HTS
        if not 0 <= head < len(maps_HTS):
            raise SettingsError(f"head {head}: found heads 0 to {len(maps_HTS) - 1}")
        return np.asarray(maps_HTS[head])

    def each(self) -> Iterator[tuple[int, int, Array]]:
        """Return layer, head and map one after another; no more than a layer is there at a time."""
        for layer, name in enumerate(self.names):
            was_read = name in self._trace._read
            for head, map_TS in enumerate(self[layer]):
                yield layer, head, map_TS
            if not was_read:
                self._trace.forget(name)

    def chosen(self, layer: int | None = None, head: int | None = None) -> Iterator[tuple[tuple[int, int], Array]]:
        """Return ((layer, head), map) one after another: of all, of one layer, or of one head of it."""
        self._check()
        if head is not None and layer is None and self.layers > 1:
            raise SettingsError(f"head {head}: is that of a layer", "give the layer too")
        if layer is None and head is None:
            return (((number, place), map_TS) for number, place, map_TS in self.each())
        number = layer or 0
        places = range(len(self[number])) if head is None else [head]
        return (((number, place), self[number, place]) for place in places)

    def mean(self, layer: int | None = None) -> Array:
        """Return the mean over all heads, of one layer or of all."""
        if layer is not None:
            return np.asarray(self[layer].mean(axis=0))
        total, count = np.zeros(self[0].shape[1:]), 0
        for _, _, map_TS in self.each():
            total, count = total + map_TS, count + 1
        return total / count

    def _check(self) -> None:
        if not self.names:
            raise SettingsError(f"found no {self._what}: this model does not look at anything", "ask for other sites")


def _layers(maps: Maps) -> str:
    """Return how many layers look."""
    return f"{maps.layers} layer{'s' * (maps.layers > 1)}" if maps.layers else ""


def short(name: str) -> str:
    """Return the name of a site as it is told."""
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _joined(values: Sequence[Tensor]) -> Tensor:
    """Return what passed a site in one pass; a recurrent writer may pass it at every step."""
    if len(values) == 1:
        return values[0][0]
    return torch.cat([value[0] for value in values], dim=-2)


# --- forward passes ----------------------------------------------------------------------------------


def of_text(network: nn.Module, ids_T: Ids, tokens: Sequence[str], *, told: Told, notes: Sequence[str] = ()) -> Trace:
    """Return the trace of a network that reads one text of ids, no longer than its context."""
    device = next(network.parameters()).device
    ids_BT = torch.as_tensor(np.asarray(ids_T, np.int64), device=device)[None]
    return Trace(tokens, network, lambda: network(ids_BT), told=told, notes=notes)


def of_pair(
    network: TranslationNetwork,
    ids: tuple[Ids, Ids],
    boundaries: tuple[int, int],
    *,
    source: Sequence[str],
    tokens: Sequence[str],
    told: Told,
    notes: Sequence[str] = (),
) -> Trace:
    """Return the trace of a translator that reads a source and writes a target."""
    device = network.head.weight.device
    batch = PairBatch(*(part.to(device) for part in pair_batch([ids[0]], [ids[1]], *boundaries)))
    return Trace(tokens, network, lambda: network(batch), source=source, told=told, notes=notes)
