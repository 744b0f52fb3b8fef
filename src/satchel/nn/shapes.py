"""Building modules without memory for their parameters, to know their names and shapes."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _WithoutInitialValues(TorchFunctionMode):
    """Skips functions that change a tensor in place.

    On the meta device they have no effect, but the first of them imports 800 modules, which takes seconds.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name, options = getattr(func, "__name__", ""), kwargs or {}
        if name.endswith("_") and not name.endswith("__") and name != "requires_grad_":
            return args[0] if args else options["tensor"]
        return func(*args, **options)


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """Build the modules of the block on the meta device: their parameters have shapes and no values."""
    with torch.device("meta"), _WithoutInitialValues():
        yield
