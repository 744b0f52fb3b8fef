"""Notebooks run without errors or network access; their stored outputs are small and free of local paths."""

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
# Maximum size of a notebook in bytes.
MAX_BYTES = 300_000
# Executed by `make test-all` only.
SLOW = ("translating",)
# URLs that identify a format and are not fetched: namespaces of SVG, schema of a chart.
FORMAT_URLS = re.compile(
    r'xmlns(:\w+)?="http://www\.w3\.org/[^"]*"|https://vega\.github\.io/schema/vega-lite/[\w.]+\.json'
)
# Absolute paths, with a root folder or a drive letter.
ABSOLUTE_PATH = re.compile(r"(?<![\w.:</-])/(?:home|root|tmp|var|usr|opt|work|private|Users|mnt)/\w|\b[A-Z]:\\\w")


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def outputs(notebook: Any) -> Iterator[tuple[str, Any]]:
    """Yield (cell id, output)."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            yield cell.id, output


def kinds(notebook: Any) -> list[tuple[str, list[str]]]:
    """Return (cell id, MIME types or stream name) of each output."""
    return [(cell, sorted(output.get("data", [output.get("name", "")]))) for cell, output in outputs(notebook)]


def texts(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from texts(item)


def check(notebook: Any) -> None:
    """Check that no cell failed or warned, that no output has URLs or local paths, and that one output is an SVG."""
    for cell, output in outputs(notebook):
        assert output.output_type != "error", f"{cell}: {output.get('evalue')}"
        assert output.get("name") != "stderr", f"{cell}: {output.get('text')}"
        for text in texts(output.get("data", output.get("text"))):
            rest = FORMAT_URLS.sub("", text)
            assert not re.findall(r"https?://\S{0,40}", rest), cell
            assert not ABSOLUTE_PATH.findall(rest), cell
    assert any("image/svg+xml" in output.get("data", {}) for _, output in outputs(notebook))


def test_all_five_notebooks_are_listed_in_the_readme() -> None:
    assert len(NOTEBOOKS) == 5
    listed = (ROOT / "docs" / "notebooks" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in NOTEBOOKS] == sorted(re.findall(r"\]\(([\w-]+\.ipynb)\)", listed))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_is_small_valid_and_executed_in_order(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = read(path)
    nbformat.validate(notebook)
    check(notebook)
    assert len(text.encode()) < MAX_BYTES
    assert text == json.dumps(json.loads(text), ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    assert 6 <= len(notebook.cells) <= 12
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in SLOW else ()) for path in NOTEBOOKS],
)
def test_executing_a_notebook_gives_the_stored_kinds_of_output(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Keep the configuration of the user out of the test, and use one core.
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    stored = read(path)
    executed = read(path)
    folder = tmp_path / "working-folder"
    folder.mkdir()
    NotebookClient(
        executed,
        timeout=800,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    check(executed)
    assert kinds(executed) == kinds(stored)
    assert list(folder.iterdir()) == []
