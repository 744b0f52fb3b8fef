"""Encoder-decoder models: a fixed-size context vector, and attention over the encoder states (items 38 to 42)."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from satchel.lessons.arithmetic import Number, Rows, Vector, attend, exact, matmul, mean, softmax, transpose
from satchel.lessons.checks import check
from satchel.lessons.steps import Step, build_step, format_cells, matrix, vector

step = partial(build_step, "encoder-decoder")

# Made-up encoder states after three words of the lecture's Swedish sentence.
WORDS = ("varför", "minskar", "utsläpp")
STATES = ((2, 0), (0, 1), (1, 1))
TARGETS = ("why", "reducing", "emissions")
# Output projection W, one row per target word; the columns apply to concat(s, c). The bias is 0.
OUTPUT = ((1, 0, 2, -1), (-1, 1, -1, 2), (0, 1, 1, 1))
LARGEST = 1000

Reduction = Literal["last", "mean", "max"]
Query = Literal["previous", "current"]

REDUCTIONS: dict[Reduction, Callable[[Rows], list[Number]]] = {
    "last": lambda states: list(states[-1]),
    "mean": mean,
    "max": lambda states: [max(column) for column in zip(*states, strict=True)],
}


def predict(state: Vector, context: Vector, output: Rows = OUTPUT) -> tuple[list[Number], list[Number]]:
    """Return the logits W concat(s, c) and the probabilities of the target words."""
    (logits,) = matmul([[*state, *context]], transpose(output))
    return logits, softmax(logits)


def encoder_decoder(
    previous: tuple[float, ...] = (2, 0),
    current: tuple[float, ...] = (0, 2),
    query: Query = "current",
    reduction: Reduction = "last",
) -> list[Step]:
    """Return the prediction of one target word from a fixed-size context vector, and from attention."""
    width = len(STATES[0])
    for name, state in (("previous", previous), ("current", current)):
        valid = len(state) == width and all(abs(number) <= LARGEST for number in state)
        check(valid, name, format_cells(state), f"{width} numbers from -{LARGEST} to {LARGEST}", "0,2")
    s_previous, s_current = ([exact(number) for number in state] for state in (previous, current))
    return [*_fixed_context(s_current, reduction), *_attention(s_previous, s_current, query)]


def _fixed_context(state: list[Number], reduction: Reduction) -> list[Step]:
    contexts = {name: reduce(STATES) for name, reduce in REDUCTIONS.items()}
    of_longer = {name: reduce([*STATES, *STATES]) for name, reduce in REDUCTIONS.items()}
    context = contexts[reduction]
    question = {"last": "last encoder state", "mean": "mean of the states", "max": "element-wise maximum of the states"}
    return [
        step("Encoder states", matrix("h", STATES, WORDS)),
        step(
            "c = q(h_1 ... h_T): a fixed-size context vector",
            matrix("c", contexts.values(), contexts),
            answer=context,
            context=question[reduction],
        ),
        step("The bottleneck", matrix("c of the words, repeated", of_longer.values(), of_longer), answer=len(context)),
        step(
            "Prediction from the fixed context vector",
            matrix("W", OUTPUT, TARGETS, ("s", "s", "c", "c")),
            vector("P", predict(state, context)[1], TARGETS),
            state=format_cells(state),
        ),
    ]


def _attention(s_previous: list[Number], s_current: list[Number], query: Query) -> list[Step]:
    states: dict[Query, list[Number]] = {"previous": s_previous, "current": s_current}
    results = {name: attend([state], STATES, STATES) for name, state in states.items()}
    (scores,), (weights,), (context,) = results[query]
    logits, chances = predict(s_current, context)
    other: Query = "previous" if query == "current" else "current"
    chances_of_other = predict(s_current, results[other].outputs[0])[1]
    state = f"{'s_i' if query == 'current' else 's_(i-1)'} = ({format_cells(states[query])})"
    return [
        step("a_(ij): alignment scores", vector("a_i", scores, WORDS), answer=scores, state=state),
        step("alpha_i = softmax(a_i)", vector("alpha_i", weights, WORDS)),
        step("c_i = sum_j alpha_(ij) h_j: a context vector for each target word", vector("c_i", context)),
        step(
            "P(y_i | y_(<i), x) = softmax(W concat(s_i, c_i) + b)",
            vector("logits", logits, TARGETS),
            vector("P", chances, TARGETS),
            answer=TARGETS[chances.index(max(chances))],
        ),
        step(
            "The query: previous or current decoder state",
            matrix("alpha_i", (results[name].weights[0] for name in states), ("s_{i-1}", "s_i"), WORDS),
            matrix("P", (chances, chances_of_other), (query, other), TARGETS),
        ),
    ]
