"""Shards of a batch: their losses add up to the loss of the batch, with noise and BPE-dropout."""

from typing import Any

import numpy as np
import pytest
import torch

from satchel.data.bpe_dropout import merge_parts
from satchel.models.build import build_encoder, build_pair
from satchel.models.recurrent import RecurrentSettings
from satchel.models.recurrent_pair import RecurrentPairSettings
from satchel.predictor import Labeller
from satchel.tasks.classification import ClassificationNetwork, NetworkLabeller
from satchel.tasks.tagging import NetworkTagger, TaggingNetwork
from satchel.tasks.translation import TranslationNetwork
from satchel.text.tokenizer import Tokenizer, TokenizerSettings
from satchel.text.tokenizer_training import train_tokenizer
from satchel.training.jobs.labels import LabelJob
from satchel.training.jobs.translation import PairJob, SideTokens
from satchel.training.settings import TrainingSettings

TEXT = "the lowest tower is lower than the newest tower and the newer towers are the widest"
SETTINGS = TrainingSettings(steps=1, batch_tokens=60, noise=0.5, merge_dropout=0.5, label_smoothing=0.1)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Train a small BPE tokenizer."""
    return train_tokenizer(TokenizerSettings(kind="bpe", size=300), [TEXT * 20], 2000)


def random_texts(tokenizer: Tokenizer, seed: int) -> SideTokens:
    """Return twelve texts of one to five words."""
    rng, words = np.random.default_rng(seed), TEXT.split()
    parts = [np.array([tokenizer.boundary])]
    for _ in range(12):
        text = " ".join(rng.choice(words, rng.integers(1, 6)))
        parts.append(np.append(tokenizer.encode(text).ids, tokenizer.boundary))
    return SideTokens(np.concatenate(parts), tokenizer.boundary, merge_parts(tokenizer))


def build_job(kind: str, tokenizer: Tokenizer) -> Any:
    """Return a training job of a small network in float64."""
    torch.manual_seed(0)
    ids, size = random_texts(tokenizer, 1), tokenizer.size + 1
    if kind == "translate":
        network = TranslationNetwork(build_pair(RecurrentPairSettings(width=8), size, size))
        return PairJob(network.double(), random_texts(tokenizer, 0), ids, SETTINGS)
    encoder = build_encoder(RecurrentSettings(width=8), size, causal=False)
    labeller: Labeller
    rng = np.random.default_rng(2)
    if kind == "tag":
        gold = np.where(ids.ids == ids.boundary, -100, rng.integers(0, 3, len(ids.ids)))
        tagger = TaggingNetwork(encoder, 3).double()
        labeller = NetworkTagger(tagger, ids.boundary)
        return LabelJob(tagger, labeller, ids.ids, gold, ids.boundary, SETTINGS, per_token=True)
    gold, classifier = rng.integers(0, 3, 12), ClassificationNetwork(encoder, 3).double()
    labeller = NetworkLabeller(classifier, ids.boundary)
    return LabelJob(classifier, labeller, ids.ids, gold, ids.boundary, SETTINGS, per_token=False)


@pytest.mark.parametrize("kind", ["translate", "tag", "classify"])
@pytest.mark.parametrize("count", [2, 3, 40])
def test_the_losses_of_shards_add_up_to_the_loss_of_the_batch(kind: str, count: int, tokenizer: Tokenizer) -> None:
    job = build_job(kind, tokenizer)
    for step in (0, 1, 5):
        batch = job.loss(step, 0, 1)
        shards = [job.loss(step, shard, count) for shard in range(count)]
        assert sum(shard.targets for shard in shards) == batch.targets
        assert sum(shard.tokens for shard in shards) == batch.tokens
        torch.testing.assert_close(sum(shard.total for shard in shards), batch.total, rtol=1e-10, atol=1e-10)


def test_bpe_dropout_and_noise_depend_on_the_step_and_do_not_change_the_target_words(tokenizer: Tokenizer) -> None:
    job = build_job("translate", tokenizer)
    first, repeated = (job.batch(0) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, repeated, strict=True))
    later = job.batch(job.steps_per_epoch)  # the same pairs may be split into other tokens
    assert first.inputs.shape != later.inputs.shape or not torch.equal(first.inputs, later.inputs)
    # Targets have no noise: they decode to words of the text.
    for row in first.targets:
        decoded = tokenizer.decode([int(id_) for id_ in row if id_ >= 0 and id_ != tokenizer.boundary])
        assert set(decoded.split()) <= set(TEXT.split())
