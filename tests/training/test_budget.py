"""The time limit of a training: wall time, validations, samples of held-out data, sizes of networks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from satchel import api
from satchel.cli.main import run as run_command
from satchel.data.samples import sample_rows
from satchel.data.tokens import decode_documents
from satchel.runs import checkpoint
from satchel.runs import folder as runs
from satchel.training.clock import Clock, TrainingTime
from satchel.training.jobs.language import GateText
from tests.training.test_resume import trainer

TINY: dict[str, Any] = {"model.width": 8, "training.batch_tokens": 64, "training.length": 16}


def words(path: Path, count: int) -> Path:
    """Write a text of `count` words and return its path."""
    rng = np.random.default_rng(0)
    path.write_text(" ".join(f"w{number}" for number in rng.zipf(1.5, count) % 50))
    return path


def validated_steps(run: Path) -> list[int]:
    """Return the steps of the validations of a run."""
    return [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("steps", "expected"), [(3, [1, 2, 3]), (60, list(range(3, 61, 3))), (50, 20)])
def test_a_training_has_about_20_validations(tmp_path: Path, steps: int, expected: Any) -> None:
    text = words(tmp_path / "text.txt", 2000)
    api.train(text, model="dan", tokenizer="word", steps=steps, settings=TINY, out=tmp_path / "run")
    validated = validated_steps(tmp_path / "run")
    assert validated[-1] == steps
    assert (len(validated) if isinstance(expected, int) else validated) == expected


def test_an_explicit_interval_of_validations_is_kept(tmp_path: Path) -> None:
    text = words(tmp_path / "text.txt", 2000)
    settings = TINY | {"training.evaluate_every": 4}
    api.train(text, model="dan", tokenizer="word", steps=10, settings=settings, out=tmp_path / "run")
    assert validated_steps(tmp_path / "run") == [4, 8, 10]


def test_the_time_before_the_first_step_counts_towards_the_limit() -> None:
    slow = trainer("learned", steps=None, minutes=0.02)  # type: ignore[arg-type]
    slow.clock = Clock(0.02, spent=0.7)
    fast = trainer("learned", steps=None, minutes=0.02)  # type: ignore[arg-type]
    assert slow.run() == fast.run() == "time"
    assert slow.state.time.prepared >= 0.7
    assert slow.state.step < fast.state.step
    assert max(slow.state.time.elapsed, fast.state.time.elapsed) < 4


def test_the_learning_rate_schedule_begins_with_the_first_step_and_ends_before_the_final_work() -> None:
    assert TrainingTime(elapsed=30, prepared=30).done(1) == 0
    assert TrainingTime(elapsed=54, prepared=30).done(1) == 1, "a tenth is reserved until its cost is measured"
    assert TrainingTime(elapsed=50, prepared=30, reserved=10).done(1) == 1
    late = TrainingTime(elapsed=90, prepared=90)
    assert late.done(1) == 0, "a quarter of the limit is always used for training"
    assert TrainingTime(elapsed=105, prepared=90).done(1) == 1


def test_a_resumed_training_continues_with_the_time_of_the_earlier_commands(tmp_path: Path) -> None:
    text = words(tmp_path / "text.txt", 2000)
    plan = api.plan(text, model="dan", tokenizer="word", steps=30, minutes=100, settings=TINY)
    steps = iter(range(1, 100))
    clock = Clock(spent=50.0)
    api.run_plan(plan, out=tmp_path / "run", should_stop=lambda: next(steps) == 3, clock=clock)
    progress = json.loads(checkpoint.read_newest(tmp_path / "run").progress)
    assert 50 < progress["time"]["elapsed"] < 80
    resumed = api.resume(tmp_path / "run")
    assert resumed.report is not None
    assert resumed.report.wall_seconds > progress["time"]["elapsed"]
    assert resumed.report.steps == 30


def test_validations_of_a_large_held_out_text_use_a_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = words(tmp_path / "text.txt", 40_000)
    options = ["--model", "dan", "--tokenizer", "word", "--valid", "0.5", "--steps", "2", "--set", "model.width=8"]
    assert run_command(["train", str(text), *options, "-o", str(tmp_path / "run"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    limit = config["settings"]["training"]["validation_tokens"]
    assert limit == 8192
    run = runs.open_run(tmp_path / "run")
    assert result["valid"]["tokens"] == run.tokens(runs.VALID_TOKENS).counts.tokens > 2 * limit, "the final one is full"


def test_a_sample_of_documents_keeps_ids_classes_and_counts_together(tmp_path: Path) -> None:
    rows = [("ab"[number % 2], " ".join(["x" if number % 2 else "y"] * (number % 7 + 1))) for number in range(200)]
    table = tmp_path / "table.tsv"
    table.write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in rows))
    api.train(table, model="dan", tokenizer="word", valid=0.5, steps=1, settings=TINY, out=tmp_path / "run")
    run = runs.RunFolder(**vars(runs.open_run(tmp_path / "run")) | {"held_out_limit": 60})
    tokens = run.valid_tokens()
    assert tokens is not None
    assert 50 <= tokens.counts.tokens <= 60
    classes = run.classes(runs.VALID_CLASSES, tokens, per_token=False)
    labels = [run.config.labels[index] for index in classes]
    assert len(labels) == tokens.counts.documents
    assert labels == ["b" if "x" in text else "a" for text in decode_documents(tokens.ids, run.tokenizer)]


def test_a_sample_of_rows_is_bounded_fixed_and_never_empty() -> None:
    lengths = np.array([5, 100_000, 7, 3, 100_000, 9])
    assert sample_rows(lengths, 15, 0).tolist() == sample_rows(lengths, 15, 0).tolist()
    assert lengths[sample_rows(lengths, 15, 0)].sum() <= 15
    assert sample_rows(lengths, 10**6, 0).tolist() == [0, 1, 2, 3, 4, 5]
    assert sample_rows(np.array([90, 80]), 15, 0).tolist() == [1]


def test_a_sample_of_the_gate_text_keeps_the_log_probabilities_of_its_tokens() -> None:
    ids = np.concatenate([[9, *range(part, part + 4)] for part in range(5)])
    gate = GateText(ids, -np.append(ids[1:], [])).sample(9, 12, 0)
    assert 10 <= len(gate.ids) <= 12
    assert (gate.logprobs == -gate.ids[1:])[gate.ids[1:] != 9].all()


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm", "dan", "window"])
def test_a_named_network_gets_a_size_and_batch_for_the_time(tmp_path: Path, kind: str) -> None:
    text = words(tmp_path / "text.txt", 100_000)
    short, long = (api.plan(text, model=kind, minutes=minutes, threads=2).settings for minutes in (0.5, 500))
    assert short.model.width < long.model.width
    assert short.training.batch_tokens < long.training.batch_tokens  # type: ignore[attr-defined]
    sized: Any = api.plan(text, model=kind, size="tiny", minutes=0.5).settings
    assert sized.model.width == 256


def test_options_that_ngram_models_do_not_have_are_ignored_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = str(words(tmp_path / "text.txt", 200))
    options = ["--minutes", "1", "--threads", "1", "--steps", "5", "--device", "cpu"]
    assert run_command(["train", text, "--model", "ngram", *options, "-o", str(tmp_path / "run")]) == 0
    messages = capsys.readouterr().err
    for option in ("--minutes", "--threads", "--steps", "--device"):
        assert f"{option} " in messages
        assert "is ignored: n-gram models are counted" in messages


@pytest.mark.parametrize(("flag", "value"), [("--minutes", "0"), ("--device", "gpu"), ("--model", "foo")])
def test_errors_name_the_flag_that_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, value: str
) -> None:
    text = str(words(tmp_path / "text.txt", 200))
    assert run_command(["train", text, flag, value, "-o", str(tmp_path / "run")]) == 2
    assert f"satchel: {flag}: found" in capsys.readouterr().err


def test_training_steps_truncate_long_rows_within_a_time_limit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [" ".join(f"w{number}" for number in rng.zipf(1.5, size) % 50) for size in [20_000, *[5] * 40]]
    table = tmp_path / "table.tsv"
    lines = "".join(f"{'ab'[number % 2]}\t{text}\n" for number, text in enumerate(rows))
    table.write_text(f"label\ttext\n{lines}")
    settings = {"model.width": 8, "model.heads": 2, "model.layers": 1, "model.context": 32}
    options: dict[str, Any] = {"model": "transformer", "tokenizer": "word", "minutes": 10, "settings": settings}
    plan = api.plan(table, steps=60, **options)
    assert plan.settings.training.max_length == 4096  # type: ignore[attr-defined]
    model: Any = api.run_plan(plan, out=tmp_path / "run")
    assert model.report.steps == 60
    assert model.report.tokens_per_second * model.report.seconds < 60 * 4096
    assert model.classify(rows[0]).label in "ab", "evaluation reads whole texts"
    assert api.plan(table, model="transformer", steps=3).settings.training.max_length is None  # type: ignore[attr-defined]


def test_a_dry_run_counts_the_parameters_of_the_actual_vocabulary_and_estimates_the_time(tmp_path: Path) -> None:
    text = words(tmp_path / "text.txt", 3000)
    plan = api.plan(text, model="lstm", tokenizer="word", steps=4, settings={"model.width": 8, "data.valid": 0})
    estimates = plan.estimates()
    model = api.run_plan(plan, out=tmp_path / "run")
    assert model.report is not None
    assert estimates["vocabulary"] == model.tokenizer.size
    assert estimates["parameters"] == model.report.parameters
    assert estimates["steps"] == 4
    assert estimates["seconds"] >= 3
    assert 1e8 < estimates["memory_bytes"] < 1e9


def test_a_time_limit_that_cannot_be_met_is_reported_before_the_start(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    with text.open("wb") as handle:
        handle.truncate(100_000_000)  # a sparse file
    reasons = api.plan(text, task="lm", model="lstm", minutes=0.1).reasons
    assert any("--minutes 0.1 cannot be met" in reason for reason in reasons)
    assert not any("cannot be met" in reason for reason in api.plan(text, task="lm", model="lstm", minutes=10).reasons)
