"""Whole texts in, by batches: what taggers and classifiers share. Letters: B batch, T time, W windows, D width."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.data.batches import Ints, group_by_length, split_documents
from satchel.models.encoder import Encoder
from satchel.predictor import Ids

# Tokens encoded at once when nothing is learned from them.
TOKENS_AT_ONCE = 1 << 14


def encode_texts(encoder: Encoder, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
    """Return the (B, T, D) encodings of texts. Those longer than the encoder's context are read in windows of it."""
    context = encoder.context
    batch, length = ids_BT.shape
    if context is None or length <= context:
        return encoder.encode(ids_BT, keep_BT)
    if keep_BT is None:
        keep_BT = torch.ones_like(ids_BT, dtype=torch.bool)
    spare = -length % context
    windows, kept = (F.pad(rows_BT, (0, spare)).view(-1, context) for rows_BT in (ids_BT, keep_BT))
    encoded_BTD = torch.zeros(len(windows), context, encoder.width, device=ids_BT.device)
    # The windows after the end of a short text hold nothing: they are not read.
    some = kept.any(dim=1)
    encoded_BTD[some] = encoder.encode(windows[some], kept[some])
    return encoded_BTD.view(batch, length + spare, -1)[:, :length]


def in_batches(network: nn.Module, ids: Ids, boundary: int) -> Iterator[tuple[Ints, Tensor, Tensor]]:
    """Return the numbers of some texts, their ids and where those are, batch by batch, for a network to answer.

    The network is made ready to answer while it is asked, and nothing is kept for learning.
    """
    texts = split_documents(ids, boundary)
    device = next(network.parameters()).device
    was_training = network.training
    network.eval()
    with torch.inference_mode():
        for rows in group_by_length(texts.lengths, TOKENS_AT_ONCE):
            ids_BT, keep_BT = (torch.from_numpy(part).to(device) for part in texts.batch(rows))
            yield rows, ids_BT, keep_BT
    network.train(was_training)
