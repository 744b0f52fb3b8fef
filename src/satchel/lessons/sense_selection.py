"""Choosing between the senses of a word: "That trick was sick" (items 97 to 102).

Each word has two senses; rows of matrices are senses, word by word. The slide's arithmetic is done as it is printed,
then in the ways that give what the slide wants of it: 1000, the positive sense of 'sick' and nothing else.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Number, Rows, Step, dot, exact, product, softmax, transposed, weighted_sum

WORDS = ("that", "trick", "was", "sick")
DIMENSIONS = ("positive", "negative", "skateboarding", "health")
NOTHING = (0, 0, 0, 0)
SENSES = {
    "that": (NOTHING, NOTHING),
    "trick": ((0, 0, 1, 0), NOTHING),
    "was": (NOTHING, NOTHING),
    "sick": ((1, 0, 1, 0), (0, 1, 0, 1)),
}
ROWS = tuple(f"{word} {sense}" for word in WORDS for sense in (0, 1))
SICK = WORDS.index("sick")

# As the slides print them: the queries, and where the only 1 of the softmax stands.
PRINTED_Q: Rows = [[0, 0, Fraction(2, 3), Fraction(1, 3)] if row < 6 else [0, 0, 1, 0] for row in range(8)]
PRINTED_PLACE = (6, 6)  # 8 x 8, in one edition of the slides
OTHER_PLACE = (6, 5)  # 8 x 7, in the other

LARGEST = 1e6


def sense_selection(b: float = 10.0, scale: bool = True) -> list[Step]:
    """Return what the slide's attention gives and what it takes to give 1000.

    `b` is how sharp the constructions are, `scale` whether the slide's scores are divided by the root of d.
    """
    if not 0 < b <= LARGEST:
        raise SettingsError(f"b: found {b:g}, expected more than 0, up to {LARGEST:g}", "for example --set b=10")
    sharp = exact(b)
    return [*_slide(), *_arithmetic(sharp, scale), *_loose(sharp), *_constructions(sharp)]


# --- what the slide has ---------------------------------------------------------------------------------


def stacked() -> list[list[Number]]:
    """Return X, 8 x 4: all senses, word by word."""
    return [list(map(Fraction, sense)) for word in WORDS for sense in SENSES[word]]


def summed(rows: Rows) -> list[Number]:
    """Return the sum of the rows."""
    return weighted_sum([Fraction(1)] * len(rows), rows)


def kept(rows: Rows, dimensions: tuple[int, ...]) -> list[list[Number]]:
    """Return rows times a diagonal of ones and zeros: only some dimensions are kept."""
    return [[number if place in dimensions else Fraction(0) for place, number in enumerate(row)] for row in rows]


def values() -> list[list[Number]]:
    """Return V = X diag(1,1,0,0)."""
    return kept(stacked(), (0, 1))


def keys() -> list[list[Number]]:
    """Return K = X diag(0,0,1,1)."""
    return kept(stacked(), (2, 3))


def topics(word: str) -> list[Number]:
    """Return C(word)_2 and C(word)_3, summed over the word's senses: how much it has to do with each topic."""
    return [sum((Fraction(sense[place]) for sense in SENSES[word]), start=Fraction(0)) for place in (2, 3)]


def alphas(word: str, others: Sequence[str] | None = None) -> list[Number]:
    """Return the weight of each of a word's senses: each topic's share of what the other words have."""
    others = [other for other in WORDS if other != word] if others is None else others
    sums = summed([topics(other) for other in others])
    return [each / sum(sums) for each in sums]


def sums_of_ratios(word: str) -> tuple[list[Number], int]:
    """Return the weights as equation 5 has them, a sum over words of ratios with 0/0 taken as 0, and how many 0/0."""
    others = [topics(other) for other in WORDS if other != word]
    defined = [[each / sum(pair) for each in pair] for pair in others if sum(pair)]
    return summed(defined), len(others) - len(defined)


def around(word: str) -> list[Number]:
    """Return the mean of the other words' topics: uniform attention to everything but itself."""
    others = [topics(other) for other in WORDS if other != word]
    return weighted_sum([Fraction(1, len(others))] * len(others), others)


def queries() -> list[list[Number]]:
    """Return Q as the equation means it: both rows of a word hold its two weights, at the topics' dimensions."""
    return [[Fraction(0), Fraction(0), *alphas(word)] for word in WORDS for _ in SENSES[word]]


def one_at(place: tuple[int, int], columns: int) -> list[list[Number]]:
    """Return the softmax as a slide prints it: 8 rows of zeros but for a single one."""
    return [[Fraction((row, column) == place) for column in range(columns)] for row in range(len(ROWS))]


def _slide() -> list[Step]:
    weights = [alphas(word) for word in WORDS]
    sick = 2 * SICK
    return [
        Step(
            "Two senses for each word",
            "That trick was sick: 'sick' is positive among skateboarders and negative where health is concerned; "
            "'trick' brings skateboarding to mind. (One edition spells it 'scateboarding'. Its table counts senses "
            "from 0, the bullets below it from 1; the 'third position' is dimension 2.)",
            (_by_sense("X", stacked()),),
        ),
        Step(
            "Selecting the sense",
            "A sense counts as much as the other words are about its topic: sense 0 goes with skateboarding, sense 1 "
            "with health. (In C(x_r)_{l+2} the subscript is a dimension and l begins at 0; elsewhere the subscript is "
            "a sense.)",
            (Matrix("weights", tuple(map(tuple, weights)), WORDS, ("sense 0", "sense 1")),),
            "The other words of 'sick' are about skateboarding (trick, 1) and nothing else. What are the weights of "
            "its two senses?",
            tuple(weights[SICK]),
        ),
        Step(
            "Values",
            "What is to be added up: the sentiment of each sense. V = X diag(1,1,0,0).",
            (_by_sense("V", values()),),
            "What are the values? Give those of sick's two senses, 8 numbers.",
            (*values()[sick], *values()[sick + 1]),
        ),
        Step(
            "Keys",
            "What each sense is found by: its topic. K = X diag(0,0,1,1). (One edition prints five of its rows.)",
            (_by_sense("K", keys()),),
            "What are the keys? Give those of sick's two senses, 8 numbers.",
            (*keys()[sick], *keys()[sick + 1]),
        ),
        Step(
            "Queries",
            "What each word's neighbours are about: the weights. Those of 'trick' are printed as 2/3 and 1/3, which is "
            "what all words together give; without itself they are 1/2 and 1/2. Its values are 0, so no harm is done.",
            (_by_sense("Q, printed", PRINTED_Q), _by_sense("Q, computed", queries())),
            "But what are the queries? Give that of sick.",
            tuple(queries()[sick]),
        ),
        Step(
            "What the slide makes of it",
            "A softmax that is 0 everywhere but for one 1, times V, summed over all rows: 1000. The other edition "
            f"prints 8 x 7, which cannot multiply 8 rows; its 1 stands at '{ROWS[OTHER_PLACE[1]]}', whose value is "
            "nothing.",
            (
                Matrix("printed softmax", tuple(map(tuple, one_at(PRINTED_PLACE, 8))), ROWS),
                _sums("printed, times V", summed(product(one_at(PRINTED_PLACE, 8), values()))),
                _sums("8 x 7, its 1 in the same column", summed(product(one_at(OTHER_PLACE, 8), values()))),
            ),
        ),
    ]


# --- what its arithmetic gives --------------------------------------------------------------------------


def literal(factor: Number) -> list[list[Number]]:
    """Return softmax(factor Q K^T) with the printed queries, 8 x 8."""
    scores = product(PRINTED_Q, transposed(keys()))
    return [softmax([factor * score for score in row]) for row in scores]


def hardest(scores: Rows) -> list[list[Number]]:
    """Return what softmax becomes as scores grow without end: all on the highest, shared where there are several."""
    return [[Fraction(int(score == max(row)), list(row).count(max(row))) for score in row] for row in scores]


def _arithmetic(b: Number, scale: bool) -> list[Step]:
    scores = product(PRINTED_Q, transposed(keys()))
    weights = literal(Fraction(1, 2) if scale else Fraction(1))
    sums = summed(product(weights, values()))
    limit = hardest(scores)
    sick = 2 * SICK
    return [
        Step(
            "Does it hold? The scores",
            "Q K^T, row by row. sick's queries find sick's first sense, and trick's just as well.",
            (Matrix("Q K^T", tuple(map(tuple, scores)), ROWS, ROWS),),
            "What is the score of the query of 'sick' (0, 0, 1, 0) with the key of 'trick', sense 0 (0, 0, 1, 0)?",
            (scores[sick][2],),
        ),
        Step(
            f"The softmax, scores {'divided by the root of d = 4' if scale else 'as they are'}",
            "A score of 0 does not give a weight of 0, for e to the 0 is 1. The sum over all rows is not 1000.",
            (
                Matrix("weights", tuple(map(tuple, weights)), ROWS, ROWS),
                _sums("times V, summed", sums),
                Matrix("share of the positive dimension", ((sums[0] / sum(sums),),)),
            ),
            "The slide says that the weight of 'sick', sense 0 for itself is 1. What is it really?",
            (weights[sick][sick],),
        ),
        Step(
            "Sharper",
            f"Scores times {float(b):g}, and times a number without end: trick's key is sick's key, so each gets a "
            "half, in every row.",
            (
                _sums(f"scores times {float(b):g}", summed(product(literal(b), values()))),
                Matrix("in the limit", tuple(map(tuple, limit)), ROWS, ROWS),
                _sums("in the limit, summed", summed(product(limit, values()))),
                _sums("in the limit, the row of sick", product(limit, values())[sick]),
            ),
            "However sharp the softmax, how much of sick's query goes to sick's own first sense?",
            (limit[sick][sick],),
        ),
    ]


# --- where it is loose ----------------------------------------------------------------------------------


def own_word(scores: Rows) -> list[list[Number]]:
    """Return scores with -inf wherever a row looks at another word. Rows are senses, or words if there are four."""
    per_word = len(scores) // len(WORDS)
    return [
        [score if column // 2 == row // per_word else -math.inf for column, score in enumerate(line)]
        for row, line in enumerate(scores)
    ]


def unexplained(wanted: Rows, given: Rows) -> float:
    """Return how far the nearest linear map of `given` stays from `wanted`: the root of the sum of squares."""
    basis: list[list[Number]] = []
    for column in transposed(given):
        rest = _rest(column, basis)
        if any(rest):
            basis.append(rest)
    return math.sqrt(sum(float(number**2) for column in transposed(wanted) for number in _rest(column, basis)))


def _rest(column: Sequence[Number], basis: list[list[Number]]) -> list[Number]:
    """Return what is left of a column when its part along each of the basis, which stand upright, is taken away."""
    rest = list(column)
    for direction in basis:
        part = dot(column, direction) / dot(direction, direction)
        rest = [number - part * along for number, along in zip(rest, direction, strict=True)]
    return rest


def _loose(b: Number) -> list[Step]:
    ratios = [sums_of_ratios(word) for word in WORDS]
    within = own_word(product(queries(), transposed(keys())))
    per_sense = [softmax([b * score for score in row]) for row in within]
    gates = [weight for word in WORDS for weight in alphas(word)]
    return [
        Step(
            "Loose: rows of nothing",
            "A softmax shares out 1, so no row can be all zero, and a row of equal scores is uniform. Seven rows of "
            "the printed matrix sum to 0.",
            (
                Matrix("softmax of eight zeros", (tuple(softmax([0] * 8)),)),
                Matrix("sums of the printed rows", (tuple(sum(row) for row in one_at(PRINTED_PLACE, 8)),)),
            ),
            "What is each weight of the softmax of eight zeros?",
            (softmax([0] * 8)[0],),
        ),
        Step(
            "Loose: only the word itself",
            "Equation 5 has weights of 0 for every other word, but nothing in K and Q says which word a key belongs "
            "to. That takes a mask, or dimensions for the words. Even then both rows of 'sick' ask the same, and the "
            "sum counts it twice: there must be one query for each word, or the mean of two.",
            (
                _sums("own word only, two queries for each", summed(product(per_sense, values()))),
                _sums("own word only, one query for each", summed(product(own_words(b), values()))),
            ),
            "With a perfectly sharp softmax within each word and two query rows for each, what would the first number "
            "of the sum be?",
            (summed(product(hardest(within), values()))[0],),
        ),
        Step(
            "Loose: a sum of ratios",
            "As printed, equation 5 adds up ratios, which are 0/0 for words without a topic; with 0 for those the "
            "weights of a word do not sum to 1. The slide's own Q is a ratio of sums.",
            (
                Matrix(
                    "weights",
                    tuple((*each, zeros, *alphas(word)) for (each, zeros), word in zip(ratios, WORDS, strict=True)),
                    WORDS,
                    ("ratios, 0", "ratios, 1", "times 0/0", "sums, 0", "sums, 1"),
                ),
            ),
            "For 'that', the others are trick (1, 0), was (0, 0) and sick (1, 1). With 0/0 as 0, what do the ratios "
            "sum to for sense 0 and for sense 1?",
            tuple(ratios[0][0]),
        ),
        Step(
            "Loose: where queries come from",
            "'that' and 'was' have senses of nothing but queries of something, so no linear map of X makes Q. An "
            "earlier layer has to look around: the mean of the other words' topics points the same way. (It looks at "
            "later words too; a model that may only look back knows enough at 'sick', which comes last.)",
            (
                Matrix("distance of Q from any X W", ((unexplained(PRINTED_Q, stacked()),),)),
                Matrix(
                    "mean of the others' topics", tuple(tuple(around(word)) for word in WORDS), WORDS, DIMENSIONS[2:]
                ),
            ),
        ),
        Step(
            "Loose: what is added up",
            "With whole senses in place of V, skateboarding comes along: 1000 needs the values to be sentiment only.",
            (
                _sums("weights times X", weighted_sum(gates, stacked())),
                _sums("weights times V", weighted_sum(gates, values())),
            ),
            "The weights are 1/2 for trick's first sense (0, 0, 1, 0) and 1 for sick's first (1, 0, 1, 0). What is the "
            "sum?",
            tuple(weighted_sum(gates, stacked())),
        ),
    ]


# --- what gives 1000 ------------------------------------------------------------------------------------


def gate() -> list[list[Number]]:
    """Return equation 5 without a softmax: the weights of the senses on a diagonal, 8 x 8."""
    weights = [weight for word in WORDS for weight in alphas(word)]
    return [[weight if row == column else Fraction(0) for column in range(8)] for row, weight in enumerate(weights)]


def log_weights() -> list[list[Number]]:
    """Return the softmax of log weights within each word, 4 x 8: it gives the weights back."""
    logs = [math.log(weight) if weight else -math.inf for word in WORDS for weight in alphas(word)]
    return [softmax(row) for row in own_word([logs] * len(WORDS))]


def own_words(b: Number) -> list[list[Number]]:
    """Return the softmax of b q.k within each word, 4 x 8: one query for each word."""
    scores = product(queries()[::2], transposed(keys()))
    return [softmax(row) for row in own_word([[b * score for score in row] for row in scores])]


def with_sink(b: Number) -> list[list[Number]]:
    """Return weights, 8 x 9, where each sense may look at itself or at a ninth key of score 0 and value nothing."""
    weights = [weight for word in WORDS for weight in alphas(word)]
    rows = []
    for row, (weight, value) in enumerate(zip(weights, values(), strict=True)):
        own = b * (weight - Fraction(1, 2)) if any(value) else -b
        rows.append(softmax([*(own if column == row else -math.inf for column in range(8)), Fraction(0)]))
    return rows


def backpack(word: str, weights: Sequence[Number], empty: str = "was") -> list[Number]:
    """Return o = sum_j sum_l alpha_lj C(x_j)_l, where each sense l has a softmax over words j.

    It looks at the word itself with its weight, and with the rest at a word whose senses are nothing.
    """
    output: list[Number] = [Fraction(0)] * len(DIMENSIONS)
    for sense, weight in enumerate(weights):
        scores = dict.fromkeys(WORDS, -math.inf)
        scores[empty] = math.log(1 - weight) if weight < 1 else -math.inf
        scores[word] = math.log(weight) if weight else -math.inf
        found = weighted_sum(softmax(list(scores.values())), [SENSES[other][sense] for other in WORDS])
        output = [a + b for a, b in zip(output, found, strict=True)]
    return output


def _constructions(b: Number) -> list[Step]:
    sharpness = sorted({0.5, 1.0, 10.0, float(b)})
    sick = [own_words(exact(each))[SICK][-2:] for each in sharpness]
    sink = with_sink(b)
    chosen, both = backpack("sick", alphas("sick")), backpack("sick", (1, 1))
    return [
        Step(
            "Right: a gate",
            "Equation 5 as it stands, without a softmax: each sense times its weight.",
            (
                Matrix("diagonal", (tuple(row[place] for place, row in enumerate(gate())),), columns=ROWS),
                _by_sense("A V", product(gate(), values())),
                _aimed("A V, summed", summed(product(gate(), values()))),
            ),
            "How can you make this happen with attention?",
            ("mask", "gate", "diagonal", "sink", "log"),
        ),
        Step(
            "Right: log weights within the word",
            "One query for each word; a sense of its own scores log of its weight, everything else -inf. The softmax "
            "gives the weights back.",
            (
                Matrix("weights", tuple(map(tuple, log_weights())), WORDS, ROWS),
                _aimed("times V, summed", summed(product(log_weights(), values()))),
            ),
            "What score gives a weight of exactly 0?",
            ("inf",),
        ),
        Step(
            "Right, if sharp: the slide's scores within the word",
            "Scores b q.k, one query for each word, other words masked: sick's senses get sigmoid(b) and sigmoid(-b).",
            (
                Matrix("sick", tuple(map(tuple, sick)), tuple(f"b = {s:g}" for s in sharpness), ("sense 0", "sense 1")),
                _aimed("times V, summed", summed(product(own_words(b), values()))),
            ),
            "With b = 1 the scores are 1 and 0. What are the weights of sick's senses?",
            tuple(sick[sharpness.index(1.0)]),
        ),
        Step(
            "Right, if sharp: a place to look at nothing",
            "A ninth key with a score of 0 and a value of nothing. A sense looks at itself or there: by b times its "
            "weight less 1/2, or -b if its value is nothing. Without the ninth column this becomes the printed matrix.",
            (
                Matrix("weights", tuple(map(tuple, sink)), ROWS, (*ROWS, "sink")),
                _aimed("times V, summed", summed(product([row[:-1] for row in sink], values()))),
            ),
        ),
        Step(
            "Right: as a Backpack does it",
            "o_i = sum over words j and senses l of alpha_{lij} C(x_j)_l, with a softmax over words for each sense. "
            "sick's sense 0 looks at itself; its sense 1 at a word whose senses are nothing. If both looked at itself, "
            "both would be said at once.",
            (
                Matrix("o of sick", (tuple(chosen), tuple(both)), ("sense 1 at 'was'", "both at itself"), DIMENSIONS),
                _aimed("sentiment of the first", kept([chosen], (0, 1))[0]),
            ),
            "Sense 0 of sick is (1, 0, 1, 0), sense 1 is (0, 1, 0, 1). If both are chosen in full, what comes out?",
            tuple(both),
        ),
    ]


def _by_sense(name: str, rows: Rows) -> Matrix:
    return Matrix(name, tuple(map(tuple, rows)), ROWS, DIMENSIONS)


def _sums(name: str, row: Sequence[Number]) -> Matrix:
    return Matrix(name, (tuple(row),), columns=DIMENSIONS)


def _aimed(name: str, row: Sequence[Number]) -> Matrix:
    """Return a sum and how far it is from 1000: four decimals would hide the last of it."""
    off = max(abs(float(number) - wanted) for number, wanted in zip(row, (1, 0, 0, 0), strict=True))
    return Matrix(name, ((*row, off),), columns=(*DIMENSIONS, "off by"))
