"""Number formatting and text tables."""

import math
from fractions import Fraction

import pytest

from satchel.lessons.arithmetic import format_cell
from satchel.lessons.steps import Matrix, format_setting, text_lines


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
    ("value", "text"),
    [((0.25, 1 / 3), "0.25,1/3"), (10.0, "10"), (False, "false"), ("a b", "a b"),
     (math.e, "e"), (math.pi, "3.141592653589793")],
)  # fmt: skip
def test_settings_are_printed_in_the_syntax_of_the_command_line(value: object, text: str) -> None:
    assert format_setting(value) == text


def test_a_matrix_is_printed_with_labels_and_aligned_columns() -> None:
    assert text_lines(Matrix("m", ((1, Fraction(1, 3)), (10, 0)), ("the", "a"), ("x", "yy"))) == [
        "      x   yy",
        "the   1  1/3",
        "  a  10    0",
    ]
