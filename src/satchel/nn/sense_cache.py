"""Cache of sense vectors in evaluation mode. Shapes: N senses, D width, V vocabulary, U unique tokens."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from satchel.nn.senses import SenseNetwork
from satchel.nn.sites import Site

# Minimum batch for the sense network: reading its weights dominates, so computing 32 tokens costs about as much as one.
MINIMUM_BATCH = 32
# Number of tokens whose sense vectors are computed or summed at once: a few megabytes.
TOKENS_AT_ONCE = 1024


class SenseCache(nn.Module):
    """Computes sense vectors once per unique token and, in evaluation mode, keeps them for later calls.

    The cache is dropped when the version of a parameter changes, and when the mode switches: fused optimizers do not
    update versions. A deep copy starts with an empty cache. Sites inside the sense network are never skipped: while
    one of them is recorded or changed, the cache is not used.
    """

    def __init__(self, network: SenseNetwork | nn.Embedding, embedding: nn.Embedding, senses: int, site: Site) -> None:
        super().__init__()
        # In a tuple, because they are submodules of the encoder already.
        self._modules_used = (network, embedding, site)
        self._inner_sites = [module for module in network.modules() if isinstance(module, Site)]
        self.senses = senses
        self.clear()

    def clear(self) -> None:
        """Drop all cached values."""
        self._versions: tuple[tuple[int, int], ...] = ()
        self._rows_VND: Tensor | None = None
        self._is_filled_V: Tensor | None = None
        self._mean_ND: Tensor | None = None

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return sense vectors (U, N, D), passed through the site, and for each id its row in them."""
        site = self._modules_used[2]
        use_cache = not (
            self.training or torch.is_grad_enabled() or any(inner.is_hooked for inner in self._inner_sites)
        )
        if use_cache and not site.is_hooked:
            return self.table(ids), ids
        unique_U, rows = ids.unique(return_inverse=True)
        senses_UND = self.table(unique_U)[unique_U] if use_cache else self.compute(unique_U)
        return site(senses_UND), rows

    def compute(self, ids_U: Tensor) -> Tensor:
        """Return the sense vectors (U, N, D) without the cache."""
        network, embedding, _ = self._modules_used
        senses: Tensor = network(embedding(ids_U) if isinstance(network, SenseNetwork) else ids_U)
        return senses if senses.dim() == 3 else senses.unflatten(-1, (self.senses, -1))

    def table(self, ids: Tensor) -> Tensor:
        """Return a table (V, N, D) with the sense vectors of the given ids; other rows may be uninitialised."""
        network, embedding, _ = self._modules_used
        weight_VD = embedding.weight
        versions = tuple((each.data_ptr(), each._version) for each in (*network.parameters(), weight_VD))
        if self._rows_VND is None or self._is_filled_V is None or versions != self._versions:
            with torch.inference_mode(False):  # usable outside of inference mode too
                self._rows_VND = weight_VD.new_empty(len(weight_VD), self.senses, weight_VD.shape[1])
                self._is_filled_V = torch.zeros(len(weight_VD), dtype=torch.bool, device=ids.device)
            self._versions, self._mean_ND = versions, None
        missing_U = ids[~self._is_filled_V[ids]].unique()
        if len(missing_U):
            if len(missing_U) < MINIMUM_BATCH:
                others = (~self._is_filled_V).nonzero().flatten()[:MINIMUM_BATCH]
                missing_U = torch.cat([missing_U, others]).unique()
            with torch.no_grad():
                self._rows_VND[missing_U] = self.compute(missing_U)
                self._is_filled_V[missing_U] = True
        return self._rows_VND

    def mean(self) -> Tensor:
        """Return the mean (N, D) of each sense over the vocabulary, in double precision."""
        embedding = self._modules_used[1]
        ids_V = torch.arange(embedding.num_embeddings, device=embedding.weight.device)
        with torch.inference_mode(False), torch.no_grad():
            for part in ids_V.split(TOKENS_AT_ONCE):
                rows_VND = self.table(part)
            if self._mean_ND is None:
                sums = [rows_UND.double().sum(dim=0) for rows_UND in rows_VND.split(TOKENS_AT_ONCE)]
                self._mean_ND = torch.stack(sums).sum(dim=0) / len(ids_V)
            return self._mean_ND

    def train(self, mode: bool = True) -> "SenseCache":
        """Switch between training and evaluation mode; a switch clears the cache."""
        if mode != self.training:
            self.clear()
        return super().train(mode)

    def __deepcopy__(self, memo: dict[int, Any]) -> "SenseCache":
        """Return an empty cache for the copied network."""
        network, embedding, site = copy.deepcopy(self._modules_used, memo)
        copied = memo[id(self)] = SenseCache(network, embedding, self.senses, site)
        return copied.train(self.training)
