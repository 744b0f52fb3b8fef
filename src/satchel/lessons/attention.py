"""Attention by hand: looking for a B among As (items 13 to 22)."""

import math
from fractions import Fraction
from itertools import product as every

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Number, Step, dot, exact, product, softmax, weighted_sum

LONGEST = 12
LETTERS = {"A": (1, 0), "B": (0, 1)}


def attention(
    sequence: str = "AABA",
    q: tuple[float, float] = (0, 1),
    base: float = 3,
    sharp: float = 10,
) -> list[Step]:
    """Return how a query finds the Bs of a sequence: scores, weights, output; then with a sharper query."""
    if not sequence or set(sequence) - set(LETTERS):
        raise SettingsError(f"sequence: found {sequence!r}, expected As and Bs", "for example --set sequence=AABA")
    if len(sequence) > LONGEST:
        raise SettingsError(
            f"sequence: found {len(sequence)} letters, expected at most {LONGEST}", "all strings are tried"
        )
    if base <= 1:
        raise SettingsError(f"base: found {base:g}, expected more than 1", "for example --set base=3")
    letters = tuple(sequence)
    embeddings = [list(map(exact, LETTERS[letter])) for letter in letters]
    query = list(map(exact, q))
    steps = [
        Step(
            "The language",
            "Strings of As and Bs. If all are A, the next is A; if any is B, the next is B. Attention is random "
            "access into what came before: it looks for the B, wherever it stands.",
            (Matrix("E", tuple(map(tuple, embeddings)), letters), Matrix("q", (tuple(query),))),
        )
    ]
    steps += _once(letters, embeddings, query, base)
    average = weighted_sum([Fraction(1, len(letters))] * len(letters), embeddings)
    steps.append(
        Step(
            "Compared with a DAN",
            "The mean of the embeddings, which is what a deep averaging network sees (the notes print 'arg' for "
            "'avg'). Attention is biased towards what the query looks for.",
            (Matrix("average", (tuple(average),)),),
            "What would a DAN, the plain average, give?",
            tuple(average),
        )
    )
    sharper = [exact(sharp) * number for number in query]
    scores = [dot(row, sharper) for row in embeddings]
    weights = softmax(scores, base)
    steps.append(
        Step(
            f"A query {sharp:g} times as long",
            "The same direction, only longer: almost all of the weight goes to what it looks for.",
            (
                Matrix("scores", (tuple(scores),), columns=letters),
                Matrix("weights", (tuple(weights),), columns=letters),
                Matrix("output", (tuple(weighted_sum(weights, embeddings)),)),
            ),
            f"What new scores do we get with q = [{', '.join(f'{float(n):g}' for n in sharper)}]?",
            tuple(scores),
        )
    )
    decoupled = product(product(embeddings, [[1, 0], [0, 1]]), [[exact(sharp) * n] for n in query])
    steps.append(
        Step(
            "Keys and queries of their own",
            f"Scores = (E W^K)(W^Q q), with W^K the identity and W^Q {sharp:g} times the identity: the same scores. "
            "Keys and queries no longer have to be the embeddings.",
            (Matrix("scores", (tuple(row[0] for row in decoupled),), columns=letters),),
        )
    )
    steps.append(_every_string(len(letters)))
    return steps


def _once(letters: tuple[str, ...], embeddings: list[list[Number]], query: list[Number], base: float) -> list[Step]:
    scores = [dot(row, query) for row in embeddings]
    weights = softmax(scores, base)
    output = weighted_sum(weights, embeddings)
    e = "the true e" if base == math.e else f"e = {base:g}, as the lecture has it so that fractions come out"
    return [
        Step(
            "1. Score each key",
            "The dot product of each key with the query; the keys are the embeddings, for now.",
            (Matrix("scores", (tuple(scores),), columns=letters),),
            "What is the score of each key?",
            tuple(scores),
        ),
        Step(
            "2. Softmax",
            f"Each score's power of e, shared out; {e}.",
            (Matrix("weights", (tuple(weights),), columns=letters),),
            "What are the weights?",
            tuple(weights),
        ),
        Step(
            "3. Output",
            "The sum of the embeddings, each times its weight.",
            (Matrix("output", (tuple(output),)),),
            "What is the output?",
            tuple(output),
        ),
    ]


def _every_string(length: int) -> Step:
    """Return how sharp a query has to be for every string of this length to be told right."""
    strings = ["".join(letters) for letters in every("AB", repeat=length)]
    rows = []
    for b in (1.0, math.log(max(length - 1, 1)) + 0.01, 10.0):
        right = sum(_says(string, b) == ("B" if "B" in string else "A") for string in strings)
        rows.append((f"{b:.4g}", f"{right} of {len(strings)}"))
    return Step(
        "How sharp is sharp enough?",
        f"With q = [0, b] and the true e, one B among {length} letters outweighs the As if b > ln {length - 1}"
        f"{f' = {math.log(length - 1):.4f}' if length > 1 else ''}. Over all strings of this length:",
        (Matrix("right answers", tuple(rows), columns=("b", "right")),),
    )


def _says(string: str, b: float) -> str:
    weights = softmax([b if letter == "B" else 0.0 for letter in string])
    of_b = float(sum((weight for weight, letter in zip(weights, string, strict=True) if letter == "B"), start=0.0))
    return "B" if of_b > 1 / 2 else "A"
