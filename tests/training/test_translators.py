"""Translators: trained on pairs, loaded, evaluated, resumed; invalid pairs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import satchel
from satchel import api
from satchel.api.translation import Translator, _split_source
from satchel.errors import DataError, RunError, SettingsError
from satchel.inspection import alignment
from satchel.tasks.translation import PairBatch, pair_batch

WORDS = {"ein": "a", "der": "the", "Hund": "dog", "Mann": "man", "rennt": "runs", "schläft": "sleeps", "groß": "big"}
TINY: dict[str, Any] = {
    "model.width": 32,
    "training.batch_tokens": 256,
    "training.learning_rate": 0.02,
    "training.threads": 1,
    "training.weight_decay": 0.0,
}
ATTENDING = {**TINY, "model.heads": 2, "model.layers": 1, "training.learning_rate": 3e-3}
KINDS: dict[str, dict[str, Any]] = {
    "lstm": TINY,
    "transformer": ATTENDING,
    "backpack": {**ATTENDING, "model.senses": 4},
}


def sentences() -> list[tuple[str, str]]:
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
    path = tmp_path / "pairs.tsv"
    path.write_text("source\ttarget\n" + "\n".join("\t".join(row) for row in sentences() * 4) + "\n", encoding="utf-8")
    return path


def trained(pairs: Path, out: Path, kind: str = "lstm", steps: int = 200, **options: Any) -> Translator:
    settings = {**KINDS[kind], **options.pop("settings", {})}
    tokenizer = options.pop("tokenizer", "word")
    model = satchel.train(pairs, model=kind, tokenizer=tokenizer, steps=steps, settings=settings, out=out, **options)
    assert isinstance(model, satchel.Translator)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_learns_to_translate_and_is_the_same_when_loaded(kind: str, pairs: Path, tmp_path: Path) -> None:
    model = trained(pairs, tmp_path / "run", kind, valid=str(pairs))
    assert model.translate("der Mann rennt groß").target == "the man runs big"
    assert model.report is not None
    found: Any = model.report.valid
    assert found.quality.exact_match == 1.0
    assert found.quality.bleu == pytest.approx(100)
    assert found.baselines["memory"].exact_match == 1.0
    assert found.baselines["copy"].exact_match == 0.0
    again = satchel.load(tmp_path / "run", task="translate")
    assert again.translate("ein Hund", beam=3, best=3) == model.translate("ein Hund", beam=3, best=3)
    assert again.evaluate() == found
    told = model.score("der Hund rennt", "the dog runs")
    assert told.tokens == ("the", "dog", "runs", "<end>")
    assert told.perplexity < 1.5
    assert model.score("der Hund rennt", "a man runs").total_logprob < told.total_logprob


def test_a_table_of_pairs_trains_a_transformer_without_a_setting(pairs: Path) -> None:
    planned = api.plan(pairs, steps=1)
    assert planned.settings.task == "translate"
    assert planned.settings.model.kind == "transformer"
    assert "task=translate: inferred from the data" in planned.reasons
    with pytest.raises(SettingsError, match=r"model\.kind=dan has no decoder and cannot translate"):
        api.plan(pairs, model="dan")
    with pytest.raises(SettingsError, match="only language models use an n-gram model"):
        api.plan(pairs, model="lstm", settings={"model.ngram": 3})


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_translator_resumes_with_identical_bits(kind: str, pairs: Path, tmp_path: Path) -> None:
    settings = {
        "model.dropout": 0.2,
        "training.merge_dropout": 0.3,
        "training.noise": 0.1,
        "training.checkpoint_every": 5,
        "training.evaluate_every": 5,
    }
    options: dict[str, Any] = {"tokenizer": "bpe:300", "steps": 12, "settings": settings, "valid": str(pairs)}
    whole = trained(pairs, tmp_path / "whole", kind, **options)
    planned = api.plan(
        pairs,
        model=kind,
        tokenizer="bpe:300",
        steps=12,
        valid=str(pairs),
        settings={**KINDS[kind], **settings},
    )
    asked = []

    def after_seven() -> bool:
        asked.append(1)
        return len(asked) == 7

    api.run_plan(planned, out=tmp_path / "parts", should_stop=after_seven)
    resumed = api.resume(tmp_path / "parts")
    assert resumed.report is not None
    assert resumed.report.steps == 12
    for name in ("model.safetensors",):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    lines = (tmp_path / "whole" / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert {"step", "source", "text"} == set(json.loads(lines[0]))
    assert whole.report is not None


def test_sources_and_targets_may_have_different_tokenizers(pairs: Path, tmp_path: Path) -> None:
    settings = {"tokenizer.joint": False, "model.shared": False}
    model = trained(pairs, tmp_path / "run", "transformer", settings=settings, valid=str(pairs))
    assert (tmp_path / "run" / "source_tokenizer.json").exists()
    assert "Hund" in model.source_tokenizer.spellings
    assert "Hund" not in model.tokenizer.spellings
    assert satchel.load(tmp_path / "run", task="translate").translate("ein Hund rennt").target == "a dog runs"
    with pytest.raises(SettingsError, match="share embeddings, which needs"):
        api.plan(pairs, settings={"tokenizer.joint": False, "model.shared": True})
    assert api.plan(pairs, settings={"tokenizer.joint": False}).settings.model.shared is False


def test_translators_are_compared_sentence_by_sentence(pairs: Path, tmp_path: Path) -> None:
    trained(pairs, tmp_path / "good", valid=str(pairs))
    trained(pairs, tmp_path / "bad", steps=1, valid=str(pairs))
    found = api.compare([tmp_path / "good", tmp_path / "bad"])
    assert found.metric == "sentence_chrf"
    assert found.larger_is_better
    assert found.rows[0].value == pytest.approx(100)
    assert found.pairs[0].low > 0
    trained(pairs, tmp_path / "other", steps=1, valid=0.2)
    with pytest.raises(RunError, match="different held-out pairs"):
        api.compare([tmp_path / "good", tmp_path / "other"])


def test_a_decoder_only_transformer_translates(pairs: Path, tmp_path: Path) -> None:
    settings = {"model.form": "decoder-only"}
    model = trained(pairs, tmp_path / "run", "transformer", steps=200, settings=settings, valid=str(pairs))
    assert model.translate("der Hund schläft").target == "the dog sleeps"
    found = model.align("der Hund schläft", "the dog sleeps")
    assert found.values.shape == (4, 4)


def test_a_translator_can_start_from_the_parameters_of_another(pairs: Path, tmp_path: Path) -> None:
    first = trained(pairs, tmp_path / "first", valid=str(pairs))
    again: Any = satchel.train(pairs, start=tmp_path / "first", steps=1, valid=str(pairs), out=tmp_path / "again")
    assert again.report.valid.nats_per_token < 2 * first.evaluate().nats_per_token + 0.1


# --- alignment


@pytest.mark.parametrize("kind", KINDS)
def test_attention_aligns_words_with_their_translations(kind: str, pairs: Path, tmp_path: Path) -> None:
    model = trained(pairs, tmp_path / "run", kind, steps=200, valid=0.0)
    found = model.align("der Mann schläft groß", "the man sleeps big")
    assert found.source == ("der", "Mann", "schläft", "groß", "<end>")
    assert found.target == ("the", "man", "sleeps", "big", "<end>")
    assert found.values.shape == (5, 5)
    assert found.is_exact == (kind == "backpack")
    if kind != "backpack":
        np.testing.assert_allclose(found.values.sum(axis=1), 1, atol=1e-5)
    else:
        # Contributions are exact: the translated word contributes most to its translation.
        assert found.values[:4, :4].argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_contributions_sum_to_the_logits(pairs: Path, tmp_path: Path) -> None:
    model = trained(pairs, tmp_path / "run", "backpack", steps=20, valid=0.0)
    network = model.network
    source, target = (np.array(model.tokenizer.encode(text).ids) for text in ("der Hund rennt", "the dog"))
    ends = model.boundaries
    values = alignment.contributions(network, source, target, ends)
    batch: PairBatch = pair_batch([source], [target], *ends)
    with torch.no_grad():
        scores = network(batch)[0].gather(1, batch.targets[0][:, None])[:, 0].numpy()
    np.testing.assert_allclose(
        values.sum(axis=(1, 2)), scores, atol=1e-6 * float(np.abs(values).sum(axis=(1, 2)).max())
    )
    above = alignment.contributions(network, source, target, ends, above_mean=True)
    with torch.no_grad():
        mean = network(batch)[0].mean(dim=1).numpy()
    np.testing.assert_allclose(above.sum(axis=(1, 2)), scores - mean, atol=1e-5)
    # Later target words do not contribute to earlier ones.
    assert not values[0, len(source) + 2 :].any()


def test_single_layers_and_heads_can_be_aligned(pairs: Path, tmp_path: Path) -> None:
    model = trained(pairs, tmp_path / "run", "transformer", steps=2, valid=0.0)
    every = [model.align("der Hund", "the dog", layer=0, head=head).values for head in range(2)]
    np.testing.assert_allclose(np.mean(every, axis=0), model.align("der Hund", "the dog").values, atol=1e-6)
    with pytest.raises(SettingsError, match="--head 2 does not exist; expected heads 0 to 1"):
        model.align("der Hund", "the dog", head=2)
    with pytest.raises(SettingsError, match="--layer 1 does not exist; expected layers 0 to 0"):
        model.align("der Hund", "the dog", layer=1)
    recurrent = trained(pairs, tmp_path / "lstm", steps=2, valid=0.0, settings={"model.attention": "none"})
    with pytest.raises(SettingsError, match="has no attention"):
        recurrent.align("der Hund", "the dog")


# --- invalid pairs


def test_empty_and_long_pairs_are_dropped_and_counted(pairs: Path, tmp_path: Path) -> None:
    with pairs.open("a", encoding="utf-8") as handle:
        handle.write("\tnothing\n")
        handle.write("nichts\t \n")
        handle.write(f"{'sehr ' * 5000}\t{'very ' * 5000}\n")
    model = trained(pairs, tmp_path / "run", steps=1, valid=0.0)
    assert model.run.facts["left_out"] == {"empty": 2, "long": 1}
    assert model.run.facts["counts"]["documents"] == 4 * len(sentences())


def test_a_table_without_pairs_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "empty.tsv"
    path.write_text("source\ttarget\n\ta\nb\t\n")
    with pytest.raises(DataError, match="found 2 pairs, none of them with both a source and a target"):
        trained(path, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_long_text_is_translated_in_parts_and_white_space_is_unchanged(pairs: Path, tmp_path: Path) -> None:
    model = trained(pairs, tmp_path / "run", settings={"model.context": 8}, valid=0.0)
    long = "der Hund rennt. " * 30
    found = model.translate(long)
    assert found.pieces > 5
    assert "".join(_split_source(long, model.source_tokenizer, 7)).replace(" ", "") == long.replace(" ", "")
    unbroken = "x" * 5000
    assert "".join(_split_source(unbroken, model.source_tokenizer, 7)) == unbroken
    assert model.translate(" \t").target == " \t"
    many = [" ", "der Hund", "", long, "der Mann"]
    assert [each.source for each in model.predict(many, batch=2)] == many


def test_swapped_columns_are_detected(pairs: Path, tmp_path: Path) -> None:
    model = trained(pairs, tmp_path / "run", steps=2, valid=0.0)
    swapped = tmp_path / "swapped.tsv"
    swapped.write_text(pairs.read_text(encoding="utf-8").replace("source\ttarget", "target\tsource"), encoding="utf-8")
    assert not model.evaluate(pairs).looks_swapped
    assert model.evaluate(swapped).looks_swapped
