"""Perplexity: evaluation of language models, and why accuracy is not a sensible measure (items 87 to 89)."""

import math
from fractions import Fraction

from satchel.lessons.arithmetic import Number, exact
from satchel.lessons.checks import check
from satchel.lessons.steps import Step, format_cells, matrix, step, vector

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
    average = sum(losses) / len(losses)
    return [
        _accuracy(chances),
        step(
            "Average negative log-likelihood",
            "The log-probability of each word of a held-out text given the previous words, averaged over the words so "
            "that texts of different lengths are comparable. (The slide writes the average log-likelihood, but uses "
            "its negative, which is positive.)",
            matrix(
                "words",
                [(p, -loss, loss) for p, loss in zip(chances, losses, strict=True)],
                columns=("P", "log P", "-log P"),
            ),
            vector("average", (-average, average), ("log P", "-log P")),
            question=f"The probabilities are {format_cells(chances)}. What is the average of -log P (base e)?",
            answer=average,
        ),
        step(
            "Perplexity",
            "The exponential of the average negative log-likelihood. Lower is better; 1 means that every word is "
            "predicted with probability 1.",
            vector("perplexity", [math.exp(average)]),
            question=f"The average negative log-likelihood is {average:.3f}. What is the perplexity?",
            answer=math.exp(average),
        ),
        *_means(chances, average),
        _zero_probability(losses),
    ]


def _accuracy(chances: list[Number]) -> Step:
    # A word with a probability above 1/2 is the most probable one; for other words this depends on the rest.
    lowest = Fraction(sum(p > Fraction(1, 2) for p in chances), len(chances))
    return step(
        "Accuracy is not a sensible measure",
        "The next word can rarely be predicted with certainty, so the accuracy is low for every model. It also ignores "
        "the probabilities: with these probabilities of the correct words, another word may or may not be more "
        "probable, so the accuracy can vary while the likelihood is the same.",
        vector("accuracy", (lowest, Fraction(1)), ("lowest possible", "highest possible")),
        question=f"The correct words have P = {format_cells(chances)}. What is the lowest possible accuracy?",
        answer=lowest,
    )


def _means(chances: list[Number], average: float) -> list[Step]:
    inverses = [1 / p for p in chances]
    product = math.prod(inverses, start=Fraction(1))
    count = len(chances)
    return [
        step(
            "Geometric mean",
            "Perplexity is the geometric mean of 1/P: the n-th root of the product. (The slide calls 1/P the "
            "denominators, which they are if the numerators are 1.) A model with perplexity k is as uncertain as a "
            "uniform choice among k words. The arithmetic mean is never smaller than the geometric mean.",
            vector("1/P", inverses),
            vector(
                "means",
                (product, float(product) ** (1 / count), float(sum(inverses)) / count),
                ("product", "geometric mean", "arithmetic mean"),
            ),
            question=f"What is the product of the denominators {format_cells(inverses)}?",
            answer=product,
        ),
        step(
            "A text twice as long",
            "The same probabilities repeated: the likelihood of the text is squared, its perplexity is the same, "
            "because perplexity is based on the average.",
            matrix(
                "text",
                [(times * count, float(1 / product) ** times, math.exp(average)) for times in (1, 2)],
                columns=("words", "likelihood", "perplexity"),
            ),
        ),
    ]


def _zero_probability(losses: list[float]) -> Step:
    added = [(p, -math.log(p) if p else math.inf) for p in (1e-3, 1e-6, 0.0)]
    averages = [(p, (sum(losses) + loss) / (len(losses) + 1)) for p, loss in added]
    return step(
        "A word with probability zero",
        "One more word with a low probability increases the perplexity; with probability 0 the perplexity is infinite. "
        "This is why n-gram models are smoothed.",
        matrix(
            "with one more word",
            [(p, average, math.exp(average)) for p, average in averages],
            columns=("its P", "average -log P", "perplexity"),
        ),
    )
