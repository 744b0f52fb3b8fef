"""Networks interpolated with an n-gram model: training, resuming, loading, mixing, damaged files."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel import api
from satchel.cli.main import run as run_command
from satchel.errors import RunError
from satchel.runs import folder as runs
from satchel.tasks.language import NetworkPredictor
from tests.conftest import VERSE

SMALL: dict[str, Any] = {
    "model.width": 16,
    "training.batch_tokens": 128,
    "training.evaluate_every": 5,
    "training.checkpoint_every": 7,
    "model.ngram": 3,
}
SHAPE: dict[str, Any] = {"model.heads": 2, "model.layers": 1, "model.context": 16}
KIND_SETTINGS: dict[str, dict[str, Any]] = {"transformer": SHAPE, "backpack": {**SHAPE, "model.senses": 3}}
KINDS = ["dan", "window", "rnn", "gru", "lstm", "transformer", "backpack"]


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    """Return the path of a small text."""
    path = tmp_path / "poem.txt"
    path.write_text(VERSE * 6)
    return path


def train(text: Path, out: Path, kind: str = "transformer", **options: Any) -> Any:
    """Train a small character model interpolated with trigrams."""
    settings = {**SMALL, **KIND_SETTINGS.get(kind, {}), **options.pop("settings", {})}
    return satchel.train(text, model=kind, tokenizer="char", out=out, settings=settings, **options)


@pytest.mark.parametrize("documents", ["stream", "line"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_interpolated_with_an_ngram_model_and_loaded(
    kind: str, documents: str, poem: Path, tmp_path: Path
) -> None:
    model = train(poem, tmp_path / "run", kind, steps=8, settings={"data.documents": documents})
    loaded = satchel.load(tmp_path / "run", task="lm")
    assert loaded.evaluate() == model.report.valid
    scored = loaded.score("The cat")
    assert {"gate", "order"} <= set(scored.notes)
    assert loaded.generate("The ", tokens=30, seed=0).text == model.generate("The ", tokens=30, seed=0).text
    assert sum(loaded.next("The", top=100).probabilities) == pytest.approx(1, rel=1e-6)


def test_the_ngram_model_equals_one_of_the_training_text_and_the_gate_prefers_it(poem: Path, tmp_path: Path) -> None:
    model = train(poem, tmp_path / "run", steps=60, valid=0.0, settings={"training.learning_rate": 0.01})
    expected = satchel.train(
        poem, model="ngram", tokenizer="char", settings={"model.order": 3}, out=tmp_path / "ngram", task="lm"
    )
    assert isinstance(model.predictor, NetworkPredictor)
    ngram = model.predictor.network.ngram
    assert ngram is not None
    ids = np.array([model.tokenizer.boundary, *model.tokenizer.encode("The cat sat").ids])
    np.testing.assert_array_equal(ngram.score(ids).logprobs, expected.score("The cat sat").logprobs)
    # The poem repeats the same lines, which trigrams predict better than a network after 60 steps.
    assert model.score(VERSE).notes["gate"].mean() < 0.3
    assert "; n-gram: up to 2 preceding tokens" in model.evaluate(poem).context


def test_a_resumed_training_equals_an_uninterrupted_one_to_the_bit(poem: Path, tmp_path: Path) -> None:
    settings = {
        **SMALL,
        **KIND_SETTINGS["transformer"],
        "model.dropout": 0.1,
        "training.dropout_after": 0,
        "training.noise": 0.1,
    }
    planned = api.plan(poem, model="transformer", tokenizer="char", steps=20, settings=settings)
    api.run_plan(planned, out=tmp_path / "uninterrupted")
    steps = iter(range(1, 100))
    api.run_plan(planned, out=tmp_path / "resumed", should_stop=lambda: next(steps) == 9)
    api.resume(tmp_path / "resumed")
    for name in (runs.MODEL, runs.NGRAM, runs.GATE_LOGPROBS, "checkpoints/step-0000000020/model.safetensors"):
        assert (tmp_path / "uninterrupted" / name).read_bytes() == (tmp_path / "resumed" / name).read_bytes()


def test_gradient_accumulation_gives_the_same_model(poem: Path, tmp_path: Path) -> None:
    one = train(poem, tmp_path / "one", steps=3)
    three = train(poem, tmp_path / "three", steps=3, settings={"training.parts": 3})
    text = "The cat sat"
    np.testing.assert_allclose(one.score(text).logprobs, three.score(text).logprobs, rtol=1e-4)


def test_a_mix_contains_the_ngram_models_of_its_components(poem: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        train(poem, tmp_path / name, steps=5, seed=seed)
    mixed, _ = api.mix([tmp_path / "a", tmp_path / "b"], tmp_path / "mixed", poem)
    shutil.rmtree(tmp_path / "a")
    loaded = satchel.load(tmp_path / "mixed", task="lm")
    np.testing.assert_array_equal(loaded.score("The mat").logprobs, mixed.score("The mat").logprobs)


def test_a_run_started_from_an_interpolated_network_keeps_its_gate(poem: Path, tmp_path: Path) -> None:
    train(poem, tmp_path / "first", steps=5)
    second = satchel.train(poem, start=tmp_path / "first", steps=2, out=tmp_path / "second")
    assert isinstance(second.predictor, NetworkPredictor)
    assert second.predictor.network.gate is not None


def test_a_damaged_foreign_or_missing_ngram_file_is_refused(poem: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    planned = api.plan(poem, model="dan", tokenizer="char", steps=20, settings=SMALL)
    steps = iter(range(1, 100))
    api.run_plan(planned, out=run, should_stop=lambda: next(steps) == 9)
    data = (run / runs.NGRAM).read_bytes()
    (run / runs.NGRAM).write_bytes(data[:-8] + bytes(8))
    with pytest.raises(RunError, match="is damaged"):
        satchel.load(run)
    with pytest.raises(RunError, match="is damaged"):
        api.resume(run)
    other = tmp_path / "other.txt"
    other.write_text(VERSE.replace("c", "ç"))
    train(other, tmp_path / "other", "dan", steps=1)
    shutil.copy(tmp_path / "other" / runs.NGRAM, run / runs.NGRAM)
    with pytest.raises(RunError, match="is damaged"):
        satchel.load(run)
    (run / runs.NGRAM).unlink()
    with pytest.raises(RunError, match=runs.NGRAM):
        satchel.load(run)


def test_an_ngram_model_is_refused_for_classifiers_and_invalid_orders(
    poem: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "films.tsv"
    table.write_text("label\ttext\ngood\tfine\nbad\tdull\n" * 3)
    assert run_command(["train", str(table), "-o", str(tmp_path / "x"), "--set", "model.ngram=3"]) == 2
    assert capsys.readouterr().err.startswith("satchel: model.ngram: only language models use an n-gram model")
    for order in ("11", "-1", "x"):
        assert run_command(["train", str(poem), "-o", str(tmp_path / "x"), "--set", f"model.ngram={order}"]) == 2
        assert capsys.readouterr().err.startswith("satchel: model.ngram: found ")
    assert not (tmp_path / "x").exists()
