"""Train a small network of each kind, and print the sha256 of every trained tensor and the losses as JSON.

    python -m tests.compatibility.training_digests --source SOURCE_TREE [KIND ...] > digests.json

Two source trees whose output is equal train bit-identically. The commands are `satchel train` with 100 steps, one seed
and one thread; together the kinds cover optimizers, dropout, positions, gradient accumulation, BPE-dropout and noise.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.compatibility.questions import HERE, RUNS
from tests.compatibility.samples import write_all
from tests.compatibility.tensor_files import machine, trained_digests

DIGESTS = HERE / "digests.json"
# Digests of AdamW in float32 with torch limited to AVX2 by these environment variables.
AVX2_DIGESTS = HERE / "digests_avx2.json"
AVX2_LIMITS = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}

TRAINING = {
    "training.batch_tokens": 192,
    "training.learning_rate": 0.005,
    "training.evaluate_every": 25,
    "training.precision": "float32",
    "model.width": 16,
}
ATTENTION = TRAINING | {"model.layers": 2, "model.heads": 2, "model.context": 32, "model.dropout": 0.0}
BACKPACK = ATTENTION | {"model.layers": 1, "model.senses": 4}
PAIRS = TRAINING | {"model.layers": 1, "model.context": 64, "model.dropout": 0.1, "training.dropout_after": 0}
ADAMW = {"training.optimizer": "adamw"}
DROPOUT = {"model.dropout": 0.1, "training.dropout_after": 0}
BUDGET = "--steps 100 --seed 1 --threads 1"
TEXT = f"text.txt --tokenizer char --valid 0.1 {BUDGET}"
PIECES = f"text.txt --tokenizer bpe:300 --valid 0.1 {BUDGET}"
WORDS = f"text.txt --tokenizer word --valid 0.1 {BUDGET}"
TABLE = f"rows.tsv --tokenizer word --valid 0.1 {BUDGET}"

# The arguments of `satchel train`, and the settings. {runs} is the folder of the fixtures.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "ngram": ("text.txt --model ngram --tokenizer char --valid 0.1", {"model.order": 4}),
    "ngram-witten-bell": (
        "text.txt --model ngram --tokenizer word --valid 0.1",
        {"model.order": 3, "model.smoothing": "witten-bell"},
    ),
    "ngram-classifier": ("rows.tsv --model ngram --tokenizer word --valid 0.1", {"model.order": 2}),
    "dan": (f"{TEXT} --model dan", TRAINING | DROPOUT | {"model.word_dropout": 0.1}),
    "window": (f"{TEXT} --model window", TRAINING | DROPOUT | {"training.noise": 0.1}),
    "rnn": (f"{TEXT} --model rnn", TRAINING),
    "gru": (f"{TEXT} --model gru", TRAINING | {"training.parts": 3}),
    "lstm": (f"{TEXT} --model lstm", TRAINING | DROPOUT | {"model.layers": 2, "training.label_smoothing": 0.1}),
    "transformer": (f"{PIECES} --model transformer", ATTENTION | {"training.optimizer": "muon"}),
    "transformer-ngram": (
        f"{TEXT} --model transformer",
        ATTENTION | ADAMW | DROPOUT | {"model.ngram": 3, "model.positions": "learned", "training.parts": 2},
    ),
    "transformer-alibi": (
        f"{WORDS} --model transformer",
        ATTENTION
        | DROPOUT
        | {
            "data.documents": "line",
            "model.positions": "alibi",
            "model.attention_dropout": 0.1,
            "model.feedforward": "swiglu",
            "model.norm_kind": "rms",
            "training.noise": 0.1,
        },
    ),
    "transformer-sinusoidal": (
        f"{TEXT} --model transformer",
        ATTENTION
        | ADAMW
        | {
            "model.positions": "sinusoidal",
            "model.norm": "post",
            "model.attention": "wide",
            "model.feedforward": "gelu",
            "model.bias": "true",
            "model.normalise": "false",
            "model.layer_scale": "true",
        },
    ),
    "transformer-from-run": (
        f"text.txt --valid 0.1 {BUDGET} --from {{runs}}/transformer",
        {"training.batch_tokens": 192, "training.evaluate_every": 25, "training.precision": "float32"},
    ),
    "backpack": (
        f"{WORDS} --model backpack",
        BACKPACK | {"model.diversity": 0.1, "model.nearness": 0.1, "training.optimizer": "muon"},
    ),
    "backpack-ngram": (
        f"{TEXT} --model backpack",
        BACKPACK
        | ADAMW
        | DROPOUT
        | {
            "model.ngram": 3,
            "model.positions": "learned",
            "model.feedforward": "gelu-tanh",
            "model.bias": "true",
            "model.normalise": "false",
            "model.layer_scale": "true",
            "model.output": "mean",
            "training.parts": 2,
        },
    ),
    "backpack-table": (f"{TEXT} --model backpack", BACKPACK | {"model.sense_source": "table"}),
    "backpack-rnn": (f"{TEXT} --model backpack", BACKPACK | {"model.contextualiser": "rnn"}),
    "backpack-gru": (f"{TEXT} --model backpack", BACKPACK | {"model.contextualiser": "gru"}),
    "backpack-lstm": (f"{TEXT} --model backpack", BACKPACK | DROPOUT | {"model.contextualiser": "lstm"}),
    "backpack-uniform": (f"{TEXT} --model backpack", BACKPACK | {"model.contextualiser": "uniform"}),
    "backpack-from-run": (
        f"rows.tsv --task classify --valid 0.1 {BUDGET} --from {{runs}}/backpack",
        {"training.batch_tokens": 192, "training.evaluate_every": 25, "training.precision": "float32"},
    ),
    "transformer-tagger": (f"@counting --model transformer {BUDGET}", ATTENTION | {"data.size": 300}),
    "lstm-tagger": (f"@polysemy-senses --model lstm {BUDGET}", TRAINING | {"data.size": 300}),
    "backpack-tagger": (f"@counting --model backpack {BUDGET}", BACKPACK | {"data.size": 300}),
    "dan-classifier": (
        f"{TABLE} --model dan",
        TRAINING | DROPOUT | {"model.bigrams": 128, "model.average": "root", "training.class_weights": "balanced"},
    ),
    "transformer-classifier": (f"{TABLE} --model transformer", ATTENTION | DROPOUT | {"model.pooling": "root"}),
    "backpack-classifier": (
        f"@polysemy-polarity --model backpack {BUDGET}",
        BACKPACK | {"data.size": 300, "training.label_smoothing": 0.1},
    ),
    "lstm-translator": (
        f"pairs.tsv --model lstm --tokenizer bpe:300 --valid 0.1 {BUDGET}",
        PAIRS | {"model.attention": "general", "training.merge_dropout": 0.1},
    ),
    "gru-translator": (
        f"pairs.tsv --model gru --tokenizer word --valid 0.1 {BUDGET}",
        PAIRS
        | {
            "tokenizer.joint": "false",
            "model.attention": "additive",
            "model.query": "previous",
            "model.summary": "mean",
            "training.parts": 2,
        },
    ),
    "transformer-translator": (
        f"pairs.tsv --model transformer --tokenizer bpe:300 --valid 0.1 {BUDGET}",
        PAIRS | {"model.heads": 2, "training.merge_dropout": 0.1, "training.label_smoothing": 0.1},
    ),
    "transformer-decoder-only": (
        f"@dates --model transformer {BUDGET}",
        PAIRS | ADAMW | {"data.size": 300, "model.heads": 2, "model.form": "decoder-only", "training.noise": 0.1},
    ),
    "backpack-translator": (
        f"@reverse --model backpack {BUDGET}",
        PAIRS | {"data.size": 300, "model.heads": 2, "model.senses": 3},
    ),
}


def digests_of(kind: str, source: Path, changes: dict[str, Any] | None = None, **variables: str) -> dict[str, Any]:
    """Train one kind with the code of a source tree, and return its tensor digests and losses.

    `changes` are further settings, `variables` are environment variables.
    """
    arguments, settings = KINDS[kind]
    settings = settings | (changes or {})
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        write_all(folder)
        assignments = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        line = ["train", *shlex.split(arguments.format(runs=RUNS)), *assignments, "-o", "run"]
        environment = {**os.environ, "PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1", **variables}
        result = subprocess.run(
            [sys.executable, "-m", "satchel", *line],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise RuntimeError(f"satchel {shlex.join(line)} failed:\n{result.stderr}")
        metrics = [json.loads(text) for text in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
        losses = [{key: entry.get(key) for key in ("step", "train_loss", "valid_loss")} for entry in metrics]
        return {"tensors": trained_digests(folder / "run"), "losses": losses}


def main() -> None:
    """Print the digests of all kinds, or of the ones named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, required=True, help="the source tree to run")
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    options = parser.parse_args()
    kinds = {kind: digests_of(kind, options.source.resolve()) for kind in options.kinds}
    print(json.dumps({"machine": machine(), "kinds": kinds}, indent=1))


if __name__ == "__main__":
    main()
