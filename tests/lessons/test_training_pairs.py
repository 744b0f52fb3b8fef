"""Training pairs: the lesson's rows and losses are those of the package and of torch."""

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss, pad

from satchel.errors import SettingsError
from satchel.lessons.steps import Lesson, Matrix, Step, is_right
from satchel.lessons.training_pairs import NO_TARGET, START, all_at_once, pairs, probability, training_pairs
from satchel.tasks import objectives
from satchel.tasks.language import chunked, shifted

TEXT = "I saw the dog running in the park and it looked very excited to be there"
WORDS = tuple(TEXT.split())
VOCABULARY = tuple(dict.fromkeys(WORDS))


def step(title: str, **dials: Any) -> Step:
    """Return the one step whose title begins so."""
    (found,) = (each for each in training_pairs(**dials) if each.title.startswith(title))
    return found


def matrix(title: str, name: str, **dials: Any) -> Matrix:
    (found,) = (each for each in step(title, **dials).matrices if each.name == name)
    return found


def logprobs(inputs: tuple[str, ...]) -> Tensor:
    """Return the (T, V) log-probabilities of the lesson's model after each input."""
    prefixes = [inputs[:stop] for stop in range(1, len(inputs) + 1)]
    rows = [[math.log(probability(word, prefix, VOCABULARY)) for word in VOCABULARY] for prefix in prefixes]
    return torch.tensor(rows, dtype=torch.float64)


def targets(words: tuple[str, ...]) -> Tensor:
    return torch.tensor([VOCABULARY.index(word) for word in words])


@pytest.mark.item(81)
def test_the_target_is_the_input_one_place_on() -> None:
    pair = matrix("Shifted", "pair")
    assert " ".join(map(str, pair.values[0])) == "<s> I saw the dog"
    assert " ".join(map(str, pair.values[1])) == "I saw the dog running"
    assert is_right("I saw the dog running", step("Shifted").answer)
    assert not is_right("saw the dog running in", step("Shifted").answer)
    inputs, outputs = shifted(list(range(6)))
    assert inputs.tolist() == [0, 1, 2, 3, 4]
    assert outputs.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.item(85)
def test_every_chunk_begins_again() -> None:
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
def test_the_rows_are_those_the_package_trains_on(length: int) -> None:
    ids = {word: number for number, word in enumerate(VOCABULARY)} | {START: len(VOCABULARY)}
    inputs_BT, targets_BT = chunked([ids[word] for word in WORDS], length, ids[START])
    shown = matrix("Chunks", "rows", length=length).values
    for number, (inputs, wanted) in enumerate(zip(shown[::2], shown[1::2], strict=True)):
        # What fills a short row is never a target; the package fills its inputs with the boundary.
        assert [ids[START] if word == NO_TARGET else ids[str(word)] for word in inputs] == inputs_BT[number].tolist()
        expected = [objectives.NO_TARGET if word == NO_TARGET else ids[str(word)] for word in wanted]
        assert expected == targets_BT[number].tolist()
    assert len(shown) == 2 * len(inputs_BT)


@pytest.mark.item(82)
def test_all_positions_at_once_equal_the_prefixes_one_at_a_time() -> None:
    for length in (5, 16):
        for inputs, wanted in pairs(WORDS, length):
            prefixes = [inputs[:stop] for stop in range(1, len(inputs) + 1)]
            alone = [probability(word, prefix, VOCABULARY) for prefix, word in zip(prefixes, wanted, strict=True)]
            assert all_at_once(inputs, wanted, VOCABULARY) == alone
    shown = matrix("All positions", "prefix by prefix").values
    assert tuple(row[2] for row in shown) == matrix("All positions", "one pass").values[0]
    assert shown[0] == ("<s>", "I", Fraction(1, 16), math.log(16))
    assert shown[4][:3] == ("<s> I saw the dog", "running", Fraction(2, 43))
    assert step("All positions").answer == (5,)


@pytest.mark.item(82)
def test_the_model_of_the_lesson_is_one() -> None:
    for prefix in ((START,), (START, "I", "saw"), WORDS):
        assert sum(probability(word, prefix, VOCABULARY) for word in VOCABULARY) == 1


@pytest.mark.item(83)
def test_the_slide_sums_and_its_loss_function_averages() -> None:
    total, mean = map(float, matrix("The loss", "loss of row 1").values[0])
    row, wanted = logprobs((START, *WORDS[:4])), targets(WORDS[:5])
    assert float(nn.NLLLoss(reduction="sum")(row, wanted)) == pytest.approx(total, rel=1e-12)
    assert float(nn.NLLLoss()(row, wanted)) == pytest.approx(mean, rel=1e-12)
    assert total == pytest.approx(5 * mean)
    assert total != pytest.approx(mean)
    assert step("The loss").answer == (5,)


@pytest.mark.item(84)
def test_a_batch_collapses_to_one_long_row() -> None:
    rows = pairs(WORDS, 5)
    logprobs_BTV = torch.stack([logprobs((*inputs, *[START] * (5 - len(inputs)))) for inputs, _ in rows])
    targets_BT = torch.stack([pad(targets(wanted), (0, 5 - len(wanted)), value=-100) for _, wanted in rows])
    flat = logprobs_BTV.flatten(0, 1), targets_BT.flatten()
    total, mean, of_means = map(float, matrix("A batch", "batch").values[0])
    assert float(nll_loss(*flat, reduction="sum")) == pytest.approx(total, rel=1e-12)
    assert float(nll_loss(*flat)) == pytest.approx(mean, rel=1e-12)
    by_row = [float(nll_loss(*row)) for row in zip(logprobs_BTV, targets_BT, strict=True)]
    assert sum(by_row) / 4 == pytest.approx(of_means, rel=1e-12)
    assert abs(mean - of_means) > 0.01
    assert [row[0] for row in matrix("A batch", "by row").values] == [5, 5, 5, 1]
    assert "[4, 5, 15] collapses to [20, 15], of which 16" in step("A batch").text


@pytest.mark.item(84)
def test_with_rows_of_one_length_the_two_means_agree() -> None:
    _, mean, of_means = map(float, matrix("A batch", "batch", length=4).values[0])
    assert mean == pytest.approx(of_means, rel=1e-12)


def test_dials_are_read_as_settings() -> None:
    lesson = Lesson("training-pairs", "Training pairs", "slides", tuple(range(81, 86)), training_pairs)
    assert lesson.run(length=3, text="a b c d")[1].answer == ("d",)
    with pytest.raises(SettingsError, match="length"):
        lesson.run(length=2.5)


@pytest.mark.parametrize(
    ("dials", "cause"),
    [
        ({"text": "one"}, "text: found 1 words, expected 2 to 200"),
        ({"text": "a " * 201}, "text: found 201"),
        ({"length": 0}, "length: found 0, expected 1 to 200"),
        ({"length": 10**9}, "length: found 1000000000"),
    ],
)
def test_bad_dials_are_told(dials: dict[str, Any], cause: str) -> None:
    with pytest.raises(SettingsError, match=cause) as caught:
        training_pairs(**dials)
    assert caught.value.remedy
