"""Data-parallel training with torchrun: equality with one process, output of rank 0 only, restarts after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel import tensors
from satchel.torchrun import Launch, launch
from tests.conftest import VERSE

SETTINGS = {
    "model.width": 16,
    "model.heads": 2,
    "model.layers": 1,
    "model.context": 16,
    "model.dropout": 0.0,  # dropout masks differ between processes
    "training.batch_tokens": 128,
    "training.precision": "float32",  # rounding to bfloat16 depends on the number of processes
    "training.threads": 1,
    "training.evaluate_every": 10,
    "training.checkpoint_every": 10,
}


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    """Return the path of a small text."""
    path = tmp_path / "poem.txt"
    path.write_text(VERSE * 6)
    return path


def start(text: Path, out: Path, *options: str, restarts: int = 0, **settings: Any) -> "subprocess.Popen[str]":
    """Start a training with two processes."""
    options_set = [f"--set={key}={value}" for key, value in {**SETTINGS, **settings}.items()]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", f"--max-restarts={restarts}"]
    train = ["-m", "satchel", "train", str(text), "--tokenizer", "char", "-o", str(out), *options_set, *options]
    return subprocess.Popen(
        [sys.executable, *launcher, *train],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """Wait for a successful end and return stdout and stderr."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out, err


def parameters(run: Path, step: int) -> dict[str, Any]:
    """Return the arrays of a checkpoint."""
    return tensors.read(run / "checkpoints" / f"step-{step:010}" / "model.safetensors")[0]


def test_two_processes_train_the_same_model_as_one_and_print_once(poem: Path, tmp_path: Path) -> None:
    out, err = wait_for(start(poem, tmp_path / "two", "--model=transformer", "--steps=30", "--json"))
    assert json.loads(out)["steps"] == 30
    assert err.count("step 10: validation loss") == 1
    one: Any = satchel.train(
        poem, model="transformer", tokenizer="char", steps=30, settings=SETTINGS, out=tmp_path / "one", task="lm"
    )
    for step in (20, 30):
        by_one, by_two = (parameters(tmp_path / name, step) for name in ("one", "two"))
        for name, array in by_one.items():
            np.testing.assert_allclose(by_two[name], array, atol=2e-4, err_msg=name)
    two = satchel.load(tmp_path / "two", task="lm")
    assert two.run.facts["arithmetic"]["processes"] == 2
    assert two.evaluate().nats_per_token == pytest.approx(one.report.valid.nats_per_token, abs=1e-3)
    lines = [json.loads(line) for line in (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [10, 20, 30]


def test_a_killed_process_restarts_from_the_last_checkpoint_and_gives_the_same_bits(poem: Path, tmp_path: Path) -> None:
    def start_training(out: Path) -> "subprocess.Popen[str]":
        random = {"model.dropout": 0.1, "training.dropout_after": 0, "training.noise": 0.1}
        return start(poem, out, "--model=transformer", "--steps=400", restarts=3, **random)

    wait_for(start_training(tmp_path / "uninterrupted"))
    killed = start_training(tmp_path / "killed")
    checkpoints = tmp_path / "killed" / "checkpoints"
    while not any(int(path.name[5:]) >= 40 for path in checkpoints.glob("step-*")):
        assert killed.poll() is None
        time.sleep(0.02)
    os.kill(workers(killed.pid)[-1], signal.SIGKILL)
    wait_for(killed)
    last = "checkpoints/step-0000000400/model.safetensors"
    assert (tmp_path / "killed" / last).read_bytes() == (tmp_path / "uninterrupted" / last).read_bytes()
    # Steps after the last checkpoint may occur twice.
    lines = [json.loads(line)["step"] for line in (tmp_path / "killed" / "metrics.jsonl").read_text().splitlines()]
    assert sorted(set(lines)) == list(range(10, 401, 10))
    assert satchel.load(tmp_path / "killed").evaluate() == satchel.load(tmp_path / "uninterrupted").evaluate()


def workers(parent: int) -> list[int]:
    """Return the process ids of the trainings started by a launcher."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    command_lines = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return sorted(pid for pid, line in command_lines.items() if b"satchel" in line)


def test_an_error_is_printed_once(poem: Path, tmp_path: Path) -> None:
    process = start(poem, tmp_path / "x", "--model=transformer", "--steps=3", **{"model.heads": 3})
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert err.count("satchel: model") == 1
    assert not (tmp_path / "x").exists()


def test_without_torchrun_a_process_is_rank_0_of_1(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert launch() == Launch()
    monkeypatch.setenv("WORLD_SIZE", "4")  # set by some schedulers for all programs
    assert launch().is_first
    for name, value in (("RANK", "1"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "1")):
        monkeypatch.setenv(name, value)
    assert launch() == Launch(rank=1, size=4)
    assert not launch().is_first
