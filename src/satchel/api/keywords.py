"""Error messages for misspelled keyword arguments."""

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def suggest_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a TypeError that names the nearest parameter for an unknown keyword argument."""
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def wrapper(*args: P.args, **options: P.kwargs) -> R:
        for name in options:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"expected {', '.join(names)}"
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}; {hint}")
        return function(*args, **options)

    return wrapper
