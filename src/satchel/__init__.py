"""Satchel: language models you can open.

>>> import satchel
>>> model = satchel.train("my.txt", model="ngram")
>>> model.evaluate("held-out.txt").bits_per_byte
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from satchel import lessons as lessons
    from satchel import models as models
    from satchel import nn as nn
    from satchel.api.classification import Classifier as Classifier
    from satchel.api.language import LanguageModel as LanguageModel
    from satchel.api.load import load as load
    from satchel.api.tagging import Tagger as Tagger
    from satchel.api.train import train as train
    from satchel.api.translation import Translator as Translator
    from satchel.errors import SatchelError as SatchelError

# Where each public name lives. Importing satchel imports none of it, so that it costs nothing.
_HOMES = {
    "Classifier": "api",
    "LanguageModel": "api",
    "SatchelError": "errors",
    "Tagger": "api",
    "Translator": "api",
    "load": "api",
    "train": "api",
}

# Packages that people use as `satchel.lessons` and so on.
_PACKAGES = ("lessons", "models", "nn")

__all__ = ["Classifier", "LanguageModel", "SatchelError", "Tagger", "Translator", "__version__", "load", "train"]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _PACKAGES:
        return importlib.import_module(f"satchel.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'satchel' has no attribute {name!r}")
    return getattr(importlib.import_module(f"satchel.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])
