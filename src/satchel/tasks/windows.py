"""Batched encoding of whole texts for tagging and classification.

Shapes: B batch, T time, D width.
"""

from collections.abc import Iterator

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
    encoded[has_tokens] = encoder.encode(window_ids[has_tokens], window_keep[has_tokens])
    return encoded.view(batch, length + padding, -1)[:, :length]


def text_batches(documents: Documents, device: torch.device) -> Iterator[tuple[Ints, Tensor, Tensor]]:
    """Yield batches of texts of similar length: their numbers, their ids (B, T), and the padding mask."""
    for rows in group_by_length(documents.lengths, TOKENS_AT_ONCE):
        ids_BT, keep_BT = (torch.from_numpy(part).to(device) for part in documents.batch(rows))
        yield rows, ids_BT, keep_BT
