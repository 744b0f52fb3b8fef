"""Inference-only forward pass of a Transformer with a preallocated KV cache.

`extend` computes several rows in PyTorch, `extend_row` a few positions of a single row in NumPy, with the same
parameters and the same cache: for one row, the overhead of PyTorch's operations exceeds their arithmetic.
Shapes: B consecutive rows, T new positions, S positions of the cache, D width, H heads, K width of queries and keys,
V width of values, F hidden width.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.models.transformer import TransformerContextualiser, TransformerSettings
from satchel.nn.blocks import Activation, Block
from satchel.nn.inference_layers import Floats, InferenceNorm, Products
from satchel.nn.linear import PostOp
from satchel.nn.positions import Alibi, Rotary, angles
from satchel.nn.row_buffer import RowBuffer
from satchel.nn.vector_activations import activate

Ints = npt.NDArray[np.int64]

# Post-operation of the product that computes the hidden layer.
ACTIVATION_POST_OPS: dict[Activation, PostOp] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu-tanh": "gelu-tanh",
    "squared-relu": "relu",
    "swiglu": "none",
}


# Maximum absolute score whose exponential is computed directly: the sums of a context are finite in single precision.
MAX_EXPONENT = 60


class TransformerStep:
    """The blocks of a causal Transformer as functions of vectors, with a KV cache."""

    def __init__(self, network: TransformerContextualiser, products: Products) -> None:
        assert self.supports(network.settings)
        self._positions, self._norm = network.positions, InferenceNorm(network.norm)
        self._layers = [
            _Layer(block, network.settings, products) for block in network.blocks if isinstance(block, Block)
        ]
        parameter = next(network.parameters(), torch.empty(0))
        heads, key_width, value_width = self._layers[0].widths if self._layers else (0, 0, 0)
        sizes = len(self._layers), heads
        self._keys = RowBuffer(*sizes, key_width, network.context, parameter)
        self._values = RowBuffer(*sizes, value_width, network.context, parameter)
        self._tabulated = 0

    @staticmethod
    def supports(settings: TransformerSettings) -> bool:
        """Return whether the architecture is supported."""
        return settings.norm == "pre" and settings.residual and settings.attention != "narrow"

    def allocate(self, rows: int, positions: int) -> None:
        """Provide memory for this number of rows and positions."""
        for buffer in (self._keys, self._values):
            buffer.allocate(rows, positions)
        if self._layers and self._tabulated < self._keys.positions:
            self._tabulated = self._keys.positions
            theta_SK = np.tile(angles(self._tabulated, self._layers[0].widths[1]).numpy(), 2)
            sines_SK = np.sin(theta_SK)
            sines_SK[:, : sines_SK.shape[1] // 2] *= -1
            tables = (torch.from_numpy(table).to(self._keys.values.dtype) for table in (np.cos(theta_SK), sines_SK))
            cosines, sines = tables
            for layer in self._layers:
                layer.tabulate(cosines, sines)

    def select(self, rows: Ints, length: int) -> None:
        """Move the first `length` positions of these rows to the rows 0, 1, ..."""
        for buffer in (self._keys, self._values):
            buffer.select(rows, length)

    def extend(self, x_BTD: Tensor, first: int, starts_B: Ints) -> Tensor:
        """Return the outputs (B, T, D) for new positions of the rows from `first` on, which row i has from starts_B[i].

        Their keys and values are written to the cache, which has been allocated.
        """
        rows = slice(first, first + len(x_BTD))
        part = Span(starts_B, x_BTD.shape[1])
        if self._positions is not None:
            x_BTD = x_BTD + self._positions(0, part.stop).detach().to(x_BTD)[part.index]
        mask = part.mask()
        for layer, keys_RHSK, values_RHSV in zip(self._layers, self._keys.values, self._values.values, strict=True):
            x_BTD = layer.extend(x_BTD, keys_RHSK[rows], values_RHSV[rows], part, mask)
        return self._norm(x_BTD)

    def extend_row(self, x_TD: Floats, start: int) -> Floats:
        """Return the outputs (T, D) for the positions of the first row from `start` on; keys and values are written."""
        if self._positions is None:
            x_TD = x_TD.copy()
        else:
            x_TD = x_TD + self._positions(start, len(x_TD)).detach().numpy().astype(x_TD.dtype, copy=False)
        for layer, keys_HSK, values_HSV in zip(self._layers, self._keys.arrays, self._values.arrays, strict=True):
            layer.extend_row(x_TD, keys_HSK, values_HSV, start)
        return self._norm.rows(x_TD, np.empty_like(x_TD))


class Span:
    """T new positions of B rows, which start at `starts_B`. Equal starts need no index and fewer masks."""

    def __init__(self, starts_B: Ints, length: int) -> None:
        self.start, self.length = int(starts_B.max(initial=0)), length
        self.stop = self.start + length
        self.is_uniform = bool((starts_B == self.start).all())
        starts_B1 = torch.from_numpy(starts_B[:1] if self.is_uniform else starts_B)[:, None]
        # (B, T), or (1, T) if all rows have the same positions.
        self.positions = starts_B1 + torch.arange(length)
        self._rows_B1 = torch.arange(len(starts_B))[:, None]

    @property
    def index(self) -> slice | Tensor:
        """Index of a table of positions."""
        return slice(self.start, self.stop) if self.is_uniform else self.positions

    def mask(self) -> Tensor | None:
        """Return the mask (B or 1, 1, T, S) of visible positions; None if a causal mask or none suffices."""
        if self.is_uniform and (self.length == 1 or self.start == 0):
            return None
        return (torch.arange(self.stop) <= self.positions[..., None])[:, None]

    def distances(self) -> Tensor:
        """Return the distance (B or 1, 1, T, S) of each position of the cache before a new one; 0 after it."""
        return (self.positions[..., None] - torch.arange(self.stop)).clamp(min=0)[:, None]

    def write(self, buffer_BHSK: Tensor, values_BTHK: Tensor) -> None:
        """Write values to the new positions of a buffer."""
        if self.is_uniform:
            buffer_BHSK[:, :, self.start : self.stop] = values_BTHK.transpose(1, 2)
        else:
            buffer_BHSK[self._rows_B1, :, self.positions] = values_BTHK


class _Layer:
    """A Transformer block as a function of vectors."""

    def __init__(self, block: Block, settings: TransformerSettings, products: Products) -> None:
        attention, feedforward = block.attention, block.feedforward
        key_width, positions = attention.key_width, attention.positions
        self.widths = attention.heads, key_width, attention.value_width
        self._rotary = isinstance(positions, Rotary)
        self._slopes_H11 = positions.slopes_H[:, None, None] if isinstance(positions, Alibi) else None
        self._norms = [InferenceNorm(module) for module in (block.attention_norm, block.feedforward_norm)]
        self._project, self._out, self._widen, self._narrow = (
            products.linear(module.weight, module.bias)
            for module in (attention.project, attention.out, feedforward.widen, feedforward.narrow)
        )
        self._activation = settings.feedforward
        # Norm of queries and keys; its factors and the scale of the scores are part of the rotation.
        self._unit = InferenceNorm(attention.query_norm, scaled=False) if attention.query_norm else None
        self._factors_2K = torch.full((2, key_width), 1.0, dtype=attention.project.weight.dtype)
        self.scale = attention.factor
        if attention.query_norm is not None and attention.key_norm is not None:
            weights = (norm.get_parameter("weight") for norm in (attention.query_norm, attention.key_norm))
            self._factors_2K = torch.stack([weight.detach() for weight in weights])
        if self._rotary or self._unit:
            self._factors_2K[0] *= attention.factor
            self.scale = 1.0
        self._cosines_S21K: Tensor | None = None
        self._sines_S21K: Tensor | None = None
        self._cosines_array: Floats | None = None
        self._sines_array: Floats | None = None
        # Unit vectors have bounded scores, whose exponentials are finite without subtraction of the maximum.
        bound = float(self._factors_2K.abs().amax(dim=1).prod()) * key_width
        self._is_bounded = self._unit is not None and self._slopes_H11 is None and bound < MAX_EXPONENT
        self._width, self._memories = settings.width, dict[int, _Memory]()
        self._ones_S = np.ones(settings.context, attention.project.weight.detach().numpy().dtype)

    # --- rotation of queries and keys

    def tabulate(self, cosines_SK: Tensor, sines_SK: Tensor) -> None:
        """Compute the factors of queries and keys for a number of positions from the cosines and sines of their angles.

        A rotated query is q * cosines + (halves of q exchanged) * sines, times the factors of its norm and the scores.
        """
        factors_2K = self._factors_2K
        if self._rotary:
            exchanged_2K = factors_2K.unflatten(1, (2, -1)).flip(1).flatten(1)
            self._cosines_S21K = cosines_SK[:, None, None] * factors_2K[:, None]
            self._sines_S21K = sines_SK[:, None, None] * exchanged_2K[:, None]
            self._cosines_array = self._cosines_S21K.numpy()
            self._sines_array = self._sines_S21K.unflatten(-1, (2, -1)).numpy()
        elif self._unit is not None:
            self._cosines_S21K = factors_2K[None, :, None].expand(len(cosines_SK), -1, -1, -1)

    # --- several rows or positions

    def extend(self, x_BTD: Tensor, keys_BHSK: Tensor, values_BHSV: Tensor, part: Span, mask: Tensor | None) -> Tensor:
        """Return the outputs of new positions, and write their keys and values to the cache."""
        heads, key_width, value_width = self.widths
        batch, length, count = len(x_BTD), part.length, 2 * heads * key_width
        projected = self._project(self._norms[0](x_BTD))
        both_BT2HK = self._rotate(projected[..., :count].view(batch, length, 2, heads, key_width), part)
        part.write(keys_BHSK, both_BT2HK[:, :, 1])
        part.write(values_BHSV, projected[..., count:].view(batch, length, heads, value_width))
        if self._slopes_H11 is not None:
            biases = -self._slopes_H11 * part.distances()
            visible = torch.arange(part.stop) <= part.positions[:, None, :, None]
            mask = biases.masked_fill(~visible, -math.inf).to(x_BTD.dtype)
        outputs_BHTV = self._attend(
            both_BT2HK[:, :, 0].transpose(1, 2), keys_BHSK[:, :, : part.stop], values_BHSV[:, :, : part.stop], mask
        )
        x_BTD = self._out(outputs_BHTV.transpose(1, 2).reshape(batch, length, -1), residual=x_BTD)
        hidden_BTF = self._widen(self._norms[1](x_BTD), ACTIVATION_POST_OPS[self._activation])
        return self._narrow(self._complete(hidden_BTF), residual=x_BTD)

    def _attend(self, queries_BHTK: Tensor, keys_BHSK: Tensor, values_BHSV: Tensor, mask: Tensor | None) -> Tensor:
        """Return the outputs (B, H, T, V) of attention; without a mask, several queries have the causal mask."""
        if queries_BHTK.shape[2] > 1:
            return F.scaled_dot_product_attention(
                queries_BHTK, keys_BHSK, values_BHSV, attn_mask=mask, is_causal=mask is None, scale=self.scale
            )
        # The fused kernel is slower for a single query.
        scores_BHTS = torch.matmul(queries_BHTK * self.scale, keys_BHSK.transpose(-1, -2))
        if mask is not None:
            scores_BHTS = scores_BHTS.masked_fill_(~mask, -math.inf) if mask.dtype == torch.bool else scores_BHTS + mask
        return torch.matmul(scores_BHTS.softmax(dim=-1), values_BHSV)

    def _rotate(self, both_BT2HK: Tensor, part: Span) -> Tensor:
        if self._unit is not None:
            both_BT2HK = self._unit(both_BT2HK)
        if self._cosines_S21K is None:
            return both_BT2HK
        rotated = both_BT2HK * self._cosines_S21K[part.index]
        if self._sines_S21K is None:
            return rotated
        half = both_BT2HK.shape[-1] // 2
        exchanged = torch.cat([both_BT2HK[..., half:], both_BT2HK[..., :half]], dim=-1)
        return rotated.addcmul_(exchanged, self._sines_S21K[part.index])

    def _complete(self, hidden: Tensor) -> Tensor:
        """Return the hidden layer after the part of the activation that is not a post-operation."""
        match self._activation:
            case "squared-relu":
                return hidden.square_()
            case "swiglu":
                gate, value = hidden.chunk(2, dim=-1)
                return F.silu(gate) * value
        return hidden

    # --- positions of one row

    def extend_row(self, x_TD: Floats, keys_HSK: Floats, values_HSV: Floats, start: int) -> None:
        """Add the updates of the layer to the vectors x in place; write their keys and values to the cache."""
        length, stop = len(x_TD), start + len(x_TD)
        memory = self._memories.get(length) or self._new_memory(length)
        memory.projected_TX[:] = self._project.rows(self._norms[0].rows(x_TD, memory.normed_TD))
        both_T2HK = self._rotate_row(memory, start)
        keys_HSK[:, start:stop] = both_T2HK[:, 1].swapaxes(0, 1)
        values_HSV[:, start:stop] = memory.values_HTV
        weights_HTS = np.matmul(both_T2HK[:, 0].swapaxes(0, 1), keys_HSK[:, :stop].swapaxes(1, 2))
        if self.scale != 1.0:
            weights_HTS *= self.scale
        if self._slopes_H11 is not None:
            distances_TS = np.arange(start, stop)[:, None] - np.arange(stop)
            weights_HTS -= self._slopes_H11.numpy() * distances_TS.astype(weights_HTS.dtype)
        for number in range(length - 1):
            weights_HTS[:, number, start + number + 1 :] = -np.inf
        # The softmax, whose division follows the weighted sum of the values.
        if not self._is_bounded:
            weights_HTS -= np.maximum.reduce(weights_HTS, axis=2, keepdims=True)
        np.exp(weights_HTS, out=weights_HTS)
        np.matmul(weights_HTS, values_HSV[:, :stop], out=memory.outputs_HTV)
        np.divide(memory.outputs_HTV, weights_HTS.dot(self._ones_S[:stop])[..., None], out=memory.outputs_HTV)
        x_TD += self._out.rows(memory.outputs_HTV.swapaxes(0, 1).reshape(length, -1))
        hidden_TF = self._widen.rows(self._norms[1].rows(x_TD, memory.normed_TD))
        x_TD += self._narrow.rows(activate(hidden_TF, self._activation))

    def _rotate_row(self, memory: "_Memory", start: int) -> Floats:
        if self._unit is not None:
            self._unit.unit_vectors(memory.both_TNK)
        if self._sines_array is not None and self._cosines_array is not None:
            positions = slice(start, start + len(memory.both_T2HK))
            np.multiply(memory.exchanged_T2H2K, self._sines_array[positions], out=memory.products_T2H2K)
            np.multiply(memory.both_T2HK, self._cosines_array[positions], out=memory.rotated_T2HK)
            np.add(memory.rotated_T2HK, memory.products_T2HK, out=memory.rotated_T2HK)
            return memory.rotated_T2HK
        if self._unit is not None:
            np.multiply(memory.both_T2HK, self._factors_2K.numpy()[:, None], out=memory.rotated_T2HK)
            return memory.rotated_T2HK
        return memory.both_T2HK

    def _new_memory(self, length: int) -> "_Memory":
        memory = self._memories[length] = _Memory(length, self.widths, self._width, self._ones_S.dtype)
        return memory


class _Memory:
    """Arrays for the values of `extend_row` at T positions, and views of them."""

    rotated_T2HK: Floats
    both_T2HK: Floats

    def __init__(self, length: int, widths: tuple[int, int, int], width: int, dtype: Any) -> None:
        heads, key_width, value_width = widths
        count = 2 * heads * key_width
        self.normed_TD = np.empty((length, width), dtype)
        self.projected_TX = np.empty((length, count + heads * value_width), dtype)
        self.both_T2HK = self.projected_TX[:, :count].reshape(length, 2, heads, key_width)
        self.both_TNK = self.projected_TX[:, :count].reshape(length, 2 * heads, key_width)
        self.values_HTV = self.projected_TX[:, count:].reshape(length, heads, value_width).swapaxes(0, 1)
        self.rotated_T2HK, self.products_T2HK = (np.empty((length, 2, heads, key_width), dtype) for _ in range(2))
        if key_width % 2 == 0:
            halves = length, 2, heads, 2, key_width // 2
            self.exchanged_T2H2K = self.both_T2HK.reshape(halves)[..., ::-1, :]
            self.products_T2H2K = self.products_T2HK.reshape(halves)
        self.outputs_HTV = np.empty((heads, length, value_width), dtype)
