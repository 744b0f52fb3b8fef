"""Digests of tensors, renamed tensors, and the properties of a machine that decide the last bit of a sum."""

import hashlib
import json
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Renamed tensors: a regular expression for the recorded name, and its replacement. All pairs apply in turn.
RENAMED: dict[str, str] = {
    r"\.make_source_senses\.": ".source_sense_network.",
    r"\.make_senses\.": ".sense_network.",
    r"\.weigh\.": ".sense_attention.",
}

# Processor features that select other kernels, and so other roundings.
FEATURES = ("avx2", "avx512f", "avx512_bf16")


def current_name(recorded: str) -> str:
    """Return the current name of a tensor of the previous version."""
    for pattern, replacement in RENAMED.items():
        recorded = re.sub(pattern, replacement, recorded)
    return recorded


def tensor_digests(path: Path) -> dict[str, str]:
    """Return the sha256 of each tensor's bytes in a .safetensors file."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8:start])
    header.pop("__metadata__", None)
    digests = {}
    for name, entry in sorted(header.items()):
        first, last = entry["data_offsets"]
        digests[name] = hashlib.sha256(content[start + first : start + last]).hexdigest()
    return digests


def trained_digests(run: Path) -> dict[str, dict[str, str]]:
    """Return the digests of a run's model and of the model in its newest checkpoint, if it has one."""
    digests = {"model": tensor_digests(run / "model.safetensors")}
    for folder in sorted(run.glob("checkpoints/step-*"))[-1:]:
        digests["checkpoint"] = tensor_digests(folder / "model.safetensors")
    return digests


def renamed_digests(recorded: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Return recorded digests under the current names of their tensors."""
    return {part: {current_name(name): sha for name, sha in named.items()} for part, named in recorded.items()}


def machine() -> dict[str, Any]:
    """Return the properties of this machine that decide whether two trainings can have the same bits."""
    lines: dict[str, str] = {}
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else ():
        key, _, value = line.partition(":")
        lines.setdefault(key.strip(), value.strip())
    flags = lines.get("flags", "").split()
    return {
        "torch": version("torch"),
        "architecture": platform.machine(),
        "vendor": lines.get("vendor_id", ""),
        "features": [name for name in FEATURES if name in flags],
    }


def machine_difference(recorded: dict[str, Any]) -> str:
    """Return how this machine differs from a recorded one; empty if it does not."""
    current = machine()
    return "; ".join(
        f"{key} is {current[key]}, recorded {value}" for key, value in recorded.items() if current[key] != value
    )
