"""Training and decoding time of a Backpack relative to a Transformer, or their quality on the same tokens.

    python bench/backpack.py [TEXT] [--rounds 7] [--quick]
    python bench/backpack.py TEXT --recipe shakespeare-backpack [--valid FILE] [--epochs 6] [--seeds 1] [--quick]

Without `--recipe`: time of an AdamW step and of decoding a token with a KV cache, for a Backpack, its contextualiser as
a Transformer, and a naive Backpack (sense vectors computed for every position, one matrix product per sense; training
only). All alternate in one process on the same batches of the text (BPE, 2,000 tokens); medians over the rounds, ratios
within a round.

With `--recipe`: held-out bits per byte of the recipe's Backpack, of its contextualiser as a Transformer, and of a
Transformer with additional layers to match the parameter count of the Backpack; all train on the same tokens.
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import satchel
from measure import median_ratio, parser, write_recipe
from satchel.data.tokens import open_tokens
from satchel.models.backpack import Backpack, BackpackSettings
from satchel.models.build import build_encoder
from satchel.models.encoder import CausalEncoder
from satchel.models.transformer import TransformerSettings
from satchel.nn.attention import causal_mask
from satchel.runs import folder as runs
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from satchel.training.recipes import read_recipe

SHAPE: dict[str, Any] = {"width": 384, "layers": 6, "heads": 6, "context": 256}
SENSES, LENGTH, BATCH, VOCABULARY = 16, 256, 16, 2000
# Number of prompt tokens that are decoded before the measurement starts.
PROMPT = 8
# Settings that a Backpack has and a Transformer does not.
BACKPACK_ONLY = ("senses", "contextualiser", "sense_source", "sense_hidden", "output", "diversity", "nearness")


class Naive(Backpack):
    """Backpack that computes the sense vectors of every position separately and sums over the senses at the end."""

    def encode(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        assert self.contextualiser is not None
        assert self.sense_attention is not None
        x_BTD = self.embed(ids_BT)
        senses_BNSD = self.sense_network(x_BTD).transpose(1, 2)
        queries, keys = self.sense_attention.queries_and_keys(self.contextualiser(x_BTD))
        weights_BNTS = self.sense_attention(queries, keys, causal_mask(ids_BT.shape[1]))
        sums: Tensor = (weights_BNTS @ senses_BNSD).sum(dim=1)
        return sums


def with_optimizer(encoder: CausalEncoder) -> tuple[LanguageNetwork, torch.optim.Optimizer]:
    """Return a language model in training mode and its optimizer."""
    network = LanguageNetwork(encoder).train()
    return network, torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)


def step_seconds(network: LanguageNetwork, optimizer: torch.optim.Optimizer, ids_BT: Tensor) -> float:
    """Return the time of one training step."""
    began = time.perf_counter()
    network.loss(ids_BT[:, :-1], ids_BT[:, 1:]).backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - began


def decoding_seconds(network: LanguageNetwork, ids: list[int], boundary: int) -> float:
    """Return the time per token of feeding a text token by token."""
    decoder = NetworkPredictor(network, boundary).decoder()
    decoder.join([np.array([boundary, *ids[:PROMPT]])])
    began = time.perf_counter()
    for id_ in ids[PROMPT:]:
        decoder.step(np.array([id_]))
    return (time.perf_counter() - began) / len(ids[PROMPT:])


def print_times(phase: str, seconds: dict[str, list[float]], unit: str) -> None:
    """Print the median time of each variant and its ratio to the Transformer."""
    for variant, times in seconds.items():
        ratio = median_ratio(times, seconds["Transformer"])
        median = 1000 * statistics.median(times)
        print(f"{phase:<10} {variant:<14} {median:9.1f} {unit}  time / Transformer {ratio:5.2f}")


def compare_quality(
    text: Path, recipe: str, valid: str | None, seed: int, threads: int, budget: dict[str, Any]
) -> None:
    """Train the three models of a recipe and print bits per byte, number of parameters and training time."""
    tree = read_recipe(recipe)
    plain = {key: value for key, value in tree["model"].items() if key not in BACKPACK_ONLY} | {"kind": "transformer"}
    bits, parameters = dict[str, float](), dict[str, int]()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        for name, model in (("Backpack", tree["model"]), ("Transformer", plain), ("equal size", plain)):
            if name == "equal size":
                difference = parameters["Backpack"] - parameters["Transformer"]
                # A layer has 12 * width^2 parameters.
                added = max(1, round(difference / (12 * plain["width"] ** 2)))
                model = {**plain, "layers": plain["layers"] + added}
            report = satchel.train(
                text,
                recipe=write_recipe({**tree, "model": model}, out / "recipe.toml"),
                tokenizer=None if name == "Backpack" else out / "Backpack",
                valid=valid,
                seed=seed,
                threads=threads,
                out=out / name,
                **budget,
            ).report
            bits[name], parameters[name] = report.valid.bits_per_byte, report.parameters
            print(
                f"seed {seed} {name:<12} {bits[name]:.4f} bits per byte ({bits[name] / bits['Backpack']:.4f}), "
                f"{report.parameters:,} parameters, {report.seconds:.0f} s",
                flush=True,
            )


def compare_speed(text: Path, rounds: int, quick: bool) -> None:
    """Print the time of a training step and of decoding a token, by variant."""
    with tempfile.TemporaryDirectory() as folder:
        ngram = satchel.train(text, model="ngram", tokenizer=f"bpe:{VOCABULARY}", out=Path(folder) / "run")
        ids = torch.from_numpy(np.asarray(open_tokens(ngram.folder / runs.TRAIN_TOKENS).ids[1:], np.int64))
    batch, decoded = (1, 40) if quick else (BATCH, 248)
    torch.manual_seed(0)
    settings = BackpackSettings(**SHAPE, senses=SENSES)
    variants = {
        "Transformer": with_optimizer(build_encoder(TransformerSettings(**SHAPE), VOCABULARY + 1, causal=True)),
        "Backpack": with_optimizer(build_encoder(settings, VOCABULARY + 1, causal=True)),
        "naive": with_optimizer(Naive(settings, VOCABULARY + 1, causal=True)),
    }
    training: dict[str, list[float]] = {name: [] for name in variants}
    decoding: dict[str, list[float]] = {name: [] for name in variants if name != "naive"}
    for number in range(rounds + 1):
        starts = torch.randint(0, len(ids) - LENGTH - 1, (batch,))
        batch_BT = torch.stack([ids[start : start + LENGTH + 1] for start in starts])
        for name, (network, optimizer) in variants.items():
            seconds = step_seconds(network, optimizer, batch_BT)
            if number:  # round 0 is the warm-up
                training[name].append(seconds)
    for number in range(rounds + 1):
        prefix = ids[1000 * number : 1000 * number + decoded].tolist()
        for name in decoding:
            seconds = decoding_seconds(variants[name][0].eval(), prefix, VOCABULARY)
            if number:
                decoding[name].append(seconds)
    print_times("training", training, "ms per step ")
    print_times("decoding", decoding, "ms per token")


def main() -> None:
    arguments = parser(__doc__, "text", "--threads", "--quick", rounds=7)
    arguments.add_argument("--recipe", help="compare the quality of this recipe's models instead of the speed")
    arguments.add_argument("--valid", help="held-out file (default: as in the recipe)")
    arguments.add_argument("--epochs", type=float, help="number of epochs (default: as in the recipe)")
    arguments.add_argument("--seeds", type=int, default=1, help="number of seeds")
    options = arguments.parse_args()
    if not options.recipe:
        compare_speed(options.text, 1 if options.quick else options.rounds, options.quick)
        return
    budget: dict[str, Any] = {"steps": 3} if options.quick else {}
    if options.epochs is not None and not options.quick:
        budget = {"epochs": options.epochs}
    for seed in range(options.seeds):
        compare_quality(options.text, options.recipe, options.valid, seed, options.threads, budget)


if __name__ == "__main__":
    main()
