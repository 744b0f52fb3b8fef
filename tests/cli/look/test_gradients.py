"""`satchel look gradients`: gradient norms by distance for one or more runs."""

import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import satchel
from tests.cli.conftest import TEXT, Cli, json_of


@pytest.mark.item(47)
def test_norms_of_several_runs_are_printed_and_drawn(cli: Cli, runs: dict[str, Path], tmp_path: Path) -> None:
    names = [runs["transformer"], runs["backpack"]]
    code, printed, messages = cli("look", "gradients", *names, TEXT)
    assert (code, printed.split()[:2]) == (0, ["distance", "(tokens)"])
    assert "over 1 predicted token;" in messages
    result = json_of(cli, "look", "gradients", *names, TEXT, "--untrained")
    assert result["unit"] == "tokens"
    assert [(each["run"], each["untrained"]) for each in result["runs"]] == [
        (str(name), untrained) for name in names for untrained in (False, True)
    ]
    expected = satchel.load(names[0], task="lm").gradients(TEXT)
    assert result["runs"][0]["norms"] == expected.norms.tolist()
    assert result["runs"][0]["distances"] == [1, 2, 3]
    out = tmp_path / "gradients.json"
    code, _, messages = cli("look", "gradients", *names, TEXT, "--untrained", "-o", out)
    assert code == 0, messages
    drawn = out.read_text(encoding="utf-8")
    assert all(text in drawn for text in ("gradient norm (logarithmic)", "(untrained)", "distance from the predicted"))


def test_the_text_may_come_from_standard_input_or_a_file(
    cli: Cli, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = json_of(cli, "look", "gradients", runs["transformer"], TEXT)
    for arguments in ([runs["transformer"], "-"], [runs["transformer"]]):
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(TEXT.encode())))
        assert json_of(cli, "look", "gradients", *arguments) == expected
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    options = ["--data", path, "--positions", "1"]
    assert json_of(cli, "look", "gradients", runs["transformer"], *options) == expected


def test_runs_that_have_no_gradients_are_refused_with_the_reason(cli: Cli, runs: dict[str, Path]) -> None:
    code, _, messages = cli("look", "gradients", runs["ngram"], TEXT)
    assert (code, "has no input embeddings" in messages) == (2, True)
    code, _, messages = cli("look", "gradients", runs["translator"], TEXT)
    assert (code, "expected a language model" in messages) == (2, True)
    code, _, messages = cli("look", "gradients", TEXT)
    assert (code, "is not a run folder" in messages) == (2, True)
    code, _, messages = cli("look", "gradients", runs["transformer"], "")
    assert (code, "no tokens" in messages) == (2, True)
