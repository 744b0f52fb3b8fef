"""Two processes of one thread against one process of two threads: the same batches, the same losses, and how fast.

python bench/distributed.py [TEXT] [--steps 50] [--rounds 3]

Each round trains both once, in turn. The first runs all the steps, the later ones a fifth of them, for the rate.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
NETWORK = {
    "model.width": 384,
    "model.layers": 6,
    "model.heads": 6,
    "model.context": 256,
    "training.batch_tokens": 4096,
    "training.evaluate_every": 1,
    "data.valid": 0.001,
}
WAYS = {"one process, two threads": (1, 2), "two processes, one thread each": (2, 1)}


def trained(text: Path, run: Path, processes: int, threads: int, steps: int) -> tuple[float, list[float]]:
    """Return the tokens per second of a training, and its losses: each the mean of those so far, up to fifty."""
    given = [f"--set={key}={value}" for key, value in NETWORK.items()]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    task = ["train", str(text), "--model", "transformer", "--tokenizer", "bpe:2000", "--steps", str(steps)]
    command = [sys.executable, *launcher, "-m", "satchel", *task, "--threads", str(threads), "-o", str(run), *given]
    done = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return json.loads(done.stdout)["tokens_per_second"], [line["train_loss"] for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, nargs="?", default=SHARED / "tiny-shakespeare" / "input.txt")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    losses: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for name, (processes, threads) in WAYS.items():
                steps = options.steps if number == 0 else max(1, options.steps // 5)
                run = Path(folder) / f"{processes}-{number}"
                rate, found = trained(options.text, run, processes, threads, steps)
                rates[name].append(rate)
                losses.setdefault(name, found)
    for name, found in rates.items():
        print(f"{name:<32} {statistics.median(found):8,.0f} tokens/s")
    one, two = rates.values()
    ratios = [b / a for a, b in zip(one, two, strict=True)]
    print(f"two processes: {statistics.median(ratios):.2f} times the rate of one")
    differences = [abs(a - b) for a, b in zip(*losses.values(), strict=True)]
    print(f"largest difference of the losses over {len(differences)} steps: {max(differences):.1e}")


if __name__ == "__main__":
    main()
