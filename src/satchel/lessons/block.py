"""The Transformer block: what comes along each arrow, and what each part is for (items 57 to 67)."""

import math
import random
from dataclasses import dataclass
from fractions import Fraction

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Number, Rows, Step, exact, product, softmax, transposed

MOST_WORDS = 12
WIDEST = 64
WIDEST_HIDDEN = 512
# More columns than this do not fit beside one another.
SHOWN = 10
# What layer norm adds to a variance, so that a vector of equal numbers can be divided by its spread.
EPSILON = 1e-5


def block(
    words: str = "the movie was great", width: int = 8, hidden: int = 32, heads: int = 2, seed: int = 0
) -> list[Step]:
    """Return what a block makes of a sentence with weights drawn at random: shapes, values, counts of weights."""
    sentence = tuple(words.split())
    if not 2 <= len(sentence) <= MOST_WORDS:
        raise SettingsError(
            f"words: found {len(sentence)}, expected 2 to {MOST_WORDS}", 'for example --set words="the movie was great"'
        )
    if not 2 <= width <= WIDEST:
        raise SettingsError(f"width: found {width}, expected 2 to {WIDEST}", "for example --set width=8")
    if not 1 <= hidden <= WIDEST_HIDDEN:
        raise SettingsError(f"hidden: found {hidden}, expected 1 to {WIDEST_HIDDEN}", "usual is four times the width")
    if heads < 1 or width % heads:
        raise SettingsError(
            f"heads: found {heads} for a width of {width}, expected a divisor of it", "for example --set heads=1"
        )
    drawn = _Block.draw(sentence, width, hidden, heads, seed)
    return [*_arrows(drawn, sentence), *_counts(width, hidden), *_sums_and_norms(), _paths(len(sentence))]


@dataclass(frozen=True)
class _Block:
    """A block without biases, and an embedding for each word."""

    embeddings: dict[str, list[float]]
    query: Rows
    key: Rows
    value: Rows
    out: Rows
    widen: Rows
    narrow: Rows
    heads: int

    @classmethod
    def draw(cls, sentence: tuple[str, ...], width: int, hidden: int, heads: int, seed: int) -> "_Block":
        """Return a block with weights drawn in the order in which they are used."""
        source = random.Random(seed)

        def weights(rows: int, columns: int) -> list[list[float]]:
            return [[source.gauss(0, 1) / math.sqrt(rows) for _ in range(columns)] for _ in range(rows)]

        embeddings = {word: [source.gauss(0, 1) for _ in range(width)] for word in dict.fromkeys(sentence)}
        query, key, value, out = (weights(width, width) for _ in range(4))
        return cls(embeddings, query, key, value, out, weights(width, hidden), weights(hidden, width), heads)

    def run(self, sentence: tuple[str, ...]) -> dict[str, Rows]:
        """Return what comes along each arrow, in order."""
        x = [self.embeddings[word] for word in sentence]
        found: dict[str, Rows] = {"E": x}
        own = len(x[0]) // self.heads
        joined: list[list[Number]] = [[] for _ in x]
        for head in range(self.heads):
            part = slice(head * own, (head + 1) * own)
            q, k, v = ([row[part] for row in product(x, each)] for each in (self.query, self.key, self.value))
            scores = [[score / math.sqrt(own) for score in row] for row in product(q, transposed(k))]
            a = [softmax(row) for row in scores]
            z = product(a, v)
            joined = [[*row, *more] for row, more in zip(joined, z, strict=True)]
            # One head stands for all: the others have the same shapes.
            if head == 0:
                found |= {"Q": q, "K": k, "V": v, "Q K^T / sqrt(d_k)": scores, "A = softmax": a, "Z = A V": z}
        attended = product(joined, self.out)
        first = _norm(_sum(x, attended))
        hidden = _relu(product(first, self.widen))
        collapsed = product(hidden, self.narrow)
        return found | {
            "heads side by side": joined,
            "times W^O": attended,
            "+ E": _sum(x, attended),
            "layer norm": first,
            "W_1, ReLU: explode": hidden,
            "W_2: collapse": collapsed,
            "+ what came in": _sum(first, collapsed),
            "layer norm: out": _norm(_sum(first, collapsed)),
        }

    def feed_forward(self, x: Rows) -> Rows:
        """Return what the feed-forward net makes of each row."""
        return product(_relu(product(x, self.widen)), self.narrow)


def _sum(first: Rows, second: Rows) -> list[list[Number]]:
    return [[a + b for a, b in zip(one, other, strict=True)] for one, other in zip(first, second, strict=True)]


def _relu(x: Rows) -> list[list[Number]]:
    return [[max(number, 0) for number in row] for row in x]


def _norm(x: Rows) -> list[list[Number]]:
    """Return each row with mean 0 and variance 1."""
    rows: list[list[Number]] = []
    for row in x:
        mean = sum(row) / len(row)
        spread = math.sqrt(sum((number - mean) ** 2 for number in row) / len(row) + EPSILON)
        rows.append([(number - mean) / spread for number in row])
    return rows


def _farthest(first: Rows, second: Rows) -> float:
    pairs = zip(first, second, strict=True)
    return max(abs(float(a - b)) for one, other in pairs for a, b in zip(one, other, strict=True))


def _arrows(drawn: _Block, sentence: tuple[str, ...]) -> list[Step]:
    n = len(sentence)
    found = drawn.run(sentence)
    attended, collapsed, last = found["layer norm"], found["W_2: collapse"], found["layer norm: out"]
    alone = [row for each in attended for row in drawn.feed_forward([each])]
    turned = drawn.feed_forward(attended[::-1])[::-1]
    shorter = drawn.run(sentence[:-1])["layer norm: out"]
    return [
        Step(
            "The arrows of a block",
            f"Attention, sum, norm, feed-forward, sum, norm. d_model = {len(drawn.query)}, {drawn.heads} heads, d_k = "
            f"d_v = {len(found['Q'][0])}; Q to Z are those of one head. W^O is d_v x d_model for each head, and all of "
            "them stand below one another: it brings us back to d_model before the sum.",
            (Matrix("shapes", tuple((f"{len(m)} x {len(m[0])}",) for m in found.values()), tuple(found)),),
            f"{' '.join(sentence)}: what is the shape of A, that says how much each word takes from each?",
            (n, n),
        ),
        Step(
            "A map of attention",
            "The first head. Rows are the words that look and sum to one; weights are random, so it finds nothing yet.",
            (Matrix("A", tuple(map(tuple, found["A = softmax"])), sentence, sentence),),
        ),
        Step(
            "The feed-forward net sees one word at a time",
            "The same small net for each vector by itself: words one by one, or backwards, give the same rows.",
            (
                Matrix(
                    "largest difference",
                    ((_farthest(alone, collapsed), _farthest(turned, collapsed)),),
                    columns=("one by one", "backwards"),
                ),
            ),
        ),
        Step(
            "What comes out",
            "A vector for each word, as wide as before, that depends on its context: below is also how far the first "
            "word's moves without the last word. It has the shape of what went in, so blocks can be stacked, as many "
            "as time and memory allow; or another layer makes a prediction of each vector.",
            (
                Matrix(f"out, up to {SHOWN} columns", tuple(tuple(row[:SHOWN]) for row in last), sentence),
                Matrix(f"largest change at {sentence[0]}", ((_farthest(last[:1], shorter[:1]),),)),
            ),
            "What do Transformers produce for each word?",
            ("vector", "encoding", "representation", "embedding"),
        ),
    ]


def _counts(width: int, hidden: int) -> list[Step]:
    attention, forward = 4 * width * width, 2 * width * hidden
    tables = (("Transformer (2017), encoder", 6, 512, 8, 2048), ("GPT-3 (2020)", 96, 12288, 96, 4 * 12288))
    sizes = tuple(
        (layers, d, heads, d // heads, inner, f"{layers * (4 * d * d + 2 * d * inner):,}")
        for _, layers, d, heads, inner in tables
    )
    return [
        Step(
            "Where the weights are",
            f"W^Q, W^K, W^V and W^O: 4 d^2 = {attention}. W_1 and W_2: 2 d d_internal = {forward}. With d_internal = "
            "4 d that is 8 of 12 d^2, two thirds (biases and norms not counted).",
            (
                Matrix(
                    "weights",
                    ((attention, forward, Fraction(forward, attention + forward)),),
                    columns=("attention", "feed-forward", "share of feed-forward"),
                ),
            ),
            f"d_model = {width}, d_internal = {hidden}. What share of a block's weights has the feed-forward net?",
            (Fraction(forward, attention + forward),),
        ),
        Step(
            "Two that were trained",
            "All blocks, without embeddings. The slides' d_head is d_k.",
            (
                Matrix(
                    "sizes",
                    sizes,
                    tuple(row[0] for row in tables),
                    ("blocks", "d_model", "heads", "d_k", "d_internal", "weights"),
                ),
            ),
        ),
    ]


def _sums_and_norms() -> list[Step]:
    depths = (1, 6, 12, 24)
    slope = Fraction(1, 10)
    small = [exact(0), exact(2)]
    large = [2 * number for number in small]
    return [
        Step(
            "Sums keep the gradient",
            "A layer whose slope is 1/10 shrinks the gradient tenfold; with its input added the slope is 1 + 1/10. The "
            "slides say that sums keep gradients from getting too small or too large: against growth it is rather the "
            "norm that helps.",
            (
                Matrix(
                    "gradient after",
                    tuple((depth, float(slope**depth), float((1 + slope) ** depth)) for depth in depths),
                    columns=("layers", "without sums", "with sums"),
                ),
            ),
            "Two layers of slope 1/10, one after the other, each with its input added. What is the slope of both?",
            ((1 + slope) ** 2,),
        ),
        Step(
            "Layer norm keeps the scale",
            "Each vector gets mean 0 and variance 1, however large it was: that speeds training and tames deep stacks.",
            (Matrix("norm", tuple(map(tuple, _norm([small, large]))), ("of [0, 2]", "of [0, 4]")),),
            "Layer norm makes [-1, 1] of [0, 2]. What does it make of [0, 4]?",
            (-1, 1),
        ),
        Step(
            "What is not linear",
            "What is linear gives twice as much for twice the input, and the negative for the negative. The slides "
            "count two that are not, the feed-forward net (its ReLU) and the softmax; layer norm is a third.",
            (
                Matrix(
                    "two inputs",
                    (
                        (*_relu([[1]])[0], *_relu([[-1]])[0]),
                        (softmax([1, 0])[0], softmax([2, 0])[0]),
                        (_norm([small])[0][1], _norm([large])[0][1]),
                    ),
                    ("ReLU of 1, -1", "softmax of [1, 0], [2, 0]", "norm of [0, 2], [0, 4]"),
                ),
            ),
            "How many kinds of part in a block are not linear, if layer norm is counted?",
            (3,),
        ),
    ]


def _paths(n: int) -> Step:
    return Step(
        "One layer from any word to any word",
        "A recurrent net carries the first word through every one after it; attention looks straight at it, and all "
        "positions are computed at once.",
        (
            Matrix(
                "steps from the first word to the last",
                tuple((length, length - 1, 1) for length in sorted({n, 10, 100, 1000})),
                columns=("words", "recurrent", "attention"),
            ),
        ),
        "100 words: in how many layers of self-attention does the last word reach the first?",
        (1,),
    )
