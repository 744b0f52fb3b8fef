"""Counting: the chain rule, n-grams, and a table of probabilities that are shares of counts (items 1 to 4)."""

import math
from collections import Counter
from fractions import Fraction

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Step

START, END = "<s>", "</s>"
MOST_WORDS = 200
HIGHEST_ORDER = 5

Words = tuple[str, ...]
# How often each word followed each context.
Table = dict[Words, Counter[str]]


def counting(text: str = "the cat sat. the dog sat. the cat saw the dog.", order: int = 2) -> list[Step]:
    """Return how sentences, each ended by a full stop, become a table of n-gram probabilities."""
    sentences = [tuple(sentence.split()) for sentence in text.split(".") if sentence.strip()]
    if not sentences or sum(map(len, sentences)) > MOST_WORDS:
        raise SettingsError(
            f"text: found {sum(map(len, sentences))} words, expected 1 to {MOST_WORDS}",
            "for example --set text='the cat sat. the dog ran.'",
        )
    if not 1 <= order <= HIGHEST_ORDER:
        raise SettingsError(f"order: found {order}, expected 1 to {HIGHEST_ORDER}", "2 makes bigrams, 3 trigrams")
    table = counted(sentences, order)
    words = (*dict.fromkeys(word for sentence in sentences for word in sentence), END)
    return [
        _chain_rule(sentences),
        *_tables(table, words, order),
        *_older_words(table, words, order),
        _sequence(sentences[0], table, order),
        _unseen(table, words),
    ]


def counted(sentences: list[Words], order: int) -> Table:
    """Return how often each word, or the end, followed each context: the order - 1 words before it, or fewer."""
    table: Table = {}
    for sentence in sentences:
        tokens = (START, *sentence, END)
        for place in range(1, len(tokens)):
            table.setdefault(context_of(tokens[:place], order), Counter())[tokens[place]] += 1
    return table


def context_of(history: Words, order: int) -> Words:
    """Return what an n-gram sees of a history: its last order - 1 words."""
    return history[max(0, len(history) - order + 1) :]


def probability(table: Table, context: Words, word: str) -> Fraction:
    """Return the share of a word in what followed a context."""
    return Fraction(table[context][word], table[context].total())


def _named(context: Words) -> str:
    return " ".join(context) or "(nothing)"


def _chances(sentence: Words, table: Table, order: int) -> tuple[list[Fraction], Matrix]:
    """Return the probability of each word of a sentence and of its end, and the same as a matrix."""
    tokens = (START, *sentence, END)
    contexts = [context_of(tokens[:place], order) for place in range(1, len(tokens))]
    chances = [probability(table, context, word) for context, word in zip(contexts, tokens[1:], strict=True)]
    rows = [(_named(context), chance, math.log(chance)) for context, chance in zip(contexts, chances, strict=True)]
    return chances, Matrix("step by step", tuple(rows), tokens[1:], ("given", "P", "log P"))


def _chain_rule(sentences: list[Words]) -> Step:
    longest = max(map(len, sentences)) + 2
    sentence = sentences[0]
    chances, matrix = _chances(sentence, counted(sentences, longest), longest)
    total = math.prod(chances, start=Fraction(1))
    sums = (sum(map(math.log, chances)), math.log(total))
    return Step(
        f"The chain rule: P({' '.join(sentence)})",
        "The probability of a sentence is a product: of each word, given everything before it. Counted with whole "
        f"histories the product is the share of this sentence among all, {sentences.count(sentence)} of "
        f"{len(sentences)}; any sentence that is not among them gets 0. Logarithms add up to the logarithm of the "
        "product.",
        (matrix, Matrix("all steps", ((total, *sums),), columns=("product", "sum of logs", "log of product"))),
        f"The text is: {'. '.join(' '.join(each) for each in sentences)}. With whole histories, what is the product "
        f"of P(word | all before it) over '{' '.join(sentence)}' and its end?",
        (total,),
    )


def _tables(table: Table, words: Words, order: int) -> list[Step]:
    names = tuple(map(_named, table))
    rows = [tuple(probability(table, context, word) for word in words) for context in table]
    asked = max(table, key=lambda context: len(table[context]))
    word = max(table[asked], key=table[asked].__getitem__)
    seen = {1: "none", 2: "only the last"}.get(order, f"only the last {order - 1}")
    return [
        Step(
            f"An n-gram model of order {order}",
            f"Of the words before it sees {seen}, so histories fall together and can be counted. How often each word "
            "followed each context:",
            (Matrix("counts", tuple(tuple(table[each][word] for word in words) for each in table), names, words),),
        ),
        Step(
            "Count and normalise",
            "Each row divided by its sum: one categorical distribution for each context, written out.",
            (Matrix("P", tuple((*row, sum(row)) for row in rows), names, (*words, "sum")),),
            f"What is P({word}{f' | {_named(asked)}' if asked else ''})?",
            (probability(table, asked, word),),
        ),
    ]


def _older_words(table: Table, words: Words, order: int) -> list[Step]:
    # A history with more before it than the context needs a context that does not begin the sentence.
    inside = [context for context in table if len(context) == order - 1 and START not in context]
    if not inside:
        return []
    histories = [(*older, *inside[0]) for older in ((words[0],), (words[-2],), (START, words[0], words[-2]))]
    rows = [tuple(probability(table, context_of(each, order), word) for word in words) for each in histories]
    return [
        Step(
            "Older words change nothing",
            f"Whatever came before '{_named(inside[0])}', the row is the same.",
            (Matrix("P", tuple(rows), tuple(map(_named, histories)), words),),
            f"How many words before the next one can change its probability, at order {order}?",
            (order - 1,),
        )
    ]


def _sequence(sentence: Words, table: Table, order: int) -> Step:
    chances, matrix = _chances(sentence, table, order)
    total = math.prod(chances, start=Fraction(1))
    sums = (sum(map(math.log, chances)), math.log(total))
    return Step(
        "A sentence under this model",
        "The same product, with short contexts in place of whole histories: other sentences now get their share.",
        (matrix, Matrix("all steps", ((total, *sums),), columns=("product", "sum of logs", "log of product"))),
        f"What is P({' '.join(sentence)}), its end included, under the n-gram model?",
        (total,),
    )


def _unseen(table: Table, words: Words) -> Step:
    zeros = sum(table[context][word] == 0 for context in table for word in words)
    cells = len(table) * len(words)
    return Step(
        "What was never counted",
        f"{zeros} of {cells} probabilities are 0. One of them in a new sentence makes all of it impossible and its "
        "perplexity infinite; the lecture leaves it there, smoothing is what mends it.",
        (Matrix("cells", ((zeros, cells - zeros, cells),), columns=("zero", "more than zero", "all")),),
        "How many cells of the table are 0?",
        (zeros,),
    )
