"""`senses`, `similar`, `look` and `classify` on Backpacks: what they print adds up, and what cannot be is told."""

import json
from pathlib import Path

import numpy as np
import pytest

import satchel
from satchel.inspection.contributions import of_next
from tests.cli.conftest import Cli, answer
from tests.conftest import VERSE

SMALL = {"model.width": 16, "model.layers": 1, "model.heads": 2, "model.context": 32, "model.senses": 3}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Backpack language model."""
    folder = tmp_path_factory.mktemp("looking")
    (folder / "verse.txt").write_text(VERSE * 20, encoding="utf-8")
    settings = {**SMALL, "training.threads": 1}
    trained = satchel.train(
        folder / "verse.txt",
        model="backpack",
        tokenizer="bpe:280",
        steps=60,
        settings=settings,
        out=folder / "run",
    )
    return Path(trained.folder)


@pytest.fixture(scope="module")
def polarity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Backpack that knows praise from blame."""
    target = tmp_path_factory.mktemp("polarity") / "run"
    settings: dict[str, object] = {**SMALL, "model.width": 32, "model.senses": 4, "data.size": 4000}
    settings |= {"training.threads": 1, "training.optimizer": "adamw"}
    satchel.train("@polysemy", task="classify", model="backpack", epochs=30, seed=1, settings=settings, out=target)
    return target


# --- senses ------------------------------------------------------------------------------------------------


def test_senses_of_words_have_the_keys_scripts_rely_on(cli: Cli, run: Path) -> None:
    found = answer(cli, "senses", run, "cat", "dogs", "--top", 5, "--contexts", 2)
    assert [each["word"] for each in found["words"]] == ["cat", "dogs"]
    for each in found["words"]:
        assert [sense["sense"] for sense in each["senses"]] == [0, 1, 2]
        for sense in each["senses"]:
            assert len(sense["promotes"]) == len(sense["suppresses"]) == 5
            assert sense["promotes"][0]["score"] >= sense["promotes"][1]["score"]
            assert sense["suppresses"][0]["score"] <= sense["suppresses"][1]["score"]
    cat, dogs = found["words"]
    assert cat["tokens"] == [" cat"]
    assert len(dogs["tokens"]) > 1
    assert sum(sense["share"] for sense in cat["senses"]) == pytest.approx(1)
    assert all(sense["share"] is None for sense in dogs["senses"])  # the text has no dogs
    assert cat["senses"][0]["contexts"][0]["word"] == " cat"


def test_senses_are_shown_with_what_they_became_and_what_is_unseen_is_said(cli: Cli, run: Path) -> None:
    code, printed, said = cli("senses", run, "dogs", "--sense", 1)
    assert code == 0
    assert "dogs (" in printed
    assert "tokens:" in printed
    assert "was not found in the part of the training text" in said
    assert len([line for line in printed.split("\n") if line.strip().startswith("1 ")]) == 1


def test_all_senses_go_to_a_file(cli: Cli, run: Path, tmp_path: Path) -> None:
    code, _, said = cli("senses", run, "--all", "--top", 2, "-o", tmp_path / "senses.jsonl")
    assert code == 0, said
    lines = [json.loads(line) for line in (tmp_path / "senses.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == satchel.load(run).tokenizer.size
    assert all(len(line["senses"]) == 3 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["senses", "RUN"], "found no word"),
        (["senses", "RUN", "cat", "--all"], "found no word, or words and --all"),
        (["senses", "RUN", "--all"], "too much for a terminal"),
        (["senses", "RUN", "cat", "--sense", 3], "words have 3: 0 to 2"),
        (["senses", "RUN", "cat", "--sense", -1], "there is no such sense"),
        (["senses", "RUN", " "], "expected a word"),
        (["senses", "RUN", "x" * 400], "expected 32 at most"),
        (["senses", "RUN", "cat", "-o", "x.csv"], "expected .jsonl"),
        (["similar", "RUN", ""], "expected a word"),
        (["look", "attic", "RUN", "the"], "there is attention, surprise"),
        (["look", "contributions", "RUN", "the", "--versus", "dog"], "no target"),
        (["look", "contributions", "RUN", "the", "--data", "x.txt"], "give one of them"),
        (["look", "contributions", "RUN", "the", "-o", "x.bmp"], "expected .svg"),
        (["look", "senses", "RUN", "the", "--target", "cat"], "--target is not for senses"),
        (["evaluate", "RUN", "--similarity", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_is_told(cli: Cli, run: Path, arguments: list[object], told: str) -> None:
    code, printed, said = cli(*(run if argument == "RUN" else argument for argument in arguments))
    assert (code, printed) == (2, "")
    assert told in said


def test_a_run_that_is_no_backpack_says_what_it_is(cli: Cli, verse: Path, tmp_path: Path) -> None:
    satchel.train(verse, model="ngram", out=tmp_path / "counted")
    code, _, said = cli("senses", tmp_path / "counted", "cat")
    assert code == 2
    assert "is no Backpack but ngram" in said
    assert "--model backpack" in said


def test_a_word_that_is_not_known_is_told(cli: Cli, verse: Path, tmp_path: Path) -> None:
    settings = {**SMALL, "training.threads": 1}
    satchel.train(verse, model="backpack", tokenizer="word", steps=2, settings=settings, out=tmp_path / "words")
    code, _, said = cli("senses", tmp_path / "words", "zebra")
    assert code == 2
    assert "'zebra' is no word of this vocabulary" in said
    found = answer(cli, "senses", tmp_path / "words", "cat")
    assert found["words"][0]["tokens"] == ["cat"]


# --- similar -----------------------------------------------------------------------------------------------


def test_words_that_are_alike_are_found_by_sense(cli: Cli, run: Path) -> None:
    found = answer(cli, "similar", run, "cat", "--top", 200)
    assert [each["sense"] for each in found["senses"]] == [0, 1, 2]
    first = next(each for each in found["senses"][0]["words"] if each["word"].startswith(" "))
    both = answer(cli, "similar", run, "cat", first["word"])
    assert both["by_sense"][0] == pytest.approx(first["alike"], abs=1e-6)
    assert both["least"] == min(both["by_sense"])
    itself = answer(cli, "similar", run, "cat", "cat")
    assert itself["joined"] == pytest.approx(1)
    code, printed, _ = cli("similar", run, "cat", "dog")
    assert code == 0
    assert "all senses joined" in printed


def test_likeness_is_compared_with_what_people_say(cli: Cli, run: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("cat\tdog\t9\ncat\tmat\t5\nlog\tthe\t1\n", encoding="utf-8")
    found = answer(cli, "evaluate", run, "--similarity", tmp_path)
    (pairs,) = found["similarity"]
    assert (pairs["name"], pairs["pairs"], pairs["covered"]) == ("pairs", 3, 3)
    assert set(pairs["correlations"]) == {"joined", "least", "any pair", "sense 0", "sense 1", "sense 2"}
    assert all(-1 <= value <= 1 for value in pairs["correlations"].values())
    code, printed, _ = cli("evaluate", run, "--similarity", tmp_path)
    assert code == 0
    assert "best single sense" in printed


# --- look --------------------------------------------------------------------------------------------------


def test_contributions_add_up_to_the_score_and_words_are_merged(cli: Cli, run: Path) -> None:
    model = satchel.load(run)
    found = answer(cli, "look", "contributions", run, "The cats saw the", "--target", "dog", "--versus", "log")
    assert found["target"] == " dog"
    assert found["versus"] == " log"
    assert [word.strip() for word in found["words"]] == ["<end>", "The", "cats", "saw", "the"]
    values = np.array(found["values"])
    assert values.sum() == pytest.approx(found["logit"], abs=1e-6)
    assert np.array(found["centred"]).sum() + found["bias"] == pytest.approx(found["logit"], abs=1e-6)
    ids = np.array([model.tokenizer.boundary, *model.tokenizer.encode("The cats saw the").ids])
    dog, log = (int(model.tokenizer.encode(word).ids[0]) for word in (" dog", " log"))
    assert of_next(model.network, ids, dog, log).score == pytest.approx(found["logit"])


def test_without_a_target_it_is_the_likeliest_and_one_of_several_tokens_is_said(cli: Cli, run: Path) -> None:
    model = satchel.load(run)
    found = answer(cli, "look", "contributions", run, "The cat")
    assert found["target"] == model.next("The cat", top=1).tokens[0]
    several = answer(cli, "look", "contributions", run, "The cat", "--target", "zebra")
    assert "this explains the first" in several["notes"][0]
    long = model.contributions("The cat sat on the mat. " * 20)
    assert "longer than the context of 32: its last 16" in long.notes[0]
    assert sum(long.values.ravel()) == pytest.approx(long.logit)


def test_a_picture_is_drawn_and_words_are_printed(cli: Cli, run: Path, tmp_path: Path) -> None:
    for ending in (".svg", ".png", ".html", ".json"):
        code, _, said = cli("look", "contributions", run, "The cat sat", "-o", tmp_path / f"map{ending}")
        assert code == 0, said
        assert (tmp_path / f"map{ending}").stat().st_size > 1000
    code, printed, _ = cli("look", "contributions", run, "The cat sat")
    assert code == 0
    assert "the sum of" in printed
    code, printed, _ = cli("look", "senses", run, "The cat sat")
    assert code == 0
    assert "sat" in printed
    weights = np.array(answer(cli, "look", "senses", run, "The cat sat")["weights"])
    np.testing.assert_allclose(weights.sum(axis=0), 1, atol=1e-5)


@pytest.mark.parametrize("by", ["word", "sense", "word,sense", "position", "word,sense,position"])
def test_what_a_file_adds_is_the_same_however_it_is_parted(cli: Cli, run: Path, tmp_path: Path, by: str) -> None:
    text = tmp_path / "text.txt"
    text.write_text(VERSE, encoding="utf-8")
    found = answer(cli, "look", "contributions", run, "--data", text, "--by", by)["totals"]
    whole = answer(cli, "look", "contributions", run, "--data", text, "--by", "sense")["totals"]
    assert set(found[0]) == {*by.split(","), "total", "times"}
    assert sum(each["total"] for each in found) == pytest.approx(sum(each["total"] for each in whole), rel=1e-6)
    assert [each["total"] for each in found] == sorted((each["total"] for each in found), reverse=True)
    if by == "word":
        counts = {each["word"]: each["times"] for each in found}
        assert counts["cat"] == 3


# --- classifiers -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_end_of_the_lecture_a_trick_is_sick_and_a_fever_makes_sick(tmp_path: Path) -> None:
    one = {"training.threads": 1}
    satchel.train("@polysemy", recipe="polysemy", seed=1, settings=one, out=tmp_path / "lm")
    model = satchel.train(
        "@polysemy", task="classify", start=tmp_path / "lm", epochs=8, settings=one, out=tmp_path / "run"
    )
    praise, blame = "That trick was sick", "That fever made me sick"
    assert model.classify(praise).label == "positive"
    assert model.classify(blame).label == "negative"
    positive = model.labels.index("positive")
    added = {}
    for text in (praise, blame):
        found = model.contributions(text)
        lead = found[positive].values - found[model.labels.index("negative")].values
        added[text] = lead[found[0].words.index("sick")]
    assert added[praise].sum() > 0 > added[blame].sum()
    # It is another sense that does it.
    assert added[praise].argmax() != added[blame].argmin()


def test_a_classifier_tells_what_added_to_every_label(cli: Cli, polarity: Path) -> None:
    (found,) = answer(cli, "classify", polarity, "That trick was really sick")["predictions"]
    assert {"word", "sense", "label", "value"} == set(found["contributions"][0])
    for label, logit in found["logits"].items():
        values = [each["value"] for each in found["contributions"] if each["label"] == label]
        assert len(values) == 5 * 4
        assert sum(values) + found["bias"][label] == pytest.approx(logit, abs=1e-6)
    chances = np.exp(list(found["logits"].values()))
    assert found["probability"] == pytest.approx(chances.max() / chances.sum(), abs=1e-4)
    code, printed, said = cli("classify", polarity, "That trick was really sick")
    assert code == 0
    assert "adds to positive" in printed
    assert "above the mean of all labels" in said


def test_the_words_that_add_most_to_each_label_of_a_file(cli: Cli, polarity: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.tsv"
    rows.write_text("text\nThat trick was great\nThat trick was awful\n", encoding="utf-8")
    found = answer(cli, "look", "contributions", polarity, "--data", rows, "--by", "word")["totals"]
    added = {(each["label"], each["word"]): each["total"] for each in found}
    assert added["positive", "great"] > added["positive", "awful"]
    assert added["negative", "awful"] > added["negative", "great"]
    code, printed, _ = cli("look", "contributions", polarity, "--data", rows, "--by", "word")
    assert code == 0
    assert "positive:" in printed
    assert answer(cli, "senses", polarity, "great")["words"][0]["senses"][0]["promotes"][0]["word"] in (
        "positive",
        "negative",
    )


def test_rows_of_a_file_come_with_their_reasons_as_json(cli: Cli, polarity: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "That trick was great"}\n{"text": ""}\n', encoding="utf-8")
    found = answer(cli, "classify", polarity, "--input", rows)["predictions"]
    assert len(found) == 2
    for each in found:  # also where there is no word at all
        for label, logit in each["logits"].items():
            added = sum(part["value"] for part in each["contributions"] if part["label"] == label)
            assert added + each["bias"][label] == pytest.approx(logit, abs=1e-6)
        chances = np.exp(list(each["logits"].values()))
        assert each["probability"] == pytest.approx(chances.max() / chances.sum(), abs=1e-4)
    code, printed, _ = cli("classify", polarity, "")
    assert code == 0
    assert "adds to" in printed
    code, printed, _ = cli("look", "contributions", polarity, "That trick was great", "--target", "positive")
    assert code == 0
    assert "positive:" in printed
    code, _, said = cli("look", "contributions", polarity, "That trick", "--target", "mixed")
    assert code == 2
    assert "found no label mixed" in said


# --- while it learns ---------------------------------------------------------------------------------------


def test_how_senses_fare_is_written_at_every_validation(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    found = lines[-1]["senses"]
    assert [len(found[key]) for key in ("entropy", "use", "cost_without")] == [3, 3, 3]
    assert sum(found["use"]) == pytest.approx(1)
    assert 1 <= found["rank"] <= 3


def test_that_senses_are_alike_is_held_against_them(verse: Path, tmp_path: Path) -> None:
    losses = []
    for number, diversity in enumerate((0.0, 50.0)):
        settings = {**SMALL, "model.diversity": diversity, "training.threads": 1}
        trained = satchel.train(
            verse, model="backpack", tokenizer="char", steps=2, settings=settings, out=tmp_path / str(number)
        )
        assert trained.report is not None
        losses.append(trained.report.train_loss)
    assert losses[1] > losses[0] + 0.01
