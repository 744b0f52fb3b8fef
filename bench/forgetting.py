"""What is forgotten on the way: strings are written backwards, with and without attention to what was read.

    python bench/forgetting.py [--minutes 4] [--size 50000] [--threads 1] [--quick]

Four networks of about the same size get the same minutes on @reverse, one after another. Then, on strings that none
has seen:
- how many are written without a mistake, by their length: a vector of fixed size is a bottleneck;
- what a letter costs, by where it stood in the source: what was read last is known best;
- how much the probability of a letter depends on reading it (the norm of the gradient there), by how many steps lie
  between reading and writing it, against a letter that was read just before;
- tokens per second of training: what recurrence costs.
"""

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import satchel
from satchel.data.batches import by_length
from satchel.nn.sites import watching
from satchel.tasks.translation import pair_batch

RECURRENT: dict[str, Any] = {"model.width": 192, "training.learning_rate": 3e-3}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn, a summary": ("rnn", {**RECURRENT, "model.attention": "none"}),
    "lstm, a summary": ("lstm", {**RECURRENT, "model.attention": "none"}),
    "lstm, attention": ("lstm", {**RECURRENT, "model.attention": "general"}),
    "transformer": ("transformer", {"model.width": 128, "model.layers": 2, "model.heads": 4}),
}
DISTANCES = (1, 5, 11, 21, 31, 41)


def gradients(model: Any, size: int) -> dict[int, float]:
    """Return the mean norm of the gradient of each letter's logarithm where it was read, by the steps between."""
    pairs = model.pairs("@reverse")[:size]
    sources, targets = model._ids(pairs)
    network = model.network.train(False)
    found: dict[int, list[float]] = defaultdict(list)
    for rows in by_length(np.array([len(source) for source in sources]), 1 << 10):
        batch = pair_batch([sources[row] for row in rows], [targets[row] for row in rows], *model.boundaries)
        for place in range(max(len(targets[row]) for row in rows)):
            chosen = [number for number, row in enumerate(rows) if place < len(targets[row])]
            kept: list[Tensor] = []

            def keep(value: Tensor, kept: list[Tensor] = kept) -> Tensor:
                kept.append(value.detach().requires_grad_())
                return kept[-1]

            with watching(network, {"pair.reader.embedded": keep}):
                logprobs = network(batch)[:, place].log_softmax(dim=-1)
            told = logprobs[chosen, batch.targets[chosen, place]]
            (gradient,) = torch.autograd.grad(told.sum(), kept[0])
            for number in chosen:
                length = len(sources[rows[number]])
                # What is written first was read last.
                found[2 * place + 1].append(float(gradient[number, length - 1 - place].norm()))
    return {distance: float(np.mean(norms)) for distance, norms in sorted(found.items())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--size", type=int, default=50_000)
    parser.add_argument("--threads", type=int, default=0, help="of each training; 0 is as many as there are")
    parser.add_argument("--quick", action="store_true", help="a few steps: it shows that all of it runs")
    options = parser.parse_args()
    size = 500 if options.quick else options.size
    budget: dict[str, Any] = {"steps": 3} if options.quick else {"minutes": options.minutes}
    with tempfile.TemporaryDirectory() as folder:
        for name, (kind, settings) in KINDS.items():
            model = satchel.train(
                "@reverse",
                model=kind,
                settings={"data.size": size, **settings},
                threads=options.threads,
                out=Path(folder) / name,
                **budget,
            )
            report = model.report
            exact = model.evaluate("@reverse", beam=1).quality.exact_match
            print(f"\n{name}: {report.parameters:,} parameters, {report.tokens_per_second:,.0f} tokens/s, {exact:.1%}")
            for each in model.by_length("@reverse", beam=1):
                print(f"  {each.name:<26} {each.quality.exact_match:7.1%} without a mistake")
            for each in model.by_position("@reverse"):
                print(f"  {each.name:<26} {each.nats_per_token:7.3f} nats per letter")
            norms = gradients(model, 200)
            for distance in DISTANCES:
                if distance in norms:
                    relative = norms[distance] / norms[1]
                    print(f"  {distance:>2} steps between{'':<9} {relative:7.3f} of the gradient at 1 step", flush=True)


if __name__ == "__main__":
    main()
