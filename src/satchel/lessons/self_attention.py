"""Self-attention: every word is a query, a key and a value (items 23 to 33)."""

import math
from fractions import Fraction

from satchel.lessons.arithmetic import Number, Rows, attend, exact, identity, matmul, mean, multiply, transpose
from satchel.lessons.attention import describe_base, embed_letters
from satchel.lessons.checks import check_above
from satchel.lessons.steps import Matrix, Step, format_cell, matrix, step

LONGEST = 16
SENTENCE = ("the", "cat", "walks", "on", "the", "street")
# Embeddings with the dimensions noun, verb and function word.
WORDS = {"the": (0, 0, 2), "cat": (2, 0, 0), "walks": (1, 2, 0), "on": (0, 1, 1), "street": (2, 0, 1)}


def self_attention(sequence: str = "AABA", base: float = math.e, sharp: float = 10) -> list[Step]:
    """Return the steps of self-attention over a string of As and Bs, then over a sentence."""
    embeddings = embed_letters(sequence, LONGEST)
    check_above("base", base, 1, example=3)
    check_above("sharp", sharp, 0, example=10)
    return [*_letters(tuple(sequence), embeddings, base, exact(sharp)), *_words(base)]


def _letters(letters: tuple[str, ...], embeddings: Rows, base: float, factor: Number) -> list[Step]:
    n, f = len(letters), format_cell(float(factor))
    swap = [[0, 1], [1, 0]]
    plain = attend(embeddings, embeddings, embeddings, base=base)
    scaled = attend(embeddings, multiply(factor, embeddings), embeddings, base=base)
    columns = attend(matmul(embeddings, [[1], [1]]), matmul(embeddings, [[factor], [factor]]), embeddings, base=base)
    swapped = attend(matmul(embeddings, swap), embeddings, embeddings, base=base)
    position = letters.index("B") if "B" in letters else 0
    letter = f"letter {position + 1}, {letters[position]},"

    def square(name: str, rows: Rows) -> Matrix:
        return matrix(name, rows, letters, letters)

    return [
        step(
            "Every letter is a query",
            f"E has one row per letter: {n} x 2. Q = E W^Q and K = E W^K also have {n} rows, and S = Q K^T contains "
            "the score of every pair: S_ij = q_i . k_j.",
            matrix("E", embeddings, letters),
            question=f"{''.join(letters)}, with A = [1, 0] and B = [0, 1]: what is the shape of S = Q K^T?",
            answer=(n, n),
        ),
        step(
            "Scores",
            "With Q = K = E, the score of two letters is 1 if they are equal and 0 otherwise.",
            square("S", plain.scores),
            question=f"With Q = K = E, what are the scores of the query {letter} with each key?",
            answer=plain.scores[position],
        ),
        step(
            "Softmax of each row",
            f"Computed with {describe_base(base)}. Each row sums to 1: the attention weights of one query.",
            square("attention weights", plain.weights),
            question=f"What are the attention weights of {letter} with {describe_base(base)}?",
            answer=plain.weights[position],
        ),
        step(
            "Outputs",
            "Each output is the sum of the rows of E, weighted by the attention weights: e_1 .. e_n become e'_1 .. "
            "e'_n.",
            matrix("E'", plain.outputs, letters),
            question=f"What is the output of {letter} e'_{position + 1}?",
            answer=plain.outputs[position],
        ),
        step(
            f"Version 2: keys {f} times as long",
            f"Q = E and K = {f} E, so S = {f} E E^T: the weights concentrate on equal letters. The notes print W^Q and "
            f"W^K as columns; they must be read as I and {f} I.",
            square("S", scaled.scores),
            square("attention weights", scaled.weights),
            matrix("E'", scaled.outputs, letters),
            question=f"With Q = E and K = {f} E, what are the scores of the query {letter} with each key?",
            answer=scaled.scores[position],
        ),
        step(
            "The columns as printed",
            f"Taken literally, W^Q = [1; 1] and W^K = [{f}; {f}] give every letter the same query and the same key: "
            "all scores are equal, so each output is the mean of the embeddings.",
            square("S", columns.scores),
            matrix("E'", columns.outputs, letters),
            question=f"Which score do W^Q = [1; 1] and W^K = [{f}; {f}], as columns, give to every pair?",
            answer=columns.scores[0][0],
        ),
        step(
            "W^Q is not the identity",
            "In practice W^Q is learned, so that queries match related words, not only equal ones. This W^Q swaps the "
            "two dimensions: the query of A matches the key of B, and the query of B the key of A.",
            matrix("W^Q", swap),
            square("S", swapped.scores),
        ),
        step(
            "Quadratic cost",
            "Self-attention computes and stores a score for every pair of words: n x n scores.",
            matrix(
                "cost", [(n * times, (n * times) ** 2) for times in (1, 2, 4, 256)], columns=("n", "number of scores")
            ),
            question="If the sequence is twice as long, by which factor does the number of scores grow?",
            answer=4,
        ),
    ]


def _words(base: float) -> list[Step]:
    x = [[Fraction(number) for number in WORDS[word]] for word in SENTENCE]
    basic = attend(x, x, x, base=base)
    reverse = attend(x[::-1], x[::-1], x[::-1], base=base)
    # The query of a verb matches nouns; the values drop the function-word dimension.
    w_q, w_v = [[0, 1, 0], [0, 0, 0], [0, 0, 0]], [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    projected = attend(matmul(x, transpose(w_q)), x, matmul(x, transpose(w_v)), base=base)
    unprojected = attend(*(matmul(x, identity(3)) for _ in range(3)), base=base)
    return [
        step(
            "Basic self-attention",
            "A sentence with embeddings x: w'_ij = x_i . x_j, w_i = softmax(w'_i), y_i = sum_j w_ij x_j.",
            matrix("x", x, SENTENCE),
        ),
        step(
            "Attention weights",
            "The dot product is large for similar vectors, and the softmax normalises the scores: the weight of x_j in "
            "y_i is large if x_j is similar to x_i.",
            matrix("attention weights", basic.weights, SENTENCE, SENTENCE),
            question="Why is self-attention useful? What determines the weight of x_j in y_i?",
            answer=("similar", "alike", "dot product"),
        ),
        step(
            "No parameters",
            "Each y_i is a weighted sum of all six embeddings; y_cat contains a part of every word. The result depends "
            "on the embeddings only.",
            matrix("y", basic.outputs, SENTENCE),
            question="How many learned parameters does basic self-attention have?",
            answer=0,
        ),
        step(
            "A repeated word",
            "Both occurrences of 'the' have the same output: without position encodings the output does not depend on "
            "the position.",
            matrix("y", [basic.outputs[0], basic.outputs[4]], ("the (1)", "the (5)")),
            question=f"{' '.join(SENTENCE)}: which word has the same output as word 1? Give its number.",
            answer=5,
        ),
        step(
            "Permutation equivariance",
            "If the words are reversed, the outputs are the same, in reverse order. The slides call this position "
            "invariant; precisely, self-attention is permutation equivariant, and the mean of the outputs is "
            "invariant.",
            matrix("y", reverse.outputs, SENTENCE[::-1]),
            matrix("mean of y", [mean(basic.outputs), mean(reverse.outputs)], ("original", "reversed")),
        ),
        step(
            "Queries, keys and values",
            "Three roles with separate projections: q = W_q x (compared to compute its output), k = W_k x (compared "
            "with the queries of other words), v = W_v x (summed). Here the query of 'walks' matches the keys of "
            "nouns, but the queries of nouns do not match 'walks': the score matrix is not symmetric. (These slides "
            "use column vectors, W_q x; the notes use row vectors, E W^Q: the matrices are transposed.)",
            matrix("W_q", w_q),
            matrix("W_k", identity(3)),
            matrix("W_v", w_v),
            matrix("scores", projected.scores, SENTENCE, SENTENCE),
            matrix("y", projected.outputs, SENTENCE),
        ),
        step(
            "Identity projections",
            "With W_q = W_k = W_v = I, queries, keys and values equal the embeddings.",
            matrix("y", unprojected.outputs, SENTENCE),
            question="Which W_q, W_k and W_v give basic self-attention?",
            answer=("identity", "unit matrix", "= i"),
        ),
    ]
