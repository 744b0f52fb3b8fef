"""`satchel look embeddings`: PCA of word vectors."""

from pathlib import Path

from tests.cli.conftest import (
    Cli,
)


def test_words_are_printed_at_their_principal_components(cli: Cli, runs: dict[str, Path]) -> None:
    code, printed, messages = cli("look", "embeddings", runs["transformer"], "--top", 5)
    assert code == 0, messages
    assert "2-D PCA of embeddings" in printed
    code, printed, _ = cli("look", "embeddings", runs["backpack"], "cat mat sat", "--sense", 1)
    assert (code, "sense 1" in printed) == (0, True)
