"""`satchel report`: a self-contained HTML page."""

import re
from pathlib import Path

from tests.cli.conftest import (
    Cli,
)


def test_a_report_is_one_page_without_external_resources(cli: Cli, runs: dict[str, Path], tmp_path: Path) -> None:
    for name, run in runs.items():
        out = tmp_path / f"{name}.html"
        code, _, messages = cli("report", run, "-o", out)
        assert code == 0, messages
        page = out.read_text(encoding="utf-8")
        assert all(f"<h2>{title}</h2>" in page for title in ("Model", "Evaluation", "Settings"))
        assert not re.search(r"(src|href)\s*=\s*[\"']?https?:", page)
        assert ("<h2>Senses</h2>" in page) == (name == "backpack")
        assert ('id="attention"' in page) == (name in ("transformer", "backpack", "tagger", "translator"))
        assert ('id="surprise"' in page) == (name in ("ngram", "transformer", "backpack"))
