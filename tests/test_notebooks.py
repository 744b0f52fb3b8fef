"""The notebooks: they run from top to bottom without a network, and what is kept in them is fit to be shown."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LARGEST = 300_000
# The slowest waits for `make test-all`.
SLOW = ("translating",)
# What names a format is not fetched: the namespaces of an SVG, the schema of a chart.
NAMES = re.compile(r'xmlns(:\w+)?="http://www\.w3\.org/[^"]*"|https://vega\.github\.io/schema/vega-lite/[\w.]+\.json')
# A path that begins at the root of a machine, or with the letter of a disk.
ABSOLUTE = re.compile(r"(?<![\w.:</-])/(?:home|root|tmp|var|usr|opt|work|private|Users|mnt)/\w|\b[A-Z]:\\\w")


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def outputs(notebook: Any) -> Iterator[tuple[str, Any]]:
    """Return each output with the name of its cell."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            yield cell.id, output


def kinds(notebook: Any) -> list[tuple[str, list[str]]]:
    """Return what each output is, by cell: the forms it can be shown in, or the name of a stream."""
    return [(cell, sorted(output.get("data", [output.get("name", "")]))) for cell, output in outputs(notebook)]


def texts(value: Any) -> Iterator[str]:
    """Return all texts in what can be written as JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from texts(part)


def check(notebook: Any) -> None:
    """Check that nothing failed or warned, nothing is fetched or tells of a machine, and that there is a picture."""
    for cell, output in outputs(notebook):
        assert output.output_type != "error", f"{cell}: {output.get('evalue')}"
        assert output.get("name") != "stderr", f"{cell}: {output.get('text')}"
        for text in texts(output.get("data", output.get("text"))):
            told = NAMES.sub("", text)
            assert not re.findall(r"https?://\S{0,40}", told), cell
            assert not ABSOLUTE.findall(told), cell
    assert any("image/svg+xml" in output.get("data", {}) for _, output in outputs(notebook))


def test_there_are_five() -> None:
    assert len(NOTEBOOKS) == 5
    listed = (ROOT / "docs" / "notebooks" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in NOTEBOOKS] == sorted(re.findall(r"\]\(([\w-]+\.ipynb)\)", listed))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_kept_is_small_and_complete(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = read(path)
    nbformat.validate(notebook)
    check(notebook)
    assert len(text.encode()) < LARGEST
    assert text == json.dumps(json.loads(text), ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    assert 6 <= len(notebook.cells) <= 12
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in SLOW else ()) for path in NOTEBOOKS],
)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing of the person who runs this is read or written; one core is enough.
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    kept = read(path)
    ran = read(path)
    (tmp_path / "here").mkdir()
    NotebookClient(
        ran,
        timeout=800,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(tmp_path / "here")}},
    ).execute()
    check(ran)
    assert kinds(ran) == kinds(kept)
    assert list((tmp_path / "here").iterdir()) == []
