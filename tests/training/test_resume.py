"""Resuming a training gives the same bits; checkpoints; steps with an invalid loss are skipped."""

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
from tests.training.harness import restore

END = VOCABULARY - 1
FAMILIES = ["dan", "window", "gru", "lstm", "learned", "modern"]


def text(size: int = 400) -> Any:
    """Return ids of which 80 % are the successor of the previous id."""
    rng = seeded_rng("text", 0)
    steps = np.where(rng.random(size) < 0.8, 1, rng.integers(0, END, size))
    return np.concatenate([[END], np.cumsum(steps) % END])


def trainer(
    name: str, steps: int = 12, saved: Any = None, stop: Any = None, dropout: float = 0.2, **options: Any
) -> Trainer:
    """Return the trainer of a small language model; `saved` and `stop` are callbacks."""
    torch.manual_seed(0)
    model = SETTINGS[name].model_copy(update={"dropout": dropout})
    network = LanguageNetwork(build_encoder(model, VOCABULARY, causal=True))
    intervals = {"evaluate_every": 5, "checkpoint_every": 4}
    tree = {"steps": steps, "batch_tokens": 48, "length": 8, "dropout_after": 0.5, **intervals, **options}
    settings = TrainingSettings.model_validate(tree)
    job = LanguageJob(network, text(), END, settings, stream=options.get("stream", True), valid=text(60))
    callbacks = Callbacks(
        stepped=lambda progress, done: None,
        validated=lambda progress, loss: None,
        save=saved or (lambda trainer: None),
        should_stop=stop or (lambda: False),
    )
    return Trainer(job, settings, callbacks)


def bits(trained: Trainer) -> tuple[dict[str, bytes], list[str]]:
    """Return parameters, optimizer state and recent losses for an exact comparison."""
    arrays = saving.parameters(trained.job.network) | {
        f"optimizer.{name}": value.numpy() for name, value in trained.optimizer.state().items()
    }
    return {name: array.tobytes() for name, array in arrays.items()}, [loss.hex() for loss in trained.state.recent]


def saving_to(run: Path) -> Any:
    """Return a callback that saves a checkpoint."""
    return lambda trained: saving.save(run, trained, "0")


def interrupt_and_resume(name: str, run: Path, at: int, **options: Any) -> Trainer:
    """Stop a training after `at` steps, resume it with a new trainer and return that one."""
    steps = iter(range(1, 1000))
    first = trainer(name, saved=saving_to(run), stop=lambda: next(steps) == at, **options)
    assert first.run() == "interrupted"
    second = trainer(name, saved=saving_to(run), **options)
    assert restore(run, second) == ()
    assert second.state.step == at
    second.run()
    return second


@pytest.mark.parametrize("name", FAMILIES)
def test_dropout_starts_after_the_first_epoch(name: str) -> None:
    def train(steps: int, dropout: float) -> Any:
        trained = trainer(name, steps=steps, dropout=dropout, dropout_after=1)
        trained.run()
        return bits(trained)

    epoch = trainer(name).job.steps_per_epoch
    assert train(epoch, 0.2) == train(epoch, 0.0)
    assert train(epoch + 1, 0.2) != train(epoch + 1, 0.0)


def test_noise_changes_inputs_and_not_targets() -> None:
    noisy, clean = (trainer("learned", noise=share).job for share in (0.3, 0.0))
    assert isinstance(noisy, LanguageJob)
    assert isinstance(clean, LanguageJob)
    for step in (0, 1):
        (noisy_inputs, noisy_targets), (inputs, targets) = noisy.batch(step), clean.batch(step)
        assert 0.1 < (noisy_inputs != inputs).float().mean() < 0.4
        assert (noisy_targets == targets).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_resumed_training_equals_an_uninterrupted_one_to_the_bit(name: str, tmp_path: Path) -> None:
    uninterrupted = trainer(name)
    assert uninterrupted.run() == "finished"
    for at in (1, 5, 8, 11):
        assert bits(interrupt_and_resume(name, tmp_path / str(at), at)) == bits(uninterrupted)


@pytest.mark.parametrize(
    "options",
    [
        {"accumulate": 3},
        {"optimizer": "muon"},
        {"noise": 0.3},
        {"steps": None, "epochs": 0.8},
        {"precision": "bfloat16"},
        {"precision": "bfloat16", "optimizer": "muon"},
    ],
)
def test_resuming_is_exact_with_accumulation_muon_noise_epochs_and_bfloat16(
    options: dict[str, Any], tmp_path: Path
) -> None:
    uninterrupted = trainer("learned", **options)
    uninterrupted.run()
    assert bits(interrupt_and_resume("learned", tmp_path, 3, **options)) == bits(uninterrupted)


@pytest.mark.parametrize("options", [{"checkpoint_every": 1}, {"checkpoint_every": 1000}, {"evaluate_every": 1}])
def test_saving_and_validation_do_not_change_the_training(options: dict[str, Any], tmp_path: Path) -> None:
    reference = trainer("learned")
    reference.run()
    trained = trainer("learned", saved=saving_to(tmp_path), **options)
    trained.run()
    assert bits(trained) == bits(reference)


def test_the_model_file_has_the_parameters_with_the_best_validation_loss(tmp_path: Path) -> None:
    trained = trainer("learned", steps=20, saved=saving_to(tmp_path), evaluate_every=3, checkpoint_every=7)
    losses = iter([3.0, 2.0, 5.0, 6.0, 4.0, 7.0, 8.0])
    best_parameters: list[dict[str, bytes]] = []

    def validate() -> ValidationResult:
        if trained.state.step == 6:
            best_parameters.append(bits(trained)[0])
        return ValidationResult(next(losses))

    trained.job.validate = validate  # type: ignore[method-assign]
    trained.run()
    assert trained.state.best_step == 6
    arrays, metadata = tensors.read(tmp_path / "model.safetensors")
    assert metadata["step"] == "6"
    assert {name: array.tobytes() for name, array in arrays.items()}.items() <= best_parameters[0].items()
    assert (tmp_path / "checkpoints" / checkpoint.folder_name(6)).is_dir()


def test_a_damaged_checkpoint_is_reported_and_the_previous_one_is_used(tmp_path: Path) -> None:
    trained = trainer("learned", saved=saving_to(tmp_path), evaluate_every=1000)
    trained.run()
    folders = sorted((tmp_path / "checkpoints").iterdir())
    assert [path.name for path in folders[-2:]] == [checkpoint.folder_name(8), checkpoint.folder_name(12)]
    for file in ("model.safetensors", "optimizer.safetensors", "progress.json"):
        path = folders[-1] / file
        data = path.read_bytes()
        for damaged in (
            data[:-1],
            data[:20],
            b"",
            bytes(len(data)),
            data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
        ):
            path.write_bytes(damaged)
            resumed = trainer("learned")
            (message,) = restore(tmp_path, resumed)
            assert message.startswith(checkpoint.folder_name(12))
            assert resumed.state.step == 8
        path.write_bytes(data)
    for path in folders:
        (path / "model.safetensors").write_bytes(b"")
    with pytest.raises(RunError, match=f"all of its {len(folders)} checkpoints are damaged"):
        restore(tmp_path, trainer("learned"))
    with pytest.raises(RunError, match="it has no checkpoint"):
        restore(tmp_path / "nowhere", trainer("learned"))


def test_the_newest_checkpoints_and_the_best_one_are_kept(tmp_path: Path) -> None:
    trained = trainer("learned", steps=20, saved=saving_to(tmp_path), checkpoint_every=2, keep=3)
    trained.state.best, trained.state.best_step = -1.0, 4  # lower than any later loss
    trained.run()
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == [checkpoint.folder_name(step) for step in (4, 16, 18, 20)]


@pytest.mark.parametrize("factor", [math.nan, math.inf, 1e4])
def test_a_step_with_an_invalid_loss_does_not_change_the_parameters(factor: float) -> None:
    trained = trainer("learned", steps=60)
    trained.state.recent = [3.0] * 50
    original = trained.job.loss
    before: list[Any] = []

    def loss(step: int, shard: int, shards: int) -> Any:
        result = original(step, shard, shards)
        if step in (20, 21, 40):
            before.append(bits(trained)[0])
            return result._replace(total=result.total * factor)
        if step in (21 + 1, 41):
            assert bits(trained)[0] == before[-1]
        return result

    trained.job.loss = loss  # type: ignore[method-assign]
    trained.run()
    assert trained.state.skipped == 3
    assert all(np.isfinite(array).all() for array in saving.parameters(trained.job.network).values())


def test_20_consecutive_invalid_losses_end_the_training() -> None:
    trained = trainer("learned", steps=60)
    original = trained.job.loss

    def loss(step: int, shard: int, shards: int) -> Any:
        result = original(step, shard, shards)
        return result._replace(total=result.total * math.nan)

    trained.job.loss = loss  # type: ignore[method-assign]
    before = saving.parameters(trained.job.network)["encoder.embedding.weight"].copy()
    with pytest.raises(DivergedError, match="20 consecutive steps"):
        trained.run()
    assert np.array_equal(saving.parameters(trained.job.network)["encoder.embedding.weight"], before)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_reduces_the_validation_loss(name: str) -> None:
    trained = trainer(name, steps=120, learning_rate=0.02)
    first = trained.job.validate()
    trained.run()
    last = trained.job.validate()
    assert first is not None
    assert last is not None
    # A mean of all previous embeddings predicts the next token poorly.
    assert last.loss < (0.95 if name == "dan" else 0.85) * first.loss
    assert trained.state.tokens == 120 * 48
    assert trained.state.best is not None
    assert trained.state.best <= last.loss


def test_a_training_ends_after_its_minutes_or_without_improvement() -> None:
    trained = trainer("learned", steps=None, minutes=0.01)  # type: ignore[arg-type]
    assert trained.run() == "time"
    assert 0.4 <= trained.state.time.elapsed < 10
    stagnating = trainer("learned", steps=200, evaluate_every=1, patience=3, learning_rate=1e-9)
    assert stagnating.run() == "patience"
    assert stagnating.state.step < 200


def test_a_checkpoint_consists_of_json_and_safetensors_files(tmp_path: Path) -> None:
    trained = trainer("lstm", steps=4, saved=saving_to(tmp_path))
    trained.run()
    (folder,) = (tmp_path / "checkpoints").iterdir()
    assert {path.name for path in folder.iterdir()} == {
        "manifest.json", "model.safetensors", "optimizer.safetensors", "progress.json",
    }  # fmt: skip
    progress = json.loads((folder / "progress.json").read_text())
    assert progress["step"] == 4
    assert isinstance(TrainingState(), TrainingState)
