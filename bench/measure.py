"""Helpers shared by the benchmarks: command-line options, timing, worker processes, data sets and recipes."""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# Folder of the downloaded data sets.
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SHAKESPEARE = DATA / "tiny-shakespeare" / "input.txt"

_OPTIONS: dict[str, dict[str, Any]] = {
    "--data": {"type": Path, "default": DATA, "help": "folder of the data sets (default: %(default)s)"},
    "--quick": {"action": "store_true", "help": "smoke test: minimal sizes; the figures are meaningless"},
    "--threads": {"type": int, "default": 0, "help": "threads per training; 0 uses all cores"},
    "text": {"type": Path, "nargs": "?", "default": SHAKESPEARE, "help": "text file (default: tiny-shakespeare)"},
}


def parser(doc: str | None, *options: str, rounds: int | None = None) -> argparse.ArgumentParser:
    """Return an argument parser with the module docstring as its help, the named shared options, and `--rounds`.

    `rounds` is the default of `--rounds`; without it the option does not exist.
    """
    arguments = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in options:
        arguments.add_argument(name, **_OPTIONS[name])
    if rounds is not None:
        help_text = "number of timed repetitions of each variant (default: %(default)s)"
        arguments.add_argument("--rounds", type=int, default=rounds, help=help_text)
    return arguments


def time_alternately(
    variants: Mapping[str, Callable[[], object]], rounds: int, warmup: int = 1
) -> dict[str, list[float]]:
    """Return the seconds of each call of each variant.

    Every round calls all variants once, so that changes in the speed of the machine affect all of them. The
    `warmup` rounds before the first measured one are discarded.
    """
    times: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(warmup + rounds):
        for name, run in variants.items():
            began = time.perf_counter()
            run()
            if number >= warmup:
                times[name].append(time.perf_counter() - began)
    return times


# Instruction sets that matter for matrix products.
FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")


def processor_flags() -> str:
    """Return the name of the processor and its instruction sets for matrix products, on Linux."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "unknown"
    name = re.findall(r"model name\s*: (.+)", text)
    flags = set(re.findall(r"flags\s*: (.+)", text)[0].split()) if "flags" in text else set()
    return f"{name[0] if name else 'unknown'} ({', '.join(flag for flag in FLAGS if flag in flags)})"


def median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """Return the median over the rounds of the ratio of two measurements of the same round."""
    return statistics.median(a / b for a, b in zip(numerators, denominators, strict=True))


def peak_megabytes() -> float:
    """Return the peak resident memory of this process in MB.

    `getrusage` is no alternative: it includes the memory of the parent process at the time of the fork.
    """
    return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) / 1024


def run_worker(file: str, *arguments: str) -> dict[str, float]:
    """Run a benchmark script in a new process and return the JSON object on the last line of its output."""
    process = subprocess.run([sys.executable, file, *arguments], check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(process.stdout.rstrip("\n").split("\n")[-1])
    return result


def read_sst2(data: Path, part: str) -> list[tuple[str, str]]:
    """Return (label, text) of each sentence of a part of SST-2: `train`, `dev` or `test`."""
    lines = (data / "sst2" / f"stsa.binary.{part}").read_text(encoding="utf-8").rstrip("\n").split("\n")
    return [(line[0], line[2:]) for line in lines]


def polysemy_recipe(kind: str) -> dict[str, Any]:
    """Return the recipe `polysemy` for a Backpack, or for a Transformer with the shape of its contextualiser."""
    from satchel.training.recipes import read_recipe

    recipe = read_recipe("polysemy")
    shape = {key: recipe["model"][key] for key in ("width", "layers", "heads", "context")}
    return {**recipe, "model": {**(recipe["model"] if kind == "backpack" else shape), "kind": kind}}


def write_recipe(tree: dict[str, Any], path: Path) -> Path:
    """Write settings as a recipe file and return its path. With a recipe, no setting is derived from the data."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in tree.items() if not isinstance(value, dict)]
    for group, values in tree.items():
        if isinstance(values, dict):
            lines += [f"[{group}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
