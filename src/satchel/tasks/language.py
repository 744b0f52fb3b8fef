"""Language models: predict the next token from the encoding of the tokens before it.

Shapes: B batch, T time, D width, V vocabulary, N positions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.data.batches import NO_TARGET, group_by_length
from satchel.errors import RunError
from satchel.models.encoder import CausalEncoder
from satchel.ngram.tables import Table
from satchel.nn.inference import inference
from satchel.nn.linear import product
from satchel.nn.sites import Site
from satchel.predictor import CombinedDecoder, Decoder, Floats, Ids, Logits, Scores, checked
from satchel.tasks.cached_decoding import CachedDecoder, new_step
from satchel.tasks.decoding import MAX_LENGTH, GroupedDecoder
from satchel.tasks.gate import Gate
from satchel.tasks.objectives import LOGITS_AT_ONCE, Reduction, cross_entropy

# Number of tokens encoded in one batch when a text is scored. Activations of larger batches exceed the cache.
TOKENS_AT_ONCE = 1 << 12


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
class _Window:
    """A part of a text: tokens `start` to `stop` are encoded, and those from `scored` on predict their successor."""

    start: int
    stop: int
    scored: int


# Positions of a text, the network's log-probabilities of the next tokens there, and its encodings (N, D).
_Predictions = tuple[slice, Floats, Tensor]


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

    def score(self, ids_T: Ids) -> Scores:
        """Return the log-probability of each token after the first.

        The note `gate` is the weight of a network that is interpolated with an n-gram model; `target_in_input`, of a
        network without causal mask, is False where the target is not in the input.
        """
        logprobs, gates = (np.empty(max(len(ids_T) - 1, 0)) for _ in range(2))
        in_input = np.ones(len(logprobs), bool)
        with inference(self.network):
            for positions, logprobs_N, encoded_ND in self._predictions(ids_T):
                logprobs[positions], gates[positions] = logprobs_N, self._gate_logits(encoded_ND)
                in_input[positions.stop - 1] = False
        if not self.network.encoder.causal:
            return Scores(logprobs, {"target_in_input": in_input})
        if self.network.ngram is None:
            return Scores(logprobs)
        ngram = self.network.ngram.score(ids_T)
        return Scores(
            interpolate(logprobs, ngram.logprobs, gates), {**ngram.notes, "gate": np.exp(-np.logaddexp(0, -gates))}
        )

    def fit_gate(self, ids_T: Ids, ngram_logprobs_T: Floats) -> None:
        """Fit the gate to text that neither the network nor the n-gram model was trained on.

        Boundaries are left out: the text consists of parts of documents, whose ends are not ends of documents.
        """
        gate = self.network.gate
        assert gate is not None, "a network without an n-gram model has no gate"
        logprobs_T = np.empty(len(ngram_logprobs_T))
        encoded_TD = torch.empty(len(ngram_logprobs_T), self.network.encoder.width)
        with inference(self.network):
            for positions, logprobs_N, encoded_ND in self._predictions(ids_T):
                logprobs_T[positions], encoded_TD[positions] = logprobs_N, encoded_ND.cpu().float()
        inside = np.flatnonzero(np.asarray(ids_T[1:]) != self.boundary)
        if len(inside):
            gate.fit(
                encoded_TD[inside], torch.from_numpy(logprobs_T[inside]), torch.from_numpy(ngram_logprobs_T[inside])
            )

    def _predictions(self, ids_T: Ids) -> Iterator[_Predictions]:
        ids = torch.as_tensor(np.asarray(ids_T, np.int64), device=self._device)
        windows_R = list(self._windows(ids))
        lengths_R = np.array([window.stop - window.start for window in windows_R], np.int64)
        for rows in group_by_length(lengths_R, TOKENS_AT_ONCE):
            yield from self._predict_batch(ids, [windows_R[row] for row in rows])

    def _windows(self, ids_T: Tensor) -> Iterator[_Window]:
        """Yield the windows of all documents; a document starts at a boundary."""
        starts = (ids_T[:-1] == self.boundary).nonzero().flatten().tolist()
        for start, stop in pairwise([*starts, len(ids_T) - 1]):
            if self.window is None:
                yield _Window(start, stop, start)
                continue
            if not self.network.encoder.causal:
                for begin in range(start, stop, self.window):
                    yield _Window(begin, min(stop, begin + self.window), begin)
                continue
            half = max(1, self.window // 2)
            yield _Window(start, min(stop, start + self.window), start)
            for begin in range(start + half, stop - self.window + half, half):
                yield _Window(begin, min(stop, begin + self.window), begin + self.window - half)

    def _predict_batch(self, ids_T: Tensor, windows: list[_Window]) -> Iterator[_Predictions]:
        longest = max(window.stop - window.start for window in windows)
        if longest > MAX_LENGTH and self.window is None:
            for window in windows:
                yield from self._predict_document(ids_T, window)
            return
        inputs_BT = torch.full((len(windows), longest), self.boundary, device=self._device)
        for row, window in enumerate(windows):
            inputs_BT[row, : window.stop - window.start] = ids_T[window.start : window.stop]
        keep_BT = None
        if not self.network.encoder.causal:
            # Padding ends a row: only an encoder without causal mask would see it.
            lengths_B = torch.tensor([window.stop - window.start for window in windows], device=self._device)
            keep_BT = torch.arange(longest, device=self._device) < lengths_B[:, None]
        encoded_BTD = self.network.encoder.encode(inputs_BT, keep_BT)
        # The head is applied once to the scored positions of all windows: many small products would be slower.
        parts = [
            encoded_TD[window.scored - window.start : window.stop - window.start]
            for encoded_TD, window in zip(encoded_BTD, windows, strict=True)
        ]
        targets_N = torch.cat([ids_T[window.scored + 1 : window.stop + 1] for window in windows])
        encoded_ND, lengths = torch.cat(parts), [len(part) for part in parts]
        logprobs = np.split(self._logprobs(encoded_ND, targets_N), np.cumsum(lengths)[:-1])
        for window, logprobs_N, part in zip(windows, logprobs, parts, strict=True):
            yield slice(window.scored, window.stop), logprobs_N, part

    def _predict_document(self, ids_T: Tensor, window: _Window) -> Iterator[_Predictions]:
        """Yield the predictions of a long document, whose state is carried from part to part."""
        encoder = self.network.encoder
        state = encoder.start(1)
        for start in range(window.start, window.stop, MAX_LENGTH):
            encoded_BTD, state = encoder.step(ids_T[None, start : min(window.stop, start + MAX_LENGTH)], state)
            stop = start + encoded_BTD.shape[1]
            yield slice(start, stop), self._logprobs(encoded_BTD[0], ids_T[start + 1 : stop + 1]), encoded_BTD[0]

    def _logprobs(self, encoded_ND: Tensor, targets_N: Tensor) -> Floats:
        """Return the log-probabilities of the targets."""
        rows = max(1, LOGITS_AT_ONCE // self.vocabulary)
        logprobs = [
            -F.cross_entropy(self.network.head(encoded), targets, reduction="none")
            for encoded, targets in zip(encoded_ND.split(rows), targets_N.split(rows), strict=True)
        ]
        return checked(torch.cat(logprobs).cpu().double().numpy())

    def _gate_logits(self, encoded_ND: Tensor) -> Floats:
        """Return the gate's logits; infinity, all weight to the network, if there is no gate."""
        gate = self.network.gate
        if gate is None:
            return np.full(encoded_ND.shape[:-1], np.inf)
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

        def combine(probabilities: list[Logits]) -> Logits:
            with inference(self.network):
                logits = self._gate_logits(decoder.encoded)[..., None]
            # The weight of the n-gram model, 1 - sigmoid(logits).
            weights = np.exp(-np.logaddexp(0, logits))
            mixture: Logits = (1 - weights) * probabilities[0]
            mixture += weights * probabilities[1]
            return mixture

        return CombinedDecoder((decoder, self.network.ngram.decoder()), combine)

    def _network_decoder(self) -> CachedDecoder | GroupedDecoder:
        network = self.network
        step = new_step(network, network.encoder)
        if step is None or self.window is None:
            return GroupedDecoder(network, network.encoder, network.head)
        return CachedDecoder(network, step, network.head.weight, self.window)


def interpolate(network_logprobs: Floats, ngram_logprobs: Floats, gate_logits: Floats) -> Floats:
    """Return log(g P_network + (1 - g) P_ngram), where g is the sigmoid of the gate's logits."""
    mixture: Floats = np.logaddexp(
        network_logprobs - np.logaddexp(0, -gate_logits), ngram_logprobs - np.logaddexp(0, gate_logits)
    )
    return mixture
