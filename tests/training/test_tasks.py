"""Classifiers and taggers: training, loading, resuming, initial weights, custom encoders, samples, recall."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import satchel
from satchel import api
from satchel.data.batches import NO_TARGET
from satchel.errors import DataError, RunError, SettingsError
from satchel.models.encoder import CausalEncoder, Encoder, State
from satchel.text.display import visible

GOOD, BAD = (
    ("a joy", "fine work", "truly lovely", "fun and warm"),
    ("a bore", "dull work", "truly awful", "cold and flat"),
)
TINY: dict[str, Any] = {"model.width": 16, "training.batch_tokens": 64, "training.learning_rate": 0.02}
TRANSFORMER = {**TINY, "model.heads": 2, "model.layers": 1, "model.context": 16}


@pytest.fixture
def films(tmp_path: Path) -> Path:
    """Return the path of a table of film reviews with two labels."""
    rows = [f"{label}\t{text}" for label, texts in (("good", GOOD), ("bad", BAD)) for text in texts]
    path = tmp_path / "films.tsv"
    path.write_text("label\ttext\n" + "\n".join(rows * 10) + "\n")
    return path


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Return the path of a table of sentences with a tag for each word: verbs V, nouns N, articles D."""
    rows = ["the cat sat\tD N V", "a dog ran\tD N V", "dogs ran\tN V", "sit\tV", "the dogs sat\tD N V"]
    path = tmp_path / "words.tsv"
    path.write_text("text\ttags\n" + "\n".join(rows * 12) + "\n")
    return path


# --- classifiers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dan", "window", "lstm", "transformer"])
def test_a_classifier_learns_and_is_unchanged_when_loaded(kind: str, films: Path, tmp_path: Path) -> None:
    settings = TRANSFORMER if kind == "transformer" else TINY
    model = satchel.train(films, model=kind, tokenizer="word", steps=60, settings=settings, out=tmp_path / "run")
    assert isinstance(model, satchel.Classifier)
    assert model.classify("truly lovely").label == "good"
    assert model.classify("cold and flat").label == "bad"
    assert model.report is not None
    assert model.report.valid.accuracy == 1.0  # type: ignore[union-attr]
    assert model.report.baseline is not None
    loaded = satchel.load(tmp_path / "run", task="classify")
    assert loaded.classify("fine work") == model.classify("fine work")
    assert loaded.evaluate() == model.report.valid
    assert sum(loaded.classify("").probabilities.values()) == pytest.approx(1)


def test_the_default_model_of_a_table_of_labels_is_a_dan(films: Path, tmp_path: Path) -> None:
    planned = api.plan(films, steps=1)
    assert planned.settings.model.kind == "dan"
    assert "model.kind=dan: default for the task classify" in planned.reasons
    assert api.plan(films, settings={"model.order": 2}).settings.model.kind == "ngram"


def test_bigrams_distinguish_texts_with_the_same_words(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("label\ttext\n" + "yes\tnot good\nno\tgood not\n" * 20)
    options: dict[str, Any] = {"model": "dan", "tokenizer": "word", "steps": 40, "valid": 0.2}
    unigrams = satchel.train(path, settings=TINY, out=tmp_path / "unigrams", **options)
    assert unigrams.report.valid.accuracy == 0.5
    bigrams = satchel.train(path, settings={**TINY, "model.bigrams": 64}, out=tmp_path / "bigrams", **options)
    assert bigrams.report.valid.accuracy == 1.0


def test_balanced_class_weights_raise_the_probability_of_rare_labels(tmp_path: Path) -> None:
    """All texts are equal, so that a classifier learns the prior of the labels."""
    path = tmp_path / "rare.tsv"
    path.write_text("label\ttext\n" + "frequent\tx\n" * 36 + "rare\tx\n" * 4)
    probabilities = {}
    for name in ("none", "balanced"):
        settings = {**TINY, "training.class_weights": name, "training.weight_decay": 0.0, "data.valid": 0.0}
        options: dict[str, Any] = {"settings": settings, "tokenizer": "word", "out": tmp_path / name}
        model = satchel.train(path, model="dan", steps=80, **options)
        probabilities[name] = model.classify("x").probabilities["rare"]
    assert probabilities["none"] == pytest.approx(0.1, abs=0.04)
    assert probabilities["balanced"] == pytest.approx(0.5, abs=0.1)


def test_held_out_labels_without_training_rows_count_as_errors_and_as_unseen(films: Path, tmp_path: Path) -> None:
    (tmp_path / "new.tsv").write_text("label\ttext\ngood\ta joy\nodd\twhat\n")
    options: dict[str, Any] = {"tokenizer": "word", "settings": TINY, "out": tmp_path / "run"}
    model = satchel.train(films, model="dan", steps=40, valid=str(tmp_path / "new.tsv"), **options)
    assert (model.report.valid.unseen, model.report.valid.accuracy) == (1, 0.5)


def test_texts_longer_than_the_context_window_are_classified(films: Path, tmp_path: Path) -> None:
    settings = {**TRANSFORMER, "model.context": 4}
    options: dict[str, Any] = {"tokenizer": "word", "settings": settings, "out": tmp_path / "run"}
    model = satchel.train(films, model="transformer", steps=60, **options)
    long = model.classify(" ".join(["truly lovely"] * 9))
    assert (long.label, long.reading.tokens, long.reading.windows) == ("good", 18, 5)
    assert "more than the context of 4, and is read in 5 windows" in long.note
    assert model.classify("a joy").note == ""
    batch = list(model.predict(["a joy", " ".join(["cold and flat"] * 9), ""]))
    assert [prediction.label for prediction in batch[:2]] == ["good", "bad"]
    single = model.classify("a joy").probabilities
    assert batch[0].probabilities == pytest.approx(single), "the result depends on the batch"


# --- taggers -------------------------------------------------------------------------------------


def test_a_tagger_predicts_one_tag_per_word(words: Path, tmp_path: Path) -> None:
    model = satchel.train(words, steps=60, settings=TRANSFORMER, out=tmp_path / "run")
    assert isinstance(model, satchel.Tagger)
    assert (model.unit, model.settings.tokenizer.kind, model.labels) == ("word", "word", ("D", "N", "V"))
    tagged = model.tag("the dogs ran")
    assert (tagged.tokens, tagged.tags) == (("the", "dogs", "ran"), ("D", "N", "V"))
    assert all(0.5 < probability <= 1 for probability in tagged.probabilities)
    assert model.tag("").tags == ()
    loaded = satchel.load(tmp_path / "run", task="tag")
    assert model.report is not None
    assert loaded.evaluate() == model.report.valid
    assert loaded.evaluate(words).accuracy == 1.0


@pytest.mark.parametrize("tokenizer", ["bpe:300", "char", "unigram:300"])
def test_words_of_several_tokens_have_one_tag(tokenizer: str, words: Path, tmp_path: Path) -> None:
    model = satchel.train(words, tokenizer=tokenizer, steps=80, settings=TRANSFORMER, out=tmp_path / "run", task="tag")
    assert model.unit == "word"
    assert model.tag("the dogs  ran ").tokens == ("the", "dogs", "ran")
    assert model.tag("the dogs ran").tags == ("D", "N", "V")


@pytest.mark.parametrize("kind", ["dan", "ngram"])
def test_models_without_an_output_per_token_cannot_tag(kind: str, words: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="has no output per token and cannot tag"):
        satchel.train(words, model=kind, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_word_tagger_refuses_a_table_with_one_tag_per_character(words: Path, tmp_path: Path) -> None:
    model = satchel.train(words, steps=1, settings=TRANSFORMER, out=tmp_path / "run")
    (tmp_path / "characters.tsv").write_text("text\ttags\nab cd\t01201\n")
    with pytest.raises(DataError, match="has one tag per character, expected one per word"):
        model.evaluate(tmp_path / "characters.tsv")


# --- resuming ------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_a_resumed_classifier_or_tagger_equals_an_uninterrupted_one_to_the_bit(
    task: str, films: Path, words: Path, tmp_path: Path
) -> None:
    data = films if task == "classify" else words
    intervals = {"training.checkpoint_every": 4, "training.evaluate_every": 3}
    settings = {**TRANSFORMER, **intervals, "model.dropout": 0.2, "training.dropout_after": 0, "training.noise": 0.1}
    planned = api.plan(data, model="transformer", steps=11, settings=settings, tokenizer="word")
    api.run_plan(planned, out=tmp_path / "uninterrupted")
    steps = iter(range(1, 100))
    api.run_plan(planned, out=tmp_path / "resumed", should_stop=lambda: next(steps) == 6)
    resumed: Any = api.resume(tmp_path / "resumed")
    assert resumed.report.steps == 11
    last = "checkpoints/step-0000000011/model.safetensors"
    assert (tmp_path / "uninterrupted" / last).read_bytes() == (tmp_path / "resumed" / last).read_bytes()
    lines = [json.loads(line) for line in (tmp_path / "resumed" / "metrics.jsonl").read_text().strip().split("\n")]
    assert {"step", "seconds", "wall_seconds", "train_loss", "valid_loss", "valid_accuracy"} == set(lines[-1])


# --- initial weights from another run ------------------------------------------------------------


def test_a_run_starts_from_the_encoder_of_a_run_of_another_task(films: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a joy\na bore\nfine work\n" * 30)
    first = satchel.train(
        tmp_path / "text.txt",
        model="transformer",
        tokenizer="word",
        steps=5,
        settings=TRANSFORMER,
        out=tmp_path / "lm",
        task="lm",
    )
    second = satchel.train(films, start=tmp_path / "lm", steps=1, out=tmp_path / "new", settings={"data.valid": 0.0})
    assert isinstance(second, satchel.Classifier)
    assert second.settings.model == first.settings.model
    assert second.tokenizer.sha256 == first.tokenizer.sha256
    # The learning rate of the first step is zero, so the encoder is unchanged.
    before, after = first.network.encoder, second.network.encoder
    assert torch.equal(before.embedding.weight, after.embedding.weight)
    same = satchel.train(tmp_path / "text.txt", start=tmp_path / "lm", steps=1, out=tmp_path / "same", task="lm")
    assert torch.equal(same.network.encoder.embedding.weight, before.embedding.weight)


def test_incompatible_initial_weights_are_refused(films: Path, verse: Path, tmp_path: Path) -> None:
    satchel.train(verse, model="lstm", tokenizer="char", steps=1, settings=TINY, out=tmp_path / "lm")
    with pytest.raises(SettingsError, match="has a different encoder"):
        satchel.train(films, start=tmp_path / "lm", steps=1, settings={"model.width": 8}, out=tmp_path / "new")
    with pytest.raises(SettingsError, match="has a different tokenizer"):
        satchel.train(films, start=tmp_path / "lm", tokenizer="word", steps=1, out=tmp_path / "new")
    satchel.train(verse, model="ngram", tokenizer="char", out=tmp_path / "ngram")
    with pytest.raises(SettingsError, match="is not a network"):
        satchel.train(films, start=tmp_path / "ngram", steps=1, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


# --- custom encoders -----------------------------------------------------------------------------


class CustomEncoder(CausalEncoder):
    """Returns the embeddings without context."""

    def __init__(self, vocabulary: int, *, causal: bool = True) -> None:
        super().__init__(vocabulary, 8, causal=causal)

    def contextualise(self, x_BTD: torch.Tensor, keep_BT: torch.Tensor | None = None) -> torch.Tensor:
        return x_BTD

    def start(self, batch: int) -> State:
        del batch
        return EmptyState()

    def step_vectors(self, x_BTD: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        return x_BTD, state


class EmptyState:
    """State of an encoder without context."""

    def select(self, rows: torch.Tensor) -> "EmptyState":
        del rows
        return self


def test_a_custom_encoder_is_trained_and_loaded(verse: Path, films: Path, tmp_path: Path) -> None:
    settings = {"training.batch_tokens": 128, "training.precision": "float32"}
    options: dict[str, Any] = {"tokenizer": "char", "settings": settings}
    model = satchel.train(verse, model=CustomEncoder, steps=5, out=tmp_path / "run", **options)
    loaded = satchel.load(tmp_path / "run", model=CustomEncoder, task="lm")
    assert loaded.evaluate() == model.report.valid
    bias = {loaded.tokenizer.boundary: -100.0}  # no end of text
    assert len(loaded.generate("The ", tokens=5, logit_bias=bias).samples[0].ids) == 5
    with pytest.raises(RunError, match=r"its encoder tests\.training\.test_tasks\.CustomEncoder"):
        satchel.load(tmp_path / "run")
    classifier = satchel.train(
        films,
        model=CustomEncoder(300, causal=False),
        tokenizer="bpe:299",
        steps=2,
        out=tmp_path / "labels",
        task="classify",
    )
    assert classifier.classify("a joy").label in ("good", "bad")


def test_an_incompatible_custom_encoder_is_refused(verse: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"expected a satchel\.models\.CausalEncoder"):
        satchel.train(verse, model=torch.nn.Linear(2, 2), tokenizer="char", steps=1, out=tmp_path / "run")
    with pytest.raises(
        SettingsError, match=r"found an encoder with 5 ids and causal=True, expected \d+ ids and causal=True"
    ):
        satchel.train(verse, model=CustomEncoder(5), tokenizer="char", steps=1, out=tmp_path / "run")
    assert isinstance(CustomEncoder(5), Encoder)
    assert not (tmp_path / "run").exists()


# --- samples, devices, recall, tag files ---------------------------------------------------------


def test_samples_validation_losses_and_the_ngram_baseline_are_reported(verse: Path, tmp_path: Path) -> None:
    notes: list[str] = []
    stages: list[str] = []
    settings = {**TRANSFORMER, "training.evaluate_every": 5}
    planned = api.plan(verse, model="transformer", tokenizer="char", steps=10, settings=settings)
    model = api.run_plan(
        planned, out=tmp_path / "run", progress=lambda stage, done: stages.append(stage), note=notes.append
    )
    (line,) = (tmp_path / "run" / "samples.jsonl").read_text().strip().split("\n")
    sample = json.loads(line)
    assert sample["step"] == 5
    assert visible(sample["text"]) in notes[1]
    assert notes[0].startswith("step 5: validation loss ")
    assert any(stage.startswith("step 7, loss") and "bits/byte" in stage and "left" in stage for stage in stages)
    assert model.report is not None
    assert model.report.baseline is not None
    ngram = satchel.train(verse, model="ngram", tokenizer="char", valid=0.05, out=tmp_path / "ngram")
    assert model.report.baseline.bits_per_byte == pytest.approx(ngram.report.valid.bits_per_byte)  # type: ignore[union-attr]


def test_a_missing_device_is_reported(verse: Path, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(satchel.SatchelError, match=r"training\.device=cuda: this machine has no such device"):
        satchel.train(verse, model="dan", device="cuda", steps=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_recall_is_grouped_by_distance(tmp_path: Path) -> None:
    path = tmp_path / "recall.txt"
    path.write_text("Ann saw rain and Ann\nBob saw the rain , the snow , the sun , and Bob\nnothing here\n" * 3)
    settings = {"data.documents": "line"}
    model = satchel.train(path, model="ngram", tokenizer="word", settings=settings, out=tmp_path / "run", task="lm")
    near, far = model.recall(path)
    assert (near.nearest, near.farthest, near.documents) == (4, 4, 3)
    assert (far.nearest, far.farthest, far.documents) == (12, 12, 3)
    scored = model.score("Ann saw rain and Ann").logprobs
    assert near.nats == pytest.approx(-scored[4])
    assert near.accuracy in (0.0, 1.0)
    stream = satchel.train(path, model="ngram", tokenizer="word", out=tmp_path / "stream", task="lm")
    with pytest.raises(RunError, match="reads all text as one document"):
        stream.recall(path)


def test_tokens_without_a_tag_are_not_targets(words: Path, tmp_path: Path) -> None:
    model = satchel.train(words, tokenizer="char", steps=1, settings=TRANSFORMER, out=tmp_path / "run")
    from satchel import tensors

    tags, _ = tensors.map_array(tmp_path / "run" / "tokens" / "train-classes.safetensors", "classes")
    ids, _ = tensors.map_array(tmp_path / "run" / "tokens" / "train.safetensors", "ids")
    assert len(tags) == len(ids)
    assert (tags[np.asarray(ids) == model.tokenizer.boundary] == NO_TARGET).all()
    assert 0 < (tags != NO_TARGET).sum() < len(ids) / 2


def test_defaults_of_length_context_and_validation_for_generated_data() -> None:
    def plan(data: str, model: str, **settings: Any) -> dict[str, Any]:
        return api.plan(data, model=model, steps=1, settings=settings).settings.model_dump()

    assert plan("@recall", "lstm")["training"]["length"] == 256
    assert plan("@recall", "transformer")["model"]["context"] == 256
    assert plan("@ab", "transformer")["data"]["valid"] == 0.0
    assert plan("@ab", "transformer", **{"data.valid": 0.5})["data"]["valid"] == 0.5
