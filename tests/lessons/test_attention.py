"""The lesson on attention by hand prints what the lecture prints, and its dials turn."""

import math
import shlex
from fractions import Fraction

import pytest
import torch

from satchel.api import plan
from satchel.config import parse_assignments
from satchel.errors import SettingsError
from satchel.lessons import LESSONS
from satchel.lessons.attention import attention
from satchel.lessons.steps import Matrix, Step, is_right, lines, shown, softmax
from satchel.lessons.trained import TRAINED
from satchel.nn.attention import softmax as network_softmax


def matrix(steps: list[Step], title: str, name: str) -> Matrix:
    step = next(step for step in steps if step.title.startswith(title))
    return next(each for each in step.matrices if each.name == name)


@pytest.mark.item(13, 14, 15, 16, 17, 18)
def test_the_lectures_fractions() -> None:
    steps = attention()
    assert matrix(steps, "1.", "scores").values == ((0, 0, 1, 0),)
    assert matrix(steps, "2.", "weights").values == ((Fraction(1, 6), Fraction(1, 6), Fraction(1, 2), Fraction(1, 6)),)
    assert matrix(steps, "3.", "output").values == ((Fraction(1, 2), Fraction(1, 2)),)


@pytest.mark.item(17, 18)
def test_with_the_true_e() -> None:
    steps = attention(base=math.e)
    assert matrix(steps, "2.", "weights").values[0] == pytest.approx([0.17488, 0.17488, 0.47537, 0.17488], abs=5e-6)
    assert matrix(steps, "3.", "output").values[0] == pytest.approx([0.52463, 0.47537], abs=5e-6)


@pytest.mark.item(19, 20, 21, 22)
def test_the_average_the_sharper_query_and_every_string() -> None:
    steps = attention()
    assert matrix(steps, "Compared", "average").values == ((Fraction(3, 4), Fraction(1, 4)),)
    assert matrix(steps, "A query 10", "scores").values == ((0, 0, 10, 0),)
    assert float(matrix(steps, "A query 10", "weights").values[0][2]) == pytest.approx(0.999949, abs=5e-7)
    assert matrix(steps, "Keys", "scores").values == ((0, 0, 10, 0),)
    right = [row[1] for row in matrix(steps, "How sharp", "right answers").values]
    assert right == ["12 of 16", "16 of 16", "16 of 16"]
    assert "1.0986" in next(step.text for step in steps if step.title.startswith("How sharp"))


@pytest.mark.parametrize("base", [3.0, math.e, 2.5])
def test_the_weights_are_those_of_the_layers(base: float) -> None:
    scores = [0, 3, -2, 0.5, -math.inf]
    expected = network_softmax(torch.tensor(scores, dtype=torch.float64), base=base)
    assert [float(weight) for weight in softmax(scores, base)] == pytest.approx(expected.tolist())
    assert softmax([-math.inf, -math.inf]) == [0, 0]


def test_the_dials_turn() -> None:
    steps = LESSONS["attention"].run(sequence="BB", q=[0, 2], base=3)
    assert matrix(steps, "1.", "scores").values == ((2, 2),)
    assert matrix(steps, "2.", "weights").values == ((Fraction(1, 2), Fraction(1, 2)),)


@pytest.mark.parametrize(
    ("dials", "said"),
    [
        ({"sequence": "ABC"}, "expected As and Bs"),
        ({"sequence": "A" * 13}, "expected at most 12"),
        ({"base": 1.0}, "expected more than 1"),
        ({"q": [1, 2, 3]}, "q"),
        ({"bse": 3}, "did you mean base?"),
        ({"sharp": "x"}, "sharp: found"),
    ],
)
def test_a_dial_that_does_not_turn_that_way_is_told(dials: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        LESSONS["attention"].run(**dials)
    assert said in str(caught.value)


@pytest.mark.item(104)
@pytest.mark.parametrize(
    ("answer", "expected", "right"),
    [
        ("1/6 1/6 1/2 1/6", (Fraction(1, 6), Fraction(1, 6), Fraction(1, 2), Fraction(1, 6)), True),
        ("[0.17, 0.17, 0.5, 0.17]", (Fraction(1, 6), Fraction(1, 6), Fraction(1, 2), Fraction(1, 6)), True),
        ("(1, 0)", (1, 0), True),
        ("196,608", (196608,), True),
        ("4x4", (4, 4), True),
        ("0 0 1", (0, 0, 1, 0), False),
        ("0 0 0 1", (0, 0, 1, 0), False),
        ("1e999999999", (1,), False),
        ("1/0", (1,), False),
        ("no idea", (1,), False),
        ("It copies the INPUT", ("copy", "copies"), True),
        ("who knows", ("copy", "copies"), False),
    ],
)
def test_answers_are_checked(answer: str, expected: tuple[int, ...], right: bool) -> None:
    assert is_right(answer, expected) == right


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Fraction(1, 6), "1/6"),
        (Fraction(3), "3"),
        (0.5, "0.5"),
        (0.999949, "0.9999"),
        (0.99999, "1.0000"),
        (1.0, "1"),
        (1e-5, "1.0e-05"),
    ],
)
def test_numbers_are_shown_as_people_write_them(cell: float, text: str) -> None:
    assert shown(cell) == text


def test_a_matrix_is_shown_with_its_words_and_aligned() -> None:
    assert lines(Matrix("m", ((1, Fraction(1, 3)), (10, 0)), ("the", "a"), ("x", "yy"))) == [
        "      x   yy",
        "the   1  1/3",
        "  a  10    0",
    ]


@pytest.mark.item(104)
@pytest.mark.parametrize("name", LESSONS)
def test_every_lesson_runs_has_steps_and_its_questions_are_answered_by_itself(name: str) -> None:
    lesson = LESSONS[name]
    steps = lesson.run()
    assert len(steps) > 2
    assert lesson.items
    for step in steps:
        assert step.title
        for each in step.matrices:
            assert lines(each)
        if step.answer:
            assert step.question
            assert is_right(" ".join(shown(cell) for cell in step.answer), step.answer)


@pytest.mark.parametrize("name", TRAINED)
def test_what_was_trained_closes_its_lesson_with_a_command_that_works(name: str) -> None:
    assert LESSONS[name].run()[-1] is TRAINED[name]
    options = shlex.split(TRAINED[name].text.partition("See it: ")[2].rstrip("."))
    assert options[:2] == ["satchel", "train"]
    given = parse_assignments(options[at + 1] for at, option in enumerate(options) if option == "--set")
    recipe = options[options.index("--recipe") + 1] if "--recipe" in options else None
    plan(options[2] if options[2].startswith("@") else "@python-docs", recipe=recipe, settings=given)
