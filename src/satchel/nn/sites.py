"""Sites: named points of a network where values can be recorded or replaced.

A site is an identity module without a hook. Hooks are stored in a context variable, not in the module, so that two
threads or asynchronous tasks can install different hooks on the same network.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from fnmatch import fnmatchcase

from torch import Tensor, nn

from satchel.errors import SettingsError

# Receives the value at a site and returns its replacement, or None to keep it.
Hook = Callable[[Tensor], Tensor | None]

_hooks: ContextVar[Mapping["Site", Hook]] = ContextVar("hooks")
_NO_HOOKS: Mapping["Site", Hook] = {}


class Site(nn.Module):
    """A named point of a network. Code that computes a value only for its site checks `is_hooked` first."""

    # For type checkers: PyTorch declares that a call returns Any.
    __call__: Callable[..., Tensor]

    def forward(self, value: Tensor) -> Tensor:
        """Return the value, or its replacement by the hook."""
        hook = _hooks.get(_NO_HOOKS).get(self)
        if hook is None:
            return value
        replacement = hook(value)
        return value if replacement is None else replacement

    @property
    def is_hooked(self) -> bool:
        return self in _hooks.get(_NO_HOOKS)


def sites(module: nn.Module) -> dict[str, Site]:
    """Return the sites of a network by name, such as `blocks.2.attention.weights`."""
    return {name: part for name, part in module.named_modules() if isinstance(part, Site)}


@contextlib.contextmanager
def hooked(module: nn.Module, hooks: Mapping[str, Hook]) -> Iterator[None]:
    """Install hooks by site name while the block runs. Hooks of an outer block remain, except on the same sites."""
    known = sites(module)
    unknown = set(hooks) - set(known)
    if unknown:
        raise SettingsError(f"unknown site {', '.join(sorted(unknown))}", f"the sites are {', '.join(known) or 'none'}")
    token = _hooks.set({**_hooks.get(_NO_HOOKS), **{known[name]: hook for name, hook in hooks.items()}})
    try:
        yield
    finally:
        _hooks.reset(token)


@contextlib.contextmanager
def recording(module: nn.Module, *patterns: str) -> Iterator[dict[str, list[Tensor]]]:
    """Record the values at all sites whose name matches a pattern (`*.weights`), as a list for each name."""
    names = [name for name in sites(module) if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if not names:
        raise SettingsError(
            f"no site matches {', '.join(patterns)}", f"the sites are {', '.join(sites(module)) or 'none'}"
        )
    records: dict[str, list[Tensor]] = {name: [] for name in names}

    def record(name: str) -> Hook:
        def hook(value: Tensor) -> None:
            records[name].append(value.detach())

        return hook

    with hooked(module, {name: record(name) for name in names}):
        yield records
