"""`satchel mix`: interpolation weights and the run of a mixture."""

from pathlib import Path

import pytest

from tests.cli.conftest import (
    Cli,
    json_of,
)


def test_mix_writes_a_run_and_reports_the_weights_of_its_parts(
    cli: Cli, orders: list[Path], verse: Path, tmp_path: Path
) -> None:
    result = json_of(cli, "mix", *orders, "--data", verse, "-o", tmp_path / "mix")
    assert [part["name"] for part in result["parts"]] == ["order-2", "order-4"]
    assert sum(part["weight"] for part in result["parts"]) == pytest.approx(1)
    assert result["model"] == "mix"
    scored = json_of(cli, "score", tmp_path / "mix", "The cat")
    assert scored["tokens"][0]["order-2"] + scored["tokens"][0]["order-4"] == pytest.approx(1)
    assert json_of(cli, "evaluate", tmp_path / "mix", verse)["model"] == "mix"
    assert cli("score", tmp_path / "mix", "The cat")[0] == 0
    assert cli("generate", tmp_path / "mix", "The")[0] == 0
    assert json_of(cli, "info", tmp_path / "mix")["parameters"] == 2
    assert cli("export", tmp_path / "mix", "--to", "arpa", "-o", tmp_path / "x.arpa")[0] == 2
    assert cli("mix", *orders, "--data", verse, "-o", tmp_path / "again")[0] == 0
