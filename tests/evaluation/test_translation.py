"""Translation metrics: equality with sacrebleu, baselines, results by length and source position, lexicon."""

import numpy as np
import pytest
import sacrebleu

from satchel.evaluation.lexicon import learn_lexicon
from satchel.evaluation.translation import (
    TranslationMemory,
    baselines,
    by_length,
    by_source_position,
    quality,
    signatures,
)

REFERENCES = ["The cat sat on the mat .", "A dog runs through the deep snow .", "Two men talk to each other ."]
HYPOTHESES = ["the cat sat on a mat .", "A dog runs through the deep snow .", "Two people talk to each other ."]


def test_scores_equal_those_of_sacrebleu() -> None:
    result = quality(HYPOTHESES, REFERENCES)
    assert result.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert result.bleu_lowercase == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=True).score
    assert result.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert result.exact_match == pytest.approx(1 / 3)
    assert result.bleu_lowercase > result.bleu
    bleu, chrf = signatures(HYPOTHESES, REFERENCES)
    assert "tok:13a" in bleu
    assert "case:mixed" in bleu
    assert chrf.startswith("nrefs:1")


def test_a_translation_memory_returns_the_target_of_the_most_similar_source() -> None:
    memory = TranslationMemory(["a black dog runs", "two men talk", "a black cat sleeps", ""], ["D", "M", "C", "E"])
    assert memory.translate("a black dog sleeps") == "D"
    assert memory.translate("a black cat sleeps") == "C"
    assert memory.translate("three men talk loudly") == "M"
    assert memory.translate("") == "E"
    assert memory.translate("\N{CJK UNIFIED IDEOGRAPH-732B}") in ("D", "M", "C", "E")


def test_the_copy_and_memory_baselines_are_evaluated_on_the_same_sentences() -> None:
    results = baselines(
        ["a b c d e", "v w x y z"], ["a b c d e", "q"], TranslationMemory(["v w x y"], ["q"]), lambda done: None
    )
    assert results["copy"].exact_match == 0.5
    assert results["memory"].exact_match == 0.5


def test_every_sentence_is_in_one_group_of_source_lengths() -> None:
    sources = [" ".join("w" * length) for length in (1, 2, 3, 4, 5, 6, 7, 8, 9, 30)]
    groups = by_length(sources, sources, sources, [np.full(len(source), 0.5) for source in sources])
    assert sum(group.count for group in groups) == len(sources)
    assert all(group.quality is not None and group.quality.exact_match == 1 for group in groups)
    assert all(group.nats_per_token == 0.5 for group in groups)
    assert groups[-1].name.endswith("30 words")
    assert by_length(["abc", "abcdef"], ["a", "b"], ["a", "c"], [np.ones(1)] * 2)[0].name == "3 to 3 letters"


def test_losses_are_grouped_by_source_position() -> None:
    positions, nats = np.array([0.0, 0.1, 0.5, 1.0, np.nan]), np.array([1.0, 3.0, 5.0, 7.0, 100.0])
    groups = by_source_position(positions, nats)
    assert [(group.count, group.nats_per_token) for group in groups] == [(2, 2.0), (1, 5.0), (1, 7.0)]


def test_a_lexicon_learns_word_translations_from_sentence_pairs() -> None:
    rng = np.random.default_rng(0)
    translations = rng.permutation(20)  # source word w translates to translations[w]
    sources = [rng.permutation(20)[: rng.integers(2, 7)] for _ in range(300)]
    targets = [translations[source][::-1] for source in sources]
    lexicon = learn_lexicon(sources, targets, 20)
    for source, target in zip(sources, targets, strict=True):
        assert (lexicon.source_of(source, target) == np.arange(len(source))[::-1]).all()
    assert (lexicon.source_of(np.array([3, 999]), np.array([7])) >= 0).all()  # unknown words
