"""`satchel look surprise`, `order` and `lens`, and the display of tokens in all views."""

from pathlib import Path
from typing import Any

import pytest

import satchel
from tests.cli.conftest import SMALL, Cli, json_of

# Words spelled like special tokens are ordinary words of this text.
LINES = "the cat saw <unk> and <start>\nthe dog saw the <end> <unk>\n" * 30
TEXT = "the unseen <unk>"


@pytest.fixture(scope="module")
def word_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Language models of words with one document per line, by kind."""
    folder = tmp_path_factory.mktemp("words")
    (folder / "lines.txt").write_text(LINES)
    for kind, settings in (("ngram", {}), ("transformer", SMALL), ("backpack", {**SMALL, "model.senses": 2})):
        options: dict[str, Any] = {} if kind == "ngram" else {"steps": 4}
        satchel.train(
            folder / "lines.txt", model=kind, task="lm", tokenizer="word", out=folder / kind,
            settings={**settings, "data.documents": "line"}, **options,
        )  # fmt: skip
    return {path.name: path for path in folder.iterdir() if path.is_dir()}


CONTEXT = (["<start>", "the", "<unk>", "<unk>"], ["start", None, "unknown", None])
SCORED = (["the", "<unk>", "<unk>", "<end>"], [None, "unknown", None, "end"])


@pytest.mark.parametrize(
    ("kind", "view", "key", "roles", "expected"),
    [
        ("ngram", "surprise", "tokens", "token_roles", SCORED),
        ("ngram", "order", "tokens", "token_roles", SCORED),
        ("transformer", "surprise", "tokens", "token_roles", SCORED),
        ("transformer", "attention", "rows", "row_roles", CONTEXT),
        ("transformer", "attention", "columns", "column_roles", CONTEXT),
        ("transformer", "lens", "tokens", "token_roles", CONTEXT),
        ("transformer", "lens", "targets", "target_roles", SCORED),
        ("transformer", "attribution", "words", "word_roles", CONTEXT),
        ("backpack", "contributions", "words", "word_roles", CONTEXT),
        ("backpack", "senses", "words", "word_roles", CONTEXT),
    ],
)
def test_every_view_lists_the_tokens_with_the_same_names_and_roles(
    cli: Cli, word_runs: dict[str, Path], kind: str, view: str, key: str, roles: str, expected: Any
) -> None:
    result = json_of(cli, "look", view, word_runs[kind], TEXT)
    assert (result[key], result[roles]) == expected


def test_predicted_tokens_have_roles(cli: Cli, word_runs: dict[str, Path]) -> None:
    scored = json_of(cli, "score", word_runs["transformer"], TEXT)["tokens"]
    assert ([token["text"] for token in scored], [token["role"] for token in scored]) == SCORED
    lens = json_of(cli, "look", "lens", word_runs["transformer"], TEXT)
    assert all(len(row) == 4 for row in lens["said_roles"])
    model: Any = satchel.load(word_runs["transformer"])
    predicted = model.next("the cat", top=100).tokens
    assert {token.role: token for token in predicted if token.role} == {"unknown": "<unk>", "end": "<end>"}
    assert len(predicted) == len({token.id for token in predicted}) == model.tokenizer.size + 1
    promoted = json_of(cli, "senses", word_runs["backpack"], "cat", "--top", "100")["words"][0]["senses"][0]["promotes"]
    assert {(entry["word"], entry["role"]) for entry in promoted} >= {("<unk>", "unknown"), ("<unk>", None)}


def test_a_terminal_distinguishes_a_word_that_is_spelled_like_a_special_token(
    cli: Cli, word_runs: dict[str, Path]
) -> None:
    _, printed, _ = cli("tokenize", word_runs["ngram"], TEXT)
    assert printed == "the <unk> \\<unk>\n"
    _, printed, _ = cli("look", "surprise", word_runs["transformer"], TEXT)
    assert printed.split("\n")[0].split() == ["the", "<unk>", "\\<unk>", "<end>"]
    _, printed, _ = cli("look", "attribution", word_runs["transformer"], TEXT)
    assert [line.split()[0] for line in printed.split("\n")[2:6]] == ["<start>", "the", "<unk>", "\\<unk>"]
