"""Language models: the probability of the next token from the encoding of those before it.

Letters: B batch, T time, S stride, D width, V vocabulary, N positions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.data.batches import group_by_length
from satchel.models.encoder import CausalEncoder, State
from satchel.ngram.tables import Table
from satchel.nn.linear import Product
from satchel.nn.sites import Site
from satchel.predictor import Floats, Ids, Scores
from satchel.tasks.gate import Gate
from satchel.tasks.objectives import NO_TARGET, SCORES_AT_ONCE, Reduction, cross_entropy

# Tokens encoded at once when a text is scored, and the longest stretch of one document among them.
TOKENS_AT_ONCE = 1 << 13
LONGEST_STRETCH = 1 << 10


class LanguageHead(nn.Module):
    """Scores every token by its dot product with an encoding: softmax(W h). The rows of W are word vectors.

    Tied, they are the encoder's own.
    """

    def __init__(self, encoder: CausalEncoder, *, tied: bool = True) -> None:
        super().__init__()
        self.weight = encoder.embedding.weight if tied else nn.Parameter(torch.empty_like(encoder.embedding.weight))
        if not tied:
            nn.init.normal_(self.weight, std=0.02)
        self.product, self.logits = Product(), Site()

    def forward(self, encoded_BTD: Tensor) -> Tensor:
        """Return the (B, T, V) scores."""
        scores: Tensor = self.logits(self.product(encoded_BTD, self.weight))
        return scores

    def loss(
        self,
        encoded_BTD: Tensor,
        targets_BT: Tensor,
        reduction: Reduction = "mean",
        *,
        smoothing: float = 0.0,
    ) -> Tensor:
        """Return the sum over positions of -log P(target), or its mean; the scores are never all there at once."""
        hidden_ND, targets_N = encoded_BTD.reshape(-1, encoded_BTD.shape[-1]), targets_BT.reshape(-1)
        return cross_entropy(hidden_ND, self.weight, targets_N, reduction=reduction, smoothing=smoothing)


class LanguageNetwork(nn.Module):
    """An encoder and a head; and, where it stands on an n-gram, a gate between the two.

    Then P(token) = g P_network(token) + (1 - g) P_ngram(token): the gate says whom to believe where.
    """

    def __init__(self, encoder: CausalEncoder, *, tied: bool = True, ngram: Table | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = LanguageHead(encoder, tied=tied)
        self.ngram = ngram
        self.gate = Gate(encoder.width) if ngram is not None else None

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Return the (B, T, V) scores that the network alone gives what follows each token."""
        scores: Tensor = self.head(self.encoder.encode(ids_BT))
        return scores

    def loss(
        self, ids_BT: Tensor, targets_BT: Tensor, reduction: Reduction = "mean", *, smoothing: float = 0.0
    ) -> Tensor:
        """Return how wrong the predictions of the network alone are.

        It learns as if it stood alone: what an n-gram leaves over is mostly chance, and who learns just that learns
        it by heart.
        """
        return self.head.loss(self.encoder.encode(ids_BT), targets_BT, reduction, smoothing=smoothing)


def shifted(ids_T: Sequence[int] | Tensor) -> tuple[Tensor, Tensor]:
    """Return what goes in and what should come out: the same tokens, one place on."""
    ids = torch.as_tensor(ids_T)
    return ids[..., :-1], ids[..., 1:]


def chunked(ids_T: Sequence[int], length: int, boundary: int) -> tuple[Tensor, Tensor]:
    """Return a text as rows of at most `length` inputs and targets; each begins again with the boundary.

    A row's inputs are the boundary and all of its targets but the last, so every token is predicted once, from
    what came before it in its row. Short rows are filled up; what fills them has no target.
    """
    rows = [list(ids_T[start : start + length]) for start in range(0, len(ids_T), length)]
    inputs_BT = torch.full((len(rows), length), boundary)
    targets_BT = torch.full((len(rows), length), NO_TARGET)
    for number, row in enumerate(rows):
        inputs_BT[number, 1 : len(row)] = torch.tensor(row[:-1], dtype=torch.long)
        targets_BT[number, : len(row)] = torch.tensor(row)
    return inputs_BT, targets_BT


# --- as a predictor ----------------------------------------------------------------------------------


@dataclass
class NetworkState:
    """The encoder's state, the tokens it stands for where they may have to be read again, and the n-gram's state."""

    encoder: State
    recent: Ids
    ngram: Any = None


class NetworkPredictor:
    """A network as evaluation and generation see it. It is a Predictor.

    Encoders that carry a state read a document from its beginning. Those with a `context` see windows of that many
    tokens, each half a window further: every token sees at least half a window before it, if there is that much.
    """

    def __init__(self, network: LanguageNetwork, boundary: int) -> None:
        self.network = network
        self.boundary = boundary
        self.window = network.encoder.context

    @property
    def vocabulary(self) -> int:
        return len(self.network.head.weight)

    @property
    def _device(self) -> torch.device:
        return self.network.head.weight.device

    @property
    def context(self) -> str:
        own = "all tokens before each, within its document"
        if self.window is not None:
            own = f"windows of {self.window} tokens, each half a window further, within a document"
        return own if self.network.ngram is None else f"{own}; n-gram: {self.network.ngram.context}"

    def score(self, ids_T: Ids) -> Scores:
        """Return the log-probability of each token after the first; the note `gate` is the network's share."""
        logprobs, gates = (np.empty(max(len(ids_T) - 1, 0)) for _ in range(2))
        for places, found, encoded_ND in self._encodings(ids_T):
            logprobs[places], gates[places] = found, self._gates(encoded_ND)
        if self.network.ngram is None:
            return Scores(logprobs)
        other = self.network.ngram.score(ids_T)
        return Scores(mixed_logprobs(logprobs, other.logprobs, gates), {**other.notes, "gate": _sigmoid(gates)})

    def fit_gate(self, ids_T: Ids, others_T: Floats) -> None:
        """Fit the gate to text that the network has not seen, and n-grams that have not give these logarithms.

        The ends of its pieces are no ends of documents: they say nothing.
        """
        gate = self.network.gate
        assert gate is not None, "only what stands on an n-gram has a gate"
        own_T = np.empty(len(others_T))
        encoded_TD = torch.empty(len(others_T), self.network.encoder.width)
        for places, found, encoded_ND in self._encodings(ids_T):
            own_T[places], encoded_TD[places] = found, encoded_ND.cpu().float()
        inside = np.flatnonzero(np.asarray(ids_T[1:]) != self.boundary)
        if len(inside):
            gate.fit(encoded_TD[inside], torch.from_numpy(own_T[inside]), torch.from_numpy(others_T[inside]))

    def _encodings(self, ids_T: Ids) -> Iterator[tuple[slice, Floats, Tensor]]:
        """Return some places after another: the network's own log-probabilities there, and what it read them off."""
        ids = torch.as_tensor(np.asarray(ids_T, np.int64), device=self._device)
        was_training = self.network.training
        self.network.eval()
        with torch.inference_mode():
            stretches_R = list(self._stretches(ids))
            lengths_R = np.array([stretch.stop - stretch.start for stretch in stretches_R], np.int64)
            for rows in group_by_length(lengths_R, TOKENS_AT_ONCE):
                yield from self._scored(ids, [stretches_R[row] for row in rows])
        self.network.train(was_training)

    def _stretches(self, ids_T: Tensor) -> Iterator["_Stretch"]:
        """Return the parts of a text that are encoded by themselves; documents begin at boundaries."""
        starts = (ids_T[:-1] == self.boundary).nonzero().flatten().tolist()
        for start, stop in zip(starts, [*starts[1:], len(ids_T) - 1], strict=True):
            if self.window is None:
                yield _Stretch(start, stop, start)
                continue
            half = max(1, self.window // 2)
            yield _Stretch(start, min(stop, start + self.window), start)
            for begin in range(start + half, stop - self.window + half, half):
                yield _Stretch(begin, min(stop, begin + self.window), begin + self.window - half)

    def _scored(self, ids_T: Tensor, stretches: list["_Stretch"]) -> Iterator[tuple[slice, Floats, Tensor]]:
        longest = max(stretch.stop - stretch.start for stretch in stretches)
        if longest > LONGEST_STRETCH and self.window is None:
            for stretch in stretches:
                yield from self._carried(ids_T, stretch)
            return
        inputs_BT = torch.full((len(stretches), longest), self.boundary, device=self._device)
        for row, stretch in enumerate(stretches):
            inputs_BT[row, : stretch.stop - stretch.start] = ids_T[stretch.start : stretch.stop]
        # Padding comes last, and nothing before it can see it.
        encoded_BTD = self.network.encoder.encode(inputs_BT)
        for encoded_TD, stretch in zip(encoded_BTD, stretches, strict=True):
            encoded_ND = encoded_TD[stretch.scored - stretch.start : stretch.stop - stretch.start]
            yield self._told(ids_T, stretch.scored, encoded_ND)

    def _carried(self, ids_T: Tensor, stretch: "_Stretch") -> Iterator[tuple[slice, Floats, Tensor]]:
        """Return the same of a long document, whose state is carried from part to part."""
        encoder = self.network.encoder
        state = encoder.start(1)
        for start in range(stretch.start, stretch.stop, LONGEST_STRETCH):
            encoded_BTD, state = encoder.step(ids_T[None, start : min(stretch.stop, start + LONGEST_STRETCH)], state)
            yield self._told(ids_T, start, encoded_BTD[0])

    def _told(self, ids_T: Tensor, start: int, encoded_ND: Tensor) -> tuple[slice, Floats, Tensor]:
        """Return the log-probabilities of the tokens after each encoding, of which the first is that of `start`."""
        targets_N = ids_T[start + 1 : start + 1 + len(encoded_ND)]
        rows = max(1, SCORES_AT_ONCE // self.vocabulary)
        found = [
            -F.cross_entropy(self.network.head(encoded), targets, reduction="none")
            for encoded, targets in zip(encoded_ND.split(rows), targets_N.split(rows), strict=True)
        ]
        logprobs_N = torch.cat(found).cpu().double().numpy() if found else np.empty(0)
        return slice(start, start + len(encoded_ND)), logprobs_N, encoded_ND

    def _gates(self, encoded_ND: Tensor) -> Floats:
        """Return the scores of the gate; where there is none, the network has all."""
        gate = self.network.gate
        if gate is None:
            return np.full(len(encoded_ND), np.inf)
        scores: Floats = gate(encoded_ND).cpu().double().numpy()
        return scores

    def start(self, batch: int) -> NetworkState:
        """Return the state before anything was read."""
        ngram = self.network.ngram
        recent = np.empty((batch, 0), np.int64)
        return NetworkState(self.network.encoder.start(batch), recent, ngram.start(batch) if ngram else None)

    def step(self, ids_BT: Ids, state: Any) -> tuple[Floats, NetworkState]:
        """Return the (B, V) log-probabilities of what follows these ids, and the state there.

        Where the context is full, the last half of it is read again and goes on from there.
        """
        assert isinstance(state, NetworkState)
        encoder, recent_BT = state.encoder, state.recent
        new_BT: Ids = np.asarray(ids_BT, np.int64)
        if self.window is not None:
            recent_BT = np.concatenate([state.recent, new_BT], axis=1)
            if recent_BT.shape[1] > self.window:
                recent_BT = new_BT = recent_BT[:, -max(1, self.window // 2) :]
                encoder = self.network.encoder.start(len(new_BT))
        was_training = self.network.training
        self.network.eval()
        with torch.inference_mode():
            encoded_BTD, encoder = self.network.encoder.step(torch.as_tensor(new_BT, device=self._device), encoder)
            logprobs_BV: Floats = self.network.head(encoded_BTD[:, -1]).cpu().double().log_softmax(dim=-1).numpy()
            gates_B = self._gates(encoded_BTD[:, -1])
        self.network.train(was_training)
        if self.network.ngram is None:
            return logprobs_BV, NetworkState(encoder, recent_BT)
        others_BV, ngram = self.network.ngram.step(ids_BT, state.ngram)
        return mixed_logprobs(logprobs_BV, others_BV, gates_B[:, None]), NetworkState(encoder, recent_BT, ngram)


def mixed_logprobs(own: Floats, other: Floats, gates: Floats) -> Floats:
    """Return the logs of g times one probability and 1 - g times the other, where g is the gate's sigmoid."""
    mixed: Floats = np.logaddexp(own - np.logaddexp(0, -gates), other - np.logaddexp(0, gates))
    return mixed


def _sigmoid(scores: Floats) -> Floats:
    found: Floats = np.exp(-np.logaddexp(0, -scores))
    return found


@dataclass(frozen=True)
class _Stretch:
    """Inputs `start` to `stop` of a text are encoded; those from `scored` on predict the token after them."""

    start: int
    stop: int
    scored: int
