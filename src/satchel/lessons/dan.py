"""Two feed-forward language models: a deep averaging network and a fixed-window network (items 5 and 6)."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import permutations

from satchel.lessons.arithmetic import Number, Rows, identity, largest_difference, mean, softmax, weighted_sum
from satchel.lessons.checks import split_words
from satchel.lessons.steps import Matrix, Step, build_step, matrix

MOST_WORDS = 5
MOST_ROWS = 6
# A word that does not occur in the context.
NEW = "<new>"

step = partial(build_step, "dan", new=NEW)

Words = tuple[str, ...]
Embeddings = dict[str, list[Number]]


def dan(context: str = "the cat sat") -> list[Step]:
    """Return the inputs and predictions of a deep averaging network and of a fixed-window network for a context."""
    words = split_words("context", context, 2, MOST_WORDS, "the cat sat")
    vocabulary = (*dict.fromkeys(words), NEW)
    embeddings = dict(zip(vocabulary, identity(len(vocabulary)), strict=True))
    return [
        step("The embeddings", matrix("E", (embeddings[word] for word in words), words, vocabulary)),
        *_all_orders(words, embeddings),
        _window_length(words, embeddings),
    ]


def mean_embedding(words: Words, embeddings: Embeddings) -> list[Number]:
    """Return the mean of the word embeddings: the input of a deep averaging network."""
    return mean([embeddings[word] for word in words])


def concatenation(words: Words, embeddings: Embeddings) -> list[Number]:
    """Return the concatenated word embeddings: the input of a fixed-window network."""
    return [number for word in words for number in embeddings[word]]


def hidden_layer(inputs: Sequence[Number], weights: Sequence[Number]) -> list[Number]:
    """Return ReLU(sum_i weights[i] * chunk i), where the inputs are split into one chunk per weight."""
    size = len(inputs) // len(weights)
    chunks = [inputs[start : start + size] for start in range(0, len(inputs), size)]
    return [max(number, Fraction(0)) for number in weighted_sum(weights, chunks)]


def _all_orders(words: Words, embeddings: Embeddings) -> list[Step]:
    average = mean_embedding(words, embeddings)
    hidden = hidden_layer(average, [len(words)])
    orders = list(dict.fromkeys(permutations(words)))
    means = [mean_embedding(order, embeddings) for order in orders]
    inputs = [concatenation(order, embeddings) for order in orders]
    # Weights 1, 2, 4, ... encode the set of positions of each word, so the hidden layer differs for all orders.
    hidden_of_orders = [hidden_layer(row, [2**position for position in range(len(words))]) for row in inputs]
    return [
        step(
            "A deep averaging network (DAN)",
            _by_word("mean", [average], embeddings),
            _by_word("hidden layer", [hidden], embeddings),
            _by_word("P(next)", [softmax(hidden)], embeddings),
            answer=average,
            words=" ".join(words),
        ),
        step(
            "All orders of the words",
            _by_word("mean", means, embeddings, orders),
            answer=len(set(map(tuple, means))),
            orders=len(orders),
            words=" ".join(words),
        ),
        step(
            "A fixed-window network (position-sensitive)",
            matrix("concatenation", inputs[:MOST_ROWS], _labels(orders)),
            _by_word("hidden layer", hidden_of_orders, embeddings, orders),
            _by_word("P(next)", list(map(softmax, hidden_of_orders)), embeddings, orders),
            answer=len(set(map(tuple, inputs))),
            length=len(words),
            width=len(embeddings),
            size=len(inputs[0]),
            orders=len(orders),
        ),
    ]


def _window_length(words: Words, embeddings: Embeddings) -> Step:
    contexts = [words, (NEW, *words)]
    inputs = [concatenation(context[-len(words) :], embeddings) for context in contexts]
    means = [mean_embedding(context, embeddings) for context in contexts]
    return step(
        "Only the last n-1 words",
        matrix("concatenation", inputs, _labels(contexts)),
        _by_word("mean", means, embeddings, contexts),
        answer=Fraction(largest_difference([inputs[0]], [inputs[1]])),
        count=len(words),
    )


def _labels(contexts: Sequence[Words]) -> tuple[str, ...]:
    return tuple(" ".join(words) for words in contexts[:MOST_ROWS])


def _by_word(name: str, rows: Rows, embeddings: Embeddings, contexts: Sequence[Words] = ()) -> Matrix:
    return matrix(name, rows[:MOST_ROWS], _labels(contexts), embeddings)
