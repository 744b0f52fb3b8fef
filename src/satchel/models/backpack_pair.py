"""Backpack pair model: output = weighted sum of the sense vectors of source tokens and of target tokens so far.

Shapes: B sources, R target rows, S source time, T target time, D width, N senses, K width of a sense's queries and
keys, Q target positions of all rows of a source.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from satchel.models.backpack import BackpackSettings
from satchel.models.pair import PairModel
from satchel.models.settings import DECODER_LAYERS, PAIR_CONTEXT, SHARED
from satchel.models.transformer import CrossAttentionMemory, TransformerState
from satchel.models.transformer_pair import TransformerPair
from satchel.nn.attention import causal_mask, softmax
from satchel.nn.kv_cache import AppendBuffer
from satchel.nn.linear import Linear
from satchel.nn.sense_lookup import SenseLookup
from satchel.nn.senses import SenseAttention, SenseNetwork, gather_senses, weighted_sum
from satchel.nn.sites import Site


class BackpackPairSettings(BackpackSettings):
    """Settings of a Backpack that translates, and of the Transformers that compute its sense weights."""

    contextualiser: Literal["transformer"] = Field("transformer", description="Network that computes the sense weights")
    sense_source: Literal["network"] = Field("network", description="Compute sense vectors from the embedding")
    decoder_layers: int | None = DECODER_LAYERS
    shared: bool = SHARED
    context: int = PAIR_CONTEXT

    @model_validator(mode="after")
    def _has_no_nearness(self) -> "BackpackPairSettings":
        if self.nearness:
            raise ValueError("expected nearness=0: source and target tokens have no common positions")
        return self


@dataclass(frozen=True)
class BackpackMemory:
    """The decoder's cross-attention memory, and the sense keys, sense vectors and padding mask of the sources."""

    cross_attention: CrossAttentionMemory
    keys_BNSK: Tensor
    senses_BSND: Tensor
    keep_BS: Tensor

    def select(self, texts: Tensor) -> "BackpackMemory":
        """Return the memory of the given sources."""
        parts = (self.keys_BNSK, self.senses_BSND, self.keep_BS)
        return BackpackMemory(self.cross_attention.select(texts), *(part.index_select(0, texts) for part in parts))


@dataclass(frozen=True)
class BackpackPairState:
    """The decoder's state, the target ids so far, their sense keys, and the memory of the sources."""

    decoder: TransformerState
    ids_RT: Tensor
    keys_RNTK: AppendBuffer | None
    memory: BackpackMemory

    def select(self, rows: Tensor, texts: Tensor | None = None) -> "BackpackPairState":
        """Return the state of the given target rows; with `texts`, of those sources only."""
        keys = None if self.keys_RNTK is None else self.keys_RNTK.select(rows)
        memory = self.memory if texts is None else self.memory.select(texts)
        return BackpackPairState(self.decoder.select(rows, texts), self.ids_RT[rows], keys, memory)


class BackpackPair(PairModel):
    """Encodes a target position as a weighted sum of the sense vectors of all source and earlier target tokens.

    Each sense has one softmax over source and target positions together. Sense vectors do not depend on context; a
    Transformer encoder-decoder only computes their weights. A linear head therefore decomposes exactly into one
    contribution per (source position, sense) and (target position, sense).
    """

    def __init__(self, settings: BackpackPairSettings, source_vocabulary: int, vocabulary: int) -> None:
        super().__init__(settings.width, settings.width)
        self.settings = settings
        self.context = settings.context
        self.contextualiser = TransformerPair(
            settings, source_vocabulary, vocabulary, layers=settings.decoder_layers, shared=settings.shared
        )
        width, senses = settings.width, settings.senses
        self.sense_attention = SenseAttention(width, senses)
        self.source_keys = Linear(width, senses * self.sense_attention.key_width)
        nn.init.normal_(self.source_keys.weight, std=0.02)
        nn.init.zeros_(self.source_keys.bias)
        self.source_sense_network, self.sense_network = (
            SenseNetwork(width, senses, hidden=settings.sense_hidden) for _ in range(2)
        )
        self.scale = 1.0 if settings.output == "sum" else 1 / senses
        self.source_senses, self.senses, self.sense_weights, self.encoded = Site(), Site(), Site(), Site()
        self.source_sense_lookup = SenseLookup(
            self.source_sense_network, self.contextualiser.reader.embedding, senses, self.source_senses
        )
        self.sense_lookup = SenseLookup(self.sense_network, self.words, senses, self.senses)

    @property
    def words(self) -> nn.Embedding:
        """The embedding of target tokens."""
        return self.contextualiser.words

    def read(self, source_BS: Tensor, keep_BS: Tensor | None = None) -> BackpackMemory:
        """Return the decoder's memory of the sources, and their sense keys and sense vectors."""
        encoded_BSD = self.contextualiser.reader.encode(source_BS, keep_BS)
        keys_BNSK = self.source_keys(encoded_BSD).unflatten(-1, (self.sense_attention.senses, -1)).transpose(1, 2)
        kept_BS = torch.ones_like(source_BS, dtype=torch.bool) if keep_BS is None else keep_BS
        cross_attention = self.contextualiser.writer.read(encoded_BSD, keep_BS)
        senses_BSND = gather_senses(*self.source_sense_lookup(source_BS))
        return BackpackMemory(cross_attention, keys_BNSK, senses_BSND, kept_BS)

    def encode(self, target_BT: Tensor, memory: BackpackMemory) -> Tensor:
        """Return the weighted sums of sense vectors (B, T, D)."""
        return self.step(target_BT, self.start(memory))[0]

    def start(self, memory: BackpackMemory, rows: int = 1) -> BackpackPairState:
        """Return the state without target tokens."""
        ids_RT = torch.empty(len(memory.keep_BS) * rows, 0, dtype=torch.long, device=memory.keep_BS.device)
        return BackpackPairState(self.contextualiser.start(memory.cross_attention, rows), ids_RT, None, memory)

    def step(self, target_RT: Tensor, state: Any) -> tuple[Tensor, BackpackPairState]:
        """Return the encodings of the next target tokens and the state after them."""
        assert isinstance(state, BackpackPairState)
        hidden_RTD, decoder = self.contextualiser.step(target_RT, state.decoder)
        queries, new_keys = self.sense_attention.queries_and_keys(hidden_RTD)
        keys_RNTK = AppendBuffer(new_keys) if state.keys_RNTK is None else state.keys_RNTK.add(new_keys)
        ids_RT = torch.cat([state.ids_RT, target_RT], dim=1)
        memory = state.memory
        weights = self.sense_weights(self._weights(queries, keys_RNTK.values, memory))
        source_weights, target_weights = weights.split([memory.keep_BS.shape[1], ids_RT.shape[1]], dim=-1)
        sums = weighted_sum(target_weights, gather_senses(*self.sense_lookup(ids_RT)))
        source_sums = weighted_sum(self._by_source(source_weights, memory), memory.senses_BSND)
        sums = sums + source_sums.reshape(sums.shape)
        return self.encoded(self.scale * sums), BackpackPairState(decoder, ids_RT, keys_RNTK, memory)

    def _weights(self, queries_RNTK: Tensor, keys_RNTK: Tensor, memory: BackpackMemory) -> Tensor:
        """Return the sense weights (R, N, T, S + T), normalised over source and target positions together."""
        rows, senses, length, _ = queries_RNTK.shape
        source_scores_BNQS = self._by_source(queries_RNTK, memory) @ memory.keys_BNSK.transpose(-1, -2)
        source_scores = source_scores_BNQS.unflatten(2, (-1, length)).transpose(1, 2).reshape(rows, senses, length, -1)
        target_scores = queries_RNTK @ keys_RNTK.transpose(-1, -2)
        kept_RS = memory.keep_BS.repeat_interleave(rows // len(memory.keep_BS), dim=0)
        visible = causal_mask(length, keys_RNTK.shape[2]).to(kept_RS.device)
        mask = torch.cat(
            [kept_RS[:, None, None].expand(-1, 1, length, -1), visible.expand(rows, 1, *visible.shape)], dim=-1
        )
        return softmax(torch.cat([source_scores, target_scores], dim=-1) * self.sense_attention.factor, mask)

    def _by_source(self, x_RNTX: Tensor, memory: BackpackMemory) -> Tensor:
        """Return (B, N, Q, X): the target rows of a source one after the other, for a product with its senses."""
        by_source: Tensor = x_RNTX.unflatten(0, (len(memory.keep_BS), -1)).transpose(1, 2).flatten(2, 3)
        return by_source
