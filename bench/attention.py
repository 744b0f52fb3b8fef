"""Our Transformer against torch's own, x-transformers and Hugging Face's GPT-2: speed, memory; and cost against length.

    python bench/attention.py [--rounds 15] [--only small]

Forward and backward of a language model's loss, at two sizes, all sides in turn in one process after a warm-up;
medians. Peak memory is measured with one side per process. A peer that is not installed is left out
(`pip install x-transformers transformers`).
"""

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from measure import peak_megabytes
from satchel.models.build import build_encoder
from satchel.models.recurrent import RecurrentSettings
from satchel.models.transformer import TransformerSettings, gpt2
from satchel.nn.sites import hooked
from satchel.tasks.language import LanguageNetwork

VOCABULARY = 65
# Layers, width, heads, length, batch.
SIZES = {"small": (4, 128, 4, 64, 12), "large": (6, 384, 6, 256, 16)}
LENGTHS = (64, 128, 256, 512, 1024)

Loss = Callable[[Tensor, Tensor], Tensor]


def satchel_loss(layers: int, width: int, heads: int, length: int) -> tuple[nn.Module, Loss]:
    settings = gpt2(width=width, layers=layers, heads=heads, context=length)
    network = LanguageNetwork(build_encoder(settings, VOCABULARY, causal=True))
    return network, network.loss


def torch_loss(layers: int, width: int, heads: int, length: int) -> tuple[nn.Module, Loss]:
    block = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    parts: Any = nn.ModuleDict(
        {
            "words": nn.Embedding(VOCABULARY, width),
            "positions": nn.Embedding(length, width),
            "encoder": nn.TransformerEncoder(block, layers, nn.LayerNorm(width), enable_nested_tensor=False),
        }
    )
    mask = nn.Transformer.generate_square_subsequent_mask(length)

    def loss(ids: Tensor, targets: Tensor) -> Tensor:
        x = parts["words"](ids) + parts["positions"].weight
        encoded = parts["encoder"](x, mask=mask, is_causal=True)
        logits = F.linear(encoded, parts["words"].weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return parts, loss


def x_transformers_loss(layers: int, width: int, heads: int, length: int) -> tuple[nn.Module, Loss]:
    from x_transformers import Decoder, TransformerWrapper

    network = TransformerWrapper(
        num_tokens=VOCABULARY,
        max_seq_len=length,
        tie_embedding=True,
        attn_layers=Decoder(dim=width, depth=layers, heads=heads, attn_dim_head=width // heads, attn_flash=True),
    )
    return network, lambda ids, targets: F.cross_entropy(network(ids).flatten(0, 1), targets.flatten())


def gpt2_loss(layers: int, width: int, heads: int, length: int) -> tuple[nn.Module, Loss]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=length, n_embd=width, n_layer=layers, n_head=heads,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
    )  # fmt: skip
    network = GPT2LMHeadModel(config)
    return network, lambda ids, targets: F.cross_entropy(network(ids).logits.flatten(0, 1), targets.flatten())


SIDES: dict[str, tuple[str, Callable[[int, int, int, int], tuple[nn.Module, Loss]]]] = {
    "satchel": ("satchel", satchel_loss),
    "nn.TransformerEncoder": ("torch", torch_loss),
    "x-transformers": ("x_transformers", x_transformers_loss),
    "Hugging Face GPT-2": ("transformers", gpt2_loss),
}


def main() -> None:
    if sys.argv[1:2] == ["--side"]:
        _one_side(sys.argv[2], sys.argv[3])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=[*SIZES, "length"])
    arguments = parser.parse_args()
    for name in SIZES:
        if arguments.only in (None, name):
            _compare(name, arguments.rounds)
    if arguments.only in (None, "length"):
        _lengths(max(3, arguments.rounds // 3))


def _step(loss: Loss, ids: Tensor, network: nn.Module) -> float:
    began = time.perf_counter()
    network.zero_grad(set_to_none=True)
    loss(ids[:, :-1], ids[:, 1:]).backward()
    return time.perf_counter() - began


def _compare(size: str, rounds: int) -> None:
    layers, width, heads, length, batch = SIZES[size]
    ids = torch.randint(0, VOCABULARY, (batch, length + 1))
    there = {name: make for name, (module, make) in SIDES.items() if importlib.util.find_spec(module)}
    made = {name: make(layers, width, heads, length) for name, make in there.items()}
    times: dict[str, list[float]] = {name: [] for name in made}
    for number in range(rounds + 2):
        for name, (network, loss) in made.items():
            seconds = _step(loss, ids, network)
            if number >= 2:
                times[name].append(seconds)
    print(f"\n{size}: {layers} layers, width {width}, {heads} heads, length {length}, batch {batch}; {rounds} rounds")
    for name, measured in times.items():
        median = statistics.median(measured)
        ratio = statistics.median(b / a for a, b in zip(times["satchel"], measured, strict=True))
        memory = json.loads(
            subprocess.run(
                [sys.executable, __file__, "--side", name, size], check=True, capture_output=True, text=True
            ).stdout.splitlines()[-1]
        )
        print(
            f"  {name:<22} {1000 * median:8.1f} ms {batch * length / median:9,.0f} tokens/s"
            f"  {ratio:5.2f} x our time  {memory['megabytes']:6.0f} MB"
        )


def _one_side(name: str, size: str) -> None:
    layers, width, heads, length, batch = SIZES[size]
    network, loss = SIDES[name][1](layers, width, heads, length)
    ids = torch.randint(0, VOCABULARY, (batch, length + 1))
    for _ in range(5):
        _step(loss, ids, network)
    print(json.dumps({"megabytes": peak_megabytes()}))


def _lengths(rounds: int) -> None:
    """Print what one text of each length costs: time and the memory of what is made on the way."""
    settings: dict[str, Any] = {
        "lstm": RecurrentSettings(kind="lstm", width=128),
        "transformer": TransformerSettings(width=128, layers=1, heads=4, context=max(LENGTHS)),
    }
    print(f"\nforward and backward of one text, width 128, one layer; ms, and MB made on the way; {rounds} rounds")
    print(f"  {'length':>8} {'lstm':>18} {'transformer':>18} {'weights visible':>18}")
    for length in LENGTHS:
        ids = torch.randint(0, VOCABULARY, (1, length + 1))
        cells = []
        for kind, visible in (("lstm", False), ("transformer", False), ("transformer", True)):
            network = LanguageNetwork(build_encoder(settings[kind], VOCABULARY, causal=True))
            sites = {"encoder.blocks.0.attention.weights": _look} if visible else {}
            with hooked(network, sites):
                times = [_step(network.loss, ids, network) for _ in range(rounds + 1)][1:]
                made = _memory(network, ids)
            cells.append(f"{1000 * statistics.median(times):8.1f} {made / 1e6:7.1f}")
        print(f"  {length:>8} {cells[0]:>18} {cells[1]:>18} {cells[2]:>18}")


def _look(value: Tensor) -> None:
    del value


def _memory(network: LanguageNetwork, ids: Tensor) -> int:
    """Return the bytes of all that was made on the way and kept for the way back."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = network.loss(ids[:, :-1], ids[:, 1:])
    own = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    del loss
    return sum(size for place, size in kept.items() if place not in own)


if __name__ == "__main__":
    main()
