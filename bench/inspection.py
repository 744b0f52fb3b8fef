"""What looking costs: tracing against a plain forward pass, drawing a map, and the memory of a grid of all heads.

    python bench/inspection.py [--rounds 5] [--quick]

A Transformer of 6 layers, 6 heads and width 384 with random weights reads 512 tokens: the plain pass, a trace of the
hidden states, and a trace of which all maps are asked for, in turn in one process. Then an attention map of 120 tokens
becomes an SVG; and a fresh process draws a grid of all heads of 1,024 tokens and tells its peak memory above that of
the network alone.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from measure import peak_megabytes
from satchel import charts
from satchel.inspection.trace import Told, Trace, of_text
from satchel.models.build import build_encoder
from satchel.models.transformer import TransformerSettings
from satchel.tasks.language import LanguageNetwork

VOCABULARY = 2000


def network(width: int, context: int) -> LanguageNetwork:
    torch.manual_seed(0)
    settings = TransformerSettings(width=width, layers=6, heads=6, context=context)
    encoder = build_encoder(settings, VOCABULARY, causal=True)
    for parameter in encoder.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.05)
    return LanguageNetwork(encoder).eval()


def traced(model: LanguageNetwork, ids: Any) -> Trace:
    return of_text(model, ids, [f"w{id_}" for id_ in ids], told=Told())


def plain(model: LanguageNetwork, ids: Any) -> None:
    with torch.inference_mode():
        model(torch.from_numpy(ids)[None])


def all_maps(model: LanguageNetwork, ids: Any) -> None:
    traced(model, ids).read("*.attention.weights")


def grid_memory(width: int, length: int) -> None:
    model = network(width, length)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, length)
    plain(model, ids)
    before = peak_megabytes()
    trace = traced(model, ids)
    maps = (((layer, head), weights) for layer, head, weights in trace.attention.each())
    svg = charts.heads_grid(trace.tokens, trace.tokens, maps).svg()
    after = peak_megabytes()
    print(
        f"grid of 36 heads, {length:,} tokens: {after - before:.0f} MB more than the pass ({before:.0f} MB), "
        f"{len(svg) / 1e6:.1f} MB of SVG"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small one, once: it shows that all of it runs")
    parser.add_argument("--grid", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    width, length, long = (48, 64, 128) if options.quick else (384, 512, 1024)
    if options.grid:
        grid_memory(width, long)
        return
    model = network(width, length)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, length)
    ways: dict[str, Callable[[], object]] = {
        "plain forward pass": lambda: plain(model, ids),
        "trace": lambda: traced(model, ids),
        "trace, all maps asked for": lambda: all_maps(model, ids),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range((1 if options.quick else options.rounds) + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            if number:  # the first of all warms up
                times[name].append(time.perf_counter() - began)
    first = times["plain forward pass"]
    for name, found in times.items():
        ratio = statistics.median(b / a for a, b in zip(first, found, strict=True))
        print(f"{name:<28} {1000 * statistics.median(found):8.1f} ms  {ratio:5.2f} times the plain pass")
    chance = np.random.default_rng(0)
    weights = chance.dirichlet(np.full(120, 0.1), 120)
    words = [f"word{number}" for number in range(120)]
    charts.attention_map(words[:3], words[:3], weights[:3, :3]).svg()  # what is imported is imported now
    began = time.perf_counter()
    svg = charts.attention_map(words, words, weights).svg()
    print(f"map of 120 tokens to SVG: {time.perf_counter() - began:.2f} s, {len(svg) / 1e6:.1f} MB")
    command = [sys.executable, __file__, "--grid", *(["--quick"] if options.quick else [])]
    print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="")


if __name__ == "__main__":
    main()
