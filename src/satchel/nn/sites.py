"""Sites: named places in a network where values can be read and rewritten while it runs.

A site is an identity until somebody watches it. Watching belongs to the caller, not to the module: two
threads, or two tasks, may watch the same network differently at the same time, and nothing is left behind.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from fnmatch import fnmatchcase

from torch import Tensor, nn

from satchel.errors import SettingsError

# What is done with the value that passes a site; None lets it pass as it is.
Watcher = Callable[[Tensor], Tensor | None]

_watchers: ContextVar[Mapping["Site", Watcher]] = ContextVar("watchers")
_NOBODY: Mapping["Site", Watcher] = {}


class Site(nn.Module):
    """A place that has a name. Where computing the value costs extra, `is_watched` says whether to."""

    def forward(self, value: Tensor) -> Tensor:
        """Return the value, or what its watcher makes of it."""
        watcher = _watchers.get(_NOBODY).get(self)
        if watcher is None:
            return value
        changed = watcher(value)
        return value if changed is None else changed

    @property
    def is_watched(self) -> bool:
        return self in _watchers.get(_NOBODY)


def sites(module: nn.Module) -> dict[str, Site]:
    """Return the sites of a network by name, such as `blocks.2.attention.weights`."""
    return {name: part for name, part in module.named_modules() if isinstance(part, Site)}


@contextlib.contextmanager
def watching(module: nn.Module, watchers: Mapping[str, Watcher]) -> Iterator[None]:
    """Watch some sites while the block runs. Whoever watches outside of it still does, unless it is the same site."""
    known = sites(module)
    unknown = set(watchers) - set(known)
    if unknown:
        raise SettingsError(f"there is no site {', '.join(sorted(unknown))}", f"there is {', '.join(known) or 'none'}")
    added = {known[name]: watcher for name, watcher in watchers.items()}
    token = _watchers.set({**_watchers.get(_NOBODY), **added})
    try:
        yield
    finally:
        _watchers.reset(token)


@contextlib.contextmanager
def recording(module: nn.Module, *patterns: str) -> Iterator[dict[str, list[Tensor]]]:
    """Give a table of what passes each site whose name fits a pattern (`*.weights`), filled as the block runs."""
    names = [name for name in sites(module) if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if not names:
        raise SettingsError(f"no site fits {', '.join(patterns)}", f"there is {', '.join(sites(module)) or 'none'}")
    found: dict[str, list[Tensor]] = {name: [] for name in names}

    def keep(name: str) -> Watcher:
        def watcher(value: Tensor) -> None:
            found[name].append(value.detach())

        return watcher

    with watching(module, {name: keep(name) for name in names}):
        yield found
