"""Linear interpolation of models: fitting the weights by EM, and mixes as models."""

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
from tests.decoders import next_logprobs, stepwise_logprobs


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 5), st.integers(1, 60), st.integers(0, 2**32))
def test_no_em_iteration_increases_the_loss(parts: int, tokens: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logprobs = np.log(rng.random((parts, tokens)) ** rng.integers(1, 20))
    weights, losses = learn_weights(logprobs)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    assert all(after <= before + 1e-12 for before, after in pairwise(losses))
    component_losses = -logprobs.mean(axis=1)
    assert losses[-1] <= component_losses.min() + 1e-6


def test_the_weights_equal_the_shares_of_tokens_generated_by_each_model() -> None:
    # 30 % of the tokens have probability 0.99 in the second model, the others in the first.
    rng = np.random.default_rng(0)
    is_second = rng.random(20_000) < 0.3
    logprobs = np.log(np.where(is_second, [[0.01], [0.99]], [[0.99], [0.01]]))
    weights, _ = learn_weights(logprobs)
    assert weights.tolist() == pytest.approx([0.7, 0.3], abs=0.02)


def test_a_token_with_probability_zero_in_all_models_is_reported() -> None:
    with pytest.raises(DataError, match="1 tokens have probability 0"):
        learn_weights(np.array([[-1.0, -np.inf], [-2.0, -np.inf]]))
    weights, _ = learn_weights(np.array([[-1.0, -np.inf], [-2.0, -1.0]]))
    assert np.isfinite(weights).all()


@pytest.fixture
def parts(verse: Path, tmp_path: Path) -> list[Path]:
    """Train three models with the same tokenizer and return their run folders."""
    runs: list[Path] = []
    for order in (1, 2, 5):
        tokenizer = runs[0] if runs else "char"
        run = tmp_path / f"order-{order}"
        satchel.train(verse, model="ngram", tokenizer=tokenizer, settings={"model.order": order}, out=run)
        runs.append(run)
    return runs


@pytest.fixture
def held_out(tmp_path: Path) -> Path:
    """Return the path of a text that the models are not trained on."""
    path = tmp_path / "held-out.txt"
    path.write_text("The dog sat on the flat mat.\nThe log saw the cat; the cat is not.\n" * 3)
    return path


def test_a_mix_evaluates_scores_and_generates_like_a_model(parts: list[Path], held_out: Path, tmp_path: Path) -> None:
    model, report = api.mix(parts, tmp_path / "mix", held_out)
    loaded = satchel.load(tmp_path / "mix", task="lm")
    losses = [satchel.load(part, task="lm").evaluate(held_out).nats_per_token for part in parts]
    assert loaded.evaluate(held_out).nats_per_token <= min(losses)
    assert report.mixed.nats_per_token == pytest.approx(loaded.evaluate(held_out).nats_per_token, rel=1e-12)
    scored = loaded.score("The cat sat.")
    assert list(scored.notes) == ["order-1", "order-2", "order-5"]
    assert sum(scored.notes.values()) == pytest.approx(np.ones(12))
    assert np.exp(next_logprobs(loaded.predictor, [loaded.tokenizer.boundary])).sum() == pytest.approx(1, abs=1e-12)
    assert loaded.generate("The", tokens=20, seed=1).text == model.generate("The", tokens=20, seed=1).text
    assert sum(loaded.next("The ", top=1000).probabilities) == pytest.approx(1, abs=1e-12)
    ids = [loaded.tokenizer.boundary, *scored.ids]
    np.testing.assert_allclose(stepwise_logprobs(loaded.predictor, ids), scored.logprobs, rtol=1e-10)


def test_a_mix_does_not_need_its_components_and_can_be_mixed_again(
    parts: list[Path], held_out: Path, tmp_path: Path
) -> None:
    api.mix(parts[:2], tmp_path / "first", held_out)
    _, report = api.mix([tmp_path / "first", parts[2]], tmp_path / "second", held_out)
    before = satchel.load(tmp_path / "second").evaluate(held_out)
    for folder in (*parts, tmp_path / "first"):
        folder.rename(folder.with_name(f"moved-{folder.name}"))
    assert satchel.load(tmp_path / "second").evaluate(held_out) == before
    assert len(report.weights) == 2


def test_incompatible_models_are_refused(parts: list[Path], verse: Path, held_out: Path, tmp_path: Path) -> None:
    satchel.train(verse, model="ngram", tokenizer="word", out=tmp_path / "words")
    satchel.train(verse, model="ngram", tokenizer=parts[0], settings={"data.documents": "line"}, out=tmp_path / "lines")
    with pytest.raises(RunError, match="another tokenizer"):
        api.mix([parts[0], tmp_path / "words"], tmp_path / "mix", held_out)
    with pytest.raises(RunError, match=r"has data\.documents=line"):
        api.mix([parts[0], tmp_path / "lines"], tmp_path / "mix", held_out)
    with pytest.raises(SettingsError, match="two or more"):
        api.mix(parts[:1], tmp_path / "mix", held_out)
    assert not (tmp_path / "mix").exists()


def test_a_mix_of_three_orders_has_a_lower_loss_than_each_of_them_on_new_text(shared: Path, tmp_path: Path) -> None:
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
