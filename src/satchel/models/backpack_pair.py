"""Backpack pair models: what follows is a sum over the senses of source words, and of the target words so far.

Letters: B texts, R rows that are written, S time of the source, T time of the target, D width, N senses, K width of a
sense's queries and keys, Q queries of a text.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from satchel.models.backpack import BackpackSettings, WordSenses
from satchel.models.pair import Pair
from satchel.models.transformer import CrossAttentionMemory, TransformerState
from satchel.models.transformer_pair import TransformerPair
from satchel.nn.attention import causal_mask, softmax
from satchel.nn.kv_cache import AppendBuffer
from satchel.nn.linear import Linear
from satchel.nn.senses import SenseAttention, SenseNetwork, weighted_sum
from satchel.nn.sites import Site


class BackpackPairSettings(BackpackSettings):
    """Senses of source and target words, and a Transformer pair that decides how much each counts."""

    contextualiser: Literal["transformer"] = Field("transformer", description="what decides how much senses count")
    sense_source: Literal["network"] = Field("network", description="senses are made of the word's vector")
    decoder_layers: int | None = Field(None, ge=0, le=512, description="blocks that write; else as many as read")
    shared: bool = Field(True, description="source and target words have the same vectors")
    context: int = Field(256, ge=1, description="the longest text in tokens; longer ones are cut into several")

    @model_validator(mode="after")
    def _none_is_near(self) -> "BackpackPairSettings":
        if self.nearness:
            raise ValueError("model.nearness: words of two texts are neither near nor far")
        return self


@dataclass(frozen=True)
class BackpackMemory:
    """What the decoder reads of the source; and of its words the keys, the senses, and where they are."""

    inner: CrossAttentionMemory
    keys_BNSK: Tensor
    senses_BSND: Tensor
    keep_BS: Tensor

    def select(self, texts: Tensor) -> "BackpackMemory":
        """Return what was read of some texts."""
        parts = (self.keys_BNSK, self.senses_BSND, self.keep_BS)
        return BackpackMemory(self.inner.select(texts), *(part.index_select(0, texts) for part in parts))


@dataclass(frozen=True)
class BackpackPairState:
    """The decoder's state, the words that were written and their keys, and what was read."""

    inner: TransformerState
    ids_RT: Tensor
    keys_RNTK: AppendBuffer | None
    memory: BackpackMemory

    def select(self, rows: Tensor, texts: Tensor | None = None) -> "BackpackPairState":
        """Return the state of some rows."""
        keys = None if self.keys_RNTK is None else self.keys_RNTK.select(rows)
        memory = self.memory if texts is None else self.memory.select(texts)
        inner = self.inner.select(rows, texts)
        return BackpackPairState(inner, self.ids_RT[rows], keys, memory)


class BackpackPair(Pair):
    """Sums senses of source words and of the target words so far, each sense by one softmax over all of them.

    The senses of a word do not depend on context; a Transformer pair decides only how much each counts. A linear head
    therefore scores every word by an exact sum over (source word, sense) and (target word, sense).
    """

    def __init__(self, settings: BackpackPairSettings, source_vocabulary: int, vocabulary: int) -> None:
        super().__init__(settings.width, settings.width)
        self.settings = settings
        self.context = settings.context
        layers = settings.layers if settings.decoder_layers is None else settings.decoder_layers
        self.contextualiser = TransformerPair(
            settings, source_vocabulary, vocabulary, layers=layers, shared=settings.shared
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
        self._source_words = WordSenses(
            self.source_sense_network, self.contextualiser.reader.embedding, senses, self.source_senses
        )
        self._words = WordSenses(self.sense_network, self.words, senses, self.senses)

    @property
    def words(self) -> nn.Embedding:
        """The vectors of target words."""
        return self.contextualiser.words

    def train(self, mode: bool = True) -> "BackpackPair":
        """Make it ready to learn, or to answer: what was made before may not be true any more."""
        if mode != self.training:
            self._source_words.forget()
            self._words.forget()
        return super().train(mode)

    def read(self, source_BS: Tensor, keep_BS: Tensor | None = None) -> BackpackMemory:
        """Return what the decoder reads, and the keys and senses of the source's words."""
        encoded_BSD = self.contextualiser.reader.encode(source_BS, keep_BS)
        keys_BNSK = self.source_keys(encoded_BSD).unflatten(-1, (self.sense_attention.senses, -1)).transpose(1, 2)
        kept = torch.ones_like(source_BS, dtype=torch.bool) if keep_BS is None else keep_BS
        read = self.contextualiser.writer.read(encoded_BSD, keep_BS)
        return BackpackMemory(read, keys_BNSK, self._gathered(self._source_words, source_BS), kept)

    def _gathered(self, words: WordSenses, ids: Tensor) -> Tensor:
        """Return the senses of the word at each place."""
        senses_UND, where = words.of(ids, is_learning=self.training or torch.is_grad_enabled())
        gathered: Tensor = F.embedding(where, senses_UND.flatten(1)).unflatten(-1, senses_UND.shape[1:])
        return gathered

    def encode(self, target_BT: Tensor, memory: BackpackMemory) -> Tensor:
        """Return the (B, T, D) sums of senses."""
        return self.step(target_BT, self.start(memory))[0]

    def start(self, memory: BackpackMemory, rows: int = 1) -> BackpackPairState:
        """Return the state of nothing written."""
        nothing = torch.empty(len(memory.keep_BS) * rows, 0, dtype=torch.long, device=memory.keep_BS.device)
        return BackpackPairState(self.contextualiser.start(memory.inner, rows), nothing, None, memory)

    def step(self, target_RT: Tensor, state: Any) -> tuple[Tensor, BackpackPairState]:
        """Return the encodings of the next words."""
        assert isinstance(state, BackpackPairState)
        encoded_RTD, inner = self.contextualiser.step(target_RT, state.inner)
        queries, new = self.sense_attention.queries_and_keys(encoded_RTD)
        keys_RNTK = AppendBuffer(new) if state.keys_RNTK is None else state.keys_RNTK.add(new)
        ids_RT = torch.cat([state.ids_RT, target_RT], dim=1)
        memory = state.memory
        weights = self.sense_weights(self._weights(queries, keys_RNTK.values, memory))
        of_source, of_target = weights.split([memory.keep_BS.shape[1], ids_RT.shape[1]], dim=-1)
        sums = weighted_sum(of_target, self._gathered(self._words, ids_RT))
        # Rows of one text weigh the senses of one source.
        shared = self._by_text(of_source, memory)
        sums = sums + weighted_sum(shared, memory.senses_BSND).reshape(sums.shape)
        return self.encoded(self.scale * sums), BackpackPairState(inner, ids_RT, keys_RNTK, memory)

    def _weights(self, queries_RNTK: Tensor, keys_RNTK: Tensor, memory: BackpackMemory) -> Tensor:
        """Return the (R, N, T, S + T) weights of all words: one softmax for each sense."""
        rows, senses, length, _ = queries_RNTK.shape
        of_source_BNQS = self._by_text(queries_RNTK, memory) @ memory.keys_BNSK.transpose(-1, -2)
        of_source = of_source_BNQS.unflatten(2, (-1, length)).transpose(1, 2).reshape(rows, senses, length, -1)
        of_target = queries_RNTK @ keys_RNTK.transpose(-1, -2)
        kept_RS = memory.keep_BS.repeat_interleave(rows // len(memory.keep_BS), dim=0)
        seen = causal_mask(length, keys_RNTK.shape[2]).to(kept_RS.device)
        mask = torch.cat([kept_RS[:, None, None].expand(-1, 1, length, -1), seen.expand(rows, 1, *seen.shape)], dim=-1)
        return softmax(torch.cat([of_source, of_target], dim=-1) * self.sense_attention.factor, mask)

    def _by_text(self, x_RNTX: Tensor, memory: BackpackMemory) -> Tensor:
        """Return rows as queries of the texts they belong to: (B, N, Q, X)."""
        by_text: Tensor = x_RNTX.unflatten(0, (len(memory.keep_BS), -1)).transpose(1, 2).flatten(2, 3)
        return by_text
