"""Incremental prediction with any encoder: rows of equal length form a group with one batched state.

Shapes: B rows, G rows of a group, T time, D width, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from satchel.models.encoder import CausalEncoder, State
from satchel.nn.cache import Cache
from satchel.nn.inference import inference
from satchel.predictor import Ids, Logits, checked

# Number of tokens of a document encoded at once; longer documents carry the encoder's state from part to part.
MAX_LENGTH = 1 << 10

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Group:
    """Rows of equal length: their numbers in the batch, the state after their tokens, and the number of tokens.

    For an encoder with a maximum length, `window_GT` are the tokens of the current window, of which the last half is
    encoded again when it is full.
    """

    rows: Ints
    state: State
    length: int
    window_GT: Ints


class GroupedDecoder:
    """Implements Decoder for every causal encoder. `encoded` are the encodings of the last returned logits."""

    gives_probabilities = False
    encoded: Tensor

    def __init__(self, network: nn.Module, encoder: CausalEncoder, head: nn.Module) -> None:
        self._network, self._encoder, self._head = network, encoder, head
        self._window = encoder.context
        self._device = encoder.embedding.weight.device
        self._groups: list[_Group] = []
        # Groups before the last `extend` and its tokens, for `rewind`.
        self._before: tuple[list[_Group], Ints] | None = None
        self._cache: Cache = {}

    @property
    def rows(self) -> int:
        return sum(len(group.rows) for group in self._groups)

    @property
    def room(self) -> int | None:
        if self._window is None:
            return None
        return self._window - max((group.length for group in self._groups), default=0)

    def join(self, prompts: Sequence[Ids]) -> Logits:
        prompts = [np.asarray(prompt, np.int64)[-self._window if self._window else None :] for prompt in prompts]
        lengths = np.array([len(prompt) for prompt in prompts])
        with inference(self._network, self._cache):
            new = [
                self._append(self._empty(rows), np.stack([prompts[row] for row in rows]), last=True)
                for rows in (np.flatnonzero(lengths == length) for length in np.unique(lengths))
            ]
            logits_BTV = self._logits(new)
        rows, self._before = self.rows, None
        self._groups = self._groups + [replace(group, rows=group.rows + rows) for group, _ in new]
        return self._last(logits_BTV)

    def step(self, ids_B: Ids) -> Logits:
        return self._last(self.extend(np.asarray(ids_B)[:, None]))

    def extend(self, ids_BT: Ids) -> Logits:
        new_BT: Ints = np.asarray(ids_BT, np.int64)
        with inference(self._network, self._cache):
            after = [self._append(group, new_BT[group.rows]) for group in self._groups]
            logits_BTV = self._logits(after)
        self._before, self._groups = (self._groups, new_BT), [group for group, _ in after]
        return logits_BTV

    def rewind(self, counts_B: Ids) -> None:
        assert self._before is not None, "rewind must directly follow extend"
        (before, ids_BT), after = self._before, self._groups
        counts_B, self._groups, self._before = np.asarray(counts_B, np.int64), [], None
        with inference(self._network, self._cache):
            for old, new in zip(before, after, strict=True):
                counts_G = counts_B[old.rows]
                for count in np.unique(counts_G):
                    members = np.flatnonzero(counts_G == count)
                    if count == 0:
                        self._groups.append(self._select(new, members))
                        continue
                    # A state cannot be shortened in general: the remaining tokens are appended to the state before.
                    group, remaining = self._select(old, members), ids_BT.shape[1] - count
                    if remaining:
                        group, _ = self._append(group, ids_BT[group.rows, :remaining], last=True)
                    self._groups.append(group)

    def keep(self, rows: Ids) -> None:
        rows = np.asarray(rows, np.int64)
        groups = []
        for group in self._groups:
            position_of = {row: position for position, row in enumerate(group.rows.tolist())}
            new_rows = [number for number, row in enumerate(rows.tolist()) if row in position_of]
            if new_rows:
                members = np.array([position_of[row] for row in rows[new_rows].tolist()])
                groups.append(replace(self._select(group, members), rows=np.array(new_rows)))
        self._groups, self._before = groups, None

    def _empty(self, rows: Ints) -> _Group:
        return _Group(rows, self._encoder.start(len(rows)), 0, np.empty((len(rows), 0), np.int64))

    def _select(self, group: _Group, members: Ints) -> _Group:
        """Return the members of a group at these positions."""
        if np.array_equal(members, np.arange(len(group.rows))):
            return group
        state = group.state.select(torch.from_numpy(members).to(self._device))
        return _Group(group.rows[members], state, group.length, group.window_GT[members])

    def _append(self, group: _Group, ids_GT: Ints, *, last: bool = False) -> tuple[_Group, Tensor]:
        """Return the group after more tokens and the encodings (G, T, D) of the tokens, or of the last one alone."""
        parts: list[Tensor] = []
        while ids_GT.shape[1]:
            # A long prompt is encoded in parts: memory is bounded, and a signal is handled between two of them.
            count = MAX_LENGTH
            if self._window is not None:
                count = min(count, self._window - group.length)
            if count:
                part_GT, ids_GT = ids_GT[:, :count], ids_GT[:, count:]
            else:
                # The window is full: its last half, which ends with the new token, starts a new window.
                kept = max(1, self._window // 2) if self._window is not None else 0
                part_GT = np.concatenate([group.window_GT, ids_GT[:, :1]], axis=1)[:, -kept:]
                group, ids_GT = self._empty(group.rows), ids_GT[:, 1:]
            encoded_GTD, state = self._encoder.step(torch.from_numpy(part_GT).to(self._device), group.state)
            window_GT = group.window_GT if self._window is None else np.concatenate([group.window_GT, part_GT], axis=1)
            group = _Group(group.rows, state, group.length + part_GT.shape[1], window_GT)
            if last:
                parts.clear()
            parts.append(encoded_GTD[:, -1:] if last or not count else encoded_GTD)
        return group, parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _logits(self, groups: list[tuple[_Group, Tensor]]) -> Logits:
        """Return the logits (B, T, V) of the encodings of all groups, in the order of the rows."""
        encoded_BTD = groups[0][1]
        if len(groups) > 1:  # the rows of a group are in increasing order
            order = np.argsort(np.concatenate([group.rows for group, _ in groups]))
            encoded_BTD = torch.cat([encoded for _, encoded in groups])[torch.from_numpy(order)]
        self.encoded = encoded_BTD
        logits_BTV = self._head(encoded_BTD).cpu()
        if logits_BTV.dtype not in (torch.float32, torch.float64):
            logits_BTV = logits_BTV.float()
        return checked(logits_BTV.numpy())

    def _last(self, logits_BTV: Logits) -> Logits:
        self.encoded = self.encoded[:, -1]
        logits_BV: Logits = logits_BTV[:, -1]
        return logits_BV
