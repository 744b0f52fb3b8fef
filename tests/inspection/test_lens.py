"""Logit lens: the predictions of the head from the hidden states of each layer."""

from pathlib import Path

import numpy as np
import pytest
import torch

from satchel.errors import SettingsError
from satchel.inspection.lens import Lens, logit_lens
from satchel.inspection.trace import Targets, Trace, text_batch
from satchel.tasks.language import LanguageNetwork
from tests.inspection.conftest import train, untrained
from tests.models.encoders import make

IDS = np.array([10, 3, 1, 4, 1, 5, 9, 2])


def lens_of(name: str) -> tuple[Lens, torch.Tensor]:
    """Return the lens of a text without a target after the last token, and the log-probabilities of the network."""
    network = LanguageNetwork(make(name)).eval()
    tokens = [str(id_) for id_ in IDS]
    targets = Targets(tuple(tokens[1:]), tuple(IDS[1:].tolist()), np.zeros(7))
    trace = Trace(tokens, network, text_batch(network, IDS), targets=targets)
    return logit_lens(untrained(network), trace), torch.from_numpy(trace.logits).log_softmax(dim=-1)


@pytest.mark.parametrize("name", ["usual", "post-norm", "lstm", "no norm"])
def test_the_last_layer_predicts_what_the_network_predicts(name: str) -> None:
    lens, logprobs_TV = lens_of(name)
    assert lens.layers[0] == "embedded"
    assert len(lens.layers) == 3
    assert lens.predictions[-1] == tuple(f"word {id_}" for id_ in logprobs_TV.argmax(dim=-1))
    np.testing.assert_allclose(lens.probabilities[-1], logprobs_TV.amax(dim=-1).exp())
    np.testing.assert_allclose(lens.nats[-1, :-1], -logprobs_TV[torch.arange(7), torch.from_numpy(IDS[1:])])
    order_TV = logprobs_TV.argsort(dim=-1, descending=True).tolist()
    assert lens.ranks[-1, :-1].tolist() == [1 + order_TV[time].index(id_) for time, id_ in enumerate(IDS[1:])]


def test_a_position_without_a_target_has_rank_0_and_no_surprisal() -> None:
    lens, _ = lens_of("usual")
    assert lens.ranks[:, -1].tolist() == [0, 0, 0]
    assert np.isnan(lens.nats[:, -1]).all()


def test_a_backpack_is_an_error_that_names_contributions() -> None:
    with pytest.raises(SettingsError, match="contributions"):
        lens_of("backpack")


def test_language_models_and_taggers_have_a_lens(folder: Path) -> None:
    model = train(folder, model="transformer", tokenizer="word")
    np.testing.assert_allclose(
        model.lens("the cat sat on").nats[-1, :-1], model.trace("the cat sat on").surprise, rtol=1e-5
    )
    assert "image/svg+xml" in model.lens("the cat")._repr_mimebundle_()
    tagger = train(folder, "@counting", task="tag", settings={"data.size": 50})
    assert tagger.lens("a cat").predictions[-1] == tagger.tag("a cat").tags
    classifier = train(folder, "rows.tsv", model="transformer", tokenizer="word")
    with pytest.raises(SettingsError, match="task=classify"):
        classifier.lens("the cat sat")
