"""Cache of values that are computed from the parameters of a network: sense vectors and oneDNN layouts.

A cache belongs to one call: a generation, the scoring of texts, a translation. Modules store nothing between calls, so
a change of a parameter takes effect in the next call, and copies of a network never share values.
"""

import contextlib
from collections.abc import Hashable, Iterator
from contextvars import ContextVar
from typing import Any

Cache = dict[Hashable, Any]

_current: ContextVar[Cache | None] = ContextVar("cache", default=None)


def current_cache() -> Cache | None:
    """Return the cache of the current call; None during training."""
    return _current.get()


@contextlib.contextmanager
def caching(cache: Cache) -> Iterator[None]:
    """Use the cache while the block runs."""
    token = _current.set(cache)
    try:
        yield
    finally:
        _current.reset(token)
