"""Patched networks: copies that share the parameters of a network and change the values at some of its sites."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from torch import Tensor, nn

from satchel.inspection.sites import site_paths, unknown_site
from satchel.inspection.subject import Subject, unsupported
from satchel.ngram.tables import Table
from satchel.nn.sites import Site

# Function of the value at a site that returns its replacement.
Patch = Callable[[Tensor], Tensor]
N = TypeVar("N", bound=nn.Module)
S = TypeVar("S", bound=Subject)


class PatchedSite(Site):
    """A site that replaces the value passing through it; hooks receive the replacement."""

    def __init__(self, *patches: Patch) -> None:
        super().__init__()
        self.patches = patches

    def forward(self, value: Tensor) -> Tensor:
        """Return the replacement of a value."""
        for patch in self.patches:
            value = patch(value)
        return super().forward(value)

    @property
    def is_hooked(self) -> bool:
        """Whether the value of the site is used: always, also without a hook."""
        return True


def patched(network: N, patches: Mapping[str, Patch]) -> N:
    """Return a copy of a network with patched sites, by their public names (`satchel.inspection.sites`).

    Parameters, buffers and n-gram tables are shared with the network. Without patches the network
    itself is returned. Patching a patched network applies both patches.
    """
    paths = site_paths(network)
    for name in patches:
        if name not in paths:
            raise unknown_site(name, network)
    if not patches:
        return network
    memo: dict[int, Any] = {id(part): part for part in _shared(network)}
    for name, patch in patches.items():
        site = network.get_submodule(paths[name])
        memo[id(site)] = PatchedSite(*(site.patches if isinstance(site, PatchedSite) else ()), patch)
    return copy.deepcopy(network, memo)


def _shared(network: nn.Module) -> Iterator[Any]:
    """Return the objects that a patched copy shares with its network."""
    yield from network.parameters()
    yield from network.buffers()
    for module in network.modules():
        yield from (value for value in vars(module).values() if isinstance(value, Table))


def with_network(subject: S, network: nn.Module) -> S:
    """Return a copy of a model that uses another network of the same shape."""
    changed = copy.copy(subject)
    if network is not subject.network:
        changed.network, changed.predictor = network, copy.copy(subject.predictor)
        changed.predictor.network = network
    return changed


def with_patches(subject: S, patches: Mapping[str, Patch]) -> S:
    """Return a copy of a model with patched sites. It shares the parameters of the model."""
    if subject.network is None:
        raise unsupported(subject, "has no sites", "train a network, for example with --model transformer")
    return with_network(subject, patched(subject.network, patches))
