"""Self-attention: every word is a query, a key and a value (items 23 to 33)."""

import math
from dataclasses import dataclass
from fractions import Fraction

from satchel.errors import SettingsError
from satchel.lessons.attention import LETTERS
from satchel.lessons.steps import Matrix, Number, Rows, Step, exact, product, softmax, transposed, weighted_sum

LONGEST = 16
SENTENCE = ("the", "cat", "walks", "on", "the", "street")
# How much of a thing, of a deed and of a small word each one is.
WORDS = {"the": (0, 0, 2), "cat": (2, 0, 0), "walks": (1, 2, 0), "on": (0, 1, 1), "street": (2, 0, 1)}


@dataclass(frozen=True)
class _Attended:
    scores: Rows
    weights: Rows
    outputs: Rows


def self_attention(sequence: str = "AABA", base: float = math.e, sharp: float = 10) -> list[Step]:
    """Return how a sequence looks at itself: letters with keys of any length, then words in three roles."""
    if not sequence or set(sequence) - set(LETTERS) or len(sequence) > LONGEST:
        raise SettingsError(
            f"sequence: found {sequence[:40]!r}, expected 1 to {LONGEST} As and Bs", "for example --set sequence=AABA"
        )
    if not 1 < base < math.inf:
        raise SettingsError(
            f"base: found {base:g}, expected a number above 1", "leave it out for the true e, or --set base=3"
        )
    if not 0 < sharp < math.inf:
        raise SettingsError(f"sharp: found {sharp:g}, expected a number above 0", "for example --set sharp=10")
    return [*_letters(sequence, base, exact(sharp)), *_words(base)]


def _attend(queries: Rows, keys: Rows, values: Rows, base: float) -> _Attended:
    scores = product(queries, transposed(keys))
    weights = [softmax(row, base) for row in scores]
    return _Attended(scores, weights, [weighted_sum(row, values) for row in weights])


def _times(factor: Number, matrix: Rows) -> list[list[Number]]:
    return [[factor * number for number in row] for row in matrix]


def _matrix(name: str, rows: Rows, words: tuple[str, ...] = (), columns: tuple[str, ...] = ()) -> Matrix:
    return Matrix(name, tuple(map(tuple, rows)), words, columns)


# --- letters ------------------------------------------------------------------------------------------


def _letters(sequence: str, base: float, sharp: Number) -> list[Step]:
    letters, n = tuple(sequence), len(sequence)
    embeddings = [[exact(number) for number in LETTERS[letter]] for letter in letters]
    identity = [[1, 0], [0, 1]]
    plain = _attend(embeddings, embeddings, embeddings, base)
    version2 = _attend(product(embeddings, identity), product(embeddings, _times(sharp, identity)), embeddings, base)
    literal = _attend(product(embeddings, [[1], [1]]), product(embeddings, [[sharp], [sharp]]), embeddings, base)
    other = _attend(product(embeddings, [[0, 1], [1, 0]]), embeddings, embeddings, base)
    asked = max(sequence.find("B"), 0)
    which = f"letter {asked + 1}, {letters[asked]},"
    e = "the true e" if base == math.e else f"e = {base:g}"
    return [
        Step(
            "Every letter is a query",
            f"E holds a row for each of the {n} letters, {n} x 2. Q = E W^Q and K = E W^K have as many rows, and "
            "S = Q K^T holds the score of every pair: S_ij = q_i . k_j.",
            (_matrix("E", embeddings, letters),),
            f"The sequence is {sequence}, with A = [1, 0] and B = [0, 1]. How many rows and columns has S = Q K^T?",
            (n, n),
        ),
        Step(
            "Scores",
            "With E = K = Q, a letter scores 1 with every letter that is the same and 0 with the others.",
            (_matrix("S", plain.scores, letters, letters),),
            f"With E = K = Q, what are the scores of {which} with each letter?",
            tuple(plain.scores[asked]),
        ),
        Step(
            "Softmax of each row",
            f"With {e}. Each row sums to one: it says how much its letter takes from each.",
            (_matrix("weights", plain.weights, letters, letters),),
            f"What are the weights of {which} with {e}?",
            tuple(plain.weights[asked]),
        ),
        Step(
            "Outputs",
            "Each new row is a sum of the rows of E by those weights: e_1 .. e_n become e'_1 .. e'_n.",
            (_matrix("E'", plain.outputs, letters),),
            f"What does {which} become?",
            tuple(plain.outputs[asked]),
        ),
        Step(
            f"Version 2: keys {float(sharp):g} times as long",
            f"Q = E and K = {float(sharp):g} E, so S = {float(sharp):g} E E^T: each letter now keeps to its like. The "
            "notes print W^Q and W^K as columns; they must be read as the identity and a multiple of it.",
            (
                _matrix("S", version2.scores, letters, letters),
                _matrix("weights", version2.weights, letters, letters),
                _matrix("E'", version2.outputs, letters),
            ),
            f"With Q = E and K = {float(sharp):g} E, what are the scores of {which} with each letter?",
            tuple(version2.scores[asked]),
        ),
        Step(
            "The columns as they are printed",
            f"[1; 1] and [{float(sharp):g}; {float(sharp):g}] taken literally give every letter the same query and the "
            "same key: one score everywhere, so each output is the plain average.",
            (_matrix("S", literal.scores, letters, letters), _matrix("E'", literal.outputs, letters)),
            f"What single score do W^Q = [1; 1] and W^K = [{float(sharp):g}; {float(sharp):g}], as columns, give?",
            (literal.scores[0][0],),
        ),
        Step(
            "Not the identity",
            "In reality W^Q is learned, to find what is related and not what is alike. This one swaps the two numbers: "
            "each letter looks for the other kind.",
            (_matrix("W^Q", [[0, 1], [1, 0]]), _matrix("S", other.scores, letters, letters)),
        ),
        Step(
            "This is quadratic",
            "Every word meets every word: n x n scores to compute and to keep.",
            (
                Matrix(
                    "cost", tuple((n * times, (n * times) ** 2) for times in (1, 2, 4, 256)), columns=("n", "scores")
                ),
            ),
            "Twice as many words: how many times as many scores?",
            (4,),
        ),
    ]


# --- words --------------------------------------------------------------------------------------------


def _words(base: float) -> list[Step]:
    x = [list(map(Fraction, WORDS[word])) for word in SENTENCE]
    basic = _attend(x, x, x, base)
    turned = _attend(x[::-1], x[::-1], x[::-1], base)
    # A deed asks for things; what is passed on leaves out how much of a small word each one is.
    seek, keep = [[0, 1, 0], [0, 0, 0], [0, 0, 0]], [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    identity = [[int(row == column) for column in range(3)] for row in range(3)]
    roles = _attend(product(x, transposed(seek)), x, product(x, transposed(keep)), base)
    same = _attend(product(x, identity), product(x, identity), product(x, identity), base)
    average = [Fraction(1, len(x))] * len(x)
    return [
        Step(
            "Basic self-attention",
            "Words with embeddings x: w'_ij = x_i . x_j, w_i = softmax(w'_i), and y_i is the sum of w_ij x_j.",
            (_matrix("x", x, SENTENCE),),
        ),
        Step(
            "What the weights mean",
            "The dot product is large where two vectors are similar, and the softmax makes shares of it: each word "
            "takes most from those like it.",
            (_matrix("weights", basic.weights, SENTENCE, SENTENCE),),
            "Why is self-attention useful? What decides how much of x_j goes into y_i?",
            ("similar", "alike", "dot product"),
        ),
        Step(
            "No parameters",
            "Each y is a sum of all six embeddings: that of cat, too, has something of every word. How good it is "
            "depends on the embeddings alone.",
            (_matrix("y", basic.outputs, SENTENCE),),
            "How many trained numbers does basic self-attention have?",
            (0,),
        ),
        Step(
            "The same word twice",
            "Both get the same output: without positions a word is the same word wherever it stands.",
            (_matrix("y", [basic.outputs[0], basic.outputs[4]], ("the (1)", "the (5)")),),
            f"{' '.join(SENTENCE)}: the output of word 1 comes a second time. At which word?",
            (5,),
        ),
        Step(
            "In another order",
            "The sentence backwards: the same outputs, backwards. The slides call this position invariant; strictly it "
            "is equivariant, since the outputs move with the words, and their mean is what is invariant.",
            (
                _matrix("y", turned.outputs, SENTENCE[::-1]),
                _matrix(
                    "mean of y",
                    [weighted_sum(average, basic.outputs), weighted_sum(average, turned.outputs)],
                    ("forwards", "backwards"),
                ),
            ),
        ),
        Step(
            "Three roles",
            "A query compares for its own output, a key is compared for those of others, a value is summed: q = W_q x, "
            "k = W_k x, v = W_v x. Here walks looks for things, which do not look back: S is not symmetric any more. "
            "(These slides multiply from the left, the notes from the right, Q = E W^Q: one is the other, transposed.)",
            (
                _matrix("W_q", seek),
                _matrix("W_k", identity),
                _matrix("W_v", keep),
                _matrix("scores", roles.scores, SENTENCE, SENTENCE),
                _matrix("y", roles.outputs, SENTENCE),
            ),
        ),
        Step(
            "The basic form again",
            "With the identity in all three roles each vector is compared and summed as it is.",
            (_matrix("y", same.outputs, SENTENCE),),
            "Which W_q, W_k and W_v give basic self-attention back?",
            ("identity", "unit matrix", "= i"),
        ),
    ]
