"""Backpack encoder (Hewitt et al., 2023): output = weighted sum of context-independent sense vectors.

Shapes: B batch, T time, S source time, D width, N senses, K width of a sense's queries and keys, U unique tokens,
X (position, sense) pairs.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from satchel.models.encoder import CausalEncoder, Contextualiser, State
from satchel.models.recurrent import RecurrentContextualiser, RecurrentSettings
from satchel.models.settings import LARGEST_WIDTH
from satchel.models.transformer import TransformerContextualiser, TransformerSettings
from satchel.nn.kv_cache import AppendBuffer
from satchel.nn.sense_lookup import SenseLookup
from satchel.nn.senses import (
    SenseAttention,
    SenseNetwork,
    gather_senses,
    visible_mask,
    weighted_sum,
    weighted_sum_in_blocks,
)
from satchel.nn.sites import Site

ContextualiserKind = Literal["transformer", "rnn", "gru", "lstm", "uniform"]


class BackpackSettings(TransformerSettings):
    """Settings of a Backpack and of the Transformer that computes its sense weights."""

    kind: Literal["backpack"] = Field("backpack", description="Weighted sum of the sense vectors of tokens")  # type: ignore[assignment]
    senses: int = Field(16, ge=1, le=4096, description="Number of sense vectors per token")
    contextualiser: ContextualiserKind = Field(
        "transformer",
        description="Network that computes the sense weights: transformer, rnn, gru, lstm; uniform: equal weights",
    )
    sense_source: Literal["network", "table"] = Field(
        "network", description="Compute sense vectors from the embedding (network) or learn them per token (table)"
    )
    sense_hidden: int | None = Field(
        None, ge=1, le=LARGEST_WIDTH, description="Size of the hidden layers of the sense network; default 4 width"
    )
    nearness: float = Field(
        0.0, ge=0, description="Subtract this times the distance in positions from the score of a sense"
    )
    diversity: float = Field(
        0.0, ge=0, description="Weight of the penalty on the cosine similarity of a token's senses"
    )
    output: Literal["sum", "mean"] = Field("sum", description="Sum or mean over the senses")


def published(**options: Any) -> BackpackSettings:
    """Return settings of the published architecture; the defaults of `BackpackSettings` learn faster."""
    architecture = {
        "positions": "learned",
        "normalise": False,
        "feedforward": "gelu-tanh",
        "bias": True,
        "layer_scale": True,
    }
    return BackpackSettings.model_validate({**architecture, **options})


@dataclass
class BackpackState:
    """The contextualiser's state, and the ids and sense keys of all tokens so far."""

    contextualiser: State | None
    ids_BS: Tensor
    keys_BNSK: AppendBuffer | None

    def select(self, rows: Tensor) -> "BackpackState":
        """Return the state of the given rows."""
        contextualiser = None if self.contextualiser is None else self.contextualiser.select(rows)
        keys = None if self.keys_BNSK is None else self.keys_BNSK.select(rows)
        return BackpackState(contextualiser, self.ids_BS[rows], keys)


class Backpack(CausalEncoder):
    """Encodes each position as a weighted sum of the sense vectors of the tokens up to it.

    Each token has N sense vectors that do not depend on context; the contextualiser only computes their weights. Any
    head that is linear in the output therefore decomposes exactly into one contribution per (position, sense).
    """

    context: int

    def __init__(self, settings: BackpackSettings, vocabulary: int, *, causal: bool) -> None:
        super().__init__(vocabulary, settings.width, causal=causal)
        self.settings = settings
        self.context = settings.context
        self.contextualiser = _contextualiser(settings, causal)
        self.sense_attention: SenseAttention | None = None
        if self.contextualiser is not None:
            self.sense_attention = SenseAttention(settings.width, settings.senses, nearness=settings.nearness)
        self.sense_network: SenseNetwork | nn.Embedding
        if settings.sense_source == "network":
            self.sense_network = SenseNetwork(settings.width, settings.senses, hidden=settings.sense_hidden)
        else:
            self.sense_network = nn.Embedding(vocabulary, settings.senses * settings.width)
            nn.init.normal_(self.sense_network.weight, std=0.02)
        self.scale = 1.0 if settings.output == "sum" else 1 / settings.senses
        self.senses, self.sense_weights = Site(), Site()
        self.sense_lookup = SenseLookup(self.sense_network, self.embedding, settings.senses, self.senses)

    def encode(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the weighted sums of sense vectors (B, T, D)."""
        senses_UND, rows_BT = self.sense_lookup(ids_BT)
        return self.encoded(self._weighted_sums(self.embed(ids_BT), senses_UND, rows_BT, keep_BT))

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the weighted sums for tokens with the given embeddings."""
        assert isinstance(self.sense_network, SenseNetwork), "a table has sense vectors for ids, not for embeddings"
        senses_UND = self.senses(self.sense_network(x_BTD.flatten(0, 1)))
        rows_BT = torch.arange(len(senses_UND), device=x_BTD.device).view(x_BTD.shape[:2])
        return self._weighted_sums(x_BTD, senses_UND, rows_BT, keep_BT)

    def _weighted_sums(self, x_BTD: Tensor, senses_UND: Tensor, rows_BT: Tensor, keep_BT: Tensor | None) -> Tensor:
        senses_BSND = gather_senses(senses_UND, rows_BT)
        length = x_BTD.shape[1]
        if self.contextualiser is None or self.sense_attention is None:
            mask = visible_mask(length, length, keep_BT, causal=self.causal)
            return self.scale * weighted_sum(
                self.sense_weights(self._uniform_weights(x_BTD, length, mask)), senses_BSND
            )
        queries, keys = self.sense_attention.queries_and_keys(self.contextualiser(x_BTD, keep_BT))
        if self.causal and keep_BT is None and not self.sense_weights.is_hooked:
            return self.scale * weighted_sum_in_blocks(self.sense_attention, queries, keys, senses_BSND)
        mask = visible_mask(length, length, keep_BT, causal=self.causal)
        return self.scale * weighted_sum(self.sense_weights(self.sense_attention(queries, keys, mask)), senses_BSND)

    def _uniform_weights(self, x_BTD: Tensor, length: int, mask: Tensor | None) -> Tensor:
        """Return weights (B, N, T, S) that are equal for all visible positions."""
        batch, positions, _ = x_BTD.shape
        weights = x_BTD.new_ones(batch, self.settings.senses, positions, length)
        if mask is not None:
            weights = weights * mask.to(weights)
        return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1)

    def lookup(self, ids: Tensor) -> Tensor:
        """Return the sense vectors (..., N, D) of tokens, without gradients."""
        with torch.no_grad():
            senses_UND, rows = self.sense_lookup(ids)
            return gather_senses(senses_UND, rows)

    def mean_senses(self) -> Tensor:
        """Return the mean (N, D) of each sense over the vocabulary, without gradients."""
        return self.sense_lookup.mean()

    def penalty(self, ids_BT: Tensor) -> Tensor | None:
        """Return `diversity` times the mean squared cosine similarity between the senses of a token."""
        if not self.settings.diversity or self.settings.senses == 1:
            return None
        unit_UND = F.normalize(self.sense_lookup.compute(ids_BT.unique()), dim=-1)
        squares_U = (unit_UND @ unit_UND.transpose(-1, -2)).square().sum(dim=(1, 2))
        senses = self.settings.senses
        return self.settings.diversity * ((squares_U - senses) / (senses * (senses - 1))).mean()

    def start(self, batch: int) -> BackpackState:
        """Return the state without tokens."""
        contextualiser = self.contextualiser.start(batch) if self.contextualiser is not None else None
        ids_BS = torch.empty(batch, 0, dtype=torch.long, device=self.embedding.weight.device)
        return BackpackState(contextualiser, ids_BS, None)

    def step(self, ids_BT: Tensor, state: State) -> tuple[Tensor, BackpackState]:
        """Return the encodings of the next tokens and the state after them."""
        assert self.causal, "incremental decoding needs a causal encoder"
        assert isinstance(state, BackpackState)
        ids_BS = torch.cat([state.ids_BS, ids_BT], dim=1)
        x_BTD, length = self.embed(ids_BT), ids_BS.shape[1]
        mask = visible_mask(ids_BT.shape[1], length, None, causal=True)
        if self.contextualiser is None or self.sense_attention is None or state.contextualiser is None:
            contextualiser, keys_BNSK, weights = None, None, self._uniform_weights(x_BTD, length, mask)
        else:
            hidden_BTD, contextualiser = self.contextualiser.step_vectors(x_BTD, state.contextualiser)
            queries, new_keys = self.sense_attention.queries_and_keys(hidden_BTD)
            keys_BNSK = AppendBuffer(new_keys) if state.keys_BNSK is None else state.keys_BNSK.add(new_keys)
            weights = self.sense_attention(queries, keys_BNSK.values, mask if ids_BT.shape[1] > 1 else None)
        sums = self.scale * self._step_sums(self.sense_weights(weights), ids_BS)
        return self.encoded(sums), BackpackState(contextualiser, ids_BS, keys_BNSK)

    def _step_sums(self, weights_BNTS: Tensor, ids_BS: Tensor) -> Tensor:
        senses_UND, rows_BS = self.sense_lookup(ids_BS)
        if weights_BNTS.shape[2] > 1 or torch.is_grad_enabled():
            return weighted_sum(weights_BNTS, gather_senses(senses_UND, rows_BS))
        # A single position: embedding_bag sums rows of the table without gathering them first.
        count = self.settings.senses
        rows_BX = (rows_BS[..., None] * count + torch.arange(count, device=rows_BS.device)).flatten(1)
        weights_BX = weights_BNTS[:, :, 0].transpose(1, 2).flatten(1)
        sums_BD = F.embedding_bag(rows_BX, senses_UND.flatten(0, 1), mode="sum", per_sample_weights=weights_BX)
        return sums_BD[:, None]


def _contextualiser(settings: BackpackSettings, causal: bool) -> Contextualiser | None:
    """Return the network that computes the inputs of the sense attention; None if sense weights are uniform."""
    match settings.contextualiser:
        case "uniform":
            return None
        case "transformer":
            return TransformerContextualiser(settings, causal=causal)
        case kind:
            recurrent = RecurrentSettings(
                kind=kind, width=settings.width, layers=settings.layers, dropout=settings.dropout
            )
            return RecurrentContextualiser(recurrent, causal=causal)
