"""A resumed training has identical bits; steps with invalid losses change nothing."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from satchel import tensors
from satchel.data.batches import seeded_rng
from satchel.errors import RunError
from satchel.models.build import build_encoder
from satchel.runs import checkpoint
from satchel.tasks.language import LanguageNetwork
from satchel.training import saving
from satchel.training.jobs.language import LanguageJob
from satchel.training.loop import Callbacks, DivergedError, Trainer, TrainingState, ValidationResult
from satchel.training.settings import TrainingSettings
from tests.models.encoders import SETTINGS, VOCABULARY

END = VOCABULARY - 1
FAMILIES = ["dan", "window", "gru", "lstm", "learned", "modern"]


def text(size: int = 400) -> Any:
    """Return ids in which most ids determine the next one."""
    chance = seeded_rng("text", 0)
    steps = np.where(chance.random(size) < 0.8, 1, chance.integers(0, END, size))
    return np.concatenate([[END], np.cumsum(steps) % END])


def trainer(
    name: str, steps: int = 12, saved: Any = None, stop: Any = None, dropout: float = 0.2, **options: Any
) -> Trainer:
    torch.manual_seed(0)
    left_out = SETTINGS[name].model_copy(update={"dropout": dropout})
    network = LanguageNetwork(build_encoder(left_out, VOCABULARY, causal=True))
    every = {"evaluate_every": 5, "checkpoint_every": 4}
    tree = {"steps": steps, "batch_tokens": 48, "length": 8, "dropout_after": 0.5, **every, **options}
    settings = TrainingSettings.model_validate(tree)
    job = LanguageJob(network, text(), END, settings, stream=options.get("stream", True), valid=text(60))
    events = Callbacks(
        stepped=lambda progress, done: None,
        validated=lambda progress, loss: None,
        save=saved or (lambda trainer: None),
        should_stop=stop or (lambda: False),
    )
    return Trainer(job, settings, events)


def bits(made: Trainer) -> tuple[dict[str, bytes], list[str]]:
    """Return the exact parameters and optimizer state, and the recent losses."""
    arrays = saving.parameters(made.job.network) | {
        f"optimizer.{name}": value.numpy() for name, value in made.optimizer.state().items()
    }
    return {name: array.tobytes() for name, array in arrays.items()}, [loss.hex() for loss in made.state.recent]


def saving_to(run: Path) -> Any:
    return lambda made: saving.save(run, made, "0")


def interrupted(name: str, run: Path, at: int, **options: Any) -> Trainer:
    """Return a training that was interrupted and resumed by another trainer."""
    steps = iter(range(1, 1000))
    first = trainer(name, saved=saving_to(run), stop=lambda: next(steps) == at, **options)
    assert first.run() == "interrupted"
    second = trainer(name, saved=saving_to(run), **options)
    assert saving.restore(run, second) == ()
    assert second.state.step == at
    second.run()
    return second


@pytest.mark.parametrize("name", FAMILIES)
def test_dropout_starts_after_the_first_epoch(name: str) -> None:
    def ends(steps: int, dropout: float) -> Any:
        made = trainer(name, steps=steps, dropout=dropout, dropout_after=1)
        made.run()
        return bits(made)

    once = trainer(name).job.steps_per_epoch
    assert ends(once, 0.2) == ends(once, 0.0)
    assert ends(once + 1, 0.2) != ends(once + 1, 0.0)


def test_noise_changes_inputs_and_not_targets() -> None:
    job, quiet = (trainer("learned", noise=share).job for share in (0.3, 0.0))
    assert isinstance(job, LanguageJob)
    assert isinstance(quiet, LanguageJob)
    batches = [job.batch(step) for step in (0, 1)]
    for (read, wanted), (clear, expected) in zip(batches, [quiet.batch(step) for step in (0, 1)], strict=True):
        assert 0.1 < (read != clear).float().mean() < 0.4
        assert (wanted == expected).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_resumed_training_is_identical_to_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    whole = trainer(name)
    assert whole.run() == "finished"
    for at in (1, 5, 8, 11):
        assert bits(interrupted(name, tmp_path / str(at), at)) == bits(whole)


@pytest.mark.parametrize(
    "options", [{"accumulate": 3}, {"optimizer": "muon"}, {"noise": 0.3}, {"steps": None, "epochs": 0.8}]
)
def test_resuming_is_exact_with_accumulation_muon_noise_and_epochs(options: dict[str, Any], tmp_path: Path) -> None:
    whole = trainer("learned", **options)
    whole.run()
    assert bits(interrupted("learned", tmp_path, 3, **options)) == bits(whole)


@pytest.mark.parametrize("options", [{"checkpoint_every": 1}, {"checkpoint_every": 1000}, {"evaluate_every": 1}])
def test_saving_and_validating_do_not_change_the_parameters(options: dict[str, Any], tmp_path: Path) -> None:
    plain = trainer("learned")
    plain.run()
    made = trainer("learned", saved=saving_to(tmp_path), **options)
    made.run()
    assert bits(made) == bits(plain)


def test_the_best_parameters_are_kept_at_any_step(tmp_path: Path) -> None:
    made = trainer("learned", steps=20, saved=saving_to(tmp_path), evaluate_every=3, checkpoint_every=7)
    costs = iter([3.0, 2.0, 5.0, 6.0, 4.0, 7.0, 8.0])
    at_best: list[dict[str, bytes]] = []

    def validate() -> ValidationResult:
        if made.state.step == 6:
            at_best.append(bits(made)[0])
        return ValidationResult(next(costs))

    made.job.validate = validate  # type: ignore[method-assign]
    made.run()
    assert made.state.best_step == 6
    arrays, metadata = tensors.read(tmp_path / "model.safetensors")
    assert metadata["step"] == "6"
    assert {name: array.tobytes() for name, array in arrays.items()}.items() <= at_best[0].items()
    assert (tmp_path / "checkpoints" / checkpoint.folder_name(6)).is_dir()


def test_a_damaged_checkpoint_is_reported_and_the_previous_one_is_used(tmp_path: Path) -> None:
    made = trainer("learned", saved=saving_to(tmp_path), evaluate_every=1000)
    made.run()
    kept = sorted((tmp_path / "checkpoints").iterdir())
    assert [path.name for path in kept[-2:]] == [checkpoint.folder_name(8), checkpoint.folder_name(12)]
    for file in ("model.safetensors", "optimizer.safetensors", "progress.json"):
        path = kept[-1] / file
        sound = path.read_bytes()
        for damaged in (
            sound[:-1],
            sound[:20],
            b"",
            bytes(len(sound)),
            sound[:-9] + bytes([sound[-9] ^ 1]) + sound[-8:],
        ):
            path.write_bytes(damaged)
            again = trainer("learned")
            (told,) = saving.restore(tmp_path, again)
            assert told.startswith(checkpoint.folder_name(12))
            assert again.state.step == 8
        path.write_bytes(sound)
    for path in kept:
        (path / "model.safetensors").write_bytes(b"")
    with pytest.raises(RunError, match=f"all of its {len(kept)} checkpoints are damaged"):
        saving.restore(tmp_path, trainer("learned"))
    with pytest.raises(RunError, match="it has no checkpoint"):
        saving.restore(tmp_path / "nowhere", trainer("learned"))


def test_the_last_checkpoints_and_the_best_are_kept(tmp_path: Path) -> None:
    made = trainer("learned", steps=20, saved=saving_to(tmp_path), checkpoint_every=2, keep=3)
    made.state.best, made.state.best_step = -1.0, 4  # no later loss is lower
    made.run()
    found = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert found == [checkpoint.folder_name(step) for step in (4, 16, 18, 20)]


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e4])
def test_a_step_with_an_invalid_loss_is_skipped(bad: float) -> None:
    made = trainer("learned", steps=60)
    made.state.recent = [3.0] * 50
    usual = made.job.loss
    before: list[Any] = []

    def loss(step: int, shard: int, shards: int) -> Any:
        found = usual(step, shard, shards)
        if step in (20, 21, 40):
            before.append(bits(made)[0])
            return found._replace(total=found.total * bad)
        if step in (21 + 1, 41):
            assert bits(made)[0] == before[-1]
        return found

    made.job.loss = loss  # type: ignore[method-assign]
    made.run()
    assert made.state.skipped == 3
    assert all(np.isfinite(array).all() for array in saving.parameters(made.job.network).values())


def test_consecutive_invalid_losses_end_the_training() -> None:
    made = trainer("learned", steps=60)
    usual = made.job.loss

    def loss(step: int, shard: int, shards: int) -> Any:
        found = usual(step, shard, shards)
        return found._replace(total=found.total * math.nan)

    made.job.loss = loss  # type: ignore[method-assign]
    before = saving.parameters(made.job.network)["encoder.embedding.weight"].copy()
    with pytest.raises(DivergedError, match="20 consecutive steps"):
        made.run()
    assert np.array_equal(saving.parameters(made.job.network)["encoder.embedding.weight"], before)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_learns(name: str) -> None:
    made = trainer(name, steps=120, learning_rate=0.02)
    first = made.job.validate()
    made.run()
    last = made.job.validate()
    assert first is not None
    assert last is not None
    # The mean of the preceding embeddings says little about the next token.
    assert last.loss < (0.95 if name == "dan" else 0.85) * first.loss
    assert made.state.tokens == 120 * 48
    assert made.state.best is not None
    assert made.state.best <= last.loss


def test_a_training_ends_by_time_or_by_patience() -> None:
    made = trainer("learned", steps=None, minutes=0.01)  # type: ignore[arg-type]
    assert made.run() == "time"
    assert 0.6 <= made.state.seconds < 10
    patient = trainer("learned", steps=200, evaluate_every=1, patience=3, learning_rate=1e-9)
    assert patient.run() == "patience"
    assert patient.state.step < 200


def test_a_checkpoint_is_plain_files(tmp_path: Path) -> None:
    made = trainer("lstm", steps=4, saved=saving_to(tmp_path))
    made.run()
    (folder,) = (tmp_path / "checkpoints").iterdir()
    assert {path.name for path in folder.iterdir()} == {
        "manifest.json", "model.safetensors", "optimizer.safetensors", "progress.json",
    }  # fmt: skip
    progress = json.loads((folder / "progress.json").read_text())
    assert progress["step"] == 4
    assert isinstance(TrainingState(), TrainingState)
