"""`satchel look patterns` and `satchel look ablation`: what attention heads do."""

from pathlib import Path

from tests.cli.conftest import (
    Cli,
    json_of,
)


def test_heads_are_ranked_by_pattern_and_by_ablation_cost(cli: Cli, runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("the cat sat on the mat\n\nthe cat\n")
    run = runs["transformer"]
    code, printed, messages = cli(
        "look", "patterns", run, "--data", tmp_path / "lines.txt", "--pattern", "previous,first"
    )
    assert (code, "number of texts: 2;" in messages) == (0, True), messages
    assert printed.count("previous") == printed.count("first") == 3
    result = json_of(cli, "look", "patterns", run, "--data", tmp_path / "lines.txt")
    best = max(row["weight"] for row in result["heads"] if row["pattern"] == "previous")
    assert best == next(row["weight"] for row in result["heads"] if row["pattern"] == "previous")
    code, printed, messages = cli("look", "ablation", run)
    assert (code, "with all heads" in messages) == (0, True), messages
    costs = json_of(cli, "look", "ablation", runs["tagger"])
    assert costs["measure"] == "accuracy"
    assert [(row["layer"], row["head"]) for row in costs["heads"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
