"""A whole step of training, ours against what people write with torch and other libraries: speed and memory.

    python bench/training.py [--config a|b|both] [--rounds 30] [--quick]

A step makes a batch of random ids, goes forward and backward, clips the gradient to a norm of 1 and updates with
AdamW. All variants train in turn in one process, a few steps each, in an order that moves on by one every round;
medians over the rounds, and ratios within a round. The share of GEMM is the rate of the operations that the sizes
call for over that of a product of two 1024 x 1024 matrices, timed before and after each round. Peak memory is that
of a fresh process with one variant in it. `--quick` has few rounds and one row in a batch: it shows that all of it
runs, and nothing else. A peer that is not installed is left out (`pip install x-transformers transformers`).
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from measure import peak_megabytes

VOCABULARY = 65
TEXT = 1_000_000  # ids to draw batches from
CLIP = 1.0
RATE = 1e-3
REFERENCE = "Hugging Face GPT-2"


@dataclass(frozen=True)
class Size:
    """How large the model and its batches are, and how many steps a variant's turn has."""

    layers: int
    width: int
    heads: int
    length: int
    batch: int
    turn: int

    @property
    def tokens(self) -> int:
        """How many a step has."""
        return self.batch * self.length

    @property
    def operations(self) -> int:
        """What one token takes, forward and backward."""
        matrices = 12 * self.layers * self.width**2 + self.width * VOCABULARY
        return 6 * matrices + 12 * self.layers * self.width * self.length


CONFIGS = {
    "a": Size(layers=4, width=128, heads=4, length=64, batch=12, turn=5),
    "b": Size(layers=6, width=384, heads=6, length=256, batch=16, turn=1),
}

Steps = Callable[[int], None]  # trains for so many steps
Loss = Callable[[Tensor, Tensor], Tensor]  # of inputs and targets, each (B, T)


def text() -> Any:
    """Return random ids, as they lie in a file of tokens."""
    return np.random.default_rng(0).integers(0, VOCABULARY, TEXT, np.uint16)


# --- ours --------------------------------------------------------------------------------------------

# satchel is imported where it is used: a peer's memory is to have nothing of ours in it.


def ours(size: Size, shape: Literal["gpt2", "usual"], optimizer: Literal["adamw", "muon"]) -> Steps:
    """Return the steps of our own loop."""
    from satchel.models.build import build_encoder
    from satchel.models.transformer import TransformerSettings, gpt2
    from satchel.tasks.language import LanguageNetwork
    from satchel.training.jobs import LanguageJob
    from satchel.training.loop import Events, Trainer
    from satchel.training.settings import TrainingSettings

    make = gpt2 if shape == "gpt2" else TransformerSettings
    model = make(width=size.width, layers=size.layers, heads=size.heads, context=size.length)
    network = LanguageNetwork(build_encoder(model, VOCABULARY, causal=True))
    # So many steps that the learning rate stays where it is, and that no checkpoint or validation comes up.
    forever = 1 << 40
    settings = TrainingSettings(
        steps=forever, checkpoint_every=forever, evaluate_every=forever,
        batch_tokens=size.tokens, learning_rate=RATE, warmup=0, clip=CLIP, optimizer=optimizer,
    )  # fmt: skip
    left = 0

    def should_stop() -> bool:
        nonlocal left
        left -= 1
        return left <= 0

    events = Events(lambda progress, done: None, lambda progress, found: None, lambda trainer: None, should_stop)
    trainer = Trainer(LanguageJob(network, text(), 0, settings, stream=True), settings, events)

    def steps(number: int) -> None:
        nonlocal left
        left = number
        trainer.run()

    return steps


# --- peers -------------------------------------------------------------------------------------------


def peer(make: Callable[[Size], tuple[nn.Module, Loss]], size: Size) -> Steps:
    """Return the steps of a peer's network in a loop as people write it."""
    network, loss = make(size)
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE)
    ids = text()
    network.train()

    def steps(number: int) -> None:
        for _ in range(number):
            inputs_BT, targets_BT = batch(ids, size)
            optimizer.zero_grad(set_to_none=True)
            loss(inputs_BT, targets_BT).backward()
            nn.utils.clip_grad_norm_(network.parameters(), CLIP)
            optimizer.step()

    return steps


def batch(ids: Any, size: Size) -> tuple[Tensor, Tensor]:
    """Return random windows of the ids, and the same windows one id further."""
    starts = torch.randint(len(ids) - size.length, (size.batch,)).tolist()
    inputs = [torch.from_numpy(ids[start : start + size.length].astype(np.int64)) for start in starts]
    targets = [torch.from_numpy(ids[start + 1 : start + 1 + size.length].astype(np.int64)) for start in starts]
    return torch.stack(inputs), torch.stack(targets)


def hugging_face(size: Size) -> tuple[nn.Module, Loss]:
    """Return Hugging Face's GPT-2. It shifts the labels itself: a row's last id has no target."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=size.length, n_embd=size.width, n_layer=size.layers, n_head=size.heads,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    network = GPT2LMHeadModel(config)
    network.loss_type = "ForCausalLM"  # what it takes anyway, but not without a warning

    def loss(inputs_BT: Tensor, targets_BT: Tensor) -> Tensor:
        del targets_BT
        found: Tensor = network(input_ids=inputs_BT, labels=inputs_BT).loss
        return found

    return network, loss


def torch_encoder(size: Size) -> tuple[nn.Module, Loss]:
    """Return torch's own layers with learned positions before them and a tied head after."""
    block = nn.TransformerEncoderLayer(
        size.width, size.heads, 4 * size.width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    words, positions = nn.Embedding(VOCABULARY, size.width), nn.Embedding(size.length, size.width)
    encoder = nn.TransformerEncoder(block, size.layers, nn.LayerNorm(size.width), enable_nested_tensor=False)
    for table in (words, positions):
        nn.init.normal_(table.weight, std=0.02)
    mask_TT = nn.Transformer.generate_square_subsequent_mask(size.length)

    def loss(inputs_BT: Tensor, targets_BT: Tensor) -> Tensor:
        encoded_BTD = encoder(words(inputs_BT) + positions.weight, mask=mask_TT, is_causal=True)
        return F.cross_entropy(F.linear(encoded_BTD, words.weight).flatten(0, 1), targets_BT.flatten())

    return nn.ModuleList([words, positions, encoder]), loss


def x_transformers(size: Size) -> tuple[nn.Module, Loss]:
    """Return x-transformers' decoder, with learned positions and a tied head."""
    from x_transformers import Decoder, TransformerWrapper

    network = TransformerWrapper(
        num_tokens=VOCABULARY,
        max_seq_len=size.length,
        tie_embedding=True,
        attn_layers=Decoder(
            dim=size.width, depth=size.layers, heads=size.heads, attn_dim_head=size.width // size.heads, attn_flash=True
        ),
    )
    return network, lambda inputs_BT, targets_BT: F.cross_entropy(
        network(inputs_BT).flatten(0, 1), targets_BT.flatten()
    )


def hand_written(size: Size) -> tuple[nn.Module, Loss]:
    """Return a GPT in the shape of nanoGPT's."""
    network = HandWritten(size)
    return network, network.loss


class HandWritten(nn.Module):
    """A GPT as short as it can be: learned positions, norms before each part, and a head tied to the words."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        self.blocks = nn.Sequential(*(HandWrittenBlock(size.width, size.heads) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def loss(self, inputs_BT: Tensor, targets_BT: Tensor) -> Tensor:
        """Return the mean loss of the targets."""
        places_T = torch.arange(inputs_BT.shape[1])
        x_BTD = self.norm(self.blocks(self.words(inputs_BT) + self.positions(places_T)))
        return F.cross_entropy(F.linear(x_BTD, self.words.weight).flatten(0, 1), targets_BT.flatten())


class HandWrittenBlock(nn.Module):
    """Attention and a feed-forward net."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.feedforward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feedforward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Return as many vectors, each of which has looked at those before it."""
        parts = self.project(self.attention_norm(x_BTD)).chunk(3, dim=-1)
        queries, keys, values = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        found = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x_BTD = x_BTD + self.out(found.transpose(1, 2).flatten(2))
        thought: Tensor = self.feedforward(self.feedforward_norm(x_BTD))
        return x_BTD + thought


# --- measuring ---------------------------------------------------------------------------------------

# The module that each needs, and what makes it.
VARIANTS: dict[str, tuple[str, Callable[[Size], Steps]]] = {
    "satchel, GPT-2's shape": ("satchel", partial(ours, shape="gpt2", optimizer="adamw")),
    "satchel, usual settings": ("satchel", partial(ours, shape="usual", optimizer="adamw")),
    "satchel, usual settings, Muon": ("satchel", partial(ours, shape="usual", optimizer="muon")),
    REFERENCE: ("transformers", partial(peer, hugging_face)),
    "nn.TransformerEncoder": ("torch", partial(peer, torch_encoder)),
    "x-transformers": ("x_transformers", partial(peer, x_transformers)),
    "hand-written, as nanoGPT": ("torch", partial(peer, hand_written)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", choices=[*CONFIGS, "both"], default="both")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--alone", choices=VARIANTS, help="print the peak memory of one variant, and nothing else")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(cores)
    torch.manual_seed(0)
    for name in CONFIGS if arguments.config == "both" else [arguments.config]:
        size = replace(CONFIGS[name], batch=1, turn=1) if arguments.quick else CONFIGS[name]
        if arguments.alone:
            VARIANTS[arguments.alone][1](size)(1 if arguments.quick else 5)
            print(json.dumps({"megabytes": peak_megabytes()}))
        else:
            _compare(name, size, 2 if arguments.quick else arguments.rounds, arguments.quick, cores)


def _compare(config: str, size: Size, rounds: int, quick: bool, cores: int) -> None:
    """Train all variants in turn and print what came of it."""
    there = [name for name, (module, _) in VARIANTS.items() if importlib.util.find_spec(module)]
    variants = {name: VARIANTS[name][1](size) for name in there}
    for steps in variants.values():
        steps(1 if quick else 2 * size.turn)  # what is done only once is not measured
    seconds: dict[str, list[float]] = {name: [] for name in there}
    gemm = [_gemm()]
    for number in range(rounds):
        first = number % len(there)
        for name in [*there[first:], *there[:first]]:
            began = time.perf_counter()
            variants[name](size.turn)
            seconds[name].append((time.perf_counter() - began) / size.turn)
        gemm.append(_gemm())
    nearby = [(before + after) / 2 for before, after in pairwise(gemm)]
    print(
        f"\n**Config {config}**: {size.layers} layers, width {size.width}, {size.heads} heads, length {size.length}, "
        f"batch {size.batch}, vocabulary {VOCABULARY}; {size.operations / 1e6:.2f} MFLOP per token; {rounds} rounds of "
        f"{size.turn} steps each on {cores} threads; GEMM {statistics.median(gemm) / 1e9:.0f} GFLOP/s "
        f"({min(gemm) / 1e9:.0f} to {max(gemm) / 1e9:.0f}).\n"
    )
    print("| variant | ms per step | tokens/s | times Hugging Face's speed | share of GEMM | peak MB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, own in seconds.items():
        median = statistics.median(own)
        share = statistics.median(
            size.tokens * size.operations / taken / rate for taken, rate in zip(own, nearby, strict=True)
        )
        ratio = "-"
        if REFERENCE in seconds:
            pairs = zip(seconds[REFERENCE], own, strict=True)
            ratio = f"{statistics.median(theirs / taken for theirs, taken in pairs):.2f}"
        print(
            f"| {name} | {1000 * median:,.1f} | {size.tokens / median:,.0f} | {ratio} | {share:.2f} "
            f"| {_memory(name, config, quick):,.0f} |"
        )


def _gemm(size: int = 1024, times: int = 3) -> float:
    """Return the floating-point operations per second of a product of two matrices: the median of some."""
    left, right, product = torch.ones(size, size), torch.ones(size, size), torch.empty(size, size)
    torch.mm(left, right, out=product)
    rates = []
    for _ in range(times):
        began = time.perf_counter()
        torch.mm(left, right, out=product)
        rates.append(2 * size**3 / (time.perf_counter() - began))
    return statistics.median(rates)


def _memory(name: str, config: str, quick: bool) -> float:
    """Return the peak memory of one variant in a process of its own."""
    command = [sys.executable, __file__, "--alone", name, "--config", config, *(["--quick"] if quick else [])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    megabytes: float = json.loads(done.stdout.splitlines()[-1])["megabytes"]
    return megabytes


if __name__ == "__main__":
    main()
