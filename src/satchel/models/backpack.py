"""Backpacks: a word is a bag of sense vectors, and its context decides how much each of them counts.

Letters: B batch, T time, S time of what is looked at, D width, N senses, K width of a sense's queries and keys,
U distinct words.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from satchel.models.encoder import CausalEncoder, Contextualiser, State
from satchel.models.recurrent import RecurrentContextualiser, RecurrentSettings
from satchel.models.transformer import TransformerContextualiser, TransformerSettings
from satchel.nn.kv_cache import AppendBuffer
from satchel.nn.senses import SenseAttention, SenseNetwork, visible_mask, weighted_sum, weighted_sum_in_blocks
from satchel.nn.sites import Site

ContextualiserKind = Literal["transformer", "rnn", "gru", "lstm", "uniform"]


# Whoever needs the senses of one word gets those of so many: most of the work is to read the network's weights.
MADE_AT_ONCE = 32
# As many as fit into a few megabytes, where those of all words are asked for.
WORDS_AT_ONCE = 1024


class BackpackSettings(TransformerSettings):
    """A Backpack: senses of words, and an encoder that decides how much each counts."""

    kind: Literal["backpack"] = Field("backpack", description="a weighted sum of the senses of words")  # type: ignore[assignment]
    senses: int = Field(16, ge=1, le=4096, description="of every word")
    contextualiser: ContextualiserKind = Field(
        "transformer", description="what decides their weights: transformer, rnn, gru, lstm or uniform"
    )
    sense_source: Literal["network", "table"] = Field(
        "network", description="network: made of the word's vector; table: each word's own"
    )
    sense_hidden: int | None = Field(None, ge=1, description="of the network that makes senses; 4 times the width")
    nearness: float = Field(0.0, ge=0, description="how much less a word counts for each word further away, at first")
    diversity: float = Field(0.0, ge=0, description="how much it is held against a word that its senses are alike")
    output: Literal["sum", "mean"] = Field("sum", description="of the senses: their sum, or that over their number")


def published(**options: Any) -> BackpackSettings:
    """Return settings of Backpacks as they were published; the usual ones learn quicker."""
    own = {"positions": "learned", "normalise": False, "feedforward": "gelu-tanh", "bias": True, "layer_scale": True}
    return BackpackSettings.model_validate({**own, **options})


@dataclass
class BackpackState:
    """The contextualiser's state, and of all words read their ids and what their senses are found by."""

    contextualiser: State | None
    ids_BS: Tensor
    keys_BNSK: AppendBuffer | None

    def select(self, rows: Tensor) -> "BackpackState":
        """Return the state of some rows."""
        inner = None if self.contextualiser is None else self.contextualiser.select(rows)
        keys = None if self.keys_BNSK is None else self.keys_BNSK.select(rows)
        return BackpackState(inner, self.ids_BS[rows], keys)


class Backpack(CausalEncoder):
    """Sums the senses of the words so far (Hewitt et al., 2023).

    A word has N sense vectors that do not depend on context; context decides only how much each sense of each
    earlier word counts. Whatever is linear in this encoder's output is therefore an exact sum over (position, sense):
    that is what makes it readable, and what makes it editable.
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
        self._words = WordSenses(self.sense_network, self.embedding, settings.senses, self.senses)

    def encode(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the (B, T, D) sums of senses."""
        senses_UND, where_BT = self._senses_of(ids_BT)
        sums: Tensor = self.encoded(self._sums(self.embed(ids_BT), senses_UND, where_BT, keep_BT))
        return sums

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the sums of the senses of words with these vectors."""
        assert isinstance(self.sense_network, SenseNetwork), "the senses of a table belong to words, not to vectors"
        senses_UND = self.senses(self.sense_network(x_BTD.flatten(0, 1)))
        where_BT = torch.arange(len(senses_UND), device=x_BTD.device).view(x_BTD.shape[:2])
        return self._sums(x_BTD, senses_UND, where_BT, keep_BT)

    def _sums(self, x_BTD: Tensor, senses_UND: Tensor, where_BT: Tensor, keep_BT: Tensor | None) -> Tensor:
        gathered_BSND = F.embedding(where_BT, senses_UND.flatten(1)).unflatten(-1, senses_UND.shape[1:])
        length = x_BTD.shape[1]
        if self.contextualiser is None or self.sense_attention is None:
            seen = visible_mask(length, length, keep_BT, causal=self.causal)
            return self.scale * weighted_sum(self.sense_weights(self._alike(x_BTD, length, seen)), gathered_BSND)
        queries, keys = self.sense_attention.queries_and_keys(self.contextualiser(x_BTD, keep_BT))
        if self.causal and keep_BT is None and not self.sense_weights.is_watched:
            return self.scale * weighted_sum_in_blocks(self.sense_attention, queries, keys, gathered_BSND)
        seen = visible_mask(length, length, keep_BT, causal=self.causal)
        return self.scale * weighted_sum(self.sense_weights(self.sense_attention(queries, keys, seen)), gathered_BSND)

    def _alike(self, x_BTD: Tensor, words: int, seen: Tensor | None) -> Tensor:
        """Return (B, N, T, S) weights that are the same for all words seen: what a mean of words has."""
        batch, positions, _ = x_BTD.shape
        ones = x_BTD.new_ones(batch, self.settings.senses, positions, words)
        if seen is not None:
            ones = ones * seen.to(ones)
        return ones / ones.sum(dim=-1, keepdim=True).clamp(min=1)

    def _senses_of(self, ids_BT: Tensor) -> tuple[Tensor, Tensor]:
        return self._words.of(ids_BT, is_learning=self.training or torch.is_grad_enabled())

    def train(self, mode: bool = True) -> "Backpack":
        """Make it ready to learn, or to answer: what was made before may not be true any more."""
        if mode != self.training:
            self._words.forget()
        return super().train(mode)

    def lookup(self, ids: Tensor) -> Tensor:
        """Return the (..., N, D) senses of words, where nothing is learned: they are made once and kept."""
        return self._words.kept(ids)[ids]

    def mean_senses(self) -> Tensor:
        """Return the (N, D) mean over all words of each sense, where nothing is learned."""
        return self._words.mean()

    def compute_senses(self, ids_U: Tensor) -> Tensor:
        """Return the (U, N, D) senses of words."""
        return self._words.compute_senses(ids_U)

    def penalty(self, ids_BT: Tensor) -> Tensor | None:
        """Return how alike the senses of each word are, in the mean of squared cosines, if that is held against it."""
        if not self.settings.diversity or self.settings.senses == 1:
            return None
        unit_UND = F.normalize(self.compute_senses(ids_BT.unique()), dim=-1)
        squares_U = (unit_UND @ unit_UND.transpose(-1, -2)).square().sum(dim=(1, 2))
        senses = self.settings.senses
        return self.settings.diversity * ((squares_U - senses) / (senses * (senses - 1))).mean()

    def start(self, batch: int) -> BackpackState:
        """Return the state of nothing read."""
        inner = self.contextualiser.start(batch) if self.contextualiser is not None else None
        return BackpackState(inner, torch.empty(batch, 0, dtype=torch.long, device=self.embedding.weight.device), None)

    def step(self, ids_BT: Tensor, state: State) -> tuple[Tensor, BackpackState]:
        """Return the encodings of the next tokens, and the state after them."""
        assert self.causal, "an encoder that sees what comes later cannot go on"
        assert isinstance(state, BackpackState)
        ids_BS = torch.cat([state.ids_BS, ids_BT], dim=1)
        x_BTD, length = self.embed(ids_BT), ids_BS.shape[1]
        seen = visible_mask(ids_BT.shape[1], length, None, causal=True)
        if self.contextualiser is None or self.sense_attention is None or state.contextualiser is None:
            inner, keys_BNSK, weights = None, None, self._alike(x_BTD, length, seen)
        else:
            encoded, inner = self.contextualiser.step_vectors(x_BTD, state.contextualiser)
            queries, new = self.sense_attention.queries_and_keys(encoded)
            keys_BNSK = AppendBuffer(new) if state.keys_BNSK is None else state.keys_BNSK.add(new)
            weights = self.sense_attention(queries, keys_BNSK.values, seen if ids_BT.shape[1] > 1 else None)
        sums = self.scale * self._step_sums(self.sense_weights(weights), ids_BS)
        return self.encoded(sums), BackpackState(inner, ids_BS, keys_BNSK)

    def _step_sums(self, weights_BNTS: Tensor, ids_BS: Tensor) -> Tensor:
        senses_UND, where_BS = self._senses_of(ids_BS)
        if weights_BNTS.shape[2] > 1 or torch.is_grad_enabled():
            return weighted_sum(
                weights_BNTS, F.embedding(where_BS, senses_UND.flatten(1)).unflatten(-1, senses_UND.shape[1:])
            )
        # One position: the rows are read where they are, and nothing is gathered.
        count = self.settings.senses
        rows_BX = (where_BS[..., None] * count + torch.arange(count, device=where_BS.device)).flatten(1)
        weights_BX = weights_BNTS[:, :, 0].transpose(1, 2).flatten(1)
        sums_BD = F.embedding_bag(rows_BX, senses_UND.flatten(0, 1), mode="sum", per_sample_weights=weights_BX)
        return sums_BD[:, None]


class WordSenses:
    """The senses of words, by id: made once for each distinct word; and where nothing is learned, once for good.

    That weights change is seen by their version. Fused optimizers do not tell: whoever learns has to say `forget`.
    """

    def __init__(self, make: SenseNetwork | nn.Embedding, embedding: nn.Embedding, senses: int, site: Site) -> None:
        self._make, self._embedding, self._senses, self._site = make, embedding, senses, site
        self.forget()

    def forget(self) -> None:
        """Keep nothing that was made before."""
        self._made_of: tuple[tuple[int, int], ...] = ()
        self._rows_VND: Tensor | None = None
        self._is_known_V: Tensor | None = None
        self._mean_ND: Tensor | None = None

    def of(self, ids: Tensor, *, is_learning: bool) -> tuple[Tensor, Tensor]:
        """Return senses (U, N, D), and which of them each place has; they pass the site."""
        if not is_learning and not self._site.is_watched:
            return self.kept(ids), ids
        distinct_U, where = ids.unique(return_inverse=True)
        senses_UND = self.compute_senses(distinct_U) if is_learning else self.kept(distinct_U)[distinct_U]
        return self._site(senses_UND), where

    def compute_senses(self, ids_U: Tensor) -> Tensor:
        """Return the (U, N, D) senses of words."""
        found = self._make(self._embedding(ids_U) if isinstance(self._make, SenseNetwork) else ids_U)
        senses: Tensor = found if found.dim() == 3 else found.unflatten(-1, (self._senses, -1))
        return senses

    def mean(self) -> Tensor:
        """Return the (N, D) mean over all words, in double precision."""
        words = torch.arange(self._embedding.num_embeddings, device=self._embedding.weight.device)
        with torch.inference_mode(False), torch.no_grad():
            for part in words.split(WORDS_AT_ONCE):
                rows_VND = self.kept(part)
            if self._mean_ND is None:
                parts = [rows_UND.double().sum(dim=0) for rows_UND in rows_VND.split(WORDS_AT_ONCE)]
                self._mean_ND = torch.stack(parts).sum(dim=0) / len(words)
            return self._mean_ND

    def kept(self, ids: Tensor) -> Tensor:
        """Return a (V, N, D) table in which the senses of some words stand; the other rows may hold anything."""
        embedding = self._embedding.weight
        made_of = tuple((each.data_ptr(), each._version) for each in (*self._make.parameters(), embedding))
        if self._rows_VND is None or self._is_known_V is None or made_of != self._made_of:
            with torch.inference_mode(False):
                self._rows_VND = embedding.new_empty(len(embedding), self._senses, embedding.shape[1])
                self._is_known_V = torch.zeros(len(embedding), dtype=torch.bool, device=ids.device)
            self._made_of, self._mean_ND = made_of, None
        missing_U = ids[~self._is_known_V[ids]].unique()
        if len(missing_U):
            if len(missing_U) < MADE_AT_ONCE:
                others = (~self._is_known_V).nonzero().flatten()[:MADE_AT_ONCE]
                missing_U = torch.cat([missing_U, others]).unique()
            with torch.no_grad():
                self._rows_VND[missing_U] = self.compute_senses(missing_U)
                self._is_known_V[missing_U] = True
        return self._rows_VND


def _contextualiser(settings: BackpackSettings, causal: bool) -> Contextualiser | None:
    """Return the network that computes the inputs of the sense weights; None if the weights are uniform."""
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
