"""Training gives the bits of the previous version: equal losses and equal bytes of every trained tensor."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.tensor_files import machine_difference, renamed_digests
from tests.compatibility.training_digests import AVX2_DIGESTS, AVX2_LIMITS, DIGESTS, KINDS, digests_of

ROOT = Path(__file__).resolve().parents[2]
RECORDED: dict[str, Any] = json.loads(DIGESTS.read_text(encoding="utf-8"))
RECORDED_AVX2: dict[str, Any] = json.loads(AVX2_DIGESTS.read_text(encoding="utf-8"))
# The kinds that run with every `make test`.
QUICK = ("lstm", "transformer", "backpack")


def compare(actual: dict[str, Any], recorded: dict[str, Any]) -> None:
    """Compare training losses and trained tensors bit for bit.

    Validation losses and the gate, which is fitted to held-out text, depend on the order of the sums of scoring.
    """
    # Losses first: a difference in the first of them is a difference in the initial weights or the data.
    assert [each["train_loss"] for each in actual["losses"]] == [each["train_loss"] for each in recorded["losses"]]
    valid = [[each["valid_loss"] for each in record["losses"]] for record in (actual, recorded)]
    assert valid[0] == pytest.approx(valid[1], rel=1e-9)
    for part, digests in recorded["tensors"].items():
        expected = {name: digest for name, digest in digests.items() if not name.startswith("gate.")}
        assert {name: actual["tensors"][part][name] for name in expected} == expected


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in RECORDED["kinds"]]
)
def test_training_gives_the_bits_of_the_previous_version(kind: str) -> None:
    if difference := machine_difference(RECORDED["machine"]):
        pytest.skip(f"the bits were recorded on another machine: {difference}")
    recorded, actual = RECORDED["kinds"][kind], digests_of(kind, ROOT)
    compare(actual, {**recorded, "tensors": renamed_digests(recorded["tensors"])})


def test_every_kind_has_recorded_digests() -> None:
    assert set(RECORDED["kinds"]) == set(KINDS)


@pytest.mark.parametrize("kind", ["transformer-ngram", pytest.param("backpack-ngram", marks=pytest.mark.slow)])
def test_auto_precision_limited_to_avx2_gives_the_bits_of_float32(kind: str) -> None:
    if difference := machine_difference(RECORDED_AVX2["machine"]):
        pytest.skip(f"the bits were recorded on another machine: {difference}")
    compare(digests_of(kind, ROOT, {"training.precision": "auto"}, **AVX2_LIMITS), RECORDED_AVX2["kinds"][kind])
