"""Targets: the logit that contributions and attributions explain, named by a token, a label or a tag."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel.data.tagged import tokenize_tagged
from satchel.errors import DataError, RunError, SettingsError
from satchel.text.display import SPECIAL, visible
from satchel.text.token_names import next_token
from satchel.text.tokenizer import Tokenizer
from satchel.text.windows import Window
from tests.inspection.conftest import count_ngrams, train


def test_the_default_target_is_the_most_probable_token_and_versus_gives_a_difference(lstm: Any) -> None:
    likely = lstm.next("The cat", top=2)
    first_id, second_id = likely.ids
    first = lstm.attributions("The cat", method="gradient")
    assert first.target == likely.tokens[0]
    second, difference = (
        lstm.attributions("The cat", *targets, method="gradient") for targets in ((second_id,), (first_id, second_id))
    )
    assert difference.versus == likely.tokens[1]
    np.testing.assert_allclose(difference.values, first.values - second.values, atol=1e-5)
    assert difference.score > 0


def test_the_last_tokens_of_a_long_text_are_used_and_this_is_noted(bpe_backpack: Any, lstm: Any) -> None:
    text = "The cat sat on the mat. " * 20
    truncated = bpe_backpack.attributions(text, method="gradient")
    total = 1 + len(bpe_backpack.tokenizer.encode(text).ids)
    assert truncated.window == Window(total - 32, 32, total)
    assert len(truncated.tokens) == 32
    assert truncated.target == bpe_backpack.next(text, top=1).tokens[0]
    assert any(f"only tokens {total - 32} to {total - 1} of {total} are used" in note for note in truncated.notes)
    assert any("n-gram" in note for note in truncated.notes)
    first = bpe_backpack.attributions(text, method="gradient", start=0)
    assert (first.window.start, first.tokens[0].role) == (0, "start")
    whole = lstm.attributions(text, method="gradient")
    assert len(whole.tokens) == 1 + len(lstm.tokenizer.encode(text).ids)
    assert whole.notes == ()


def test_the_targets_of_a_classifier_are_its_labels(bpe_classifier: Any) -> None:
    text = "a grim, fine day"
    attributions = bpe_classifier.attributions(text)
    prediction = bpe_classifier.classify(text)
    assert attributions.target == prediction.label
    assert attributions.words == ("a", " grim", ",", " fine", " day")
    assert any("bigram" in note for note in attributions.notes)
    difference = bpe_classifier.attributions(text, "good", "bad")
    logprobs = {label: np.log(probability) for label, probability in prediction.probabilities.items()}
    assert difference.score == pytest.approx(logprobs["good"] - logprobs["bad"], abs=1e-5)
    grim, fine = (difference.values[difference.words.index(word)] for word in (" grim", " fine"))
    assert fine > grim


def test_the_targets_of_a_tagger_are_tags_of_words(bpe_tagger: Any) -> None:
    text = "the dogs sat."
    attributions = bpe_tagger.attributions(text, (2, "V"), "N")
    assert attributions.words == ("the", "dogs", "sat.")
    assert len(attributions.tokens) > 3
    assert (attributions.target, attributions.versus) == ("V at sat.", "N")
    tokens, positions = tokenize_tagged([text], bpe_tagger.tokenizer, bpe_tagger.unit)
    logprobs = bpe_tagger.predictor.label(tokens.ids)[positions[2]]
    difference = logprobs[bpe_tagger.labels.index("V")] - logprobs[bpe_tagger.labels.index("N")]
    assert attributions.score == pytest.approx(difference, abs=1e-5)
    long = bpe_tagger.attributions(f"{text} " * 20, (40, "N"), "D", method="gradient")
    assert (long.window.tokens, len(long.tokens)) == (32, 32)
    assert long.notes == long.window.notes != ()
    tokens, positions = tokenize_tagged([f"{text} " * 20], bpe_tagger.tokenizer, bpe_tagger.unit)
    logprobs = bpe_tagger.predictor.label(tokens.ids)[positions[40]]
    difference = logprobs[bpe_tagger.labels.index("N")] - logprobs[bpe_tagger.labels.index("D")]
    assert long.score == pytest.approx(difference, abs=1e-5)


@pytest.mark.parametrize(
    ("target", "name"), [(1, "N at dogs"), ("1", "N at dogs"), ("1:N", "N at dogs"), ("1:V", "V at dogs")]
)
def test_a_tag_is_named_by_the_index_of_its_word(bpe_tagger: Any, target: Any, name: str) -> None:
    assert bpe_tagger.attributions("the dogs sat.", target, method="gradient").target == name


# --- next tokens ---------------------------------------------------------------------------------------


TEXTS = "a dog\tran; naïve “dogs” ran on\n\n\tthe\x85 end <end> <start> \\\\n é \u200b … cat tomcat\n" * 5


@pytest.fixture(scope="module", params=["char", "byte", "word", "bpe:300", "unigram:300"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer with tokens of white space, parts of words, invisible characters and parts of characters."""
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "text.txt").write_text(TEXTS, encoding="utf-8")
    model = satchel.train(folder / "text.txt", model="ngram", tokenizer=request.param, out=folder / "run")
    return model.tokenizer


def test_every_token_is_a_target_by_itself_by_id_and_by_its_text(tokenizer: Tokenizer) -> None:
    for token in tokenizer.tokens_of(range(tokenizer.boundary + 1)):
        targets: list[Any] = [token, token.id, np.int64(token.id), f"id:{token.id}"]
        assert {next_token(tokenizer, target, []) for target in targets} == {token.id}
        is_spelled_specially = token.role is None and token in SPECIAL.values()
        for target in (visible(token), visible(token, spaces=True), *([] if is_spelled_specially else [str(token)])):
            notes: list[str] = []
            if next_token(tokenizer, target, notes) != token.id:
                # The same text with a space before it, or with an escape replaced, is another token.
                assert f"(id:{token.id})" in notes[0], (token, target)


def test_white_space_and_parts_of_words_are_targets_of_contributions(bpe_backpack: Any) -> None:
    newline = int(bpe_backpack.tokenizer.encode("\n").ids[0])
    for target in ("\n", "\\n", newline, f"id:{newline}"):
        contributions = bpe_backpack.contributions("The cat", target)
        assert contributions.target == "\n"
        assert contributions.notes == bpe_backpack.contributions("The cat").notes
    for token in bpe_backpack.next("The cat", top=bpe_backpack.tokenizer.size + 1).tokens[::40]:
        assert bpe_backpack.contributions("The cat", token, "<end>").target == token


def test_a_word_follows_the_space_that_ends_the_text(bpe_backpack: Any) -> None:
    tokens = {str(token) for token in bpe_backpack.tokenizer.tokens_of(range(bpe_backpack.tokenizer.size))}
    letter = next(token for token in sorted(tokens) if token.isalpha() and f" {token}" in tokens)
    spaced, joined = (bpe_backpack.contributions(text, letter).target for text in ("The cat sat", "The cat sat "))
    assert (spaced, joined) == (f" {letter}", letter)
    with pytest.raises(DataError, match=r"'' is not in the vocabulary\n.*id:N"):
        bpe_backpack.contributions("The cat", "")
    with pytest.raises(DataError, match="is not in the vocabulary"):
        bpe_backpack.contributions("The cat", "\udc80")
    with pytest.raises(SettingsError, match="token id 99999 does not exist"):
        bpe_backpack.contributions("The cat", "id:99999")


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("lstm", {"text": "The", "versus": "cat"}, SettingsError, "without a target"),
        ("lstm", {"text": "The", "target": (1, "N")}, SettingsError, "a word or a token id"),
        ("lstm", {"text": "The", "target": 10_000}, SettingsError, "expected 0 to"),
        ("lstm", {"text": "The", "method": "magic"}, SettingsError, "occlusion or gradient or integrated"),
        ("lstm", {"text": "The", "instead": "nothing"}, SettingsError, "mean or words"),
        ("lstm", {"text": "The", "steps": 0}, SettingsError, "1 or more"),
        ("bpe_classifier", {"text": "a day", "target": "mixed"}, SettingsError, "unknown label mixed"),
        ("bpe_classifier", {"text": ""}, DataError, "the text is empty"),
        ("bpe_tagger", {"text": "the cat"}, SettingsError, "the index of a word"),
        ("bpe_tagger", {"text": "the cat", "target": "cat"}, SettingsError, "the index of a word"),
        ("bpe_tagger", {"text": "the cat", "target": 2}, SettingsError, "expected 0 to 1"),
        ("bpe_tagger", {"text": "the cat", "target": "0:X"}, SettingsError, "unknown label X"),
        ("bpe_tagger", {"text": " ", "target": 0}, DataError, "the text is empty"),
    ],
)
def test_an_invalid_target_is_an_error(
    name: str, arguments: dict[str, Any], error: type[Exception], message: str, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(error, match=message):
        request.getfixturevalue(name).attributions(**arguments)


def test_models_without_a_single_logit_or_embeddings_are_an_error(folder: Path) -> None:
    with pytest.raises(RunError, match="has no embeddings"):
        count_ngrams(folder).attributions("the cat")
    translator = train(folder, "@reverse", settings={"data.size": 50, "model.context": 64})
    with pytest.raises(RunError, match="a logit for each target token"):
        translator.attributions("abc")
