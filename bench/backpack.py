"""What senses cost: a step of training and a token of decoding of a Backpack, against the Transformer inside it.

    python bench/backpack.py [TEXT] [--rounds 7] [--quick]
    python bench/backpack.py TEXT --recipe shakespeare-backpack [--valid FILE] [--epochs 6] [--seeds 1] [--quick]

All train on the same batches of a text in pieces of words (2,000 of them), in turn in one process, each with AdamW;
medians over the rounds, and ratios within a round. `naive` makes the senses of every place and a product for every
sense, as the first implementations do. Decoding is one text, token by token, with what was read kept.

With a recipe it is what they learn: the recipe's Backpack, the Transformer inside it, and one of as many layers as make
it as large as the Backpack, on the same tokens; bits per byte of what is held out.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import satchel
from measure import write_recipe
from satchel.data.tokens import open_tokens
from satchel.models.backpack import Backpack, BackpackSettings
from satchel.models.build import build_encoder
from satchel.models.encoder import CausalEncoder
from satchel.models.transformer import TransformerSettings
from satchel.nn.attention import causal_mask
from satchel.runs import folder as runs
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from satchel.training.recipes import read_recipe

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SHAPE: dict[str, Any] = {"width": 384, "layers": 6, "heads": 6, "context": 256}
SENSES, LENGTH, ROWS, VOCABULARY = 16, 256, 16, 2000


class Naive(Backpack):
    """A Backpack as it is first written down."""

    def encode(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        assert self.contextualiser is not None
        assert self.sense_attention is not None
        x_BTD = self.embed(ids_BT)
        senses_BNSD = self.sense_network(x_BTD).transpose(1, 2)
        queries, keys = self.sense_attention.queries_and_keys(self.contextualiser(x_BTD))
        weights_BNTS = self.sense_attention(queries, keys, causal_mask(ids_BT.shape[1]))
        sums: Tensor = (weights_BNTS @ senses_BNSD).sum(dim=1)
        return sums


def made(encoder: CausalEncoder) -> tuple[LanguageNetwork, torch.optim.Optimizer]:
    network = LanguageNetwork(encoder).train()
    return network, torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)


def stepped(network: LanguageNetwork, optimizer: torch.optim.Optimizer, ids_BT: Tensor) -> float:
    began = time.perf_counter()
    network.loss(ids_BT[:, :-1], ids_BT[:, 1:]).backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - began


def decoded(network: LanguageNetwork, ids: list[int], boundary: int) -> float:
    """Return the seconds per token of a text that is read token by token."""
    predictor = NetworkPredictor(network, boundary)
    state = predictor.start(1)
    _, state = predictor.step(np.array([[boundary, *ids[:8]]]), state)
    began = time.perf_counter()
    for id_ in ids[8:]:
        _, state = predictor.step(np.array([[id_]]), state)
    return (time.perf_counter() - began) / len(ids[8:])


def ratios(name: str, found: dict[str, list[float]], unit: str) -> None:
    reference = found["Transformer"]
    for variant, times in found.items():
        ratio = statistics.median(a / b for a, b in zip(times, reference, strict=True))
        print(
            f"{name:<10} {variant:<14} {1000 * statistics.median(times):9.1f} {unit} {ratio:6.2f} times the Transformer"
        )


OWN = ("senses", "contextualiser", "sense_source", "sense_hidden", "output", "diversity", "nearness")


def learned(
    text: Path, recipe: str, valid: str | None, seed: int, threads: int, budget: dict[str, Any]
) -> dict[str, tuple[float, int, float]]:
    """Return bits per byte, parameters and seconds of a recipe's Backpack and of two Transformers."""
    tree = read_recipe(recipe)
    inside = {key: value for key, value in tree["model"].items() if key not in OWN} | {"kind": "transformer"}
    found: dict[str, tuple[float, int, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        out, layers = Path(folder), inside["layers"]
        for name, model in (("Backpack", tree["model"]), ("Transformer", inside), ("as large", inside)):
            if name == "as large":
                large, small = found["Backpack"][1], found["Transformer"][1]
                model = {**inside, "layers": layers + max(1, round((large - small) / (12 * inside["width"] ** 2)))}
            trained = satchel.train(
                text,
                recipe=write_recipe({**tree, "model": model}, out / "recipe.toml"),
                tokenizer=None if name == "Backpack" else out / "Backpack",
                valid=valid,
                seed=seed,
                threads=threads,
                out=out / name,
                **budget,
            )
            report = trained.report
            found[name] = report.valid.bits_per_byte, report.parameters, report.seconds
            bits, relative = found[name][0], found[name][0] / found["Backpack"][0]
            print(
                f"seed {seed} {name:<12} {bits:.4f} bits per byte ({relative:.4f}), "
                f"{report.parameters:,} parameters, {report.seconds:.0f} s",
                flush=True,
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, nargs="?", default=SHARED / "tiny-shakespeare" / "input.txt")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--recipe", help="what they learn, instead of what they cost")
    parser.add_argument("--valid", help="a held-out file; else as the recipe says")
    parser.add_argument("--epochs", type=float, help="readings of the text; else as the recipe says")
    parser.add_argument("--threads", type=int, default=0, help="of each training; 0 is as many as there are")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="one row in a batch: it shows that all of it runs")
    options = parser.parse_args()
    if options.recipe:
        for seed in range(options.seeds):
            given = {"steps": 3} if options.quick else {"epochs": options.epochs}
            budget = {name: value for name, value in given.items() if value is not None}
            learned(options.text, options.recipe, options.valid, seed, options.threads, budget)
        return
    with tempfile.TemporaryDirectory() as folder:
        counted = satchel.train(options.text, model="ngram", tokenizer=f"bpe:{VOCABULARY}", out=Path(folder) / "run")
        ids = torch.from_numpy(np.asarray(open_tokens(counted.folder / runs.TRAIN_TOKENS).ids[1:], np.int64))
    rows = 1 if options.quick else ROWS
    torch.manual_seed(0)
    own = BackpackSettings(**SHAPE, senses=SENSES)
    variants = {
        "Transformer": made(build_encoder(TransformerSettings(**SHAPE), VOCABULARY + 1, causal=True)),
        "Backpack": made(build_encoder(own, VOCABULARY + 1, causal=True)),
        "naive": made(Naive(own, VOCABULARY + 1, causal=True)),
    }
    steps: dict[str, list[float]] = {name: [] for name in variants}
    tokens: dict[str, list[float]] = {name: [] for name in variants if name != "naive"}
    for number in range(options.rounds + 1):
        starts = torch.randint(0, len(ids) - LENGTH - 1, (rows,))
        batch_BT = torch.stack([ids[start : start + LENGTH + 1] for start in starts])
        for name, (network, optimizer) in variants.items():
            seconds = stepped(network, optimizer, batch_BT)
            if number:  # the first of all warms up
                steps[name].append(seconds)
    for number in range(options.rounds + 1):
        text = ids[1000 * number : 1000 * number + (40 if options.quick else 248)].tolist()
        for name in tokens:
            seconds = decoded(variants[name][0].eval(), text, VOCABULARY)
            if number:
                tokens[name].append(seconds)
    ratios("training", steps, "ms per step ")
    ratios("decoding", tokens, "ms per token")


if __name__ == "__main__":
    main()
