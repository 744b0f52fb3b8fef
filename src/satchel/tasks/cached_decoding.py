"""Incremental prediction with Transformers and Backpacks on a CPU: one cache for all rows of a batch.

Shapes: B rows, T new tokens, W tokens of the window, D width, V vocabulary.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from satchel.models.backpack import Backpack
from satchel.models.backpack_step import BackpackStep
from satchel.models.encoder import CausalEncoder
from satchel.models.transformer import Transformer
from satchel.models.transformer_step import Ints, TransformerStep
from satchel.nn.cache import Cache, caching
from satchel.nn.inference import evaluation_mode
from satchel.nn.inference_layers import Floats, Products
from satchel.nn.sites import Site
from satchel.predictor import Ids, Logits, checked

# Maximum number of new tokens of a single row that are computed in NumPy.
ROW_POSITIONS = 16
# Maximum number of tokens of the prompts that are encoded at once.
PROMPT_TOKENS = 1 << 12
# Maximum number of tokens of a prompt that are encoded at once: a signal is handled between two parts.
PROMPT_PART = 1 << 10


class Step(Protocol):
    """Encodes new tokens of rows whose earlier tokens are in a cache."""

    def allocate(self, rows: int, positions: int) -> None:
        """Provide memory for this number of rows and positions."""

    def select(self, rows: Ints, length: int) -> None:
        """Move the first `length` positions of these rows to the rows 0, 1, ..."""

    def extend(self, ids_BT: Ints, first: int, starts_B: Ints) -> Tensor:
        """Return the encodings (B, T, D) of new tokens of the rows from `first` on."""

    def extend_row(self, ids_T: Ints, start: int) -> Floats:
        """Return the encodings (T, D) of a few new tokens of the first row."""


class _TokenStep:
    """The step of a Transformer on token embeddings."""

    def __init__(self, network: Transformer, products: Products) -> None:
        self._step = TransformerStep(network, products)
        self.allocate, self.select = self._step.allocate, self._step.select
        self._embedding_VD = network.embedding.weight.detach()

    def extend(self, ids_BT: Ints, first: int, starts_B: Ints) -> Tensor:
        return self._step.extend(self._embedding_VD[torch.from_numpy(ids_BT)], first, starts_B)

    def extend_row(self, ids_T: Ints, start: int) -> Floats:
        return self._step.extend_row(self._embedding_VD.numpy()[ids_T], start)


def new_step(network: nn.Module, encoder: CausalEncoder, products: Products) -> Step | None:
    """Return the step of a network; None if its architecture, device or type is not supported or a site is patched."""
    weight = encoder.embedding.weight
    is_supported = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)
    if not is_supported or any(isinstance(module, Site) and module.is_hooked for module in network.modules()):
        return None
    match encoder:
        case Transformer() if TransformerStep.supports(encoder.settings):
            return _TokenStep(encoder, products)
        case Backpack() if BackpackStep.supports(encoder):
            return BackpackStep(encoder, products)
    return None


class CachedDecoder:
    """Implements Decoder with a `Step`.

    The window of a row slides when it is full: its last half is encoded again, as the first positions of the row.
    """

    gives_probabilities = False

    def __init__(
        self,
        network: nn.Module,
        step: Step,
        head_weight: Tensor,
        context: int,
        products: Products,
    ) -> None:
        self._network, self._step, self._context = network, step, context
        self._head = products.linear(head_weight)
        # Encodings of the last scores, (B, D) or (B, T, D).
        self._encoded: Tensor | Floats = head_weight.detach()[:0]
        # Tokens and lengths of the windows of all rows.
        self._ids_BW = np.empty((0, context), np.int64)
        self._lengths_B = np.empty(0, np.int64)
        # Windows and lengths before the last `extend`, and its tokens, for `rewind`.
        self._before: tuple[Ints, Ints, Ints] | None = None
        self._cache: Cache = {}

    @property
    def encoded(self) -> Tensor:
        """The encodings of the last scores, (B, D) or (B, T, D)."""
        return self._encoded if isinstance(self._encoded, Tensor) else torch.from_numpy(self._encoded)

    @property
    def rows(self) -> int:
        return len(self._lengths_B)

    @property
    def room(self) -> int | None:
        return self._context - int(self._lengths_B.max(initial=0))

    def join(self, prompts: Sequence[Ids]) -> Logits:
        first, self._before = self.rows, None
        lengths = [min(len(prompt), self._context) for prompt in prompts]
        self._ids_BW = np.concatenate([self._ids_BW, np.zeros((len(prompts), self._context), np.int64)])
        for row, (prompt, length) in enumerate(zip(prompts, lengths, strict=True), first):
            self._ids_BW[row, :length] = prompt[-length:]
        self._lengths_B = np.concatenate([self._lengths_B, np.array(lengths, np.int64)])
        at_once = max(1, PROMPT_TOKENS // max(lengths))
        encoded = [self._encode(row, min(row + at_once, self.rows)) for row in range(first, self.rows, at_once)]
        return self._logits(torch.cat(encoded))

    def step(self, ids_B: Ids) -> Logits:
        return self._last(self.extend(np.asarray(ids_B)[:, None]))

    def extend(self, ids_BT: Ids) -> Logits:
        new_BT: Ints = np.asarray(ids_BT, np.int64)
        before = self._ids_BW, self._lengths_B, new_BT
        has_room = self._context - int(self._lengths_B.max()) >= new_BT.shape[1]
        # A window that slides changes the positions of the following tokens: they are encoded one by one.
        parts = [new_BT] if has_room else np.split(new_BT, new_BT.shape[1], axis=1)
        if len(new_BT) == 1 and max(part_BT.shape[1] for part_BT in parts) <= ROW_POSITIONS:
            logits_BTV = self._row_logits(parts)
        else:
            logits_BTV = self._logits(torch.cat([self._extend(part_BT) for part_BT in parts], dim=1))
        self._before = before
        return logits_BTV

    def rewind(self, counts_B: Ids) -> None:
        assert self._before is not None, "rewind must directly follow extend"
        (ids_BW, lengths_B, new_BT), self._before = self._before, None
        has_slid_B = lengths_B + new_BT.shape[1] > self._context
        self._lengths_B = self._lengths_B - np.asarray(counts_B) * ~has_slid_B
        for row in np.flatnonzero(has_slid_B & (np.asarray(counts_B) > 0)):
            window = ids_BW[row, : lengths_B[row]]
            for id_ in new_BT[row, : new_BT.shape[1] - counts_B[row]]:
                window = np.append(self._slid(window) if len(window) == self._context else window, id_)
            self._restart(int(row), window)

    def keep(self, rows: Ids) -> None:
        kept: Ints = np.asarray(rows, np.int64)
        self._ids_BW, self._lengths_B, self._before = self._ids_BW[kept], self._lengths_B[kept], None
        with self._inference():
            self._step.select(kept, int(self._lengths_B.max(initial=0)))

    def _row_logits(self, parts: list[Ints]) -> Logits:
        """Return the logits (1, T, V) after new tokens of a single row, in NumPy without the overhead of a batch."""
        encoded: list[Floats] = []
        for part_1T in parts:
            self._slide_full_windows()
            start = int(self._lengths_B[0])
            self._step.allocate(1, start + part_1T.shape[1])
            encoded.append(self._step.extend_row(part_1T[0], start))
            self._append(part_1T)
        encoded_TD = encoded[0] if len(encoded) == 1 else np.concatenate(encoded)
        self._encoded = encoded_TD[None]
        return checked(self._head.rows(encoded_TD).copy()[None])

    @contextlib.contextmanager
    def _inference(self) -> Iterator[None]:
        """Run the block without gradients. In inference mode, later steps could not write to the cache."""
        with evaluation_mode(self._network), torch.no_grad(), caching(self._cache):
            yield

    def _extend(self, ids_BT: Ints) -> Tensor:
        """Return the encodings (B, T, D) of new tokens of all rows, whose windows slide first if they are full."""
        self._slide_full_windows()
        self._step.allocate(self.rows, int(self._lengths_B.max()) + ids_BT.shape[1])
        with self._inference():
            encoded_BTD = self._step.extend(ids_BT, 0, self._lengths_B)
        self._append(ids_BT)
        return encoded_BTD

    def _append(self, ids_BT: Ints) -> None:
        """Add tokens to the windows."""
        for row, (ids_T, length) in enumerate(zip(ids_BT, self._lengths_B.tolist(), strict=True)):
            self._ids_BW[row, length : length + len(ids_T)] = ids_T
        self._lengths_B = self._lengths_B + ids_BT.shape[1]

    def _slide_full_windows(self) -> None:
        if self.room:
            return
        for row in np.flatnonzero(self._lengths_B == self._context):
            self._restart(int(row), self._slid(self._ids_BW[row]))

    def _slid(self, window_W: Ints) -> Ints:
        """Return the tokens of a full window that precede the next token, which completes half a window."""
        return window_W[len(window_W) - max(1, self._context // 2) + 1 :]

    def _restart(self, row: int, window: Ints) -> None:
        """Replace the window of a row and its cache."""
        self._ids_BW, self._lengths_B = self._ids_BW.copy(), self._lengths_B.copy()
        self._ids_BW[row, : len(window)] = window
        self._lengths_B[row] = len(window)
        if len(window):
            self._encode(row, row + 1)

    def _encode(self, first: int, stop: int) -> Tensor:
        """Return the encodings (B, D) of the last tokens of consecutive rows, whose windows are encoded."""
        lengths_B = self._lengths_B[first:stop]
        longest = int(lengths_B.max())
        self._step.allocate(self.rows, longest)
        encoded_BD: list[Tensor | None] = [None] * len(lengths_B)
        with self._inference():
            for start in range(0, longest, PROMPT_PART):
                # Shorter rows are padded: their next tokens replace the padding in the cache.
                ids_BT = np.ascontiguousarray(self._ids_BW[first:stop, start : min(start + PROMPT_PART, longest)])
                encoded_BTD = self._step.extend(ids_BT, first, np.full(len(ids_BT), start))
                for row in np.flatnonzero((lengths_B > start) & (lengths_B <= start + PROMPT_PART)):
                    encoded_BD[row] = encoded_BTD[row, lengths_B[row] - 1 - start]
        return torch.stack([encoded_D for encoded_D in encoded_BD if encoded_D is not None])

    def _logits(self, encoded: Tensor) -> Logits:
        """Return the logits of encodings."""
        self._encoded = encoded
        return checked(self._head(encoded).numpy())

    def _last(self, logits_BTV: Logits) -> Logits:
        self._encoded = self._encoded[:, -1]
        logits_BV: Logits = logits_BTV[:, -1]
        return logits_BV
