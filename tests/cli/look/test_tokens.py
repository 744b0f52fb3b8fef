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


# --- windows of long texts ---------------------------------------------------------------------------

LONG = "the cat saw the dog and " * 20
TOTAL = 121  # with the boundary before the text
LAST = "only tokens 89 to 120 of 121 are used"


@pytest.mark.parametrize(
    ("kind", "view"),
    [
        ("transformer", "attention"),
        ("transformer", "lens"),
        ("transformer", "attribution"),
        ("backpack", "attention"),
        ("backpack", "contributions"),
        ("backpack", "senses"),
    ],
)
def test_views_use_the_last_tokens_of_the_context_or_a_selected_window_and_report_it(
    cli: Cli, word_runs: dict[str, Path], tmp_path: Path, kind: str, view: str
) -> None:
    arguments = ("look", view, word_runs[kind], LONG)
    assert json_of(cli, *arguments)["window"] == {"start": 89, "tokens": 32, "total": TOTAL}
    selected = json_of(cli, *arguments, "--start", 2)
    assert selected["window"] == {"start": 2, "tokens": 32, "total": TOTAL}
    assert LAST in cli(*arguments)[2]
    assert cli(*arguments, "-o", tmp_path / "figure.json")[0] == 0
    assert LAST in (tmp_path / "figure.json").read_text()
    code, _, messages = cli(*arguments, "--start", TOTAL)
    assert (code, "--start 121: expected 0 to 120" in messages) == (2, True)


def test_patterns_report_the_windows_of_all_texts(cli: Cli, word_runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text(f"the cat saw the cat\n{LONG}\n")
    arguments = ("look", "patterns", word_runs["transformer"])
    result = json_of(cli, *arguments, "--data", tmp_path / "texts.txt")
    assert [window["tokens"] for window in result["windows"]] == [6, 32]
    assert result["notes"] == ["1 of 2 texts has more than 32 tokens: the last 32 of each are used"]
    assert json_of(cli, *arguments, LONG, "--start", 0)["windows"] == [{"start": 0, "tokens": 32, "total": TOTAL}]
    assert LAST in cli(*arguments, LONG)[2]


@pytest.mark.parametrize(("kind", "view"), [("ngram", "surprise"), ("ngram", "order"), ("transformer", "surprise")])
def test_surprisal_and_orders_of_a_long_text_are_given_for_every_token(
    cli: Cli, word_runs: dict[str, Path], kind: str, view: str
) -> None:
    whole = json_of(cli, "look", view, word_runs[kind], LONG)
    assert (len(whole["tokens"]), whole["window"]) == (TOTAL, {"start": 0, "tokens": TOTAL, "total": TOTAL})
    part = json_of(cli, "look", view, word_runs[kind], LONG, "--start", 100)
    assert part["tokens"] == whole["tokens"][100:]
    values = "bits" if view == "surprise" else "orders"
    assert part[values] == whole[values][100:]
    assert part["window"] == {"start": 100, "tokens": 21, "total": TOTAL}


def test_predictions_after_a_long_prompt_depend_on_its_last_tokens_only(cli: Cli, word_runs: dict[str, Path]) -> None:
    model: Any = satchel.load(word_runs["transformer"])
    words = LONG.split()
    other = " ".join(["<end>"] * (len(words) - 32) + words[-32:])
    long, same = model.next(LONG, top=5), model.next(other, top=5)
    assert long.probabilities == pytest.approx(same.probabilities, rel=1e-6)
    assert long.probabilities != pytest.approx(model.next(" ".join(words[-16:]), top=5).probabilities, rel=1e-6)
    assert (long.window.start, long.window.tokens, long.window.total) == (89, 32, TOTAL)
    result = json_of(cli, "generate", word_runs["transformer"], LONG, "--tokens", 2)
    assert result["window"] == {"start": 89, "tokens": 32, "total": TOTAL}
    assert f"prompt: {LAST}" in cli("generate", word_runs["transformer"], LONG, "--tokens", 2)[2]


def test_the_lens_of_a_tagger_names_tags(cli: Cli, tagger: Path, tmp_path: Path) -> None:
    code, printed, messages = cli("look", "lens", tagger, "cat")
    assert (code, printed.split()[:2]) == (0, ["token", "tag"])
    assert "most probable tag at each layer" in messages
    assert cli("look", "lens", tagger, "cat", "-o", tmp_path / "lens.svg")[0] == 0
    figure = (tmp_path / "lens.svg").read_text()
    assert "most probable tag" in figure
    assert "next token" not in figure


def test_surprisal_is_refused_for_classifiers_and_taggers(cli: Cli, classifier: Path, tagger: Path) -> None:
    for run, task, name in ((classifier, "classify", "a classifier"), (tagger, "tag", "a tagger")):
        for view, expected in (("surprise", f"not tokens (task={task})"), ("order", f"is {name}, expected a language")):
            code, printed, messages = cli("look", view, run, "the cat")
            assert (code, printed) == (2, "")
            assert expected in messages


def test_a_translation_longer_than_the_context_is_shown_without_its_end(cli: Cli, translator: Path) -> None:
    arguments = (translator, "2021-05-03" * 10, "--source", "May 3, 2021")
    expected = {"start": 0, "tokens": 47, "total": 100}
    surprise = json_of(cli, "look", "surprise", *arguments)
    assert (len(surprise["tokens"]), surprise["window"], surprise["token_roles"][-1]) == (47, expected, None)
    cross = json_of(cli, "look", "attention", *arguments, "--which", "cross")
    assert (len(cross["rows"]), cross["row_roles"][0], cross["window"]) == (47, "start", expected)
    alignment = json_of(cli, "look", "alignment", *arguments)["alignment"]
    assert (alignment["target_roles"][-1], alignment["window"]) == (None, expected)
    patterns = json_of(cli, "look", "patterns", translator, "May 3, 2021", "--target", "2021-05-03" * 10)
    assert patterns["windows"] == [expected]


def test_sums_over_a_file_state_the_number_of_tokens_and_distinguish_special_tokens(
    cli: Cli, word_runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "lines.txt").write_text("the unseen <unk> cat\n" * 40)
    arguments = ("look", "contributions", word_runs["backpack"], "--data", tmp_path / "lines.txt", "--by", "word")
    result = json_of(cli, *arguments)
    assert (result["tokens"], result["total_tokens"]) == (200, 200)
    times = {(row["word"], row["role"]): row["times"] for row in result["totals"]}
    assert times["<start>", "start"] == times["<unk>", "unknown"] == times["<unk>", None]
    part = json_of(cli, *arguments, "--tokens", 50)
    assert (part["tokens"], part["total_tokens"]) == (50, 200)
    code, printed, messages = cli(*arguments, "--tokens", 50)
    assert (code, "50 of 200 tokens of the file are used" in messages) == (0, True)
    assert "\\<unk>" in printed
