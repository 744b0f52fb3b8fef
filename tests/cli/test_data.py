"""`satchel data`: built-in data and reports on files."""

from pathlib import Path

from tests.cli.conftest import (
    Cli,
    json_of,
)


def test_data_lists_built_in_data_and_describes_a_file(cli: Cli, verse: Path) -> None:
    assert {"@python-docs", "@ab"} <= {item["name"] for item in json_of(cli, "data")["data"]}
    result = json_of(cli, "data", verse, "--valid", verse)
    assert (result["task"], result["lines"], result["blank_lines"]) == ("lm", 80, 20)
    assert result["overlap_with_valid"] == {"shared": 80, "of": 80, "percent": 100.0}
    assert cli("data", verse)[0] == 0
