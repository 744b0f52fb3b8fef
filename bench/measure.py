"""What the comparisons measure alike."""

import json
import re
from pathlib import Path
from typing import Any


def peak_megabytes() -> float:
    """Return the most memory this process has had. (getrusage would also count what its parent had.)"""
    return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) / 1024


def write_recipe(tree: dict[str, Any], path: Path) -> Path:
    """Write settings as a recipe: what is not in it is as it usually is, and nothing is chosen to suit the data."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in tree.items() if not isinstance(value, dict)]
    for group, values in tree.items():
        if isinstance(values, dict):
            lines += [f"[{group}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
