"""Measured speed of networks with equal numbers of parameters."""

import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from satchel.errors import SettingsError
from satchel.training.speed import MeasuredModel, Speed, SpeedReport, equal_sizes, measure_speed
from satchel.training.task import NETWORK_KINDS


def test_numbers_of_parameters_differ_by_few_per_cent() -> None:
    models = equal_sizes(NETWORK_KINDS, 1_000_000, 256)
    assert tuple(model.kind for model in models) == NETWORK_KINDS
    counts = [model.parameters for model in models]
    assert max(counts) / min(counts) < 1.08
    lstm, transformer = equal_sizes(["lstm", "transformer"], 300_000, 64)
    assert lstm.parameters == pytest.approx(transformer.parameters, rel=0.01)
    assert transformer.parameters == pytest.approx(300_000, rel=0.15)


@pytest.mark.item(50)
def test_every_network_is_measured_at_every_length() -> None:
    notes: list[str] = []
    done: list[float] = []
    report = measure_speed(
        ["lstm", "transformer"],
        [16, 4],
        parameters=20_000,
        rounds=2,
        threads=1,
        note=notes.append,
        progress=done.append,
    )
    assert [(each.kind, each.length) for each in report.speeds] == [
        ("lstm", 4), ("transformer", 4), ("lstm", 16), ("transformer", 16)
    ]  # fmt: skip
    assert all(each.training > 0 and each.decoding > 0 for each in report.speeds)
    assert (report.rounds, report.threads, done[-1], len(done)) == (2, 1, 1.0, 12)
    assert "expected time about" in notes[0]
    assert len(report.statements()) == 2
    assert "tokens per second (logarithmic)" in str(report.picture().spec())


def test_statements_follow_from_the_numbers() -> None:
    models = (MeasuredModel("lstm", 8, 1, 1000), MeasuredModel("transformer", 8, 4, 1010))
    speeds = (
        Speed("lstm", 64, 100.0, 10.0), Speed("transformer", 64, 50.0, 20.0),
        Speed("lstm", 256, 100.0, 10.0), Speed("transformer", 256, 300.0, 30.0),
    )  # fmt: skip
    report = SpeedReport(models, speeds, 3, 1, "a processor", ("avx",), 1.0)
    training, decoding = report.statements()
    assert "0.50 at length 64, 3.00 at length 256" in training
    assert "agrees with the lecture's claim" in training
    assert "contradicts" in training
    assert "2.00 at length 64, 3.00 at length 256" in decoding
    assert "contradicts" not in decoding
    assert report.document()["parameters_difference"] == pytest.approx(0.01)
    assert replace(report, models=models[:1], speeds=speeds[::2]).statements() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": ["ngram"]}, "expected networks"),
        ({"kinds": ["lstm", "lstm"]}, "different kinds"),
        ({"lengths": [1]}, "numbers of tokens from 2"),
        ({"lengths": []}, "numbers of tokens from 2"),
        ({"parameters": 5}, "expected 10,000"),
        ({"rounds": 0}, "expected 1 to"),
    ],
)
def test_settings_that_cannot_be_measured_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        measure_speed(**options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_an_interrupt_ends_the_measurement_within_seconds() -> None:
    command = [sys.executable, "-m", "satchel", "info", "speed", "--rounds", "1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "expected time" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, messages = process.communicate(timeout=30)
    assert (process.returncode, time.monotonic() - began < 5) == (130, True)
    assert "interrupted" in messages
