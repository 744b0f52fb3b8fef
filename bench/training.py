"""Speed and memory of a training step: Satchel against other implementations of a GPT-2 sized Transformer.

    python bench/training.py [--config a|b|c|all] [--only PART] [--rounds 30] [--quick]

A step samples a batch of random ids, computes loss and gradient, clips the gradient norm to 1 and updates with AdamW.
All variants run in one process in rounds of a few steps each; the order rotates. Every variant is measured in float32
and, where the processor has instructions for it, in bfloat16, for which the other implementations use autocast; the
setting `auto` is bfloat16 there. Times are medians over the rounds, ratios are medians of the ratios within a round.
"Optimizer" is the share of the optimizer in the step. "Share of GEMM" is the rate of the nominal floating-point
operations divided by that of a 1024 x 1024 float32 matrix product, timed before and after each round. Peak memory is
measured in one process per variant. Missing libraries are skipped (`pip install x-transformers transformers`).
"""

import argparse
import importlib.util
import json
import os
import statistics
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

from measure import median_ratio, parser, peak_megabytes, run_worker

VOCABULARY = 65  # of the configs of character models
TEXT_LENGTH = 1_000_000  # number of random ids that batches are sampled from
CLIP = 1.0
LEARNING_RATE = 1e-3
Precision = Literal["float32", "bfloat16"]
REFERENCE = "Hugging Face GPT-2"


@dataclass(frozen=True)
class Size:
    """Shape of the model and of its batches, and the number of steps per round."""

    layers: int
    width: int
    heads: int
    length: int
    batch: int
    steps: int
    vocabulary: int = VOCABULARY
    senses: int = 0  # of the Backpack; 0 measures no Backpack

    @property
    def tokens(self) -> int:
        """Tokens per step."""
        return self.batch * self.length

    @property
    def operations(self) -> int:
        """Floating-point operations per token of the forward and backward pass."""
        matrices = 12 * self.layers * self.width**2 + self.width * self.vocabulary
        return 6 * matrices + 12 * self.layers * self.width * self.length


CONFIGS = {
    "a": Size(layers=4, width=128, heads=4, length=64, batch=12, steps=5),
    "b": Size(layers=6, width=384, heads=6, length=256, batch=16, steps=1),
    "c": Size(layers=5, width=256, heads=4, length=256, batch=16, steps=1, vocabulary=6000, senses=8),
}

Loss = Callable[[Tensor, Tensor], Tensor]  # of inputs and targets, each (B, T)


@dataclass
class Training:
    """A function that trains for a number of steps, and the seconds of its optimizer."""

    run: Callable[[int], None]
    optimizer_seconds: float = 0.0

    def timed(self, update: Callable[..., Any]) -> Callable[..., None]:
        """Return a function that updates the parameters and adds its time."""

        def timed_update(*arguments: Any) -> None:
            began = time.perf_counter()
            update(*arguments)
            self.optimizer_seconds += time.perf_counter() - began

        return timed_update


def random_ids(vocabulary: int) -> Any:
    """Return random ids in the format of a token file."""
    return np.random.default_rng(0).integers(0, vocabulary, TEXT_LENGTH, np.uint16)


# --- Satchel -----------------------------------------------------------------------------------------

# Satchel is imported inside functions, so that the memory of the other implementations excludes it.


def satchel_steps(
    size: Size,
    precision: Precision,
    architecture: Literal["gpt2", "default", "backpack"],
    optimizer: Literal["adamw", "muon"],
) -> Training:
    """Return a training with Satchel's training loop."""
    from satchel.models.backpack import BackpackSettings
    from satchel.models.build import build_encoder
    from satchel.models.transformer import TransformerSettings, gpt2
    from satchel.tasks.language import LanguageNetwork
    from satchel.training.jobs.language import LanguageJob
    from satchel.training.loop import Callbacks, Trainer
    from satchel.training.settings import TrainingSettings

    shape: dict[str, Any] = {"width": size.width, "layers": size.layers, "heads": size.heads, "context": size.length}
    model: TransformerSettings | BackpackSettings
    if architecture == "backpack":
        model = BackpackSettings(senses=size.senses, **shape)
    else:
        model = gpt2(**shape) if architecture == "gpt2" else TransformerSettings(**shape)
    network = LanguageNetwork(build_encoder(model, size.vocabulary, causal=True))
    # Large enough for a constant learning rate and for no checkpoint or validation to be due.
    forever = 1 << 40
    settings = TrainingSettings(
        steps=forever, checkpoint_every=forever, evaluate_every=forever,
        batch_tokens=size.tokens, learning_rate=LEARNING_RATE, warmup=0, clip=CLIP, optimizer=optimizer,
        precision=precision,
    )  # fmt: skip
    remaining = 0

    def should_stop() -> bool:
        nonlocal remaining
        remaining -= 1
        return remaining <= 0

    events = Callbacks(lambda progress, done: None, lambda progress, result: None, lambda trainer: None, should_stop)
    trainer = Trainer(LanguageJob(network, random_ids(size.vocabulary), 0, settings, stream=True), settings, events)

    def steps(number: int) -> None:
        nonlocal remaining
        remaining = number
        trainer.run()

    training = Training(steps)
    setattr(trainer.optimizer, "step", training.timed(trainer.optimizer.step))  # noqa: B010 (mypy: a method)
    return training


# --- other implementations ---------------------------------------------------------------------------


def plain_steps(build: Callable[[Size], tuple[nn.Module, Loss]], size: Size, precision: Precision) -> Training:
    """Return a training of a network with a minimal PyTorch training loop."""
    network, loss = build(size)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE)
    ids = random_ids(size.vocabulary)
    network.train()

    def steps(number: int) -> None:
        for _ in range(number):
            inputs_BT, targets_BT = batch(ids, size)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
                value = loss(inputs_BT, targets_BT)
            value.backward()
            nn.utils.clip_grad_norm_(network.parameters(), CLIP)
            update()

    training = Training(steps)
    update = training.timed(optimizer.step)
    return training


def batch(ids: Any, size: Size) -> tuple[Tensor, Tensor]:
    """Return random windows of the ids as inputs, and the same windows shifted by one as targets."""
    starts = torch.randint(len(ids) - size.length, (size.batch,)).tolist()
    inputs = [torch.from_numpy(ids[start : start + size.length].astype(np.int64)) for start in starts]
    targets = [torch.from_numpy(ids[start + 1 : start + 1 + size.length].astype(np.int64)) for start in starts]
    return torch.stack(inputs), torch.stack(targets)


def hugging_face(size: Size) -> tuple[nn.Module, Loss]:
    """Return Hugging Face's GPT-2. It shifts the labels itself, so the last id of a row has no target."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=size.vocabulary, n_positions=size.length, n_embd=size.width, n_layer=size.layers, n_head=size.heads,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    network = GPT2LMHeadModel(config)
    network.loss_type = "ForCausalLM"  # the default; set explicitly to avoid a warning

    def loss(inputs_BT: Tensor, targets_BT: Tensor) -> Tensor:
        del targets_BT
        value: Tensor = network(input_ids=inputs_BT, labels=inputs_BT).loss
        return value

    return network, loss


def torch_encoder(size: Size) -> tuple[nn.Module, Loss]:
    """Return `nn.TransformerEncoder` with learned positions and tied output embeddings."""
    block = nn.TransformerEncoderLayer(
        size.width, size.heads, 4 * size.width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    embedding, positions = nn.Embedding(size.vocabulary, size.width), nn.Embedding(size.length, size.width)
    encoder = nn.TransformerEncoder(block, size.layers, nn.LayerNorm(size.width), enable_nested_tensor=False)
    for table in (embedding, positions):
        nn.init.normal_(table.weight, std=0.02)
    mask_TT = nn.Transformer.generate_square_subsequent_mask(size.length)

    def loss(inputs_BT: Tensor, targets_BT: Tensor) -> Tensor:
        encoded_BTD = encoder(embedding(inputs_BT) + positions.weight, mask=mask_TT, is_causal=True)
        return F.cross_entropy(F.linear(encoded_BTD, embedding.weight).flatten(0, 1), targets_BT.flatten())

    return nn.ModuleList([embedding, positions, encoder]), loss


def x_transformers(size: Size) -> tuple[nn.Module, Loss]:
    """Return the decoder of x-transformers with learned positions and tied output embeddings."""
    from x_transformers import Decoder, TransformerWrapper

    network = TransformerWrapper(
        num_tokens=size.vocabulary,
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
    """Return a minimal GPT with nanoGPT's architecture."""
    network = MinimalGPT(size)
    return network, network.loss


class MinimalGPT(nn.Module):
    """GPT with learned positions, pre-norm blocks and tied output embeddings."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        self.blocks = nn.Sequential(*(MinimalBlock(size.width, size.heads) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def loss(self, inputs_BT: Tensor, targets_BT: Tensor) -> Tensor:
        """Return the mean cross-entropy of the targets."""
        positions_T = torch.arange(inputs_BT.shape[1])
        x_BTD = self.norm(self.blocks(self.embedding(inputs_BT) + self.positions(positions_T)))
        return F.cross_entropy(F.linear(x_BTD, self.embedding.weight).flatten(0, 1), targets_BT.flatten())


class MinimalBlock(nn.Module):
    """Self-attention and feed-forward network, each with pre-norm and a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.feedforward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feedforward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Return the output of the block, of the same shape."""
        parts = self.project(self.attention_norm(x_BTD)).chunk(3, dim=-1)
        queries, keys, values = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        attended_BHTD = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x_BTD = x_BTD + self.out(attended_BHTD.transpose(1, 2).flatten(2))
        update_BTD: Tensor = self.feedforward(self.feedforward_norm(x_BTD))
        return x_BTD + update_BTD


# --- measurement -------------------------------------------------------------------------------------

# Module that each variant requires, and the function that builds it.
VARIANTS: dict[str, tuple[str, Callable[[Size, Precision], Training]]] = {
    "satchel, GPT-2 architecture": ("satchel", partial(satchel_steps, architecture="gpt2", optimizer="adamw")),
    "satchel, default architecture": ("satchel", partial(satchel_steps, architecture="default", optimizer="adamw")),
    "satchel, default architecture, Muon": (
        "satchel",
        partial(satchel_steps, architecture="default", optimizer="muon"),
    ),
    "satchel, Backpack": ("satchel", partial(satchel_steps, architecture="backpack", optimizer="adamw")),
    "satchel, Backpack, Muon": ("satchel", partial(satchel_steps, architecture="backpack", optimizer="muon")),
    REFERENCE: ("transformers", partial(plain_steps, hugging_face)),
    "nn.TransformerEncoder": ("torch", partial(plain_steps, torch_encoder)),
    "x-transformers": ("x_transformers", partial(plain_steps, x_transformers)),
    "hand-written, as nanoGPT": ("torch", partial(plain_steps, hand_written)),
}


def main() -> None:
    arguments = parser(__doc__, "--quick", rounds=30)
    arguments.add_argument("--config", choices=[*CONFIGS, "all"], default="all", help="sizes to measure")
    arguments.add_argument("--only", default="", help="measure the variants with this text in their name")
    arguments.add_argument("--worker", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(cores)
    torch.manual_seed(0)
    for name in CONFIGS if options.config == "all" else [options.config]:
        size = replace(CONFIGS[name], batch=1, steps=1) if options.quick else CONFIGS[name]
        if options.worker:
            _build(options.worker, size).run(1 if options.quick else 5)
            print(json.dumps({"megabytes": peak_megabytes()}))
        else:
            _compare(name, size, 2 if options.quick else options.rounds, options.quick, cores, options.only)


def _build(name: str, size: Size) -> Training:
    """Return the training of a variant, whose name ends with its precision."""
    variant, _, precision = name.rpartition(", ")
    return VARIANTS[variant][1](size, "bfloat16" if precision == "bfloat16" else "float32")


def _compare(config: str, size: Size, rounds: int, quick: bool, cores: int, only: str) -> None:
    """Time all installed variants and print one row for each."""
    from satchel.nn.precision import has_bfloat16, instruction_sets, resolve

    sets = instruction_sets("cpu")
    names = [
        f"{name}, {precision}"
        for name, (module, _) in VARIANTS.items()
        for precision in (("float32", "bfloat16") if has_bfloat16(sets) else ("float32",))
        if importlib.util.find_spec(module) and only in name and (size.senses or "Backpack" not in name)
    ]
    variants = {name: _build(name, size) for name in names}
    for training in variants.values():
        training.run(1 if quick else 2 * size.steps)  # warm-up
        training.optimizer_seconds = 0
    seconds: dict[str, list[float]] = {name: [] for name in names}
    gemm_rates = [_gemm_rate()]
    for number in range(rounds):
        first = number % len(names)
        for name in [*names[first:], *names[:first]]:
            began = time.perf_counter()
            variants[name].run(size.steps)
            seconds[name].append((time.perf_counter() - began) / size.steps)
        gemm_rates.append(_gemm_rate())
    print(
        f"\n**Config {config}**: {size.layers} layers, width {size.width}, {size.heads} heads, length {size.length}, "
        f"batch {size.batch}, vocabulary {size.vocabulary}; {size.operations / 1e6:.2f} MFLOP per token (Transformer); "
        f"{rounds} rounds of {size.steps} steps each on {cores} threads; processor with {', '.join(sets) or 'no AVX'}: "
        f"auto is {resolve('auto', sets)}; GEMM {statistics.median(gemm_rates) / 1e9:.0f} GFLOP/s "
        f"({min(gemm_rates) / 1e9:.0f} to {max(gemm_rates) / 1e9:.0f}).\n"
    )
    columns = ["variant", "ms per step", "tokens/s", "/ Hugging Face float32", "/ Hugging Face, same precision"]
    print("|", " | ".join([*columns, "optimizer", "share of GEMM", "peak MB"]), "|")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    round_rates = [(before + after) / 2 for before, after in pairwise(gemm_rates)]
    for name, times in seconds.items():
        median = statistics.median(times)
        share = median_ratio([size.tokens * size.operations / time_ for time_ in times], round_rates)
        references = [f"{REFERENCE}, {precision}" for precision in ("float32", name.rpartition(", ")[2])]
        speeds = [f"{median_ratio(seconds[each], times):.2f}" if each in seconds else "-" for each in references]
        optimizer = variants[name].optimizer_seconds / (size.steps * sum(times))
        worker_options = ["--worker", name, "--config", config, *(["--quick"] if quick else [])]
        memory = run_worker(__file__, *worker_options)["megabytes"]
        row = [name, f"{1000 * median:,.1f}", f"{size.tokens / median:,.0f}", *speeds]
        share_of_gemm = "-" if "Backpack" in name else f"{share:.2f}"  # a Backpack has other operations
        print("|", " | ".join([*row, f"{optimizer:.1%}", share_of_gemm, f"{memory:,.0f}"]), "|")


def _gemm_rate(size: int = 1024, repetitions: int = 3) -> float:
    """Return the median floating-point operations per second of a matrix product."""
    left, right, product = torch.ones(size, size), torch.ones(size, size), torch.empty(size, size)
    torch.mm(left, right, out=product)
    rates = []
    for _ in range(repetitions):
        began = time.perf_counter()
        torch.mm(left, right, out=product)
        rates.append(2 * size**3 / (time.perf_counter() - began))
    return statistics.median(rates)


if __name__ == "__main__":
    main()
