"""`satchel look alignment`: source words behind target words."""

from pathlib import Path

import pytest

from tests.cli.conftest import (
    SOURCES,
    Cli,
    json_of,
)


def test_alignments_are_printed_and_drawn(cli: Cli, translator: Path, tmp_path: Path) -> None:
    result = json_of(cli, "look", "alignment", translator, SOURCES[0], "--target", "2021-05-03")["alignment"]
    assert result["source"] == ["5", "/", "3", "/", "21", "<end>"]
    assert sum(result["values"][0]) == pytest.approx(1, abs=1e-3)
    code, printed, _ = cli("look", "alignment", translator, SOURCES[0], "--layer", "0", "--head", "1")
    assert code == 0
    assert printed.split("\n")[0].split()[:2] == ["target", "strongest"]
    for ending in ("svg", "html", "json"):
        assert cli("look", "alignment", translator, SOURCES[0], "-o", tmp_path / f"map.{ending}")[0] == 0
        assert (tmp_path / f"map.{ending}").stat().st_size > 500


def test_a_long_source_is_printed_in_several_tables(cli: Cli, translator: Path) -> None:
    """Words that do not fit beside each other come in parts, each with all target words."""
    code, printed, messages = cli(
        "look", "alignment", translator, " / ".join("123456789" * 4), "--target", "2021-05-03"
    )
    assert code == 0
    assert "in per cent" in messages
    parts = [part.split("\n") for part in printed.strip().split("\n\n")]
    assert len(parts) > 1
    for lines in parts:
        assert lines[0].split()[:2] == ["target", "strongest"]
        assert [line.split()[0] for line in lines[1:]] == ["2021", "-", "05", "-", "03", "<end>"]
        assert max(map(len, lines)) <= 80
