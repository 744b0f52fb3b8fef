"""How good translations are said to be: against sacrebleu itself, and by hand."""

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


def test_scores_are_those_of_sacrebleu() -> None:
    found = quality(HYPOTHESES, REFERENCES)
    assert found.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert found.bleu_lowercase == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=True).score
    assert found.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert found.exact_match == pytest.approx(1 / 3)
    assert found.bleu_lowercase > found.bleu
    bleu, chrf = signatures(HYPOTHESES, REFERENCES)
    assert "tok:13a" in bleu
    assert "case:mixed" in bleu
    assert chrf.startswith("nrefs:1")


def test_a_memory_finds_the_most_similar_source() -> None:
    memory = TranslationMemory(["a black dog runs", "two men talk", "a black cat sleeps", ""], ["D", "M", "C", "E"])
    assert memory.translate("a black dog sleeps") == "D"
    assert memory.translate("a black cat sleeps") == "C"
    assert memory.translate("three men talk loudly") == "M"
    assert memory.translate("") == "E"
    assert memory.translate("\N{CJK UNIFIED IDEOGRAPH-732B}") in ("D", "M", "C", "E")


def test_copying_and_remembering_are_measured_on_the_same_sentences() -> None:
    found = baselines(
        ["a b c d e", "v w x y z"], ["a b c d e", "q"], TranslationMemory(["v w x y"], ["q"]), lambda done: None
    )
    assert found["copy"].exact_match == 0.5
    assert found["memory"].exact_match == 0.5


def test_every_sentence_is_in_one_range_of_lengths() -> None:
    sources = [" ".join("w" * length) for length in (1, 2, 3, 4, 5, 6, 7, 8, 9, 30)]
    found = by_length(sources, sources, sources, [np.full(len(source), 0.5) for source in sources])
    assert sum(each.count for each in found) == len(sources)
    assert all(each.quality is not None and each.quality.exact_match == 1 for each in found)
    assert all(each.nats_per_token == 0.5 for each in found)
    assert found[-1].name.endswith("30 words")
    assert by_length(["abc", "abcdef"], ["a", "b"], ["a", "c"], [np.ones(1)] * 2)[0].name == "3 to 3 letters"


def test_tokens_are_parted_by_where_they_come_from() -> None:
    places, nats = np.array([0.0, 0.1, 0.5, 1.0, np.nan]), np.array([1.0, 3.0, 5.0, 7.0, 100.0])
    found = by_source_position(places, nats)
    assert [(each.count, each.nats_per_token) for each in found] == [(2, 2.0), (1, 5.0), (1, 7.0)]


def test_a_lexicon_learns_which_word_is_which_from_pairs_alone() -> None:
    chance = np.random.default_rng(0)
    means = chance.permutation(20)  # source word w is the target word means[w]
    sources = [chance.permutation(20)[: chance.integers(2, 7)] for _ in range(300)]
    targets = [means[source][::-1] for source in sources]
    lexicon = learn_lexicon(sources, targets, 20)
    for source, target in zip(sources, targets, strict=True):
        assert (lexicon.source_of(source, target) == np.arange(len(source))[::-1]).all()
    assert (lexicon.source_of(np.array([3, 999]), np.array([7])) >= 0).all()  # words it has never seen
