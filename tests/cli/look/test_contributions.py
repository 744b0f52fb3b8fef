"""`satchel look contributions`: exact contributions of senses."""

from pathlib import Path

import numpy as np
import pytest

import satchel
from satchel.inspection import targets
from satchel.inspection.contributions import project
from tests.cli.conftest import (
    Cli,
    json_of,
)
from tests.conftest import VERSE


def test_contributions_sum_to_the_logit_and_tokens_of_a_word_are_merged(cli: Cli, backpack: Path) -> None:
    model = satchel.load(backpack, task="lm")
    result = json_of(cli, "look", "contributions", backpack, "The cats saw the", "--target", "dog", "--versus", "log")
    assert result["target"] == " dog"
    assert result["versus"] == " log"
    assert [word.strip() for word in result["words"]] == ["<start>", "The", "cats", "saw", "the"]
    values = np.array(result["values"])
    assert values.sum() == pytest.approx(result["logit"], abs=1e-6)
    assert np.array(result["centred"]).sum() + result["bias"] == pytest.approx(result["logit"], abs=1e-6)
    assert result["positions"] == [0, 1, 2, 3, 4]
    ids = np.array([model.tokenizer.boundary, *model.tokenizer.encode("The cats saw the").ids])
    dog, log = (int(model.tokenizer.encode(word).ids[0]) for word in (" dog", " log"))
    assert project([targets.logit(model.network, ids, dog, log)])[0].logit == pytest.approx(result["logit"])


def test_the_default_target_is_the_most_probable_token(cli: Cli, backpack: Path) -> None:
    model = satchel.load(backpack, task="lm")
    result = json_of(cli, "look", "contributions", backpack, "The cat")
    assert result["target"] == model.next("The cat", top=1).tokens[0]
    several = json_of(cli, "look", "contributions", backpack, "The cat", "--target", "zebra")
    assert "the logit of the first one is explained" in several["notes"][0]
    long = model.contributions("The cat sat on the mat. " * 20)
    assert "only tokens 129 to 160 of 161 are used" in long.notes[0]
    assert sum(long.values.ravel()) == pytest.approx(long.logit)


def test_contributions_are_drawn_and_printed(cli: Cli, backpack: Path, tmp_path: Path) -> None:
    for ending in (".svg", ".png", ".html", ".json"):
        code, _, messages = cli("look", "contributions", backpack, "The cat sat", "-o", tmp_path / f"map{ending}")
        assert code == 0, messages
        assert (tmp_path / f"map{ending}").stat().st_size > 1000
    code, printed, _ = cli("look", "contributions", backpack, "The cat sat")
    assert code == 0
    assert "(bias)" in printed
    code, printed, messages = cli("look", "contributions", backpack, "The cat sat", "--raw")
    assert code == 0
    assert "(head bias)" in printed
    assert "raw contributions" in messages
    code, printed, _ = cli("look", "senses", backpack, "The cat sat")
    assert code == 0
    assert "sat" in printed
    weights = np.array(json_of(cli, "look", "senses", backpack, "The cat sat")["weights"])
    np.testing.assert_allclose(weights.sum(axis=0), 1, atol=1e-5)


@pytest.mark.parametrize("by", ["word", "sense", "word,sense", "position", "word,sense,position"])
def test_sums_over_a_file_do_not_depend_on_the_grouping(cli: Cli, backpack: Path, tmp_path: Path, by: str) -> None:
    text = tmp_path / "text.txt"
    text.write_text(VERSE, encoding="utf-8")
    result = json_of(cli, "look", "contributions", backpack, "--data", text, "--by", by)["totals"]
    whole = json_of(cli, "look", "contributions", backpack, "--data", text, "--by", "sense")["totals"]
    role = {"role"} if "word" in by else set()
    assert set(result[0]) == {*by.split(","), "total", "times"} | role
    assert sum(each["total"] for each in result) == pytest.approx(sum(each["total"] for each in whole), rel=1e-6)
    assert [each["total"] for each in result] == sorted((each["total"] for each in result), reverse=True)
    if by == "word":
        counts = {each["word"]: each["times"] for each in result}
        assert counts["cat"] == 3


def test_sums_over_a_table_are_given_for_each_label(cli: Cli, backpack_classifier: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.tsv"
    rows.write_text("text\nThat trick was great\nThat trick was awful\n", encoding="utf-8")
    result = json_of(cli, "look", "contributions", backpack_classifier, "--data", rows, "--by", "word")["totals"]
    added = {(each["label"], each["word"]): each["total"] for each in result}
    assert added["positive", "great"] > added["positive", "awful"]
    assert added["negative", "awful"] > added["negative", "great"]
    code, printed, _ = cli("look", "contributions", backpack_classifier, "--data", rows, "--by", "word")
    assert code == 0
    assert "positive:" in printed
    assert json_of(cli, "senses", backpack_classifier, "great")["words"][0]["senses"][0]["promotes"][0]["word"] in (
        "positive",
        "negative",
    )
