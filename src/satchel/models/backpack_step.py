"""Inference-only forward pass of a Backpack with preallocated caches of keys, sense keys and sense vectors.

Shapes: R rows, B consecutive rows, T new positions, S positions of the cache, D width, N senses, K width of a sense's
queries and keys, U distinct tokens.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.models.backpack import Backpack
from satchel.models.transformer import TransformerContextualiser
from satchel.models.transformer_step import Ints, Span, TransformerStep
from satchel.nn.inference_layers import Floats, InferenceNorm, Products
from satchel.nn.row_buffer import RowBuffer
from satchel.nn.senses import SenseNetwork, gather_senses, weighted_sum, weighted_sum_in_blocks
from satchel.nn.vector_activations import activate

# Minimum number of tokens for whose sense vectors memory is allocated.
MIN_TOKENS = 64


class BackpackStep:
    """Encodings of new tokens by a causal Backpack whose contextualiser is a Transformer."""

    def __init__(self, network: Backpack, products: Products) -> None:
        assert isinstance(network.contextualiser, TransformerContextualiser)
        assert network.sense_attention is not None
        self._network, self._attention = network, network.sense_attention
        self._contextualiser = TransformerStep(network.contextualiser, products)
        self._embedding_VD = network.embedding.weight.detach()
        project = network.sense_attention.project
        self._project = products.linear(project.weight, project.bias)
        self._senses = _SenseTable(network)
        senses, key_width = self._attention.senses, self._attention.key_width
        self._keys = RowBuffer(1, senses, key_width, network.context, self._embedding_VD)
        # Rows (R, S) of the positions in the table of sense vectors.
        self._table_rows_RS = np.zeros((0, 0), np.int64)
        # Sense vectors of the first positions of the first row, for `extend_row`.
        self._gathered_SND = self._embedding_VD.new_empty(0, senses, network.width)
        self._gathered = 0

    @staticmethod
    def supports(network: Backpack) -> bool:
        """Return whether the architecture is supported."""
        return network.settings.contextualiser == "transformer" and TransformerStep.supports(network.settings)

    def allocate(self, rows: int, positions: int) -> None:
        """Provide memory for this number of rows and positions."""
        self._contextualiser.allocate(rows, positions)
        self._keys.allocate(rows, positions)
        old_RS, shape = self._table_rows_RS, (len(self._keys.values[0]), self._keys.positions)
        if old_RS.shape != shape:
            self._table_rows_RS = np.zeros(shape, np.int64)
            self._table_rows_RS[: old_RS.shape[0], : old_RS.shape[1]] = old_RS

    def select(self, rows: Ints, length: int) -> None:
        """Move the first `length` positions of these rows to the rows 0, 1, ..."""
        table_rows_RS = self._table_rows_RS[rows]
        self._contextualiser.select(rows, length)
        self._keys.select(rows, length)
        self.allocate(len(rows), length)
        self._table_rows_RS[: len(rows), :length] = table_rows_RS[:, :length]
        self._gathered = 0

    def extend(self, ids_BT: Ints, first: int, starts_B: Ints) -> Tensor:
        """Return the encodings (B, T, D) of new tokens of the rows from `first` on; row i starts at starts_B[i]."""
        ids, part, rows = torch.from_numpy(ids_BT), Span(starts_B, ids_BT.shape[1]), slice(first, first + len(ids_BT))
        hidden_BTD = self._contextualiser.extend(self._embedding_VD[ids], first, starts_B)
        count, width = self._attention.senses, self._attention.key_width
        both_BT2NK = self._project(hidden_BTD).unflatten(-1, (2, count, width))
        keys_BNSK, table_rows_BS = self._keys.values[0, rows], torch.from_numpy(self._table_rows_RS[rows])
        part.write(keys_BNSK, both_BT2NK[:, :, 1])
        table_rows_BT = self._senses.rows(ids_BT)
        senses_UND = self._senses.values
        part.write(table_rows_BS[:, None, :, None], torch.from_numpy(table_rows_BT)[:, :, None, None])
        self._gathered = min(self._gathered, int(starts_B.min()) if first == 0 else self._gathered)
        queries_BNTK = both_BT2NK[:, :, 0].transpose(1, 2)
        keys_BNSK, table_rows_BS = keys_BNSK[:, :, : part.stop], table_rows_BS[:, : part.stop]
        if part.start == 0 and part.length > 1:
            senses_BSND = gather_senses(senses_UND, table_rows_BS)
            return self._network.scale * weighted_sum_in_blocks(self._attention, queries_BNTK, keys_BNSK, senses_BSND)
        scores_BNTS = queries_BNTK @ keys_BNSK.transpose(-1, -2) * self._attention.factor
        if self._attention.nearness:
            scores_BNTS -= self._attention.nearness * part.distances()
        mask = part.mask()
        if mask is not None:
            scores_BNTS.masked_fill_(~mask, -torch.inf)
        weights_BNTS = scores_BNTS.softmax(dim=-1)
        return self._network.scale * _weighted_sums(weights_BNTS, senses_UND, table_rows_BS)

    def extend_row(self, ids_T: Ints, start: int) -> Floats:
        """Return the encodings (T, D) of a few tokens of the first row from the position `start` on."""
        length, stop, attention = len(ids_T), start + len(ids_T), self._attention
        hidden_TD = self._contextualiser.extend_row(self._embedding_VD.numpy()[ids_T], start)
        both_T2NK = self._project.rows(hidden_TD).reshape(length, 2, attention.senses, attention.key_width)
        keys_NSK = self._keys.arrays[0]
        keys_NSK[:, start:stop] = both_T2NK[:, 1].swapaxes(0, 1)
        weights_NTS = np.matmul(both_T2NK[:, 0].swapaxes(0, 1), keys_NSK[:, :stop].swapaxes(1, 2))
        weights_NTS *= attention.factor
        if attention.nearness:
            distances_TS = np.arange(start, stop)[:, None] - np.arange(stop)
            weights_NTS -= (attention.nearness * distances_TS).astype(weights_NTS.dtype)
        for number in range(length - 1):
            weights_NTS[:, number, start + number + 1 :] = -np.inf
        weights_NTS -= np.maximum.reduce(weights_NTS, axis=2, keepdims=True)
        np.exp(weights_NTS, out=weights_NTS)
        weights_NTS *= self._network.scale / np.add.reduce(weights_NTS, axis=2, keepdims=True)
        weights_TX = weights_NTS.transpose(1, 2, 0).reshape(length, -1)
        senses_XD = self._gather(ids_T, start).reshape(weights_TX.shape[1], -1)
        if length == 1:
            sums_D: Floats = np.dot(weights_TX[0], senses_XD)
            return sums_D[None]
        # With the threads of PyTorch, as the other products of several rows.
        encoded_TD: Floats = (torch.from_numpy(weights_TX) @ torch.from_numpy(senses_XD)).numpy()
        return encoded_TD

    def _gather(self, ids_T: Ints, start: int) -> Floats:
        """Return the sense vectors (S, N, D) of the first row, whose positions from `start` on have these tokens."""
        stop = start + len(ids_T)
        rows_T = [self._senses.row(id_) for id_ in ids_T.tolist()]
        self._table_rows_RS[0, start:stop] = rows_T
        if stop > len(self._gathered_SND):
            gathered = self._gathered_SND.new_empty(self._keys.positions, *self._gathered_SND.shape[1:])
            gathered[: self._gathered] = self._gathered_SND[: self._gathered]
            self._gathered_SND = gathered
        if self._gathered < start:
            missing = slice(self._gathered, start)
            self._gathered_SND[missing] = self._senses.values[self._table_rows_RS[0, missing]]
        gathered_SND: Floats = self._gathered_SND[:stop].numpy()
        gathered_SND[start:] = self._senses.arrays[rows_T]
        self._gathered = stop
        return gathered_SND


class _SenseTable:
    """The sense vectors (U, N, D) of the tokens that have occurred."""

    def __init__(self, network: Backpack) -> None:
        self._network = network
        weight_VD = network.embedding.weight.detach()
        self._embedding_VD: Floats = weight_VD.numpy()
        self._rows_V = np.full(len(weight_VD), -1)
        self._count = 0
        self._set(weight_VD.new_empty(0, network.settings.senses, network.width))
        if isinstance(network.sense_network, SenseNetwork):
            self._vector = _SenseVector(network.sense_network)

    def rows(self, ids: Ints) -> Ints:
        """Return the row of each id; the vectors of new ids are computed."""
        new_U = np.unique(ids[self._rows_V[ids] < 0])
        if len(new_U):
            with torch.no_grad():
                self._append(new_U, self._network.sense_lookup.compute(torch.from_numpy(new_U)))
        return self._rows_V[ids]

    def row(self, id_: int) -> int:
        """Return the row of an id, whose vectors are computed in NumPy if it is new."""
        row = int(self._rows_V[id_])
        if row < 0 and isinstance(self._network.sense_network, SenseNetwork):
            senses_ND = self._vector(self._embedding_VD[id_])
            self._append(np.array([id_]), torch.from_numpy(senses_ND).view(1, *self.values.shape[1:]))
            return self._count - 1
        return row if row >= 0 else int(self.rows(np.array([id_]))[0])

    def _append(self, ids_U: Ints, senses_UND: Tensor) -> None:
        start, self._count = self._count, self._count + len(ids_U)
        if self._count > len(self.values):
            # Doubled, so that the number of copies is logarithmic, but never above the size of the vocabulary.
            capacity = max(self._count, min(len(self._rows_V), max(2 * self._count, MIN_TOKENS)))
            values = self.values.new_empty(capacity, *self.values.shape[1:])
            values[:start] = self.values[:start]
            self._set(values)
        self.values[start : self._count] = senses_UND
        self._rows_V[ids_U] = np.arange(start, self._count)

    def _set(self, values_UND: Tensor) -> None:
        self.values = values_UND
        self.arrays: Floats = values_UND.numpy()


class _SenseVector:
    """The sense vectors of one token, in NumPy."""

    def __init__(self, network: SenseNetwork) -> None:
        self._norms = [InferenceNorm(norm) for norm in (network.first_norm, network.second_norm, network.last_norm)]
        linear = network.block.widen, network.block.narrow, network.widen, network.spread
        self._linear = [Products().linear(module.weight, module.bias) for module in linear]

    def __call__(self, x_D: Floats) -> Floats:
        """Return the sense vectors as one array, from the embedding."""
        normed_D = np.empty_like(x_D)
        widen, narrow, last_widen, spread = self._linear
        x_D = x_D + self._norms[0].vector(x_D, normed_D)
        x_D += narrow.vector(activate(widen.vector(self._norms[1].vector(x_D, normed_D)), "gelu-tanh"))
        return spread.vector(activate(last_widen.vector(self._norms[2].vector(x_D, normed_D)), "gelu-tanh"))


def _weighted_sums(weights_BNTS: Tensor, senses_UND: Tensor, table_rows_BS: Tensor) -> Tensor:
    """Return the sums (B, T, D) of sense vectors over positions and senses."""
    if weights_BNTS.shape[2] > 1:
        return weighted_sum(weights_BNTS, gather_senses(senses_UND, table_rows_BS))
    # A single position: embedding_bag sums rows of the table without gathering them first.
    count = senses_UND.shape[1]
    table_rows_BX = (table_rows_BS[..., None] * count + torch.arange(count)).flatten(1)
    weights_BX = weights_BNTS[:, :, 0].transpose(1, 2).flatten(1)
    sums_BD = F.embedding_bag(table_rows_BX, senses_UND.flatten(0, 1), mode="sum", per_sample_weights=weights_BX)
    return sums_BD[:, None]
