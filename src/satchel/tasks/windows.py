"""Batched encoding of whole texts for tagging and classification.

Shapes: B batch, T time, D width.
"""

from collections.abc import Iterator
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.data.batches import Documents, Ints, group_by_length
from satchel.models.encoder import Encoder

# Number of tokens in one batch of inference, padding included.
TOKENS_AT_ONCE = 1 << 14


def encode_texts(encoder: Encoder, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
    """Return the encodings (B, T, D) of texts; texts longer than the encoder's context are encoded in windows."""
    context = encoder.context
    batch, length = ids_BT.shape
    if context is None or length <= context:
        return encoder.encode(ids_BT, keep_BT)
    if keep_BT is None:
        keep_BT = torch.ones_like(ids_BT, dtype=torch.bool)
    padding = -length % context
    window_ids, window_keep = (F.pad(rows_BT, (0, padding)).view(-1, context) for rows_BT in (ids_BT, keep_BT))
    encoded = torch.zeros(len(window_ids), context, encoder.width, device=ids_BT.device)
    # Windows of padding only, after the end of shorter texts, are skipped.
    has_tokens = window_keep.any(dim=1)
    windows = window_ids[has_tokens], window_keep[has_tokens]
    # Without gradients, the memory of a long text is bounded.
    at_once = len(windows[0]) if torch.is_grad_enabled() else max(1, TOKENS_AT_ONCE // context)
    parts = [encoder.encode(*part) for part in zip(*(each.split(at_once) for each in windows), strict=True)]
    encoded[has_tokens] = torch.cat(parts).to(encoded.dtype)
    return encoded.view(batch, length + padding, -1)[:, :length]


def overlapping_windows(length: int, context: int | None, *, causal: bool) -> list[tuple[slice, slice]]:
    """Return windows of `context` tokens with a stride of half a window, each with the positions that it predicts.

    Every position is predicted in the window in which it has the largest number of tokens on its shorter side, or
    before it if the encoder is causal.
    """
    if context is None or length <= context:
        return [(slice(0, length), slice(0, length))]
    starts = [*range(0, length - context, max(1, context // 2)), length - context]
    # The overlap of two windows is divided in its middle; with a causal encoder it belongs to the first of them.
    bounds = [before + context if causal else (before + after + context) // 2 for before, after in pairwise(starts)]
    predicted = zip([0, *bounds], [*bounds, length], strict=True)
    return [
        (slice(start, start + context), slice(first, stop))
        for start, (first, stop) in zip(starts, predicted, strict=True)
    ]


def text_batches(documents: Documents, device: torch.device) -> Iterator[tuple[Ints, Tensor, Tensor]]:
    """Yield batches of texts of similar length: their numbers, their ids (B, T), and the padding mask."""
    for rows in group_by_length(documents.lengths, TOKENS_AT_ONCE):
        ids_BT, keep_BT = (torch.from_numpy(part).to(device) for part in documents.batch(rows))
        yield rows, ids_BT, keep_BT
