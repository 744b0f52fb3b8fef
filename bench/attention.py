"""Speed and memory of the forward and backward pass of a Transformer language model, and its cost by sequence length.

    python bench/attention.py [--rounds 15] [--only a|b|length] [--quick]

Compares Satchel with `nn.TransformerEncoder`, x-transformers and Hugging Face's GPT-2 at the two sizes of
bench/training.py. All implementations alternate in one process after a warm-up; times are medians, ratios are medians
of the ratios within a round. Peak memory is measured in one process per implementation. Missing libraries are skipped
(`pip install x-transformers transformers`). `length` compares an LSTM and a Transformer on sequences of 64 to 1,024
tokens; the memory is that of the tensors saved for the backward pass.
"""

import argparse
import importlib.util
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from measure import median_ratio, parser, peak_megabytes, run_worker, time_alternately
from satchel.models.build import build_encoder
from satchel.models.recurrent import RecurrentSettings
from satchel.models.transformer import TransformerSettings, gpt2
from satchel.nn.sites import hooked
from satchel.tasks.language import LanguageNetwork
from training import CONFIGS, VOCABULARY, Loss, Size, hugging_face, torch_encoder, x_transformers

LENGTHS = (64, 128, 256, 512, 1024)


def satchel_network(size: Size) -> tuple[nn.Module, Loss]:
    """Return Satchel's Transformer with the GPT-2 architecture."""
    settings = gpt2(width=size.width, layers=size.layers, heads=size.heads, context=size.length)
    network = LanguageNetwork(build_encoder(settings, size.vocabulary, causal=True))
    return network, network.loss


# Module that each implementation requires, and the function that builds it.
IMPLEMENTATIONS: dict[str, tuple[str, Callable[[Size], tuple[nn.Module, Loss]]]] = {
    "satchel": ("satchel", satchel_network),
    "nn.TransformerEncoder": ("torch", torch_encoder),
    "x-transformers": ("x_transformers", x_transformers),
    "Hugging Face GPT-2": ("transformers", hugging_face),
}


def main() -> None:
    arguments = parser(__doc__, "--quick", rounds=15)
    arguments.add_argument("--only", choices=[*CONFIGS, "length"], help="a size, or the cost by sequence length")
    arguments.add_argument("--worker", choices=IMPLEMENTATIONS, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    rounds = 1 if options.quick else options.rounds
    for name, size in CONFIGS.items():
        if options.only in (None, name):
            size = replace(size, batch=1) if options.quick else size
            if options.worker:
                _print_memory(options.worker, size)
            else:
                _compare(name, size, rounds, options.quick)
    if options.only in (None, "length"):
        _lengths(LENGTHS[:2] if options.quick else LENGTHS, 1 if options.quick else max(3, rounds // 3))


def _forward_backward(network: nn.Module, loss: Loss, ids_BT: Tensor) -> None:
    network.zero_grad(set_to_none=True)
    loss(ids_BT[:, :-1], ids_BT[:, 1:]).backward()


def _random_ids(batch: int, length: int) -> Tensor:
    return torch.randint(0, VOCABULARY, (batch, length + 1))


def _compare(name: str, size: Size, rounds: int, quick: bool) -> None:
    ids_BT = _random_ids(size.batch, size.length)
    variants = {
        implementation: partial(_forward_backward, *build(size), ids_BT)
        for implementation, (module, build) in IMPLEMENTATIONS.items()
        if importlib.util.find_spec(module)
    }
    times = time_alternately(variants, rounds, warmup=2)
    print(
        f"\nsize {name}: {size.layers} layers, width {size.width}, {size.heads} heads, length {size.length}, "
        f"batch {size.batch}; {rounds} rounds"
    )
    for implementation, seconds in times.items():
        median = statistics.median(seconds)
        worker_options = ["--worker", implementation, "--only", name, *(["--quick"] if quick else [])]
        memory = run_worker(__file__, *worker_options)["megabytes"]
        print(
            f"  {implementation:<22} {1000 * median:8.1f} ms {size.tokens / median:9,.0f} tokens/s"
            f"  time / satchel {median_ratio(seconds, times['satchel']):5.2f}  {memory:6.0f} MB"
        )


def _print_memory(implementation: str, size: Size) -> None:
    """Print the peak memory of this process after five passes, as JSON."""
    network, loss = IMPLEMENTATIONS[implementation][1](size)
    ids_BT = _random_ids(size.batch, size.length)
    for _ in range(5):
        _forward_backward(network, loss, ids_BT)
    print(json.dumps({"megabytes": peak_megabytes()}))


def _lengths(lengths: tuple[int, ...], rounds: int) -> None:
    """Print time and activation memory of one sequence of each length."""
    settings: dict[str, Any] = {
        "lstm": RecurrentSettings(kind="lstm", width=128),
        "transformer": TransformerSettings(width=128, layers=1, heads=4, context=max(lengths)),
    }
    print(f"\nforward and backward pass of one sequence, one layer, width 128: ms, saved MB; {rounds} rounds")
    print(f"  {'length':>8} {'lstm':>18} {'transformer':>18} {'weights recorded':>18}")
    for length in lengths:
        ids_BT = _random_ids(1, length)
        cells = []
        for kind, recorded in (("lstm", False), ("transformer", False), ("transformer", True)):
            network = LanguageNetwork(build_encoder(settings[kind], VOCABULARY, causal=True))
            # A watched site disables the fused attention kernel, which does not materialise the weights.
            watchers = {"encoder.blocks.0.attention.weights": _ignore} if recorded else {}
            with hooked(network, watchers):
                times = time_alternately({kind: partial(_forward_backward, network, network.loss, ids_BT)}, rounds)
                memory = _saved_bytes(network, ids_BT)
            cells.append(f"{1000 * statistics.median(times[kind]):8.1f} {memory / 1e6:7.1f}")
        print(f"  {length:>8} {cells[0]:>18} {cells[1]:>18} {cells[2]:>18}")


def _ignore(value: Tensor) -> None:
    del value


def _saved_bytes(network: LanguageNetwork, ids_BT: Tensor) -> int:
    """Return the bytes of the tensors that autograd saves for the backward pass, without the parameters."""
    saved: dict[int, int] = {}

    def record(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        loss = network.loss(ids_BT[:, :-1], ids_BT[:, 1:])
    parameters = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    del loss
    return sum(size for pointer, size in saved.items() if pointer not in parameters)


if __name__ == "__main__":
    main()
