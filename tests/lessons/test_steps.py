"""Number formatting, text tables, and the check of answers."""

from fractions import Fraction

import pytest

from satchel.lessons.arithmetic import Cell, format_cell
from satchel.lessons.steps import Matrix, format_setting, is_correct, text_lines


@pytest.mark.item(104)
@pytest.mark.parametrize(
    ("answer", "expected", "correct"),
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
def test_answers_are_checked(answer: str, expected: tuple[Cell, ...], correct: bool) -> None:
    assert is_correct(answer, expected) == correct


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
def test_numbers_are_integers_fractions_or_decimals(cell: float, text: str) -> None:
    assert format_cell(cell) == text


@pytest.mark.parametrize(
    ("value", "text"), [((0.25, 1 / 3), "0.25,0.3333333333333333"), (10.0, "10"), (False, "false"), ("a b", "a b")]
)
def test_settings_are_printed_in_the_syntax_of_the_command_line(value: object, text: str) -> None:
    assert format_setting(value) == text


def test_a_matrix_is_printed_with_labels_and_aligned_columns() -> None:
    assert text_lines(Matrix("m", ((1, Fraction(1, 3)), (10, 0)), ("the", "a"), ("x", "yy"))) == [
        "      x   yy",
        "the   1  1/3",
        "  a  10    0",
    ]
