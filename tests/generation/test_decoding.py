"""Text generation: seeds, samples, stop strings, ends of documents, streaming."""

from pathlib import Path
from typing import Any

import pytest

import satchel


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> satchel.LanguageModel:
    """Train a character model of three lines."""
    folder = tmp_path_factory.mktemp("decoding")
    text = folder / "text.txt"
    text.write_text("one two three.\nfour five six.\none seven three.\n" * 30, encoding="utf-8")
    model: satchel.LanguageModel = satchel.train(
        text, model="ngram", tokenizer="char", settings={"data.documents": "line"}, out=folder / "run", task="lm"
    )
    return model


def test_the_same_seed_gives_the_same_text_and_another_seed_a_different_one(model: satchel.LanguageModel) -> None:
    texts = [model.generate("one", tokens=12, seed=seed, temperature=3.0).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_a_sample_does_not_depend_on_the_number_of_samples(model: satchel.LanguageModel) -> None:
    few = model.generate("f", tokens=15, seed=3, samples=2, temperature=2.0)
    many = model.generate("f", tokens=15, seed=3, samples=5, temperature=2.0)
    assert many.samples[:2] == few.samples
    assert len({sample.text for sample in many.samples}) > 1


def test_the_end_of_a_document_finishes_a_sample(model: satchel.LanguageModel) -> None:
    sample = model.generate("four five", tokens=50, greedy=True).samples[0]
    assert (sample.text, sample.finish) == (" six.", "end")


def test_the_number_of_tokens_finishes_a_sample(model: satchel.LanguageModel) -> None:
    sample = model.generate("four", tokens=3, greedy=True).samples[0]
    assert (sample.text, len(sample.ids), sample.finish) == (" fi", 3, "length")


def test_a_stop_string_finishes_a_sample_and_is_not_part_of_it(model: satchel.LanguageModel) -> None:
    sample = model.generate("four", tokens=50, greedy=True, stop=["xyz", "e s"]).samples[0]
    assert (sample.text, sample.finish) == (" fiv", "stop")


def test_a_stop_string_in_the_prompt_has_no_effect(model: satchel.LanguageModel) -> None:
    assert model.generate("four five", tokens=50, greedy=True, stop=["four"]).samples[0].finish == "end"


def test_a_stream_model_never_generates_an_end(verse: Path, tmp_path: Path) -> None:
    stream = satchel.train(verse, model="ngram", tokenizer="char", out=tmp_path / "run", task="lm")
    assert all(s.finish == "length" for s in stream.generate("T", tokens=30, samples=5, temperature=5.0).samples)


@pytest.mark.parametrize("tokenizer", ["char", "word"])
def test_the_unknown_token_is_never_generated(tokenizer: str, verse: Path, tmp_path: Path) -> None:
    model = satchel.train(
        verse, model="ngram", tokenizer=tokenizer, settings={"model.order": 1}, out=tmp_path / "run", task="lm"
    )
    result = model.generate("", tokens=300, temperature=50.0, samples=3)
    assert all(model.tokenizer.unknown not in sample.ids for sample in result.samples)


def test_a_prompt_of_unknown_characters_is_continued(model: satchel.LanguageModel) -> None:
    assert model.generate("漢字 ~~", tokens=5, seed=0).samples[0].ids


def test_next_returns_the_most_likely_tokens_with_their_probabilities(model: satchel.LanguageModel) -> None:
    top = model.next("four five si", top=3)
    assert top.tokens[0] == "x"
    assert list(top.probabilities) == sorted(top.probabilities, reverse=True)
    all_tokens = model.next("four", top=10_000)
    assert sum(all_tokens.probabilities) == pytest.approx(1, abs=1e-12)
    assert len(all_tokens.tokens) == model.tokenizer.size + 1


@pytest.mark.parametrize("stop", [[], ["e s", "xyz"], ["x."], ["no such text"]])
def test_each_streamed_text_is_a_prefix_of_the_next_and_of_the_result(
    stop: list[str], model: satchel.LanguageModel
) -> None:
    for seed in range(5):
        streamed: list[str] = []
        text = model.generate("f", tokens=25, seed=seed, stop=stop, on_text=streamed.append).text
        assert streamed
        for earlier, later in zip(streamed, [*streamed[1:], text], strict=True):
            assert later.startswith(earlier)


def test_incomplete_characters_are_not_streamed(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("größer schöner süßer 雪雪雪 " * 40, encoding="utf-8")
    model = satchel.train(path, model="ngram", tokenizer="byte", out=tmp_path / "run", task="lm")
    streamed: list[str] = []
    text = model.generate("größer", tokens=40, greedy=True, on_text=streamed.append).text
    assert not any("\ufffd" in part for part in streamed)
    assert len({len(part) for part in streamed}) < 40, "expected characters of several bytes"
    assert all(text.startswith(part) for part in streamed)


@pytest.mark.parametrize(
    ("tokenizer", "prompt", "expected"),
    [
        ("word", "one two", " three."),
        ("word", "one two ", "three."),
        ("word", "one two\n", "three."),
        ("char", "one tw", "o thr"),
        ("bpe:300", "one two", " three."),
    ],
)
def test_prompt_and_continuation_are_joined_as_in_the_text(
    tokenizer: str, prompt: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("one two three. four five six.\n" * 30, encoding="utf-8")
    model = satchel.train(tmp_path / "text.txt", model="ngram", tokenizer=tokenizer, out=tmp_path / "run", task="lm")
    streamed: list[str] = []
    count = {"word": 1, "char": 5}.get(tokenizer, 6)
    result = model.generate(prompt, tokens=count, greedy=True, on_text=streamed.append)
    assert result.text.startswith(expected)
    assert streamed[-1] == result.text
    assert all(result.text.startswith(text) for text in streamed)
    assert tokenizer != "word" or not model.generate("", tokens=2, greedy=True).text.startswith(" ")


def test_a_stop_string_may_start_with_the_space_after_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("one two three. four five six.\n" * 30, encoding="utf-8")
    model = satchel.train(tmp_path / "text.txt", model="ngram", tokenizer="word", out=tmp_path / "run", task="lm")
    sample = model.generate("one two", tokens=9, greedy=True, stop=[" three"]).samples[0]
    assert (sample.text, sample.finish) == ("", "stop")
    sample = model.generate("one two", tokens=9, greedy=True, stop=[". four"]).samples[0]
    assert (sample.text, sample.finish) == (" three", "stop")


def test_a_stream_yields_the_tokens_of_generate(model: satchel.LanguageModel) -> None:
    options: dict[str, Any] = {"tokens": 12, "seed": 3, "temperature": 2.0, "stop": ["e s"]}
    for samples in (1, 3):
        expected = model.generate("f", samples=samples, logprobs=0, **options).samples
        tokens = list(model.stream("f", samples=samples, **options))
        for number, sample in enumerate(expected):
            part = [token for token in tokens if token.sample == number]
            assert "".join(token.text for token in part) == sample.text
            assert [token.finish for token in part] == [None] * (len(part) - 1) + [sample.finish]
            assert tuple(token.id for token in part if token.finish != "end") == sample.ids
            assert tuple(token.logprob for token in part if token.finish != "end") == sample.logprobs


def test_a_stream_generates_tokens_on_demand_and_checks_its_options_at_once(model: satchel.LanguageModel) -> None:
    stream = model.stream("f", tokens=1_000_000, greedy=True, logit_bias={"<end>": -1000.0})
    assert [next(stream).text for _ in range(3)] == list("our")
    with pytest.raises(satchel.SatchelError, match="top_k"):
        model.stream("f", top_k=0)
