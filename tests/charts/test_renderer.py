"""Rendering in a separate process: failures become errors, and one process draws several figures."""

import gzip
import os
import shlex
import signal
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path

import pytest

from satchel.charts import figures, renderer
from satchel.charts.renderer import RENDERER, RenderError
from tests.charts.charts import EVERY

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX signals and limits")


def limited(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell whose address space is too small for V8."""
    command = shlex.join([sys.executable, "-m", "satchel", *map(str, arguments)])
    return subprocess.run(
        ["bash", "-c", f"ulimit -v 8000000; {command}"], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_an_image_under_a_memory_limit_is_an_error_that_names_other_formats(tmp_path: Path, ending: str) -> None:
    done = limited("lesson", "attention", "-o", tmp_path / f"lesson.{ending}")
    assert done.returncode == 2
    assert f"cannot draw the figure as {ending.upper()}" in done.stderr
    assert "ulimit -v" in done.stderr
    assert ".html" in done.stderr
    assert "#" not in done.stderr  # no stack trace of V8
    assert list(tmp_path.iterdir()) == []


def test_pages_and_specifications_are_written_under_a_memory_limit(tmp_path: Path) -> None:
    program = "from tests.charts.charts import EVERY; [EVERY['attention_map']().save(path) for path in sys.argv[1:]]"
    paths = [str(tmp_path / "a.html"), str(tmp_path / "a.json")]
    command = shlex.join([sys.executable, "-c", f"import sys; {program}", *paths])
    subprocess.run(["bash", "-c", f"ulimit -v 8000000; {command}"], check=True, timeout=60)
    assert "vegaEmbed(" in Path(paths[0]).read_text(encoding="utf-8")


def test_one_process_draws_several_figures_and_is_replaced_after_it_was_killed() -> None:
    figure = EVERY["cost_by_order"]()
    figure.svg()
    process = RENDERER._process
    assert process is not None
    figure.png()
    assert RENDERER._process is process
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert figure.svg().startswith("<svg")
    assert RENDERER._process is not process


def test_a_process_that_is_killed_while_it_draws_is_an_error() -> None:
    figure = EVERY["cost_by_order"]()
    figure.svg()
    assert RENDERER._process is not None
    os.kill(RENDERER._process.pid, signal.SIGSTOP)
    killer = threading.Timer(0.2, os.kill, (RENDERER._process.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(RenderError, match="SVG: the rendering process was stopped by SIGKILL"):
        figure.svg()


def test_a_process_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    figure = EVERY["cost_by_order"]()
    figure.svg()
    assert RENDERER._process is not None
    monkeypatch.setattr(renderer, "TIMEOUT", 0.2)
    os.kill(RENDERER._process.pid, signal.SIGSTOP)
    with pytest.raises(RenderError, match=r"figure\.png: cannot draw the figure as PNG: took longer than 0\.2 s"):
        figure.save(tmp_path / "figure.png")
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_chart_is_an_error_and_the_process_survives() -> None:
    with pytest.raises(RenderError, match="SVG: "):
        figures._svg({"mark": "none of the known marks"})
    process = RENDERER._process
    assert EVERY["cost_by_order"]().svg().startswith("<svg")
    assert RENDERER._process is process


def test_the_library_in_pages_is_the_bundle_of_the_renderer() -> None:
    import vl_convert

    if version("vl-convert-python") != "1.9.0.post1":
        pytest.skip("the bundle belongs to vl-convert-python 1.9.0.post1")
    stored = (Path(figures.__file__).parent / "vega.js.gz").read_bytes()
    assert gzip.decompress(stored).decode() == vl_convert.javascript_bundle()  # type: ignore[call-arg]
