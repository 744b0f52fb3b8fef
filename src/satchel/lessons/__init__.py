"""The worked examples of the lectures, with settings: `satchel.lessons.LESSONS["attention"].run(q=(0, 10))`."""

from satchel.lessons.registry import LESSONS as LESSONS
from satchel.lessons.steps import Lesson as Lesson
from satchel.lessons.steps import Matrix as Matrix
from satchel.lessons.steps import Step as Step
from satchel.lessons.steps import Steps as Steps

__all__ = ["LESSONS", "Lesson", "Matrix", "Step", "Steps"]
