"""Text classification by hand: the numbers of the lesson, and the same from the package."""

from fractions import Fraction

import pytest
import torch

from satchel.lessons.arithmetic import mean
from satchel.lessons.classifier import SCALE, attention_weights, classifier, embed, encode, probabilities
from satchel.nn.attention import attend
from satchel.tasks.classification import pooled
from tests.lessons.lookup import Lookup, to_tensor

lookup = Lookup(classifier, torch.float64)
step, matrix, tensor = lookup.step, lookup.matrix, lookup.tensor

WORDS = ("not", "bad", ",", "a", "lovely", "film")
HALF = Fraction(1, 2)


@pytest.mark.item(91)
def test_the_label_is_the_softmax_of_a_linear_layer_on_the_mean() -> None:
    # `not bad` counts 1 for good and `lovely` 2: 3 over 6 words.
    assert mean(encode(WORDS, positions=True)) == [HALF, 0, 0]
    assert step("Mean pooling").answer == (HALF,)
    assert step("Linear layer").answer == ("positive",)
    expected = torch.tensor([SCALE * 0.5, 0.0], dtype=torch.float64).softmax(dim=0)
    assert probabilities(WORDS, positions=True) == pytest.approx(expected.tolist())
    assert step("Linear layer", text="not lovely").answer == ("negative",)


@pytest.mark.parametrize("positions", [True, False])
def test_attention_and_mean_pooling_equal_those_of_the_package(positions: bool) -> None:
    expected = to_tensor(attention_weights(len(WORDS), positions), torch.float64)
    zeros = torch.zeros(len(WORDS), 1, dtype=torch.float64)
    outputs, weights = attend(zeros, zeros, to_tensor(embed(WORDS), torch.float64), expected > 0)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(outputs, tensor("Self-attention", "attention output", positions=positions))
    encodings = encode(WORDS, positions)
    torch.testing.assert_close(pooled(to_tensor(encodings)[None]), to_tensor([mean(encodings)]))


@pytest.mark.item(92)
def test_padding_is_masked_in_attention_and_mean() -> None:
    masked, unmasked = matrix("Padding", "mean", padding=6).values
    assert masked == (HALF, 0, 0)
    assert unmasked == (Fraction(1, 4), 0, 0)
    encodings = to_tensor(encode((*WORDS, "<pad>"), positions=True))[None]
    keep = torch.tensor([[True] * 6 + [False]])
    assert pooled(encodings, keep)[0, 0] == 0.5
    assert matrix("Padding", "mean", padding=0).values == ((HALF, 0, 0), (HALF, 0, 0))


@pytest.mark.item(93)
def test_word_order_changes_the_label_only_with_positions() -> None:
    with_positions, without_positions = matrix("Word order", "P(positive)", text="not bad").values
    assert float(with_positions[0]) > 0.5 > float(with_positions[1])
    assert without_positions[0] == without_positions[1]
