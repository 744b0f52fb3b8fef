"""`satchel tokenize`: tokens of a text."""

from pathlib import Path

from tests.cli.conftest import (
    Cli,
    json_of,
)


def test_tokenize_prints_tokens(cli: Cli, ngram: Path) -> None:
    result = json_of(cli, "tokenize", ngram, "The 漢")
    assert [token["text"] for token in result["tokens"]] == ["T", "h", "e", " ", "<unk>"]
    assert (result["unknown"], result["lossless"]) == (1, False)
    code, printed, _ = cli("tokenize", ngram / "tokenizer.json", "a\tt c")
    assert (code, printed) == (0, "a <unk> t ␣ c\n")
