"""`satchel look attribution`: contributions of words by several methods."""

from pathlib import Path

from tests.cli.conftest import (
    TEXT,
    Cli,
)


def test_attribution_methods_are_printed_beside_the_exact_values(cli: Cli, runs: dict[str, Path]) -> None:
    code, printed, messages = cli("look", "attribution", runs["backpack"], TEXT, "--target", "on", "--versus", "mat")
    assert code == 0, messages
    assert all(word in printed for word in ("occlusion", "gradient", "integrated", "exact", "on minus that of mat"))
    assert "rank correlation with the exact contributions" in messages
    code, other, messages = cli("look", "attribution", runs["backpack"], TEXT, "--target", "on", "--instead", "words")
    assert (code, other != printed) == (0, True), messages
    code, printed, messages = cli(
        "look", "attribution", runs["tagger"], "a cat", "--target", "1", "--method", "occlusion"
    )
    assert code == 0, messages
    assert "gradient" not in printed
