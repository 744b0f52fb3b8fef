"""`satchel score`: log-probabilities of tokens."""

import math
from pathlib import Path

import pytest

from tests.cli.conftest import (
    SOURCES,
    Cli,
    json_of,
    train_ngram,
)


def test_score_reports_every_token_and_its_ngram_order(cli: Cli, ngram: Path) -> None:
    result = json_of(cli, "score", ngram, "The cat")
    assert [token["text"] for token in result["tokens"]] == list("The cat")
    assert {"text", "id", "role", "logprob", "order"} == set(result["tokens"][0])
    assert result["total_logprob"] == pytest.approx(sum(token["logprob"] for token in result["tokens"]))
    assert result["perplexity"] == pytest.approx(math.exp(-result["total_logprob"] / 7))


def test_score_and_evaluate_agree(cli: Cli, ngram: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("The dog saw the mat.\n")
    scored = json_of(cli, "score", ngram, "The dog saw the mat.\n")
    evaluated = json_of(cli, "evaluate", ngram, tmp_path / "text.txt")
    assert scored["perplexity"] == pytest.approx(evaluated["perplexity"], rel=1e-12)


def test_each_line_document_has_one_end_token(cli: Cli, verse: Path, tmp_path: Path) -> None:
    train_ngram(cli, verse, tmp_path / "run", "--tokenizer", "word", "--set", "data.documents=line")
    result = json_of(cli, "score", tmp_path / "run", "The cat\n\nThe dog\n")
    assert [token["text"] for token in result["tokens"]] == ["The", "cat", "<end>", "The", "dog", "<end>"]


def test_a_part_of_a_mixture_does_not_override_a_json_key(
    cli: Cli, orders: list[Path], verse: Path, tmp_path: Path
) -> None:
    orders[0].rename(tmp_path / "logprob")
    assert cli("mix", tmp_path / "logprob", orders[1], "--data", verse, "-o", tmp_path / "mix")[0] == 0
    result = json_of(cli, "score", tmp_path / "mix", "The cat")
    assert sum(token["logprob"] for token in result["tokens"]) == pytest.approx(result["total_logprob"])


def test_a_given_translation_is_scored(cli: Cli, translator: Path) -> None:
    result = json_of(cli, "score", translator, SOURCES[0], "--target", "2021-05-03")
    assert [token["text"] for token in result["tokens"]] == [*"2021-05-03", "<end>"]
    assert result["total_logprob"] == pytest.approx(sum(token["logprob"] for token in result["tokens"]))


def test_a_long_text_is_printed_in_part_and_scored_completely(cli: Cli, ngram: Path) -> None:
    text = "The cat sat. " * 100
    code, printed, messages = cli("score", ngram, text)
    assert (code, len(printed.splitlines())) == (0, 1 + 1000 + 2)
    assert "300 more tokens (--json prints all)" in messages
    assert len(json_of(cli, "score", ngram, text)["tokens"]) == len(text)
