"""Training pairs: rows and losses equal those of the package and of torch."""

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss, pad

from satchel.data import batches
from satchel.lessons.training_pairs import (
    NO_TARGET,
    START,
    make_pairs,
    probability,
    target_probabilities,
    training_pairs,
)
from satchel.tasks.language import chunked, shifted
from tests.lessons.lookup import Lookup

lookup = Lookup(training_pairs)
step, matrix = lookup.step, lookup.matrix

TEXT = "I saw the dog running in the park and it looked very excited to be there"
WORDS = tuple(TEXT.split())
VOCABULARY = tuple(dict.fromkeys(WORDS))


def logprobs(inputs: tuple[str, ...]) -> Tensor:
    """Return the (T, V) log-probabilities of the model of the lesson after each input."""
    prefixes = [inputs[:stop] for stop in range(1, len(inputs) + 1)]
    rows = [[math.log(probability(word, prefix, VOCABULARY)) for word in VOCABULARY] for prefix in prefixes]
    return torch.tensor(rows, dtype=torch.float64)


def target_ids(words: tuple[str, ...]) -> Tensor:
    return torch.tensor([VOCABULARY.index(word) for word in words])


@pytest.mark.item(81)
def test_the_targets_are_the_inputs_shifted_by_one() -> None:
    pair = matrix("Inputs and targets", "pair")
    assert " ".join(map(str, pair.values[0])) == "<s> I saw the dog"
    assert " ".join(map(str, pair.values[1])) == "I saw the dog running"
    assert step("Inputs and targets").is_correct("I saw the dog running")
    assert not step("Inputs and targets").is_correct("saw the dog running in")
    inputs, outputs = shifted(list(range(6)))
    assert inputs.tolist() == [0, 1, 2, 3, 4]
    assert outputs.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.item(85)
def test_every_chunk_starts_with_the_boundary() -> None:
    rows = [" ".join(map(str, row)) for row in matrix("Chunks", "rows").values]
    assert rows == [
        "<s> I saw the dog",
        "I saw the dog running",
        "<s> in the park and",
        "in the park and it",
        "<s> looked very excited to",
        "looked very excited to be",
        "<s> - - - -",
        "there - - - -",
    ]
    assert step("Chunks").answer == ("looked",)


@pytest.mark.item(85)
@pytest.mark.parametrize("length", [1, 3, 5, 16, 20])
def test_the_rows_equal_the_training_rows_of_the_package(length: int) -> None:
    ids = {word: number for number, word in enumerate(VOCABULARY)} | {START: len(VOCABULARY)}
    inputs_BT, targets_BT = chunked([ids[word] for word in WORDS], length, ids[START])
    rows = matrix("Chunks", "rows", length=length).values
    for number, (inputs, targets) in enumerate(zip(rows[::2], rows[1::2], strict=True)):
        # The package pads inputs with the boundary; padding has no target.
        assert [ids[START] if word == NO_TARGET else ids[str(word)] for word in inputs] == inputs_BT[number].tolist()
        expected = [batches.NO_TARGET if word == NO_TARGET else ids[str(word)] for word in targets]
        assert expected == targets_BT[number].tolist()
    assert len(rows) == 2 * len(inputs_BT)


@pytest.mark.item(82)
def test_one_pass_gives_the_probabilities_of_each_prefix() -> None:
    for length in (5, 16):
        for inputs, targets in make_pairs(WORDS, length):
            prefixes = [inputs[:stop] for stop in range(1, len(inputs) + 1)]
            expected = [probability(word, prefix, VOCABULARY) for prefix, word in zip(prefixes, targets, strict=True)]
            assert target_probabilities(inputs, targets, VOCABULARY) == expected
    rows = matrix("All positions", "prefix by prefix").values
    assert tuple(row[2] for row in rows) == matrix("All positions", "one pass").values[0]
    assert rows[0] == ("<s>", "I", Fraction(1, 15), math.log(15))
    assert rows[4][:3] == ("<s> I saw the dog", "running", Fraction(2, 43))
    assert step("All positions").answer == (5,)


@pytest.mark.item(82)
def test_the_probabilities_of_the_model_sum_to_one() -> None:
    for prefix in ((START,), (START, "I", "saw"), WORDS):
        assert sum(probability(word, prefix, VOCABULARY) for word in VOCABULARY) == 1


@pytest.mark.item(83)
def test_the_slide_uses_the_sum_and_its_loss_function_the_mean() -> None:
    total, mean = map(float, matrix("The loss", "loss of row 1").values[0])
    row, targets = logprobs((START, *WORDS[:4])), target_ids(WORDS[:5])
    assert float(nn.NLLLoss(reduction="sum")(row, targets)) == pytest.approx(total, rel=1e-12)
    assert float(nn.NLLLoss()(row, targets)) == pytest.approx(mean, rel=1e-12)
    assert total == pytest.approx(5 * mean)
    assert total != pytest.approx(mean)
    assert step("The loss").answer == (5,)


@pytest.mark.item(84)
def test_a_batch_is_reshaped_to_one_row() -> None:
    rows = make_pairs(WORDS, 5)
    logprobs_BTV = torch.stack([logprobs((*inputs, *[START] * (5 - len(inputs)))) for inputs, _ in rows])
    targets_BT = torch.stack([pad(target_ids(targets), (0, 5 - len(targets)), value=-100) for _, targets in rows])
    flattened = logprobs_BTV.flatten(0, 1), targets_BT.flatten()
    total, mean, mean_of_means = map(float, matrix("Loss of a batch", "batch").values[0])
    assert float(nll_loss(*flattened, reduction="sum")) == pytest.approx(total, rel=1e-12)
    assert float(nll_loss(*flattened)) == pytest.approx(mean, rel=1e-12)
    by_row = [float(nll_loss(*row)) for row in zip(logprobs_BTV, targets_BT, strict=True)]
    assert sum(by_row) / 4 == pytest.approx(mean_of_means, rel=1e-12)
    assert abs(mean - mean_of_means) > 0.01
    assert [row[0] for row in matrix("Loss of a batch", "by row").values] == [5, 5, 5, 1]
    assert "[4, 5, 15] is reshaped to [20, 15]; 16 positions" in step("Loss of a batch").text


@pytest.mark.item(84)
def test_the_two_means_are_equal_for_rows_of_the_same_length() -> None:
    _, mean, mean_of_means = map(float, matrix("Loss of a batch", "batch", length=4).values[0])
    assert mean == pytest.approx(mean_of_means, rel=1e-12)
