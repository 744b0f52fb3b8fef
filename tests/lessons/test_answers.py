"""The check of answers: a table of correct and wrong answers to every question of every lesson."""

import math
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest

from satchel.lessons import LESSONS, Step
from satchel.lessons.answers import is_correct
from satchel.lessons.arithmetic import Cell
from satchel.lessons.expressions import evaluate, quantities

ANSWERS = tomllib.loads(Path(__file__).with_name("answers.toml").read_text(encoding="utf-8"))
QUESTIONS = {name: [step for step in lesson.run() if step.question] for name, lesson in LESSONS.items()}
CASES = [
    (name, question, answer, correct)
    for name, questions in ANSWERS.items()
    for question, answers in questions.items()
    for correct in (True, False)
    for answer in answers["right" if correct else "wrong"]
]


def find_step(name: str, question: str) -> Step:
    (step,) = [step for step in QUESTIONS[name] if step.question.startswith(question)]
    return step


def test_every_question_has_three_correct_and_two_wrong_answers() -> None:
    for name, steps in QUESTIONS.items():
        assert len(ANSWERS.get(name, {})) == len(steps)
        for question, answers in ANSWERS[name].items():
            assert find_step(name, question)
            assert len(answers["right"]) >= 3
            assert len(answers["wrong"]) >= 2


@pytest.mark.item(104)
@pytest.mark.parametrize("name", ANSWERS)
def test_correct_answers_are_accepted_and_wrong_ones_rejected(name: str) -> None:
    wrong = [
        (question, answer, correct)
        for lesson, question, answer, correct in CASES
        if lesson == name and find_step(name, question).is_correct(answer) != correct
    ]
    assert wrong == []


@pytest.mark.item(104)
@pytest.mark.parametrize(
    ("answer", "expected", "correct"),
    [
        ("1/6 1/6 1/2 1/6", (Fraction(1, 6), Fraction(1, 6), Fraction(1, 2), Fraction(1, 6)), True),
        ("[0.17, 0.17, 0.5, 0.17]", (Fraction(1, 6), Fraction(1, 6), Fraction(1, 2), Fraction(1, 6)), True),
        ("(1, 0)", (1, 0), True),
        ("196,608", (196608,), True),
        ("10,100", (10, 100), True),
        ("0,25", (0.25,), True),
        ("½", (0.5,), True),
        ("4x4", (4, 4), True),
        ("0 0 1", (0, 0, 1, 0), False),
        ("0 0 0 1", (0, 0, 1, 0), False),
        ("1e999999999", (1,), False),
        ("9^9^9^9", (1,), False),
        ("1/0", (1,), False),
        ("1/0", (0,), False),
        ("sqrt(-1)", (1,), False),
        ("no idea", (1,), False),
        ("not 4", (4,), False),
        ("4.05", (4,), False),
        ("", (0,), False),
        ("0" * 100_000, (0,), False),
        ("(" * 1900 + "1", (1,), True),
        ("-" * 1900 + "1", (1,), False),
        ("2^" * 900 + "1", (1,), False),
        ("It copies the INPUT", ("copy", "copies"), True),
        ("who knows", ("copy", "copies"), False),
        ("illogical", ("log",), False),
        ("it does not copy", ("copy",), False),
    ],
)
def test_answers_are_checked(answer: str, expected: tuple[Cell, ...], correct: bool) -> None:
    assert is_correct(answer, expected) == correct


def test_n_of_m_is_a_count_if_the_question_names_the_total_and_a_share_otherwise() -> None:
    question = "At how many of the 5 positions?"
    assert is_correct("4 of 5", (4,), question=question)
    assert is_correct("4 out of the 5", (4,), question=question)
    assert not is_correct("4 of 6", (4,), question=question)
    assert is_correct("2 of 3", (Fraction(2, 3),), question="Which share?")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("PE(0) = 0 1, PE(1) = 0.84 0.54", [0, 1, 0.84, 0.54]),
        ("sense 0: 1; sense 1: 0", [1, 0]),
        ("ln 12 / 2 = 1.2425", [1.2425]),
        ("e'_3 = [0.52, 0.48]", [0.52, 0.48]),
        ("1.1² and (11/10)^2", [1.21, 1.21]),
        ("-1 and minus one", [-1, -1]),
        ("W^Q is 10 times the identity", [10]),
    ],
)
def test_numbers_are_found_in_a_text(text: str, values: list[float]) -> None:
    assert [float(quantity.value) for quantity in quantities(text)] == pytest.approx(values)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1/4", 0.25), ("25%", 0.25), ("sqrt(2)", 2**0.5), ("ln(3)", math.log(3)), ("e", math.e), ("-2.5e-3", -0.0025),
     ("2*pi", 2 * math.pi), ("1 + 1/2", 1.5), ("2^-1", 0.5)],
)  # fmt: skip
def test_expressions_are_evaluated(text: str, value: float) -> None:
    assert float(evaluate(text)) == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["", "abc", "1,2", "1/0", "sqrt(-1)", "1 2", "9^9^9", "(1", "1e999", "__import__('os')"]
)
def test_other_texts_are_not_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        evaluate(text)
