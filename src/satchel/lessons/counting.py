"""N-gram language models: the chain rule, and conditional probabilities estimated by counting (items 1 to 4)."""

import math
from collections import Counter
from fractions import Fraction
from functools import partial

from satchel.lessons.checks import check_range, split_words
from satchel.lessons.steps import Matrix, Step, build_step, matrix, vector

START, END = "<s>", "</s>"
MOST_WORDS = 200
HIGHEST_ORDER = 5

step = partial(build_step, "counting", end=END)

Words = tuple[str, ...]
# Counts of the next word by context.
Table = dict[Words, Counter[str]]


def counting(text: str = "the cat sat. the dog sat. the cat saw the dog.", order: int = 2) -> list[Step]:
    """Return the estimation of an n-gram model from sentences that end with a full stop."""
    sentences = [tuple(sentence.split()) for sentence in text.split(".") if sentence.strip()]
    split_words("text", text.replace(".", " "), 1, MOST_WORDS, "the cat sat. the dog ran.")
    check_range("order", order, 1, HIGHEST_ORDER, example=2)
    table = count_ngrams(sentences, order)
    words = (*dict.fromkeys(word for sentence in sentences for word in sentence), END)
    total, matrices = _step_by_step(sentences[0], table, order)
    cells = len(table) * len(words)
    zeros = sum(table[context][word] == 0 for context in table for word in words)
    return [
        _chain_rule(sentences),
        *_estimation(table, words, order),
        *_context_length(table, words, order),
        step("A sentence under the n-gram model", *matrices, answer=total, sentence=" ".join(sentences[0])),
        step(
            "Zero counts",
            vector("cells", (zeros, cells - zeros, cells), ("zero", "above zero", "total")),
            answer=zeros,
            zeros=zeros,
            cells=cells,
        ),
    ]


def count_ngrams(sentences: list[Words], order: int) -> Table:
    """Return the counts of each next word (including the end of sentence) by context."""
    table: Table = {}
    for sentence in sentences:
        tokens = (START, *sentence, END)
        for position in range(1, len(tokens)):
            table.setdefault(context_of(tokens[:position], order), Counter())[tokens[position]] += 1
    return table


def context_of(history: Words, order: int) -> Words:
    """Return the last order - 1 words of a history."""
    return history[max(0, len(history) - order + 1) :]


def probability(table: Table, context: Words, word: str) -> Fraction:
    """Return the maximum likelihood estimate of P(word | context)."""
    return Fraction(table[context][word], table[context].total())


def _label(context: Words) -> str:
    return " ".join(context) or "(empty)"


def _step_by_step(sentence: Words, table: Table, order: int) -> tuple[Fraction, tuple[Matrix, Matrix]]:
    """Return the probability of a sentence, and matrices with its factors and their product."""
    tokens = (START, *sentence, END)
    contexts = [context_of(tokens[:position], order) for position in range(1, len(tokens))]
    chances = [probability(table, context, word) for context, word in zip(contexts, tokens[1:], strict=True)]
    rows = [(_label(context), chance, math.log(chance)) for context, chance in zip(contexts, chances, strict=True)]
    total = math.prod(chances, start=Fraction(1))
    sums = (total, sum(map(math.log, chances)), math.log(total))
    return total, (
        matrix("factors", rows, tokens[1:], ("context", "P", "log P")),
        vector("sentence", sums, ("product", "sum of logs", "log of product")),
    )


def _chain_rule(sentences: list[Words]) -> Step:
    longest = max(map(len, sentences)) + 2
    sentence = sentences[0]
    total, matrices = _step_by_step(sentence, count_ngrams(sentences, longest), longest)
    return step(
        "The chain rule: P({sentence})",
        *matrices,
        answer=total,
        sentence=" ".join(sentence),
        occurrences=sentences.count(sentence),
        count=len(sentences),
        text=". ".join(map(" ".join, sentences)),
    )


def _estimation(table: Table, words: Words, order: int) -> list[Step]:
    labels = tuple(map(_label, table))
    rows = [[probability(table, context, word) for word in words] for context in table]
    context = max(table, key=lambda context: len(table[context]))
    word = max(table[context], key=table[context].__getitem__)
    length = {1: "no words", 2: "the last word"}.get(order, f"the last {order - 1} words")
    return [
        step(
            "An n-gram model of order {order}",
            matrix("counts", ([table[context][word] for word in words] for context in table), labels, words),
            order=order,
            length=length,
        ),
        step(
            "Count and normalise",
            matrix("P", ((*row, sum(row)) for row in rows), labels, (*words, "sum")),
            answer=probability(table, context, word),
            word=word,
            condition=f" | {_label(context)}" if context else "",
        ),
    ]


def _context_length(table: Table, words: Words, order: int) -> list[Step]:
    # Only a context inside a sentence can follow different older words.
    inside = [context for context in table if len(context) == order - 1 and START not in context]
    if not inside:
        return []
    histories = [(*older, *inside[0]) for older in ((words[0],), (words[-2],), (START, words[0], words[-2]))]
    rows = [[probability(table, context_of(history, order), word) for word in words] for history in histories]
    return [
        step(
            "Older words are ignored",
            matrix("P", rows, map(_label, histories), words),
            answer=order - 1,
            context=_label(inside[0]),
            order=order,
        )
    ]
