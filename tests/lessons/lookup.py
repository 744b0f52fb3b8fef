"""Access to the steps and matrices of a lesson by title and name."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from satchel.lessons.arithmetic import Cell
from satchel.lessons.steps import Matrix, Step


def to_tensor(rows: Iterable[Iterable[Cell]], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor([[float(cell) for cell in row] for row in rows], dtype=dtype)


class Lookup:
    """Runs a lesson and returns the step whose title, or the matrix whose name, starts with a text."""

    def __init__(self, lesson: Callable[..., list[Step]], dtype: torch.dtype = torch.float32) -> None:
        self.lesson = lesson
        self.dtype = dtype

    def step(self, title: str, **settings: Any) -> Step:
        (step,) = (step for step in self.lesson(**settings) if step.title.startswith(title))
        return step

    def matrix(self, title: str, name: str = "", **settings: Any) -> Matrix:
        """Return the matrix with this name; without a name, the first matrix."""
        matrices = self.step(title, **settings).matrices
        exact = [matrix for matrix in matrices if matrix.name == name]
        return (exact or [matrix for matrix in matrices if matrix.name.startswith(name)])[0]

    def tensor(self, title: str, name: str = "", **settings: Any) -> Tensor:
        return to_tensor(self.matrix(title, name, **settings).values, self.dtype)
