"""Perplexity: evaluation of language models, and why accuracy is not a sensible measure (items 87 to 89)."""

import math
from fractions import Fraction
from functools import partial

from satchel.lessons.arithmetic import exact
from satchel.lessons.checks import check
from satchel.lessons.steps import Step, build_step, format_cells, matrix, vector

step = partial(build_step, "perplexity")

# Maximum number of words, and smallest probability of a word: their product must be representable as a float.
MOST = 20
SMALLEST = 1e-12


def perplexity(probabilities: tuple[float, ...] = (0.25, 1 / 3, 0.25, 1 / 3)) -> list[Step]:
    """Return the likelihood and the perplexity of a text, given the probabilities of its words."""
    valid = 1 <= len(probabilities) <= MOST and all(SMALLEST <= p <= 1 for p in probabilities)
    values = ", ".join(f"{p:g}" for p in probabilities) or "none"
    expected = f"1 to {MOST} numbers from {SMALLEST:g} to 1 (0 makes the perplexity infinite)"
    check(valid, "probabilities", values, expected, "0.25,0.5")
    chances = [exact(p) for p in probabilities]
    losses = [-math.log(p) for p in chances]
    count = len(losses)
    average = sum(losses) / count
    # A word with a probability above 1/2 is the most probable one; for other words this depends on the rest.
    lowest = Fraction(sum(p > Fraction(1, 2) for p in chances), count)
    inverses = [1 / p for p in chances]
    product = math.prod(inverses, start=Fraction(1))
    added = [(p, -math.log(p) if p else math.inf) for p in (1e-3, 1e-6, 0.0)]
    averages = [(p, (sum(losses) + loss) / (count + 1)) for p, loss in added]
    return [
        step(
            "Accuracy is not a sensible measure",
            vector("accuracy", (lowest, Fraction(1)), ("lowest possible", "highest possible")),
            answer=lowest,
            chances=format_cells(chances),
        ),
        step(
            "Average negative log-likelihood",
            matrix(
                "words",
                [(p, -loss, loss) for p, loss in zip(chances, losses, strict=True)],
                columns=("P", "log P", "-log P"),
            ),
            vector("average", (-average, average), ("log P", "-log P")),
            answer=average,
            chances=format_cells(chances),
        ),
        step("Perplexity", vector("perplexity", [math.exp(average)]), answer=math.exp(average), average=average),
        step(
            "Geometric mean",
            vector("1/P", inverses),
            vector(
                "means",
                (product, float(product) ** (1 / count), float(sum(inverses)) / count),
                ("product", "geometric mean", "arithmetic mean"),
            ),
            answer=product,
            inverses=format_cells(inverses),
        ),
        step(
            "A text twice as long",
            matrix(
                "text",
                [(times * count, float(1 / product) ** times, math.exp(average)) for times in (1, 2)],
                columns=("words", "likelihood", "perplexity"),
            ),
        ),
        step(
            "A word with probability zero",
            matrix(
                "with one more word",
                [(p, average, math.exp(average)) for p, average in averages],
                columns=("its P", "average -log P", "perplexity"),
            ),
        ),
    ]
