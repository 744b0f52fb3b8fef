"""Satchel: train, inspect and compare language models, classifiers, taggers and translators.

>>> import satchel
>>> model = satchel.train("my.txt", task="lm", model="ngram")
>>> model.evaluate("held-out.txt").bits_per_byte
"""

import os
from typing import TYPE_CHECKING, Any

# NumPy's BLAS and PyTorch have threads that wait actively for work. Those of OpenBLAS stop after 2^22 instead of 2^26
# processor cycles, a few milliseconds, so that they do not slow down PyTorch; OpenBLAS reads this when it is loaded.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "22")

__version__ = "0.1.0"

if TYPE_CHECKING:
    from satchel import lessons as lessons
    from satchel import models as models
    from satchel import nn as nn
    from satchel.api.classification import Classifier as Classifier
    from satchel.api.compare import compare as compare
    from satchel.api.compare import mix as mix
    from satchel.api.language import LanguageModel as LanguageModel
    from satchel.api.load import load as load
    from satchel.api.tagging import Tagger as Tagger
    from satchel.api.train import resume as resume
    from satchel.api.train import train as train
    from satchel.api.translation import Translator as Translator
    from satchel.errors import SatchelError as SatchelError

__all__ = [
    "Classifier",
    "LanguageModel",
    "SatchelError",
    "Tagger",
    "Translator",
    "__version__",
    "compare",
    "load",
    "mix",
    "resume",
    "train",
]

# Subpackages available as attributes, such as `satchel.lessons`.
_PACKAGES = ("lessons", "models", "nn")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import satchel` imports neither torch nor NumPy."""
    import importlib

    if name in _PACKAGES:
        return importlib.import_module(f"satchel.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'satchel' has no attribute {name!r}")
    module = "errors" if name == "SatchelError" else "api"
    return getattr(importlib.import_module(f"satchel.{module}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])
