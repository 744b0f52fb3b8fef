"""Continuing a prompt: seeds, samples, stop texts, ends of documents."""

from pathlib import Path

import pytest

import satchel


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> satchel.LanguageModel:
    folder = tmp_path_factory.mktemp("decoding")
    text = folder / "text.txt"
    text.write_text("one two three.\nfour five six.\none seven three.\n" * 30, encoding="utf-8")
    model: satchel.LanguageModel = satchel.train(
        text, model="ngram", tokenizer="char", settings={"data.documents": "line"}, out=folder / "run", task="lm"
    )
    return model


def test_the_same_seed_gives_the_same_text_and_another_seed_another(model: satchel.LanguageModel) -> None:
    texts = [model.generate("one", tokens=12, seed=seed, temperature=3.0).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_a_sample_does_not_depend_on_how_many_there_are(model: satchel.LanguageModel) -> None:
    few = model.generate("f", tokens=15, seed=3, samples=2, temperature=2.0)
    many = model.generate("f", tokens=15, seed=3, samples=5, temperature=2.0)
    assert many.samples[:2] == few.samples
    assert len({sample.text for sample in many.samples}) > 1


def test_a_document_that_ends_says_so(model: satchel.LanguageModel) -> None:
    sample = model.generate("four five", tokens=50, greedy=True).samples[0]
    assert (sample.text, sample.finish) == (" six.", "end")


def test_length_ends_a_sample(model: satchel.LanguageModel) -> None:
    sample = model.generate("four", tokens=3, greedy=True).samples[0]
    assert (sample.text, len(sample.ids), sample.finish) == (" fi", 3, "length")


def test_a_stop_text_ends_a_sample_and_is_not_part_of_it(model: satchel.LanguageModel) -> None:
    sample = model.generate("four", tokens=50, greedy=True, stop=["xyz", "e s"]).samples[0]
    assert (sample.text, sample.finish) == (" fiv", "stop")


def test_a_stop_text_in_the_prompt_alone_does_not_stop(model: satchel.LanguageModel) -> None:
    assert model.generate("four five", tokens=50, greedy=True, stop=["four"]).samples[0].finish == "end"


def test_a_stream_never_ends_by_itself(verse: Path, tmp_path: Path) -> None:
    stream = satchel.train(verse, model="ngram", tokenizer="char", out=tmp_path / "run", task="lm")
    assert all(s.finish == "length" for s in stream.generate("T", tokens=30, samples=5, temperature=5.0).samples)


@pytest.mark.parametrize("tokenizer", ["char", "word"])
def test_the_unknown_token_is_never_written(tokenizer: str, verse: Path, tmp_path: Path) -> None:
    model = satchel.train(
        verse, model="ngram", tokenizer=tokenizer, settings={"model.order": 1}, out=tmp_path / "run", task="lm"
    )
    written = model.generate("", tokens=300, temperature=50.0, samples=3)
    assert all(model.tokenizer.unknown not in sample.ids for sample in written.samples)


def test_a_prompt_of_unknown_text_is_continued(model: satchel.LanguageModel) -> None:
    assert model.generate("漢字 ~~", tokens=5, seed=0).samples[0].ids


def test_next_lists_the_likeliest_tokens_with_their_probabilities(model: satchel.LanguageModel) -> None:
    answer = model.next("four five si", top=3)
    assert answer.tokens[0] == "x"
    assert list(answer.probabilities) == sorted(answer.probabilities, reverse=True)
    everything = model.next("four", top=10_000)
    assert sum(everything.probabilities) == pytest.approx(1, abs=1e-12)
    assert len(everything.tokens) == model.tokenizer.size + 1


@pytest.mark.parametrize("stop", [[], ["e s", "xyz"], ["x."], ["no such text"]])
def test_streamed_text_only_grows_and_becomes_the_text(stop: list[str], model: satchel.LanguageModel) -> None:
    for seed in range(5):
        seen: list[str] = []
        text = model.generate("f", tokens=25, seed=seed, stop=stop, on_text=seen.append).text
        assert seen
        for earlier, later in zip(seen, [*seen[1:], text], strict=True):
            assert later.startswith(earlier), "what was shown stays"


def test_half_a_character_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("größer schöner süßer 雪雪雪 " * 40, encoding="utf-8")
    model = satchel.train(path, model="ngram", tokenizer="byte", out=tmp_path / "run", task="lm")
    seen: list[str] = []
    text = model.generate("größer", tokens=40, greedy=True, on_text=seen.append).text
    assert not any("\ufffd" in part for part in seen)
    assert len({len(part) for part in seen}) < 40, "some bytes are no character by themselves"
    assert all(text.startswith(part) for part in seen)
