"""`satchel export` and `satchel import`: ARPA files."""

from pathlib import Path

import pytest

from tests.cli.conftest import (
    Cli,
    json_of,
)


def test_export_and_import_give_the_same_model(cli: Cli, ngram: Path, verse: Path, tmp_path: Path) -> None:
    assert cli("export", ngram, "--to", "arpa", "-o", tmp_path / "model.arpa")[0] == 0
    assert cli("import", tmp_path / "model.arpa", "--tokenizer", ngram, "-o", tmp_path / "again")[0] == 0
    before, after = (json_of(cli, "evaluate", folder, verse) for folder in (ngram, tmp_path / "again"))
    assert after["nats_per_token"] == pytest.approx(before["nats_per_token"], rel=1e-7)
