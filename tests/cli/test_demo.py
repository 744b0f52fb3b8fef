"""`satchel demo`: runs, figures and the report."""

import re
from pathlib import Path

from tests.cli.conftest import (
    process,
)


def test_demo_writes_runs_figures_and_a_report(tmp_path: Path) -> None:
    done = process("demo", "--no-serve", "--minutes", "0.1", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/ngram/model.safetensors").exists()
    picture = (tmp_path / "out/pictures/bits-per-byte-by-order.svg").read_text()
    assert picture.startswith("<svg")
    assert "bits per byte" in picture
    assert (tmp_path / "out/pictures/bits-per-byte-by-order.png").read_bytes()[:4] == b"\x89PNG"
    assert done.stderr.count("$ satchel ") == 11
    for name in ("backpack", "mix"):
        assert (tmp_path / "out" / name / "model.safetensors").exists()
    for name in ("attention", "comparison", "contributions", "training"):
        assert (tmp_path / f"out/pictures/{name}.svg").read_text().startswith("<svg")
    assert "Senses" in (tmp_path / "out/report.html").read_text()
    assert "95 % CI" in done.stdout
    shown = dict(re.findall(r"^(ngram|backpack|mix) .* ([\d.,]+)$", done.stdout.replace(",", ""), re.MULTILINE))
    assert float(shown["mix"]) <= min(float(shown["ngram"]), float(shown["backpack"]))
    assert "bits per byte" in done.stdout
    assert re.search(r"^sense +share +coherence +promotes +suppresses", done.stdout, re.MULTILINE)
    assert "(bias)" in done.stdout
    assert "bits per byte" in done.stdout
