"""What several tests share: the real data, where it is there, and small texts where it is not."""

from pathlib import Path

import pytest
from hypothesis import settings

# A check that fails must fail again: the same examples each time. `make test-all` looks for new ones.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("repeatable")

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data sets; tests that need it are skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"the real data is not in {SHARED}")
    return SHARED


VERSE = """The cat sat on the mat.
The dog sat on the log.

The cat saw the dog, and the dog saw the cat.
The mat is flat; the log is not.
"""


@pytest.fixture
def verse(tmp_path: Path) -> Path:
    """A small text file."""
    path = tmp_path / "verse.txt"
    path.write_text(VERSE * 20, encoding="utf-8", newline="\n")
    return path
