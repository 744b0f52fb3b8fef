"""Data-parallel training: two processes with one thread each against one process with two threads.

    python bench/distributed.py [TEXT] [--steps 50] [--rounds 3] [--quick]

Both train on the same batches; prints the training speed and the largest difference of the losses. The two alternate.
The first round runs all steps; the later rounds, which only measure the speed, run a fifth of them.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import median_ratio, parser

SETTINGS = {
    "model.width": 384,
    "model.layers": 6,
    "model.heads": 6,
    "model.context": 256,
    "training.batch_tokens": 4096,
    "training.evaluate_every": 1,
    "data.valid": 0.001,
}
# Number of processes, and of threads in each.
VARIANTS = {"one process, two threads": (1, 2), "two processes, one thread each": (2, 1)}


def train(text: Path, run: Path, processes: int, threads: int, steps: int) -> tuple[float, list[float]]:
    """Return tokens per second and the training loss after each step (a mean over up to fifty recent steps)."""
    settings = [f"--set={key}={value}" for key, value in SETTINGS.items()]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    options = ["train", str(text), "--model", "transformer", "--tokenizer", "bpe:2000", "--steps", str(steps)]
    command = [
        sys.executable,
        *launcher,
        "-m",
        "satchel",
        *options,
        "--threads",
        str(threads),
        "-o",
        str(run),
        *settings,
    ]
    process = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return json.loads(process.stdout)["tokens_per_second"], [line["train_loss"] for line in lines]


def main() -> None:
    arguments = parser(__doc__, "text", "--quick", rounds=3)
    arguments.add_argument("--steps", type=int, default=50, help="number of training steps of the first round")
    options = arguments.parse_args()
    if options.quick:
        options.steps, options.rounds = 2, 1
    rates: dict[str, list[float]] = {name: [] for name in VARIANTS}
    losses: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for name, (processes, threads) in VARIANTS.items():
                steps = options.steps if number == 0 else max(1, options.steps // 5)
                run = Path(folder) / f"{processes}-{number}"
                rate, run_losses = train(options.text, run, processes, threads, steps)
                rates[name].append(rate)
                losses.setdefault(name, run_losses)
    for name, values in rates.items():
        print(f"{name:<32} {statistics.median(values):8,.0f} tokens/s")
    one, two = rates.values()
    print(f"speed of two processes / one process: {median_ratio(two, one):.2f}")
    differences = [abs(a - b) for a, b in zip(*losses.values(), strict=True)]
    print(f"largest difference of the losses over {len(differences)} steps: {max(differences):.1e}")


if __name__ == "__main__":
    main()
