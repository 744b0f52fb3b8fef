"""`satchel probe`: accuracy of linear probes by layer."""

from pathlib import Path

import pytest

from tests.cli.conftest import (
    Cli,
    json_of,
)


def test_probe_reports_the_promised_keys(cli: Cli, line_runs: Path) -> None:
    result = json_of(cli, "probe", line_runs / "transformer", line_runs / "tags.tsv")
    assert set(result) == {
        *("schema_version", "data", "unit", "tags", "words", "rows", "majority", "by_word", "layers", "notes")
    }
    assert result["tags"] == ["n", "x"]
    assert result["rows"] == {"fitted": 12, "held_out": 4}
    assert [each["layer"] for each in result["layers"]] == [0, 1, 2]
    for each in result["layers"]:
        assert set(each) == {"layer", "site", "accuracy", "control", "selectivity"}
        assert each["selectivity"] == pytest.approx(each["accuracy"] - each["control"])
    assert json_of(cli, "probe", line_runs / "transformer", line_runs / "tags.tsv") == result
    code, printed, messages = cli("probe", line_runs / "transformer", line_runs / "tags.tsv")
    assert code == 0
    assert "majority-tag baseline" in printed
    assert "selectivity" in printed
    assert "blocks.0.output" in printed
    assert "accuracy minus control" in messages
