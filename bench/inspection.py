"""Cost of inspection: tracing against a forward pass, drawing an attention map, memory of a grid of all heads.

    python bench/inspection.py [--rounds 5] [--quick]

A Transformer with 6 layers, 6 heads, width 384 and random weights processes 512 tokens: forward pass, trace (hidden
states by site), and trace with all attention maps, alternating in one process. Then the time to draw an attention map
of 120 tokens as SVG; and, in a new process, the peak memory of drawing a grid of all heads for 1,024 tokens beyond that
of the forward pass.
"""

import argparse
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch

from measure import median_ratio, parser, peak_megabytes, time_alternately
from satchel import charts
from satchel.inspection.trace import Trace, text_batch
from satchel.models.build import build_encoder
from satchel.models.transformer import TransformerSettings
from satchel.tasks.language import LanguageNetwork

VOCABULARY = 2000


def build_network(width: int, context: int) -> LanguageNetwork:
    """Return a language model with random weights that give non-uniform attention."""
    torch.manual_seed(0)
    settings = TransformerSettings(width=width, layers=6, heads=6, context=context)
    encoder = build_encoder(settings, VOCABULARY, causal=True)
    for parameter in encoder.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.05)
    return LanguageNetwork(encoder).eval()


def trace(model: LanguageNetwork, ids: Any) -> Trace:
    """Return the trace of a text."""
    return Trace([f"w{id_}" for id_ in ids], model, text_batch(model, ids))


def forward(model: LanguageNetwork, ids: Any) -> None:
    """Compute the forward pass."""
    with torch.inference_mode():
        model(torch.from_numpy(ids)[None])


def print_grid_memory(width: int, length: int) -> None:
    """Print the peak memory of drawing a grid of all heads."""
    model = build_network(width, length)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, length)
    forward(model, ids)
    before = peak_megabytes()
    traced = trace(model, ids)
    maps = (((layer, head), weights) for layer, head, weights in traced.attention.each())
    svg = charts.heads_grid(traced.tokens, traced.tokens, maps).svg()
    print(
        f"grid of 36 heads, {length:,} tokens: {peak_megabytes() - before:.0f} MB beyond the forward pass "
        f"({before:.0f} MB), {len(svg) / 1e6:.1f} MB of SVG"
    )


def main() -> None:
    arguments = parser(__doc__, "--quick", rounds=5)
    arguments.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    width, length, grid_length = (48, 64, 128) if options.quick else (384, 512, 1024)
    if options.worker:
        print_grid_memory(width, grid_length)
        return
    model = build_network(width, length)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, VOCABULARY, length)
    times = time_alternately(
        {
            "forward pass": lambda: forward(model, ids),
            "trace": lambda: trace(model, ids),
            "trace with all attention maps": lambda: trace(model, ids).read("*.attention.weights"),
        },
        1 if options.quick else options.rounds,
    )
    for name, seconds in times.items():
        ratio = median_ratio(seconds, times["forward pass"])
        print(f"{name:<30} {1000 * statistics.median(seconds):8.1f} ms  time / forward pass {ratio:5.2f}")
    weights = rng.dirichlet(np.full(120, 0.1), 120)
    words = [f"word{number}" for number in range(120)]
    charts.attention_map(words[:3], words[:3], weights[:3, :3]).svg()  # import the drawing code before timing it
    began = time.perf_counter()
    svg = charts.attention_map(words, words, weights).svg()
    print(f"attention map of 120 tokens as SVG: {time.perf_counter() - began:.2f} s, {len(svg) / 1e6:.1f} MB")
    command = [sys.executable, __file__, "--worker", *(["--quick"] if options.quick else [])]
    print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="")


if __name__ == "__main__":
    main()
