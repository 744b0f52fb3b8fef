"""Language models: predict the next token from the encoding of the tokens before it.

Shapes: B batch, T time, D width, V vocabulary, N positions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.data.batches import NO_TARGET, Ints, group_by_length
from satchel.errors import RunError, SettingsError
from satchel.models.encoder import CausalEncoder
from satchel.ngram.tables import Table
from satchel.nn.inference import inference
from satchel.nn.inference_layers import Products
from satchel.nn.linear import product
from satchel.nn.precision import Precision
from satchel.nn.sites import Site
from satchel.predictor import CombinedDecoder, Decoder, Floats, Ids, Logits, Scores, checked
from satchel.tasks.cached_decoding import CachedDecoder, new_step
from satchel.tasks.decoding import MAX_LENGTH, GroupedDecoder
from satchel.tasks.gate import Gate
from satchel.tasks.objectives import Reduction, cross_entropy

# Number of tokens encoded in one batch when a text is scored. Activations of larger batches exceed the cache.
TOKENS_AT_ONCE = 1 << 12
# Number of logits that are computed together when a text is scored: they stay in the processor's cache.
LOGITS_IN_CACHE = 1 << 19


class LanguageHead(nn.Module):
    """Maps an encoding to the logits of all tokens, W h. A tied head uses the encoder's embedding as W."""

    def __init__(self, encoder: CausalEncoder, *, tied: bool = True) -> None:
        super().__init__()
        self.weight = encoder.embedding.weight if tied else nn.Parameter(torch.empty_like(encoder.embedding.weight))
        if not tied:
            nn.init.normal_(self.weight, std=0.02)
        self.logits = Site()

    def forward(self, encoded_BTD: Tensor) -> Tensor:
        """Return the logits (B, T, V)."""
        return self.logits(product(encoded_BTD, self.weight))

    def loss(
        self,
        encoded_BTD: Tensor,
        targets_BT: Tensor,
        reduction: Reduction = "mean",
        *,
        smoothing: float = 0.0,
    ) -> Tensor:
        """Return the cross-entropy of the targets, without holding all logits in memory."""
        hidden_ND, targets_N = encoded_BTD.reshape(-1, encoded_BTD.shape[-1]), targets_BT.reshape(-1)
        return cross_entropy(hidden_ND, self.weight, targets_N, reduction=reduction, smoothing=smoothing)


class LanguageNetwork(nn.Module):
    """An encoder and a head, optionally interpolated with an n-gram model by a learned gate.

    With an n-gram model, P(token) = g P_network(token) + (1 - g) P_ngram(token), where g depends on the encoding.
    """

    def __init__(self, encoder: CausalEncoder, *, tied: bool = True, ngram: Table | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = LanguageHead(encoder, tied=tied)
        self.ngram = ngram
        self.gate = Gate(encoder.width) if ngram is not None else None

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Return the network's logits (B, T, V) of the next token, without the n-gram model."""
        logits: Tensor = self.head(self.encoder.encode(ids_BT))
        return logits

    def loss(
        self, ids_BT: Tensor, targets_BT: Tensor, reduction: Reduction = "mean", *, smoothing: float = 0.0
    ) -> Tensor:
        """Return the cross-entropy of the network without the n-gram model.

        The network is trained alone: trained on the interpolated probability, it would overfit to the residual that
        the n-gram model leaves.
        """
        # Padding ends a row: only an encoder without causal mask would see it.
        keep_BT = None if self.encoder.causal else targets_BT != NO_TARGET
        if keep_BT is not None and bool(keep_BT.all()):
            keep_BT = None
        return self.head.loss(self.encoder.encode(ids_BT, keep_BT), targets_BT, reduction, smoothing=smoothing)


def shifted(ids_T: Sequence[int] | Tensor) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of next-token prediction: all tokens but the last, all but the first."""
    ids = torch.as_tensor(ids_T)
    return ids[..., :-1], ids[..., 1:]


def chunked(ids_T: Sequence[int], length: int, boundary: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a text in rows of `length` tokens, each of which starts with the boundary.

    The inputs of a row are the boundary and all targets but the last, so every token is predicted once, from the
    tokens before it in its row. The last row is padded with NO_TARGET.
    """
    rows = [list(ids_T[start : start + length]) for start in range(0, len(ids_T), length)]
    inputs_BT = torch.full((len(rows), length), boundary)
    targets_BT = torch.full((len(rows), length), NO_TARGET)
    for number, row in enumerate(rows):
        inputs_BT[number, 1 : len(row)] = torch.tensor(row[:-1], dtype=torch.long)
        targets_BT[number, : len(row)] = torch.tensor(row)
    return inputs_BT, targets_BT


# --- predictor ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Windows:
    """Parts of a text: of window r, tokens `starts[r]` to `stops[r]` are encoded, and those from `scored[r]` on predict
    their successor.
    """

    starts: Ints
    stops: Ints
    scored: Ints


# Positions of a text, the network's log-probabilities of the next tokens there, and its encodings (N, D).
_Predictions = tuple[Ints, Floats, Tensor]


class NetworkPredictor:
    """Implements `Predictor` for a network.

    An encoder without a maximum length reads a document from its start. Otherwise a document is read in overlapping
    windows of `context` tokens with a stride of half a window, so that a token is predicted from at least half a
    window, if the document has that many tokens before it.

    Without a causal mask, the windows do not overlap, as in training. The target of each position but the last one of
    a window is in the input, and incremental prediction is refused. `where` is the run folder, for error messages.
    """

    def __init__(self, network: LanguageNetwork, boundary: int, where: str = "") -> None:
        self.network = network
        self.boundary = boundary
        self.where = where
        self.window = network.encoder.context
        self.precision: Precision = "float32"  # of scoring
        self.products = Products()  # of decoding

    @property
    def vocabulary(self) -> int:
        return len(self.network.head.weight)

    @property
    def _device(self) -> torch.device:
        return self.network.head.weight.device

    @property
    def context(self) -> str:
        context = "all preceding tokens of the document"
        if not self.network.encoder.causal:
            return f"all tokens of a window of {self.window} tokens, the later ones included; windows do not overlap"
        if self.window is not None:
            context = f"windows of {self.window} tokens with a stride of half a window, within a document"
        return context if self.network.ngram is None else f"{context}; n-gram: {self.network.ngram.context}"

    def score(self, ids_T: Ids, *, ends: bool = True) -> Scores:
        """Return the log-probability of each token after the first; without `ends`, 0 for the ends of documents.

        The note `gate` is the weight of a network that is interpolated with an n-gram model; `target_in_input`, of a
        network without causal mask, is False where the target is not in the input.
        """
        ids_T = np.asarray(ids_T, np.int64)
        windows = self._windows(ids_T, ends=ends)
        logprobs, gates = (np.zeros(max(len(ids_T) - 1, 0)) for _ in range(2))
        with inference(self.network, precision=self.precision):
            for positions, logprobs_N, encoded_ND in self._predictions(ids_T, windows):
                logprobs[positions] = logprobs_N
                if self.network.ngram is not None:
                    gates[positions] = self._gate_logits(encoded_ND)
        if not self.network.encoder.causal:
            in_input = np.ones(len(logprobs), bool)
            in_input[windows.stops - 1] = False
            return Scores(logprobs, {"target_in_input": in_input})
        if self.network.ngram is None:
            return Scores(logprobs)
        ngram = self.network.ngram.score(ids_T, ends=ends)
        return Scores(
            interpolate(logprobs, ngram.logprobs, gates), {**ngram.notes, "gate": np.exp(-np.logaddexp(0, -gates))}
        )

    def fit_gate(self, ids_T: Ids, ngram_logprobs_T: Floats) -> None:
        """Fit the gate to text that neither the network nor the n-gram model was trained on.

        Boundaries are left out: the text consists of parts of documents, whose ends are not ends of documents.
        """
        gate = self.network.gate
        assert gate is not None, "a network without an n-gram model has no gate"
        ids_T = np.asarray(ids_T, np.int64)
        logprobs_T = np.empty(len(ngram_logprobs_T))
        encoded_TD = torch.empty(len(ngram_logprobs_T), self.network.encoder.width)
        with inference(self.network):
            for positions, logprobs_N, encoded_ND in self._predictions(ids_T, self._windows(ids_T)):
                logprobs_T[positions], encoded_TD[positions] = logprobs_N, encoded_ND.cpu().float()
        inside = np.flatnonzero(ids_T[1:] != self.boundary)
        if len(inside):
            gate.fit(
                encoded_TD[inside], torch.from_numpy(logprobs_T[inside]), torch.from_numpy(ngram_logprobs_T[inside])
            )

    def _predictions(self, ids_T: Ids, windows: _Windows) -> Iterator[_Predictions]:
        lengths_R = windows.stops - windows.starts
        for rows in group_by_length(lengths_R, TOKENS_AT_ONCE):
            if self.window is None and lengths_R[rows[-1]] > MAX_LENGTH:
                for row in rows:
                    yield from self._predict_document(ids_T, windows.starts[row], windows.stops[row])
            else:
                yield self._predict_batch(ids_T, windows.starts[rows], windows.stops[rows], windows.scored[rows])

    def _windows(self, ids_T: Ids, *, ends: bool = True) -> _Windows:
        """Return the windows of all documents; a document starts at a boundary."""
        starts = np.flatnonzero(ids_T[:-1] == self.boundary)
        stops = np.append(starts, len(ids_T) - 1)[1:]
        if not ends:
            # The last token of a document predicts nothing, and a network without causal mask must not see it.
            stops = stops - (ids_T[stops] == self.boundary)
            starts, stops = starts[stops > starts], stops[stops > starts]
        if self.window is None:
            return _Windows(starts, stops, starts)
        stride = max(1, self.window // 2) if self.network.encoder.causal else self.window
        windows = 1 + -(-np.maximum(stops - starts - self.window, 0) // stride)
        # Number of each window within its document: 0, 1, ... for every document.
        numbers_R = np.arange(int(windows.sum())) - np.repeat(np.cumsum(windows) - windows, windows)
        starts_R = np.repeat(starts, windows) + stride * numbers_R
        stops_R = np.minimum(starts_R + self.window, np.repeat(stops, windows))
        return _Windows(starts_R, stops_R, starts_R + np.where(numbers_R > 0, self.window - stride, 0))

    def _predict_batch(self, ids_T: Ids, starts_B: Ints, stops_B: Ints, scored_B: Ints) -> _Predictions:
        """Return the predictions of windows, which are encoded as one batch."""
        positions_BT = starts_B[:, None] + np.arange((stops_B - starts_B).max())
        keep_BT = positions_BT < stops_B[:, None]
        inputs_BT = np.where(keep_BT, ids_T[np.minimum(positions_BT, len(ids_T) - 1)], self.boundary)
        # Padding ends a row: only an encoder without causal mask would see it.
        keep = None if self.network.encoder.causal else self._tensor(keep_BT)
        encoded_BTD = self.network.encoder.encode(self._tensor(inputs_BT), keep)
        is_scored_BT = keep_BT & (positions_BT >= scored_B[:, None])
        positions_N = positions_BT[is_scored_BT]
        encoded_ND = encoded_BTD.flatten(0, 1)
        if len(positions_N) < len(encoded_ND):
            encoded_ND = encoded_ND[self._tensor(np.flatnonzero(is_scored_BT))]
        return positions_N, self._logprobs(encoded_ND, ids_T[positions_N + 1]), encoded_ND

    def _predict_document(self, ids_T: Ids, begin: int, end: int) -> Iterator[_Predictions]:
        """Yield the predictions of a long document, whose state is carried from part to part."""
        encoder = self.network.encoder
        state = encoder.start(1)
        for start in range(begin, end, MAX_LENGTH):
            stop = min(end, start + MAX_LENGTH)
            encoded_BTD, state = encoder.step(self._tensor(ids_T[None, start:stop]), state)
            yield np.arange(start, stop), self._logprobs(encoded_BTD[0], ids_T[start + 1 : stop + 1]), encoded_BTD[0]

    def _logprobs(self, encoded_ND: Tensor, targets_N: Ids) -> Floats:
        """Return the log-probabilities of the targets."""
        rows = max(1, LOGITS_IN_CACHE // self.vocabulary)
        parts = zip(encoded_ND.split(rows), self._tensor(targets_N).split(rows), strict=True)
        return checked(torch.cat([self._target_logprobs(*part) for part in parts]).cpu().double().numpy())

    def _target_logprobs(self, encoded_ND: Tensor, targets_N: Tensor) -> Tensor:
        logits_NV = self.network.head(encoded_ND).to(self.network.head.weight.dtype)
        return -F.cross_entropy(logits_NV, targets_N, reduction="none")

    def _tensor(self, values: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self._device)

    def _gate_logits(self, encoded_ND: Tensor) -> Floats:
        """Return the gate's logits."""
        gate = self.network.gate
        assert gate is not None, "a network without an n-gram model has no gate"
        logits: Floats = gate(encoded_ND).cpu().double().numpy()
        return logits

    def decoder(self) -> Decoder:
        """Return a decoder without rows."""
        if not self.network.encoder.causal:
            raise RunError(
                "model.causal=false: the network sees the tokens after a position, so it cannot predict a text from "
                "left to right",
                "train with --set model.causal=true; `satchel evaluate` and `satchel score` work without causal mask",
                where=self.where,
            )
        decoder = self._network_decoder()
        if self.network.ngram is None:
            return decoder

        gate = self.network.gate
        assert gate is not None

        def combine(probabilities: list[Logits]) -> Logits:
            # The weight of the n-gram model, 1 - sigmoid(logits).
            weights = np.exp(-np.logaddexp(0, gate.logits(decoder.encoded)))[..., None]
            mixture: Logits = (1 - weights) * probabilities[0]
            mixture += weights * probabilities[1]
            return mixture

        return CombinedDecoder((decoder, self.network.ngram.decoder()), combine)

    def _network_decoder(self) -> CachedDecoder | GroupedDecoder:
        network, products = self.network, self.products
        step = new_step(network, network.encoder, products)
        if step is not None and self.window is not None:
            return CachedDecoder(network, step, network.head.weight, self.window, products)
        if products.precision != "float32":
            raise SettingsError(
                f"precision={products.precision}: only Transformers and Backpacks with pre-norm support it",
                "use float32",
            )
        return GroupedDecoder(network, network.encoder, network.head)


def interpolate(network_logprobs: Floats, ngram_logprobs: Floats, gate_logits: Floats) -> Floats:
    """Return log(g P_network + (1 - g) P_ngram), where g is the sigmoid of the gate's logits."""
    mixture: Floats = np.logaddexp(
        network_logprobs - np.logaddexp(0, -gate_logits), ngram_logprobs - np.logaddexp(0, gate_logits)
    )
    return mixture
