"""Mixing: the weights never get worse on the way, and a mix is a model like any other."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import satchel
from satchel import api
from satchel.errors import DataError, RunError, SettingsError
from satchel.generation.mixing import learn_weights


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 5), st.integers(1, 60), st.integers(0, 2**32))
def test_every_round_makes_the_text_likelier(parts: int, tokens: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    logprobs = np.log(generator.random((parts, tokens)) ** generator.integers(1, 20))
    weights, costs = learn_weights(logprobs)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    assert all(after <= before + 1e-12 for before, after in pairwise(costs))
    alone = -logprobs.mean(axis=1)
    assert costs[-1] <= alone.min() + 1e-6


def test_the_weights_are_those_of_the_coins_that_were_thrown() -> None:
    # Three in ten tokens come from the second model, which alone is sure of them.
    generator = np.random.default_rng(0)
    is_second = generator.random(20_000) < 0.3
    logprobs = np.log(np.where(is_second, [[0.01], [0.99]], [[0.99], [0.01]]))
    weights, _ = learn_weights(logprobs)
    assert weights.tolist() == pytest.approx([0.7, 0.3], abs=0.02)


def test_a_token_that_no_part_can_give_is_told() -> None:
    with pytest.raises(DataError, match="1 tokens have probability 0"):
        learn_weights(np.array([[-1.0, -np.inf], [-2.0, -np.inf]]))
    weights, _ = learn_weights(np.array([[-1.0, -np.inf], [-2.0, -1.0]]))
    assert np.isfinite(weights).all()


@pytest.fixture
def parts(verse: Path, tmp_path: Path) -> list[Path]:
    """Three runs with one tokenizer."""
    made: list[Path] = []
    for order in (1, 2, 5):
        tokenizer = made[0] if made else "char"
        run = tmp_path / f"order-{order}"
        satchel.train(verse, model="ngram", tokenizer=tokenizer, settings={"model.order": order}, out=run)
        made.append(run)
    return made


@pytest.fixture
def held_out(tmp_path: Path) -> Path:
    path = tmp_path / "held-out.txt"
    path.write_text("The dog sat on the flat mat.\nThe log saw the cat; the cat is not.\n" * 3)
    return path


def test_a_mix_answers_everything_a_model_answers(parts: list[Path], held_out: Path, tmp_path: Path) -> None:
    model, report = api.mix(parts, tmp_path / "mix", held_out)
    again = satchel.load(tmp_path / "mix", task="lm")
    costs = [satchel.load(part, task="lm").evaluate(held_out).nats_per_token for part in parts]
    assert again.evaluate(held_out).nats_per_token <= min(costs)
    assert report.mixed.nats_per_token == pytest.approx(again.evaluate(held_out).nats_per_token, rel=1e-12)
    scored = again.score("The cat sat.")
    assert list(scored.notes) == ["order-1", "order-2", "order-5"]
    assert sum(scored.notes.values()) == pytest.approx(np.ones(12))
    logprobs, _ = again.predictor.step(np.array([[again.tokenizer.boundary]]), again.predictor.start(1))
    assert np.exp(logprobs).sum() == pytest.approx(1, abs=1e-12)
    assert again.generate("The", tokens=20, seed=1).text == model.generate("The", tokens=20, seed=1).text
    assert sum(again.next("The ", top=1000).probabilities) == pytest.approx(1, abs=1e-12)
    stepped = again.predictor.start(1)
    ids = np.array([again.tokenizer.boundary, *scored.ids])
    for place, wanted in enumerate(scored.logprobs):
        found, stepped = again.predictor.step(ids[None, place : place + 1], stepped)
        assert found[0, ids[place + 1]] == pytest.approx(wanted, rel=1e-10)


def test_a_mix_stands_alone_and_can_be_mixed_again(parts: list[Path], held_out: Path, tmp_path: Path) -> None:
    api.mix(parts[:2], tmp_path / "first", held_out)
    _, report = api.mix([tmp_path / "first", parts[2]], tmp_path / "second", held_out)
    before = satchel.load(tmp_path / "second").evaluate(held_out)
    for folder in (*parts, tmp_path / "first"):
        folder.rename(folder.with_name(f"moved-{folder.name}"))
    assert satchel.load(tmp_path / "second").evaluate(held_out) == before
    assert len(report.weights) == 2


def test_models_that_do_not_fit_are_refused(parts: list[Path], verse: Path, held_out: Path, tmp_path: Path) -> None:
    satchel.train(verse, model="ngram", tokenizer="word", out=tmp_path / "words")
    satchel.train(verse, model="ngram", tokenizer=parts[0], settings={"data.documents": "line"}, out=tmp_path / "lines")
    with pytest.raises(RunError, match="another tokenizer"):
        api.mix([parts[0], tmp_path / "words"], tmp_path / "mix", held_out)
    with pytest.raises(RunError, match=r"has data\.documents=line"):
        api.mix([parts[0], tmp_path / "lines"], tmp_path / "mix", held_out)
    with pytest.raises(SettingsError, match="two or more"):
        api.mix(parts[:1], tmp_path / "mix", held_out)
    assert not (tmp_path / "mix").exists()


def test_a_mix_of_three_orders_beats_the_best_of_them_on_new_text(shared: Path, tmp_path: Path) -> None:
    text = (shared / "tiny-shakespeare" / "input.txt").read_text()
    train, learn, test = text[:1_003_854], text[1_003_854:1_059_624], text[1_059_624:]
    for name, part in (("train", train), ("learn", learn), ("test", test)):
        (tmp_path / f"{name}.txt").write_text(part)
    runs: list[Path] = []
    for order in (3, 5, 7):
        tokenizer = runs[0] if runs else "char"
        run = tmp_path / f"order-{order}"
        satchel.train(
            tmp_path / "train.txt", model="ngram", tokenizer=tokenizer, settings={"model.order": order}, out=run
        )
        runs.append(run)
    model, _ = api.mix(runs, tmp_path / "mix", tmp_path / "learn.txt")
    best = min(satchel.load(run, task="lm").evaluate(tmp_path / "test.txt").nats_per_token for run in runs)
    assert model.evaluate(tmp_path / "test.txt").nats_per_token < best - 0.005
