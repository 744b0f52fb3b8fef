"""Parameters changed in place, also without a new version, take effect in the next call of every method."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import satchel
from satchel.nn.linear import MIN_MATRIX

TEXT = "the cat sat on the mat and the dog sat on the cat near the old log\n" * 30
PROMPT = "the cat sat on the mat and the dog sat on the cat near the old log " * 3


@pytest.fixture(scope="module")
def backpack(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A Backpack whose matrices are large enough for oneDNN layouts."""
    folder = tmp_path_factory.mktemp("edits")
    (folder / "text.txt").write_text(TEXT)
    sizes = {"model.width": 480, "model.layers": 1, "model.heads": 2, "model.senses": 3, "model.context": 128}
    settings = {**sizes, "model.sense_hidden": 480, "training.threads": 1, "model.ngram": 0}
    return satchel.train(
        folder / "text.txt", model="backpack", tokenizer="bpe:400", steps=2, out=folder / "run", settings=settings
    )


RESULTS: dict[str, Callable[[Any], Any]] = {
    "generate": lambda model: model.generate(PROMPT, tokens=50, temperature=0).samples[0].ids,
    "score": lambda model: model.score(PROMPT).logprobs,
    "next": lambda model: model.next(PROMPT, top=50).probabilities,
    "senses": lambda model: [each.promotes[0][1] for each in model.senses("cat").senses],
    "contributions": lambda model: model.contributions(PROMPT, 5).values,
    "similarity": lambda model: model.similarity("cat", "mat").by_sense,
}
# Results that depend on the senses alone, not on their weights.
OF_SENSES = {"senses", "similarity"}


@pytest.mark.parametrize(
    "name",
    [
        "encoder.embedding",
        "encoder.sense_network.spread",
        "encoder.sense_network.block.widen",
        "encoder.sense_attention.project",
        "encoder.contextualiser.blocks.0.attention.out",
        "encoder.contextualiser.blocks.0.feedforward.narrow",
    ],
)
def test_an_edit_of_the_data_of_a_parameter_takes_effect_in_the_next_call(backpack: Any, name: str) -> None:
    weight = backpack.network.get_submodule(name).weight
    assert weight.numel() >= MIN_MATRIX
    version, original = weight._version, weight.detach().clone()
    before = {key: result(backpack) for key, result in RESULTS.items()}
    try:
        weight.data.copy_(torch.randn_like(weight))
        assert weight._version == version
        changed = {key: result(backpack) for key, result in RESULTS.items()}
        for key in RESULTS if "sense_network" in name or "embedding" in name else RESULTS.keys() - OF_SENSES:
            # A generated text may stay the same although the probabilities differ.
            assert key == "generate" or not np.allclose(changed[key], before[key], rtol=1e-4), key
        # A network that is loaded from these parameters gives the same results.
        reloaded = satchel.load(backpack.folder)
        reloaded.network.load_state_dict(backpack.network.state_dict())
        for key, result in RESULTS.items():
            np.testing.assert_allclose(changed[key], result(reloaded), rtol=1e-5, atol=1e-6, err_msg=key)
    finally:
        weight.data.copy_(original)
