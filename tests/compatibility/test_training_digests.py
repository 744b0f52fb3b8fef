"""Training gives the bits of the previous version: equal losses and equal bytes of every trained tensor."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.tensor_files import machine_difference, renamed_digests
from tests.compatibility.training_digests import DIGESTS, KINDS, digests_of

ROOT = Path(__file__).resolve().parents[2]
RECORDED: dict[str, Any] = json.loads(DIGESTS.read_text(encoding="utf-8"))
# The kinds that run with every `make test`.
QUICK = ("lstm", "transformer", "backpack")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in RECORDED["kinds"]]
)
def test_training_gives_the_bits_of_the_previous_version(kind: str) -> None:
    if difference := machine_difference(RECORDED["machine"]):
        pytest.skip(f"the bits were recorded on another machine: {difference}")
    recorded, actual = RECORDED["kinds"][kind], digests_of(kind, ROOT)
    # Losses first: a difference in the first of them is a difference in the initial weights or the data.
    assert actual["losses"] == recorded["losses"]
    assert actual["tensors"] == renamed_digests(recorded["tensors"])


def test_every_kind_has_recorded_digests() -> None:
    assert set(RECORDED["kinds"]) == set(KINDS)
