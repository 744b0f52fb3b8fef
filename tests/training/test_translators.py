"""Translators: training, loading, resuming, comparison, alignment, invalid pairs."""

import json
from pathlib import Path
from typing import Any

import pytest

import satchel
from satchel import api
from satchel.api.translation import Translator
from satchel.errors import DataError, RunError, SettingsError

WORDS = {"ein": "a", "der": "the", "Hund": "dog", "Mann": "man", "rennt": "runs", "schläft": "sleeps", "groß": "big"}
TINY: dict[str, Any] = {
    "model.width": 32,
    "training.batch_tokens": 256,
    "training.learning_rate": 0.02,
    "training.threads": 1,
    "training.weight_decay": 0.0,
}
ATTENTION = {**TINY, "model.heads": 2, "model.layers": 1, "training.learning_rate": 3e-3}
KINDS: dict[str, dict[str, Any]] = {
    "lstm": TINY,
    "transformer": ATTENTION,
    "backpack": {**ATTENTION, "model.senses": 4},
}


def sentences() -> list[tuple[str, str]]:
    """Return all sentence pairs of a small grammar."""
    rows = []
    for article in ("ein", "der"):
        for noun in ("Hund", "Mann"):
            for verb in ("rennt", "schläft"):
                for ending in ([], ["groß"]):
                    source = [article, noun, verb, *ending]
                    rows.append((" ".join(source), " ".join(WORDS[word] for word in source)))
    return rows


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Return the path of a table of sentence pairs."""
    path = tmp_path / "pairs.tsv"
    path.write_text("source\ttarget\n" + "\n".join("\t".join(row) for row in sentences() * 4) + "\n", encoding="utf-8")
    return path


def train(pairs: Path, out: Path, kind: str = "lstm", steps: int = 200, **options: Any) -> Translator:
    """Train a small translator."""
    settings = {**KINDS[kind], **options.pop("settings", {})}
    tokenizer = options.pop("tokenizer", "word")
    model = satchel.train(pairs, model=kind, tokenizer=tokenizer, steps=steps, settings=settings, out=out, **options)
    assert isinstance(model, satchel.Translator)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_a_translator_learns_and_is_unchanged_when_loaded(kind: str, pairs: Path, tmp_path: Path) -> None:
    model = train(pairs, tmp_path / "run", kind, valid=str(pairs))
    assert model.translate("der Mann rennt groß").target == "the man runs big"
    assert model.report is not None
    valid: Any = model.report.valid
    assert valid.quality.exact_match == 1.0
    assert valid.quality.bleu == pytest.approx(100)
    assert valid.baselines["memory"].exact_match == 1.0
    assert valid.baselines["copy"].exact_match == 0.0
    loaded = satchel.load(tmp_path / "run", task="translate")
    assert loaded.translate("ein Hund", beam=3, best=3) == model.translate("ein Hund", beam=3, best=3)
    assert loaded.evaluate() == valid
    score = model.score("der Hund rennt", "the dog runs")
    assert score.tokens == ("the", "dog", "runs", "<end>")
    assert score.perplexity < 1.5
    assert model.score("der Hund rennt", "a man runs").total_logprob < score.total_logprob


def test_the_default_model_of_a_table_of_pairs_is_a_transformer(pairs: Path) -> None:
    planned = api.plan(pairs, steps=1)
    assert planned.settings.task == "translate"
    assert planned.settings.model.kind == "transformer"
    assert "task=translate: inferred from the data" in planned.reasons
    with pytest.raises(SettingsError, match=r"model\.kind=dan has no decoder and cannot translate"):
        api.plan(pairs, model="dan")
    with pytest.raises(SettingsError, match="only language models use an n-gram model"):
        api.plan(pairs, model="lstm", settings={"model.ngram": 3})


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_translator_equals_an_uninterrupted_one_to_the_bit(kind: str, pairs: Path, tmp_path: Path) -> None:
    settings = {
        "model.dropout": 0.2,
        "training.merge_dropout": 0.3,
        "training.noise": 0.1,
        "training.checkpoint_every": 5,
        "training.evaluate_every": 5,
    }
    options: dict[str, Any] = {"tokenizer": "bpe:300", "steps": 12, "settings": settings, "valid": str(pairs)}
    uninterrupted = train(pairs, tmp_path / "uninterrupted", kind, **options)
    planned = api.plan(
        pairs,
        model=kind,
        tokenizer="bpe:300",
        steps=12,
        valid=str(pairs),
        settings={**KINDS[kind], **settings},
    )
    steps = iter(range(1, 100))
    api.run_plan(planned, out=tmp_path / "resumed", should_stop=lambda: next(steps) == 7)
    resumed = api.resume(tmp_path / "resumed")
    assert resumed.report is not None
    assert resumed.report.steps == 12
    model_bytes = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("resumed", "uninterrupted")]
    assert model_bytes[0] == model_bytes[1]
    lines = (tmp_path / "uninterrupted" / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert {"step", "source", "text"} == set(json.loads(lines[0]))
    assert uninterrupted.report is not None


def test_sources_and_targets_can_have_separate_tokenizers(pairs: Path, tmp_path: Path) -> None:
    settings = {"tokenizer.joint": False, "model.shared": False}
    model = train(pairs, tmp_path / "run", "transformer", settings=settings, valid=str(pairs))
    assert (tmp_path / "run" / "source_tokenizer.json").exists()
    assert "Hund" in model.source_tokenizer.spellings
    assert "Hund" not in model.tokenizer.spellings
    assert satchel.load(tmp_path / "run", task="translate").translate("ein Hund rennt").target == "a dog runs"
    with pytest.raises(SettingsError, match="share embeddings, which needs"):
        api.plan(pairs, settings={"tokenizer.joint": False, "model.shared": True})
    assert api.plan(pairs, settings={"tokenizer.joint": False}).settings.model.shared is False


def test_translators_are_compared_by_sentence_chrf(pairs: Path, tmp_path: Path) -> None:
    train(pairs, tmp_path / "good", valid=str(pairs))
    train(pairs, tmp_path / "bad", steps=1, valid=str(pairs))
    comparison = api.compare([tmp_path / "good", tmp_path / "bad"])
    assert comparison.metric == "sentence_chrf"
    assert comparison.larger_is_better
    assert comparison.rows[0].value == pytest.approx(100)
    assert comparison.pairs[0].low > 0
    train(pairs, tmp_path / "other", steps=1, valid=0.2)
    with pytest.raises(RunError, match="different held-out pairs"):
        api.compare([tmp_path / "good", tmp_path / "other"])


def test_a_decoder_only_model_translates_and_aligns(pairs: Path, tmp_path: Path) -> None:
    settings = {"model.form": "decoder-only"}
    model = train(pairs, tmp_path / "run", "transformer", steps=200, settings=settings, valid=str(pairs))
    assert model.translate("der Hund schläft").target == "the dog sleeps"
    assert model.align("der Hund schläft", "the dog sleeps").values.shape == (4, 4)


def test_a_translator_starts_from_the_weights_of_another(pairs: Path, tmp_path: Path) -> None:
    first = train(pairs, tmp_path / "first", valid=str(pairs))
    second: Any = satchel.train(pairs, start=tmp_path / "first", steps=1, valid=str(pairs), out=tmp_path / "second")
    assert second.report.valid.nats_per_token < 2 * first.evaluate().nats_per_token + 0.1


# --- invalid pairs and long texts ----------------------------------------------------------------


def test_pairs_with_an_empty_side_and_too_long_pairs_are_left_out_and_counted(pairs: Path, tmp_path: Path) -> None:
    with pairs.open("a", encoding="utf-8") as handle:
        handle.write("\tnothing\n")
        handle.write("nichts\t \n")
        handle.write(f"{'sehr ' * 5000}\t{'very ' * 5000}\n")
    model = train(pairs, tmp_path / "run", steps=1, valid=0.0)
    assert model.run.facts["left_out"] == {"empty": 2, "long": 1}
    assert model.run.facts["counts"]["documents"] == 4 * len(sentences())


def test_a_table_without_complete_pairs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.tsv"
    path.write_text("source\ttarget\n\ta\nb\t\n")
    with pytest.raises(DataError, match="found 2 pairs, none of them with both a source and a target"):
        train(path, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_long_text_is_translated_in_pieces_and_a_blank_text_is_returned_unchanged(
    pairs: Path, tmp_path: Path
) -> None:
    model = train(pairs, tmp_path / "run", settings={"model.context": 8}, valid=0.0)
    long = "der Hund rennt. " * 30
    assert model.translate(long).pieces > 5
    for text in (long, "Hund " * 500):
        parts = model.translate(text, beam=1).parts
        assert "".join(part.source for part in parts).replace(" ", "") == text.replace(" ", "")
        assert all(len(model.source_tokenizer.encode(part.source).ids) <= 7 for part in parts)
    assert model.translate(" \t").target == " \t"
    texts = [" ", "der Hund", "", long, "der Mann"]
    assert [translation.source for translation in model.predict(texts, batch=2)] == texts


def test_swapped_columns_are_detected(pairs: Path, tmp_path: Path) -> None:
    model = train(pairs, tmp_path / "run", steps=2, valid=0.0)
    swapped = tmp_path / "swapped.tsv"
    swapped.write_text(pairs.read_text(encoding="utf-8").replace("source\ttarget", "target\tsource"), encoding="utf-8")
    assert not model.evaluate(pairs).looks_swapped
    assert model.evaluate(swapped).looks_swapped
