"""Perplexity: how a language model is measured, and why not by accuracy (items 87 to 89)."""

import math
from collections.abc import Sequence
from fractions import Fraction

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Number, Step, exact

MOST = 20
# Smaller ones, multiplied, would leave what a float can hold.
SMALLEST = 1e-12


def perplexity(probabilities: tuple[float, ...] = (0.25, 1 / 3, 0.25, 1 / 3)) -> list[Step]:
    """Return the likelihood and the perplexity of a text whose words got these probabilities."""
    if not 1 <= len(probabilities) <= MOST or not all(SMALLEST <= each <= 1 for each in probabilities):
        raise SettingsError(
            f"probabilities: found {', '.join(f'{each:g}' for each in probabilities) or 'none'}, expected 1 to {MOST} "
            f"numbers from {SMALLEST:g} to 1",
            "a word without any probability makes perplexity infinite; for example --set probabilities=0.25,0.5",
        )
    chances = [exact(each) for each in probabilities]
    losses = [-math.log(each) for each in chances]
    average = sum(losses) / len(losses)
    return [
        _accuracy(chances),
        Step(
            "Average negative log-likelihood",
            "The likelihood of held-out text: log P of each word given those before it, averaged so that long and "
            "short texts compare. The slide writes the average of log P and then uses its negative, which is positive.",
            (
                Matrix(
                    "words",
                    tuple((each, -loss, loss) for each, loss in zip(chances, losses, strict=True)),
                    columns=("P", "log P", "-log P"),
                ),
                Matrix("average", ((-average, average),), columns=("log P", "-log P")),
            ),
            f"The probabilities are {_listed(chances)}. What is the average of -log P (base e)?",
            (average,),
        ),
        Step(
            "Perplexity",
            "e to that power. Lower is better; 1 would be to know every word.",
            (Matrix("perplexity", ((math.exp(average),),)),),
            f"The average negative log-likelihood is {average:.3f}. What is the perplexity?",
            (math.exp(average),),
        ),
        *_means(chances, average),
        _impossible(losses),
    ]


def _listed(chances: Sequence[Number]) -> str:
    return ", ".join(str(each) if isinstance(each, Fraction) else f"{each:g}" for each in chances)


def _accuracy(chances: list[Number]) -> Step:
    # More than a half is more than all other words together; less can always be beaten, or be the most.
    certain = sum(each > Fraction(1, 2) for each in chances)
    count = len(chances)
    return Step(
        "Accuracy is no measure",
        "Which word comes next can seldom be known, so accuracy is low whatever the model. It also says little: with "
        "these probabilities of the right words, another word may have more, or none may. Accuracy can be anything "
        "between the two, the likelihood is the same.",
        (
            Matrix(
                "accuracy",
                ((Fraction(certain, count), Fraction(1)),),
                columns=("lowest possible", "highest possible"),
            ),
        ),
        f"The right words got {_listed(chances)}. What is the lowest accuracy that goes with that?",
        (Fraction(certain, count),),
    )


def _means(chances: list[Number], average: float) -> list[Step]:
    choices = [1 / each for each in chances]
    product = math.prod(choices, start=Fraction(1))
    count = len(chances)
    return [
        Step(
            "A geometric mean",
            "The same number without logarithms: the n-th root of the product of 1/P. The slide calls 1/P the "
            "denominators, which they are where the numerators are 1. It is as if the model chose among so many "
            "equally likely words each time. Their plain mean is never smaller.",
            (
                Matrix("1/P", (tuple(choices),)),
                Matrix(
                    "means",
                    ((product, float(product) ** (1 / count), float(sum(choices)) / count),),
                    columns=("product", "geometric mean", "plain mean"),
                ),
            ),
            f"What is the product of the denominators {_listed(choices)}?",
            (product,),
        ),
        Step(
            "Twice as long",
            "The same probabilities once more: the text is less likely by far, its perplexity the same. That is what "
            "the average is for.",
            (
                Matrix(
                    "text",
                    tuple((times * count, float(1 / product) ** times, math.exp(average)) for times in (1, 2)),
                    columns=("words", "likelihood", "perplexity"),
                ),
            ),
        ),
    ]


def _impossible(losses: list[float]) -> Step:
    last = (1e-3, 1e-6, 0.0)
    rows = [(each, (sum(losses) - (math.log(each) if each else -math.inf)) / (len(losses) + 1)) for each in last]
    return Step(
        "One impossible word",
        "Another word that the model thinks unlikely costs a lot; one that it thinks impossible costs everything. That "
        "is why counted models are smoothed.",
        (
            Matrix(
                "with one more word",
                tuple((each, loss, math.exp(loss)) for each, loss in rows),
                columns=("its P", "average -log P", "perplexity"),
            ),
        ),
    )
