"""Lessons as figures: the matrices of all steps on one slide."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from satchel.lessons.page import share_of_largest
from satchel.lessons.steps import Step, format_cell

if TYPE_CHECKING:
    from satchel.charts.figures import Figure


def figure(steps: Sequence[Step], title: str) -> "Figure":
    """Return the matrices of the steps, with one card per step that has any."""
    # Loaded here: altair takes 0.4 s, and most formats do not need it.
    from satchel.charts.cards import Card, CardMatrix, card_slide

    cards = [
        Card(
            step.title,
            [
                CardMatrix(
                    matrix.name,
                    [[format_cell(cell) for cell in row] for row in matrix.values],
                    share_of_largest(matrix),
                    matrix.rows,
                    matrix.columns,
                )
                for matrix in step.matrices
            ],
        )
        for step in steps
        if step.matrices
    ]
    return card_slide(cards, title)
