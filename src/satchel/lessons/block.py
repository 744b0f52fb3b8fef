"""The Transformer block: the shapes and values of its intermediate results, and its parameters (items 57 to 67)."""

import math
import random
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from satchel.lessons.arithmetic import Number, Rows, add, largest_difference, matmul, softmax, transpose
from satchel.lessons.checks import check_heads, check_range, split_words
from satchel.lessons.steps import Step, build_step, matrix, vector

step = partial(build_step, "block")

MOST_WORDS = 12
WIDEST = 64
WIDEST_HIDDEN = 512
# Maximum number of columns printed side by side.
SHOWN = 10
# Added to the variance in layer normalisation, as in PyTorch, to avoid division by zero.
EPSILON = 1e-5
# Published models: blocks, d_model, heads, d_internal.
PUBLISHED = {"Transformer (2017), encoder": (6, 512, 8, 2048), "GPT-3 (2020)": (96, 12288, 96, 4 * 12288)}


def block(
    words: str = "the movie was great", width: int = 8, hidden: int = 32, heads: int = 2, seed: int = 0
) -> list[Step]:
    """Return the intermediate results of a randomly initialised block, its parameter counts, and its properties."""
    sentence = split_words("words", words, 2, MOST_WORDS, "the movie was great")
    check_range("width", width, 2, WIDEST, example=8)
    check_range("hidden", hidden, 1, WIDEST_HIDDEN, example=4 * width)
    check_heads(heads, width)
    network = _Block.initialise(sentence, width, hidden, heads, seed)
    return [*_forward(network, sentence), *_parameters(width, hidden), *_properties(len(sentence))]


@dataclass(frozen=True)
class _Block:
    """A post-norm Transformer block without biases, and the word embeddings."""

    embeddings: dict[str, list[float]]
    w_q: Rows
    w_k: Rows
    w_v: Rows
    w_o: Rows
    w_1: Rows
    w_2: Rows
    heads: int

    @classmethod
    def initialise(cls, sentence: tuple[str, ...], width: int, hidden: int, heads: int, seed: int) -> "_Block":
        """Return a block with random parameters, drawn in the order in which they are used."""
        rng = random.Random(seed)

        def weights(rows: int, columns: int) -> list[list[float]]:
            return [[rng.gauss(0, 1) / math.sqrt(rows) for _ in range(columns)] for _ in range(rows)]

        embeddings = {word: [rng.gauss(0, 1) for _ in range(width)] for word in dict.fromkeys(sentence)}
        w_q, w_k, w_v, w_o = (weights(width, width) for _ in range(4))
        return cls(embeddings, w_q, w_k, w_v, w_o, weights(width, hidden), weights(hidden, width), heads)

    def run(self, sentence: tuple[str, ...]) -> dict[str, Rows]:
        """Return the intermediate results by name, in order; Q to Z are those of the first head."""
        x = [self.embeddings[word] for word in sentence]
        d_k = len(x[0]) // self.heads
        concatenated: list[list[Number]] = [[] for _ in x]
        first_head: dict[str, Rows] = {}
        for head in range(self.heads):
            columns = slice(head * d_k, (head + 1) * d_k)
            q, k, v = ([row[columns] for row in matmul(x, w)] for w in (self.w_q, self.w_k, self.w_v))
            scores = [[score / math.sqrt(d_k) for score in row] for row in matmul(q, transpose(k))]
            a = [softmax(row) for row in scores]
            z = matmul(a, v)
            concatenated = [[*row, *more] for row, more in zip(concatenated, z, strict=True)]
            if head == 0:
                first_head = {"Q": q, "K": k, "V": v, "Q K^T / sqrt(d_k)": scores, "A = softmax": a, "Z = A V": z}
        projected = matmul(concatenated, self.w_o)
        normalised = _layer_norm(add(x, projected))
        hidden = _relu(matmul(normalised, self.w_1))
        collapsed = matmul(hidden, self.w_2)
        return {
            "E": x,
            **first_head,
            "concatenated heads": concatenated,
            "times W^O": projected,
            "residual: + E": add(x, projected),
            "layer norm": normalised,
            "feed-forward: W_1, ReLU": hidden,
            "feed-forward: W_2": collapsed,
            "residual: + layer norm": add(normalised, collapsed),
            "layer norm: output": _layer_norm(add(normalised, collapsed)),
        }

    def feed_forward(self, x: Rows) -> Rows:
        """Return the feed-forward network applied to each row."""
        return matmul(_relu(matmul(x, self.w_1)), self.w_2)


def _relu(x: Rows) -> list[list[Number]]:
    return [[max(number, 0) for number in row] for row in x]


def _layer_norm(x: Rows) -> list[list[Number]]:
    """Return each row normalised to mean 0 and variance 1."""
    rows: list[list[Number]] = []
    for row in x:
        mean = sum(row) / len(row)
        deviation = math.sqrt(sum((number - mean) ** 2 for number in row) / len(row) + EPSILON)
        rows.append([(number - mean) / deviation for number in row])
    return rows


def _forward(network: _Block, sentence: tuple[str, ...]) -> list[Step]:
    n = len(sentence)
    results = network.run(sentence)
    normalised, collapsed, outputs = (
        results[name] for name in ("layer norm", "feed-forward: W_2", "layer norm: output")
    )
    one_by_one = [row for vector in normalised for row in network.feed_forward([vector])]
    in_reverse = network.feed_forward(normalised[::-1])[::-1]
    without_last = network.run(sentence[:-1])["layer norm: output"]
    return [
        step(
            "The shapes in a block",
            matrix("shapes", ([f"{len(rows)} x {len(rows[0])}"] for rows in results.values()), results),
            answer=(n, n),
            width=len(network.w_q),
            heads=network.heads,
            head_width=len(results["Q"][0]),
            sentence=" ".join(sentence),
        ),
        step("Attention weights", matrix("A", results["A = softmax"], sentence, sentence)),
        step(
            "The feed-forward network is applied to each position",
            vector(
                "largest difference",
                (largest_difference(one_by_one, collapsed), largest_difference(in_reverse, collapsed)),
                ("one by one", "reverse order"),
            ),
        ),
        step(
            "The output",
            matrix(f"output, up to {SHOWN} columns", (row[:SHOWN] for row in outputs), sentence),
            vector(f"largest change at {sentence[0]}", [largest_difference(outputs[:1], without_last[:1])]),
        ),
    ]


def _parameters(width: int, hidden: int) -> list[Step]:
    attention, feed_forward = 4 * width * width, 2 * width * hidden
    share = Fraction(feed_forward, attention + feed_forward)
    sizes = [
        (blocks, d, heads, d // heads, inner, f"{blocks * (4 * d * d + 2 * d * inner):,}")
        for blocks, d, heads, inner in PUBLISHED.values()
    ]
    return [
        step(
            "Number of parameters",
            vector(
                "parameters", (attention, feed_forward, share), ("attention", "feed-forward", "share of feed-forward")
            ),
            answer=share,
            attention=attention,
            feed_forward=feed_forward,
            width=width,
            hidden=hidden,
        ),
        step(
            "Published models",
            matrix("sizes", sizes, PUBLISHED, ("blocks", "d_model", "heads", "d_k", "d_internal", "parameters")),
        ),
    ]


def _properties(n: int) -> list[Step]:
    slope = Fraction(1, 10)
    rows: Rows = [[0, 2], [0, 4]]
    normalised = _layer_norm(rows)
    return [
        step(
            "Residual connections preserve the gradient",
            matrix(
                "gradient",
                [(depth, float(slope**depth), float((1 + slope) ** depth)) for depth in (1, 6, 12, 24)],
                columns=("layers", "without residual", "with residual"),
            ),
            answer=(1 + slope) ** 2,
        ),
        step("Layer normalisation controls the scale", matrix("layer norm", normalised, ("of [0, 2]", "of [0, 4]"))),
        step(
            "Non-linear parts",
            matrix(
                "values at two inputs",
                (_relu([[1, -1]])[0], (softmax([1, 0])[0], softmax([2, 0])[0]), (normalised[0][1], normalised[1][1])),
                ("ReLU of 1, -1", "softmax of [1, 0], [2, 0]", "layer norm of [0, 2], [0, 4]"),
            ),
        ),
        step(
            "Long-range dependencies in one layer",
            matrix(
                "path length from the first word to the last",
                [(length, length - 1, 1) for length in sorted({n, 10, 100, 1000})],
                columns=("words", "recurrent", "self-attention"),
            ),
        ),
    ]
