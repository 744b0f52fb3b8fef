"""Shared fixtures: the folder of real data sets and a small text; hypothesis profiles."""

from pathlib import Path

import pytest
from hypothesis import settings

# `repeatable` draws the same examples in every run, so that a failure is reproducible; `make test-all` uses `explore`.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("repeatable")

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real data sets; skip the test if it does not exist."""
    if not SHARED.is_dir():
        pytest.skip(f"data sets not found in {SHARED}")
    return SHARED


VERSE = """The cat sat on the mat.
The dog sat on the log.

The cat saw the dog, and the dog saw the cat.
The mat is flat; the log is not.
"""


@pytest.fixture
def verse(tmp_path: Path) -> Path:
    """Return the path of a small text file."""
    path = tmp_path / "verse.txt"
    path.write_text(VERSE * 20, encoding="utf-8", newline="\n")
    return path
