"""`satchel next`: the distribution of the next token."""

import json
import math
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, json_of, train_ngram


def test_next_lists_the_most_probable_tokens_with_ids_and_probabilities(cli: Cli, ngram: Path) -> None:
    result = json_of(cli, "next", ngram, "The ca", "--top", "3")
    assert [set(token) for token in result["tokens"]] == [{"text", "id", "role", "probability"}] * 3
    assert result["tokens"][0]["text"] == "t"
    probabilities = [token["probability"] for token in result["tokens"]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert result["prompt"] == "The ca"
    assert result["window"] == {"start": 0, "tokens": 7, "total": 7}


def test_next_gives_the_probabilities_of_score(cli: Cli, ngram: Path) -> None:
    token = json_of(cli, "next", ngram, "The c")["tokens"][0]
    scored = json_of(cli, "score", ngram, "The c" + token["text"])["tokens"][-1]
    assert math.exp(scored["logprob"]) == pytest.approx(token["probability"], rel=1e-9)


def test_next_marks_the_end_of_a_document(cli: Cli, verse: Path, tmp_path: Path) -> None:
    train_ngram(cli, verse, tmp_path / "run", "--tokenizer", "word", "--set", "data.documents=line")
    tokens = json_of(cli, "next", tmp_path / "run", "The dog sat on the log.")["tokens"]
    assert (tokens[0]["text"], tokens[0]["role"]) == ("<end>", "end")


def test_every_token_of_next_is_a_target_of_contributions(cli: Cli, backpack: Path) -> None:
    for token in json_of(cli, "next", backpack, "The cat", "--top", "40")["tokens"]:
        code, printed, messages = cli("look", "contributions", backpack, "The cat", "--target", token["text"], "--json")
        assert code == 0, messages
        assert json.loads(printed)["target"] == token["text"]


def test_next_refuses_a_classifier(cli: Cli, classifier: Path) -> None:
    code, _, messages = cli("next", classifier, "The")
    assert code == 2
    assert "task=lm" in messages or "language model" in messages
