"""Views of a network: the same weights, and other values at some of its sites.

A view is a network like any other. Whatever can be asked of the one can be asked of the other, and neither notices.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from torch import Tensor, nn

from satchel.errors import SettingsError
from satchel.ngram.tables import Table
from satchel.nn.sites import Site, sites

Change = Callable[[Tensor], Tensor]  # what becomes of the value that passes a site
N = TypeVar("N", bound=nn.Module)


class ChangedSite(Site):
    """A site that changes what passes it. Whoever watches it sees what it became."""

    def __init__(self, *changes: Change) -> None:
        super().__init__()
        self.changes = changes

    def forward(self, value: Tensor) -> Tensor:
        """Return what becomes of the value."""
        for change in self.changes:
            value = change(value)
        return super().forward(value)

    @property
    def is_hooked(self) -> bool:
        return True


def view(network: N, changes: Mapping[str, Change]) -> N:
    """Return a network of the same parameters in which some sites change what passes them.

    Only what holds the parameters together is made again: they are shared, so that what one learns, the other knows.
    Without a change it is the network itself. A view of a view has the changes of both.
    """
    known = sites(network)
    unknown = set(changes) - set(known)
    if unknown:
        raise SettingsError(f"there is no site {', '.join(sorted(unknown))}", f"there is {', '.join(known) or 'none'}")
    if not changes:
        return network
    kept: dict[int, Any] = {id(part): part for part in _shared(network)}
    for name, change in changes.items():
        before = known[name]
        kept[id(before)] = ChangedSite(*(before.changes if isinstance(before, ChangedSite) else ()), change)
    return copy.deepcopy(network, kept)


def _shared(network: nn.Module) -> Iterator[Any]:
    """Yield the parameters, buffers and n-gram tables, which the copy shares; it has caches of its own."""
    yield from network.parameters()
    yield from network.buffers()
    for module in network.modules():
        yield from (value for value in vars(module).values() if isinstance(value, Table))
