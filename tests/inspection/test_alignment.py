"""Alignments: attention weights from target to source words, or exact contributions of a Backpack."""

from pathlib import Path

import numpy as np
import pytest
import torch

from satchel.errors import SettingsError
from satchel.inspection import alignment
from satchel.tasks.translation import PairBatch, pair_batch
from tests.training.test_translators import KINDS, train
from tests.training.test_translators import pairs as pairs


@pytest.mark.parametrize("kind", KINDS)
def test_alignments_are_normalised_or_exact_contributions(kind: str, pairs: Path, tmp_path: Path) -> None:
    model = train(pairs, tmp_path / "run", kind, steps=200, valid=0.0)
    aligned = model.align("der Mann schläft groß", "the man sleeps big")
    assert "image/svg+xml" in aligned._repr_mimebundle_()
    assert aligned.source == ("der", "Mann", "schläft", "groß", "<end>")
    assert aligned.target == ("the", "man", "sleeps", "big", "<end>")
    assert aligned.values.shape == (5, 5)
    assert aligned.is_exact == (kind == "backpack")
    if kind != "backpack":
        np.testing.assert_allclose(aligned.values.sum(axis=1), 1, atol=1e-5)
    else:
        # Contributions are exact: the largest one to each target word is that of the source word it translates.
        assert aligned.values[:4, :4].argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_contributions_add_up_to_the_logits(pairs: Path, tmp_path: Path) -> None:
    model = train(pairs, tmp_path / "run", "backpack", steps=20, valid=0.0)
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
    centred = alignment.contributions(network, source, target, ends, above_mean=True)
    with torch.no_grad():
        mean = network(batch)[0].mean(dim=1).numpy()
    np.testing.assert_allclose(centred.sum(axis=(1, 2)), scores - mean, atol=1e-5)
    # Later target words have no contribution to earlier ones.
    assert not values[0, len(source) + 2 :].any()


def test_alignments_of_single_heads_average_to_the_alignment_of_the_layer(pairs: Path, tmp_path: Path) -> None:
    model = train(pairs, tmp_path / "run", "transformer", steps=2, valid=0.0)
    by_head = [model.align("der Hund", "the dog", layer=0, head=head).values for head in range(2)]
    np.testing.assert_allclose(np.mean(by_head, axis=0), model.align("der Hund", "the dog").values, atol=1e-6)
    with pytest.raises(SettingsError, match="--head 2 does not exist; expected heads 0 to 1"):
        model.align("der Hund", "the dog", head=2)
    with pytest.raises(SettingsError, match="--layer 1 does not exist; expected layers 0 to 0"):
        model.align("der Hund", "the dog", layer=1)
    recurrent = train(pairs, tmp_path / "lstm", steps=2, valid=0.0, settings={"model.attention": "none"})
    with pytest.raises(SettingsError, match="has no attention"):
        recurrent.align("der Hund", "the dog")
