"""Samples of held-out data, which bound the time of a validation. Shapes: R rows."""

from dataclasses import replace

import numpy as np

from satchel.data.batches import Ints, seeded_rng, split_documents
from satchel.data.tokens import TokenFile, decode_documents
from satchel.text.tokenizer import Tokenizer

# A sample is complete at this fraction of its maximum size.
COMPLETE = 0.95


def sample_rows(lengths_R: Ints, tokens: int, seed: int) -> Ints:
    """Return the indices of a random choice of rows with at most `tokens` tokens in total, in ascending order.

    If all rows are longer, the shortest row is returned.
    """
    if lengths_R.sum() <= tokens:
        return np.arange(len(lengths_R))
    rows: list[int] = []
    total = 0
    for row in seeded_rng("validation", seed).permutation(len(lengths_R)):
        if total + lengths_R[row] <= tokens:
            rows.append(row)
            total += int(lengths_R[row])
        if total >= COMPLETE * tokens:
            break
    return np.sort(rows) if rows else np.array([np.argmin(lengths_R)])


def row_positions(starts_R: Ints, stops_R: Ints) -> Ints:
    """Return the positions from each start up to its stop."""
    return np.concatenate([np.arange(start, stop) for start, stop in zip(starts_R, stops_R, strict=True)])


def sample_stream(tokens: TokenFile, tokenizer: Tokenizer, limit: int) -> TokenFile:
    """Return the first `limit` tokens of a text without document ends."""
    ids = np.array(tokens.ids[: limit + 1])
    size = int(tokenizer.byte_lengths[ids[1:].astype(np.int64)].sum())
    return _part(tokens, ids, tokenizer, [tokenizer.decode(ids[1:])], size)


def sample_documents(
    tokens: TokenFile, tokenizer: Tokenizer, limit: int, seed: int, *, line_ends: bool
) -> tuple[TokenFile, Ints, Ints]:
    """Return a random choice of documents with at most `limit` tokens, their indices, and the positions of their ids.

    With `line_ends` each document counts one byte and one character more.
    """
    documents = split_documents(tokens.ids, tokenizer.boundary)
    rows = sample_rows(documents.lengths + 1, limit, seed)
    positions = np.append(0, row_positions(documents.starts_R[rows], documents.stops_R[rows] + 1))
    ids = np.asarray(tokens.ids)[positions]
    texts = [text + line_ends * "\n" for text in decode_documents(ids, tokenizer)]
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return _part(tokens, ids, tokenizer, texts, size), rows, positions


def _part(tokens: TokenFile, ids: Ints, tokenizer: Tokenizer, texts: list[str], size: int) -> TokenFile:
    """Return a part of a token file with these ids, which decode to `texts` of `size` bytes."""
    counts = replace(
        tokens.counts,
        documents=len(texts),
        tokens=len(ids) - 1,
        unknown=int((ids == tokenizer.unknown).sum()) if tokenizer.unknown is not None else 0,
        characters=sum(map(len, texts)),
        bytes=size,
    )
    return replace(tokens, ids=ids, counts=counts)
