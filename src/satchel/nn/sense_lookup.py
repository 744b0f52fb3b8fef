"""Sense vectors of tokens, computed once per distinct token.

Shapes: N senses, D width, V vocabulary, U unique tokens.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from satchel.nn.cache import current_cache
from satchel.nn.senses import SenseNetwork
from satchel.nn.sites import Site

# Number of tokens whose sense vectors are computed at once for a mean: a few megabytes.
TOKENS_AT_ONCE = 1024
# Minimum number of tokens for which memory is allocated.
MIN_CAPACITY = 64


class SenseLookup(nn.Module):
    """Computes sense vectors once per distinct token: of a batch, or in a call with a cache of all of its batches.

    Sites inside the sense network are never skipped: while one of them is recorded or changed, the vectors of all
    distinct tokens of each batch are computed.
    """

    def __init__(self, network: SenseNetwork | nn.Embedding, embedding: nn.Embedding, senses: int, site: Site) -> None:
        super().__init__()
        # In a tuple, because they are submodules of the encoder already.
        self._modules_used = (network, embedding, site)
        self._inner_sites = [module for module in network.modules() if isinstance(module, Site)]
        self.senses = senses

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return sense vectors (U, N, D), passed through the site, and for each id its row in them."""
        site, table = self._modules_used[2], self._table()
        if table is not None and not site.is_hooked:
            return table.look_up(ids, self.compute)
        unique_U, rows = ids.unique(return_inverse=True)
        if table is None:
            return site(self.compute(unique_U)), rows
        values, table_rows_U = table.look_up(unique_U, self.compute)
        return site(values[table_rows_U]), rows

    def compute(self, ids_U: Tensor) -> Tensor:
        """Return the sense vectors (U, N, D) before the site."""
        network, embedding, _ = self._modules_used
        senses: Tensor = network(embedding(ids_U) if isinstance(network, SenseNetwork) else ids_U)
        return senses if senses.dim() == 3 else senses.unflatten(-1, (self.senses, -1))

    def mean(self) -> Tensor:
        """Return the mean (N, D) of each sense over the vocabulary, in double precision, without gradients."""
        _, embedding, site = self._modules_used
        ids_V = torch.arange(embedding.num_embeddings, device=embedding.weight.device)
        with torch.no_grad():
            sums = [site(self.compute(ids_U)).double().sum(dim=0) for ids_U in ids_V.split(TOKENS_AT_ONCE)]
            return torch.stack(sums).sum(dim=0) / len(ids_V)

    def _table(self) -> "_SenseTable | None":
        """Return the table of the current call; None if every vector has to be computed."""
        if torch.is_grad_enabled() or (cache := current_cache()) is None:
            return None
        if any(inner.is_hooked for inner in self._inner_sites):
            return None
        table: _SenseTable | None = cache.get(self)
        if table is None:
            weight_VD = self._modules_used[1].weight
            table = cache[self] = _SenseTable(len(weight_VD), weight_VD.device)
        return table


class _SenseTable:
    """The sense vectors of the tokens that have occurred in a call."""

    def __init__(self, vocabulary: int, device: torch.device) -> None:
        self._rows_V = torch.full((vocabulary,), -1, device=device)
        self._memory = torch.empty(0, device=device)
        self._count = 0

    def look_up(self, ids: Tensor, compute: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Return sense vectors (U, N, D) and the row of each id in them; the vectors of new ids are computed."""
        rows = self._rows_V[ids]
        is_new = rows < 0
        if is_new.any():
            new_U = ids[is_new].unique()
            self._append(compute(new_U))
            self._rows_V[new_U] = torch.arange(self._count - len(new_U), self._count, device=ids.device)
            rows = self._rows_V[ids]
        return self._memory[: self._count], rows

    def _append(self, senses_UND: Tensor) -> None:
        count = self._count + len(senses_UND)
        if count > len(self._memory):
            # Doubled, so that the number of copies is logarithmic, but never above the size of the vocabulary.
            capacity = max(count, min(len(self._rows_V), max(2 * count, MIN_CAPACITY)))
            memory = senses_UND.new_empty(capacity, *senses_UND.shape[1:])
            if self._count:
                memory[: self._count] = self._memory[: self._count]
            self._memory = memory
        self._memory[self._count : count] = senses_UND
        self._count = count
