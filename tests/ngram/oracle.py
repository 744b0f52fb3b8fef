"""Reference implementation of smoothed n-gram probabilities: exact fractions, straight from the definitions."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

START, END = "start", "end"
Token = int | str


class Oracle:
    """Smoothed n-gram model that computes p(token | context) in exact fractions."""

    def __init__(
        self,
        documents: Sequence[Sequence[int]],
        tokens: int,
        order: int,
        smoothing: str,
        *,
        ends: bool,
        k: Fraction = Fraction(1),
        prune: Sequence[int] = (0,),
    ) -> None:
        self.order, self.smoothing, self.k = order, smoothing, k
        self.events: list[Token] = [*range(tokens), END] if ends else [*range(tokens)]
        texts: list[list[Token]] = [[START, *text, END] if ends else [*text] for text in documents]
        self.raw = {
            n: Counter(
                tuple(text[i : i + n]) for text in texts for i in range(len(text) - n + 1) if n > 1 or text[i] != START
            )
            for n in range(1, order + 1)
        }
        self.thresholds = [prune[min(n, len(prune)) - 1] for n in range(1, order + 1)]
        self.counts = {n: self._adjusted(n) for n in range(1, order + 1)}
        self.discounts = {n: self._discounts(n) for n in range(1, order + 1)}

    def _adjusted(self, n: int) -> Counter[tuple[Token, ...]]:
        """Return the counts of order n: for lower orders of Kneser-Ney the numbers of distinct preceding tokens."""
        if self.smoothing != "kneser-ney" or n == self.order:
            return self.raw[n]
        predecessors = Counter(gram[1:] for gram in self.raw[n + 1])
        return Counter({g: self.raw[n][g] if g[0] == START else predecessors[g] for g in self.raw[n]})

    def _discounts(self, n: int) -> list[Fraction]:
        """Return the discounts of counts 0, 1, 2 and 3 or more (modified Kneser-Ney)."""
        counts_of_counts = Counter(self.counts[n].values())
        if self.smoothing != "kneser-ney":
            return [Fraction(0)] * 4
        fallback = [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(3, 2)]
        if not (counts_of_counts[1] and counts_of_counts[2] and counts_of_counts[3]):
            return fallback
        y = Fraction(counts_of_counts[1], counts_of_counts[1] + 2 * counts_of_counts[2])
        discounts = [Fraction(0)] + [
            j - (j + 1) * y * Fraction(counts_of_counts[j + 1], counts_of_counts[j]) for j in (1, 2, 3)
        ]
        return discounts if all(0 <= discounts[j] <= j for j in (1, 2, 3)) else fallback

    def probability(self, token: Token, context: tuple[Token, ...]) -> Fraction:
        """Return p(token | context)."""
        context = context[max(0, len(context) - self.order + 1) :]
        if self.smoothing == "add-k":
            return self._add_k(token, context)
        return self._interpolated(token, context)

    def _add_k(self, token: Token, context: tuple[Token, ...]) -> Fraction:
        n = len(context) + 1
        is_longest = n == self.order or (bool(context) and context[0] == START)
        seen = {e: self.raw[n][(*context, e)] for e in self.events} if is_longest else {}
        kept = {e: count for e, count in seen.items() if n == 1 or count > self.thresholds[n - 1]}
        total = sum(seen.values()) + self.k * len(self.events)
        probability = Fraction(kept.get(token, 0)) / total
        remaining = 1 - Fraction(sum(kept.values())) / total
        return probability + remaining / len(self.events)

    def _interpolated(self, token: Token, context: tuple[Token, ...]) -> Fraction:
        n = len(context) + 1
        children = {e: self.counts[n][(*context, e)] for e in self.events if self.counts[n][(*context, e)]}
        lower = self._interpolated(token, context[1:]) if context else Fraction(1, len(self.events))
        total = Fraction(sum(children.values()))
        if self.smoothing == "witten-bell":
            total += len(children)
        if not total:
            return lower
        discounted = {
            e: (count - self.discounts[n][min(count, 3)]) / total
            for e, count in children.items()
            if n == 1 or self.raw[n][(*context, e)] > self.thresholds[n - 1]
        }
        return discounted.get(token, Fraction(0)) + (1 - sum(discounted.values(), Fraction(0))) * lower
