"""Attribution as people ask for it: words, targets and labels by name, and what cannot be asked is told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel.data.tagged import tokenize_tagged
from satchel.errors import DataError, RunError, SettingsError
from satchel.evaluation.statistics import spearman
from satchel.inspection.attribution import METHODS, compare_methods
from satchel.inspection.targets import find_logit
from tests.conftest import VERSE

SMALL = {"model.width": 16, "training.threads": 1, "training.learning_rate": 0.02}
BLOCKS = {**SMALL, "model.layers": 1, "model.heads": 2, "model.context": 32}
ROWS = ["good\ta fine day", "bad\ta grim night", "good\tfine and good", "bad\tgrim, grim night"]
TAGS = ["the cat sat.\tD N V", "a dog ran\tD N V", "dogs ran\tN V", "the dogs sat.\tD N V"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("attribution")
    (made / "verse.txt").write_text(VERSE * 20, encoding="utf-8")
    (made / "rows.tsv").write_text("label\ttext\n" + "\n".join(ROWS * 8) + "\n")
    (made / "tags.tsv").write_text("text\ttags\n" + "\n".join(TAGS * 8) + "\n")
    return made


@pytest.fixture(scope="module")
def backpack(folder: Path) -> Any:
    settings = {**BLOCKS, "model.senses": 3, "model.ngram": 2}
    data = folder / "verse.txt"
    return satchel.train(
        data, model="backpack", tokenizer="bpe:280", steps=30, settings=settings, out=folder / "backpack"
    )


@pytest.fixture(scope="module")
def lstm(folder: Path) -> Any:
    data = folder / "verse.txt"
    return satchel.train(data, model="lstm", tokenizer="bpe:280", steps=20, settings=SMALL, out=folder / "lstm")


@pytest.fixture(scope="module")
def classifier(folder: Path) -> Any:
    settings = {**SMALL, "model.bigrams": 64}
    return satchel.train(
        folder / "rows.tsv", model="dan", tokenizer="bpe:280", steps=20, settings=settings, out=folder / "dan"
    )


@pytest.fixture(scope="module")
def tagger(folder: Path) -> Any:
    return satchel.train(
        folder / "tags.tsv", model="transformer", tokenizer="bpe:280", steps=20, settings=BLOCKS, out=folder / "tags"
    )


def check_merged(found: Any) -> None:
    """Check that the value of every word is the sum of those of the tokens that spell it."""
    assert len(found.tokens) == len(found.token_values) > len(found.words)
    stop = 0
    for word, value in zip(found.words, found.values, strict=True):
        start, stop = stop, stop + 1
        while "".join(found.tokens[start:stop]).strip() != word.strip():
            stop += 1
        assert value == pytest.approx(found.token_values[start:stop].sum())
    assert stop == len(found.tokens)


# --- language models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_words_get_the_sums_of_their_tokens(lstm: Any, method: str) -> None:
    found = lstm.attributions("The cats saw the", "cat", method=method)
    assert found.words[1:] == ("The", " cats", " saw", " the")
    check_merged(found)
    assert found.values.sum() == pytest.approx(found.score - found.baseline + found.gap)
    assert (found.method, found.target, found.versus) == (method, " cat", None)
    assert found.check().startswith(f"{method}: sum")


def test_without_a_target_it_is_the_likeliest_and_a_contrast_is_a_difference(lstm: Any) -> None:
    likely = lstm.next("The cat", top=2)
    first, second = likely.ids
    found = lstm.attributions("The cat", method="gradient")
    assert found.target == likely.tokens[0]
    other, lead = (lstm.attributions("The cat", *of, method="gradient") for of in ((second,), (first, second)))
    assert lead.versus == likely.tokens[1]
    np.testing.assert_allclose(lead.values, found.values - other.values, atol=1e-5)
    assert lead.score > 0


def test_a_long_text_is_read_as_generation_reads_it_and_that_is_said(backpack: Any, lstm: Any) -> None:
    text = "The cat sat on the mat. " * 20
    found = backpack.attributions(text, method="gradient")
    assert len(found.tokens) == 16
    assert found.target == backpack.next(text, top=1).tokens[0]
    assert any("only its last 16 tokens" in note for note in found.notes)
    assert any("n-gram" in note for note in found.notes)
    whole = lstm.attributions(text, method="gradient")
    assert len(whole.tokens) == 1 + len(lstm.tokenizer.encode(text).ids)
    assert whole.notes == ()


def test_integrated_gradients_say_how_many_steps_they_took_and_whether_those_were_enough(lstm: Any) -> None:
    whole = lstm.attributions("The cat sat on the")
    assert whole.method == "integrated"
    assert whole.steps >= 8
    small = max(0.01 * abs(whole.score - whole.baseline), 0.001 * np.abs(whole.token_values).sum())
    assert abs(whole.gap) <= small
    assert f"{whole.steps} steps" in whole.check()
    assert whole.notes == ()
    coarse = lstm.attributions("The cat sat on the", "mat", steps=1)
    assert coarse.steps == 1
    assert any("completeness gap is large" in note for note in coarse.notes)


# --- beside what is exact ------------------------------------------------------------------------------------


@pytest.mark.parametrize("instead", ["mean", "words"])
def test_beside_a_backpack_stands_what_its_senses_add(backpack: Any, instead: Any) -> None:
    text = "The cat saw the dog, and the dogs"
    found = backpack.compare_attributions(text, "saw", "sat", instead=instead)
    exact = backpack.contributions(text, "saw", "sat")
    assert found.words == exact.words
    np.testing.assert_allclose(found.exact, exact.centred.sum(axis=1), atol=1e-6 * np.abs(exact.values).sum())
    assert found.exact.sum() + found.bias == pytest.approx(found.score, abs=1e-5)
    assert found.score == pytest.approx(exact.logit, abs=1e-5)
    usual = backpack.attributions(text, "saw", "sat", "gradient")
    assert (found.baseline == pytest.approx(usual.baseline)) == (instead == "mean")
    assert [each.method for each in found.methods] == list(METHODS)
    for each in found.methods:
        assert found.correlations[each.method] == spearman(each.values, found.exact)
        alone = backpack.attributions(text, "saw", "sat", each.method, instead=instead)
        np.testing.assert_array_equal(alone.values, each.values)
    # What can be printed has all of it.
    assert found.columns == ["word", *METHODS, "exact"]
    rows = found.rows()
    assert [row[0] for row in rows][1:3] == ["The", "␣cat"]
    assert [float(row[-1]) for row in rows] == pytest.approx(found.exact, abs=1e-4)
    checks = "\n".join(found.checks())
    for said in ("␣saw minus ␣sat", "occlusion: sum", "gap", "rank correlation", "exact: sum"):
        assert said in checks
    document = found.document()
    assert set(document["methods"]) == set(METHODS)
    assert document["methods"]["occlusion"]["rank_correlation"] == found.correlations["occlusion"]
    assert document["exact"] == found.exact.tolist()
    assert "<table>" in found._repr_html_()


def test_a_model_without_senses_is_compared_without_the_truth(lstm: Any) -> None:
    found = compare_methods(find_logit(lstm, "The <b>", "cat"), ("gradient",))
    assert found.exact is None
    assert found.correlations == {}
    assert found.columns == ["word", "gradient"]
    assert len(found.checks()) == 2
    assert "&lt;" in found._repr_html_()
    assert "<b>" not in found._repr_html_()


# --- labels and tags -------------------------------------------------------------------------------------------


def test_a_classifier_is_asked_about_its_labels(classifier: Any) -> None:
    text = "a grim, fine day"
    label = classifier.classify(text).label
    found = classifier.attributions(text)
    assert found.target == label
    assert found.words == ("a", " grim", ",", " fine", " day")
    lead = classifier.attributions(text, "good", "bad")
    chances = classifier.classify(text).probabilities
    assert lead.score == pytest.approx(np.log(chances["good"]) - np.log(chances["bad"]), abs=1e-5)
    assert any("bigram" in note for note in found.notes)
    grim, fine = (lead.values[lead.words.index(word)] for word in (" grim", " fine"))
    assert fine > grim


def test_a_tagger_is_asked_about_a_word_and_what_its_tags_belong_to_stays_whole(tagger: Any) -> None:
    text = "the dogs sat."
    found = tagger.attributions(text, (2, "V"), "N")
    assert found.words == ("the", "dogs", "sat.")
    check_merged(found)
    assert (found.target, found.versus) == ("V at sat.", "N")
    tokens, places = tokenize_tagged([text], tagger.tokenizer, tagger.unit)
    scores = tagger.predictor.label(tokens.ids)[places[2]]
    lead = scores[tagger.labels.index("V")] - scores[tagger.labels.index("N")]
    assert found.score == pytest.approx(lead, abs=1e-5)
    for target in (1, "1", "1:N"):
        assert tagger.attributions(text, target, method="gradient").target == "N at dogs"
    assert tagger.attributions(text, "1:V", method="gradient").target == "V at dogs"
    long = tagger.attributions(text * 20, (0, "D"), method="gradient")
    assert any("windows" in note for note in long.notes)


# --- what cannot be asked ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "error", "said"),
    [
        ("lstm", {"text": "The", "versus": "cat"}, SettingsError, "without a target"),
        ("lstm", {"text": "The", "target": (1, "N")}, SettingsError, "a word or a token id"),
        ("lstm", {"text": "The", "target": 10_000}, SettingsError, "expected 0 to"),
        ("lstm", {"text": "The", "method": "magic"}, SettingsError, "occlusion or gradient or integrated"),
        ("lstm", {"text": "The", "instead": "nothing"}, SettingsError, "mean or words"),
        ("lstm", {"text": "The", "steps": 0}, SettingsError, "1 or more"),
        ("classifier", {"text": "a day", "target": "mixed"}, SettingsError, "unknown label mixed"),
        ("classifier", {"text": ""}, DataError, "the text is empty"),
        ("tagger", {"text": "the cat"}, SettingsError, "the index of a word"),
        ("tagger", {"text": "the cat", "target": "cat"}, SettingsError, "the index of a word"),
        ("tagger", {"text": "the cat", "target": 2}, SettingsError, "expected 0 to 1"),
        ("tagger", {"text": "the cat", "target": "0:X"}, SettingsError, "unknown label X"),
        ("tagger", {"text": " ", "target": 0}, DataError, "the text is empty"),
    ],
)
def test_what_cannot_be_asked_is_told(
    name: str, arguments: dict[str, Any], error: type[Exception], said: str, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(error, match=said):
        request.getfixturevalue(name).attributions(**arguments)


def test_models_that_have_no_vectors_say_so(folder: Path) -> None:
    counted = satchel.train(folder / "verse.txt", model="ngram", out=folder / "ngram")
    with pytest.raises(RunError, match="no embeddings"):
        counted.attributions("The cat")
    settings = {**BLOCKS, "model.senses": 2, "model.sense_source": "table"}
    table = satchel.train(
        folder / "verse.txt", model="backpack", tokenizer="bpe:280", steps=2, settings=settings, out=folder / "table"
    )
    with pytest.raises(SettingsError, match="sense_source=table"):
        table.attributions("The cat")
