"""Hidden states of texts and words at every layer."""

import numpy as np
import pytest

from satchel.inspection.hidden_states import hidden_layers, mean_by_word, read_states, source_encoder
from satchel.tasks.translation import TranslationNetwork
from satchel.text.words import Word
from tests.models import test_pair
from tests.models.encoders import SETTINGS, make


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_states_of_a_text_do_not_depend_on_the_other_texts_of_a_batch(name: str, causal: bool) -> None:
    encoder = make(name, causal=causal)
    layers = hidden_layers(encoder)
    texts = [np.array(ids) for ids in ([3, 1, 4, 1, 5], [9, 2], [6, 5, 3])]
    states = dict(read_states(encoder, texts, layers))
    assert sorted(states) == [0, 1, 2]
    for row, text in enumerate(texts):
        ((_, alone),) = read_states(encoder, [text], layers)
        for site in layers:
            assert states[row][site].shape == (len(text), encoder.width)
            np.testing.assert_allclose(states[row][site], alone[site], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("usual", ("embedded", "blocks.0.output", "blocks.1.output", "encoded")),
        # Without a final norm, the output of the last layer is the input of the head.
        ("post-norm", ("embedded", "blocks.0.output", "blocks.1.output")),
        ("lstm", ("embedded", "layers.0.states", "layers.1.states")),
        ("dan", ("embedded", "encoded")),
        ("backpack", ("embedded", "contextualiser.blocks.0.output", "encoded")),
    ],
)
def test_layers_are_listed_once_from_the_embedding_to_the_input_of_the_head(name: str, layers: tuple[str, ...]) -> None:
    assert hidden_layers(make(name)) == layers


@pytest.mark.parametrize("name", test_pair.SETTINGS)
def test_the_source_of_a_translator_is_read_by_an_encoder(name: str) -> None:
    encoder = source_encoder(TranslationNetwork(test_pair.make_pair(test_pair.SETTINGS[name])).eval())
    layers = hidden_layers(encoder)
    assert layers[0] == "embedded"
    ((_, states),) = read_states(encoder, [np.array([1, 2, 3])], layers)
    assert {value.shape for value in states.values()} == {(3, encoder.width)}


def test_the_vector_of_a_word_is_the_mean_over_its_tokens() -> None:
    states_TD = np.array([[1.0, 0.0], [3.0, 2.0], [0.0, 4.0]])
    np.testing.assert_array_equal(mean_by_word(states_TD, [Word("a", 0, 2), Word("b", 2, 3)]), [[2, 1], [0, 4]])
    assert mean_by_word(states_TD, []).shape == (0, 2)
