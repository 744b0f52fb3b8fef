"""Meaning of each tensor in the files of a run, by its name. docs/format.md gives the formulas.

A name is a path of components followed by a parameter: `encoder.blocks.0.attention.project.weight`.
meanings.toml has the descriptions of both.
"""

import re
import tomllib
from pathlib import Path

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CUSTOM = "parameter of a custom encoder"


def tensor_meaning(name: str) -> str:
    """Return a description of the tensor with this name: its components and the parameter."""
    components: list[str] = []
    rest = name
    while True:
        for pattern, meaning in _TABLES["parameters"].items():
            if match := re.fullmatch(pattern, rest):
                parameter = match.expand(meaning) + (" (backward direction)" if rest.endswith("_reverse") else "")
                return f"{', '.join(filter(None, components))}: {parameter}" if any(components) else parameter
        for pattern, meaning in _TABLES["components"].items():
            if match := re.match(pattern, rest):
                components.append(match.expand(meaning))
                rest = rest[match.end() :]
                break
        else:
            return CUSTOM
