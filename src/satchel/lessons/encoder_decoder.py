"""Reading a source and writing a target by hand: a summary of what was read, or attention to it (items 38 to 42)."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Number, Rows, Step, Vector, dot, exact, product, shown, softmax, weighted_sum

# The states of an encoder that has read three words of the lecture's sentence; made up, and small enough to follow.
WORDS = ("varför", "minskar", "utsläpp")
STATES = ((2, 0), (0, 1), (1, 1))
# Of the decoder: before the word that is to be written, and with it.
TARGETS = ("why", "reducing", "emissions")
# What the decoder's state and what it found say of each word: W, and no b.
OUTPUT = ((1, 0, 2, -1), (-1, 1, -1, 2), (0, 1, 1, 1))
LARGEST = 1000
MOST_STATES = 12

Reduction = Literal["last", "mean", "max"]
Query = Literal["previous", "current"]


def last(states: Rows) -> list[Number]:
    """Return the state after the last word."""
    return list(states[-1])


def mean(states: Rows) -> list[Number]:
    """Return the mean of all states."""
    return [sum(column, start=Fraction(0)) / len(states) for column in zip(*states, strict=True)]


def largest(states: Rows) -> list[Number]:
    """Return the largest number at each place of all states."""
    return [max(column) for column in zip(*states, strict=True)]


REDUCTIONS: dict[Reduction, Callable[[Rows], list[Number]]] = {"last": last, "mean": mean, "max": largest}


def attended(query: Vector, states: Rows) -> tuple[list[Number], list[Number], list[Number]]:
    """Return the scores of a query with each state, the weights they become, and the sum of the states so weighted."""
    scores = [dot(query, state) for state in states]
    weights = softmax(scores)
    return scores, weights, weighted_sum(weights, states)


def predicted(state: Vector, found: Vector, output: Rows = OUTPUT) -> tuple[list[Number], list[Number]]:
    """Return the scores of all words, W concat(s, c), and their probabilities."""
    scores = product([[*state, *found]], list(zip(*output, strict=True)))[0]
    return scores, softmax(scores)


def encoder_decoder(
    previous: tuple[float, ...] = (2, 0),
    current: tuple[float, ...] = (0, 2),
    query: Query = "current",
    reduction: Reduction = "last",
) -> list[Step]:
    """Return how one target word is told from a source: from a summary, and from what a state finds in it."""
    for name, state in (("previous", previous), ("current", current)):
        if len(state) != len(STATES[0]) or not all(abs(number) <= LARGEST for number in state):
            raise SettingsError(
                f"{name}: found {', '.join(f'{number:g}' for number in state)}, expected {len(STATES[0])} numbers up "
                f"to {LARGEST}",
                f"for example --set {name}=0,2",
            )
    before, now = ([exact(number) for number in state] for state in (previous, current))
    return [*_summaries(now, reduction), *_attention(before, now, query)]


def _summaries(now: list[Number], reduction: Reduction) -> list[Step]:
    found = {name: reduce(STATES) for name, reduce in REDUCTIONS.items()}
    own = found[reduction]
    _, chances = predicted(now, own)
    again = {name: reduce([*STATES, *STATES]) for name, reduce in REDUCTIONS.items()}
    return [
        Step(
            "An encoder has read three words",
            "A recurrent network has read the source word by word: h_i is its state after word i. These are made up.",
            (Matrix("h", STATES, WORDS),),
        ),
        Step(
            "c = q(h_1 ... h_T): all of them as one vector",
            "The decoder gets one vector, whatever q is: the last state, their mean, or the largest number at each "
            "place.",
            (Matrix("c", tuple(tuple(each) for each in found.values()), tuple(found)),),
            f"What is the {'largest number at each place' if reduction == 'max' else reduction} of the states?",
            tuple(own),
        ),
        Step(
            "The bottleneck",
            "A source of twice as many words leaves a vector of the same size. The more was read, the less of each "
            "word can be in it; and the last state has seen the first word longest ago.",
            (Matrix("c of the words, twice over", tuple(tuple(each) for each in again.values()), tuple(again)),),
            "How many numbers hold what is known of a source of 100 words?",
            (len(own),),
        ),
        Step(
            "A word from the summary",
            f"P(y_i | y_<i, x) = softmax(W concat(s_i, c)), with the decoder's state s_i = ({_joined(now)}). "
            "c is the same for every word that is written.",
            (
                Matrix("W", OUTPUT, TARGETS, ("s", "s", "c", "c")),
                Matrix("P", (tuple(chances),), columns=TARGETS),
            ),
        ),
    ]


def _attention(before: list[Number], now: list[Number], query: Query) -> list[Step]:
    both = {"previous": before, "current": now}
    found = {name: attended(state, STATES) for name, state in both.items()}
    scores, weights, context = found[query]
    own = predicted(now, context)
    other = "previous" if query == "current" else "current"
    others = predicted(now, found[other][2])
    symbol = "s_i" if query == "current" else "s_{i-1}"
    return [
        Step(
            "a_ij: how well a state of the decoder fits each state of the encoder",
            f"The score is a dot product here, of {symbol} = ({_joined(both[query])}) with each h_j. With W between "
            "the two (general), or v tanh(W s + U h) (additive), it has weights of its own.",
            (Matrix("a_i", (tuple(scores),), columns=WORDS),),
            f"What are the three scores of {symbol} = ({_joined(both[query])})?",
            tuple(scores),
        ),
        Step(
            "alpha_i = softmax(a_i)",
            "The scores become shares.",
            (Matrix("alpha_i", (tuple(weights),), columns=WORDS),),
            "What do they add up to?",
            (1,),
        ),
        Step(
            "c_i = sum_j alpha_ij h_j: a summary of its own for each word",
            "What fits the state counts most.",
            (Matrix("c_i", (tuple(context),)),),
        ),
        Step(
            "P(y_i | y_<i, x) = softmax(W concat(s_i, c_i) + b)",
            "Now what was found in the source depends on the word that is to be written (b is 0).",
            (
                Matrix("scores", (tuple(own[0]),), columns=TARGETS),
                Matrix("P", (tuple(own[1]),), columns=TARGETS),
            ),
            "Which word is the likeliest?",
            (TARGETS[max(range(len(TARGETS)), key=lambda place: own[1][place])],),
        ),
        Step(
            "Which state looks",
            "Bahdanau et al. score with s_{i-1}, the state before the word: c_i is then part of what makes s_i. The "
            "other lecture scores with s_i itself. The two find different words:",
            (
                Matrix(
                    "alpha_i",
                    tuple(tuple(found[name][1]) for name in both),
                    ("s_{i-1}", "s_i"),
                    WORDS,
                ),
                Matrix("P", (tuple(own[1]), tuple(others[1])), (query, other), TARGETS),
            ),
        ),
    ]


def _joined(numbers: Sequence[Number]) -> str:
    return ", ".join(map(shown, numbers))
