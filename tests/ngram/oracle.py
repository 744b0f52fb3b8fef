"""N-gram probabilities from their definitions, in exact fractions and plain dictionaries, slow and obvious."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

START, END = "start", "end"
Token = int | str


class Oracle:
    """p(token | context) of a smoothed n-gram model, by the textbook."""

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
        if self.smoothing != "kneser-ney" or n == self.order:
            return self.raw[n]
        before = Counter(gram[1:] for gram in self.raw[n + 1])
        return Counter({g: self.raw[n][g] if g[0] == START else before[g] for g in self.raw[n]})

    def _discounts(self, n: int) -> list[Fraction]:
        times = Counter(self.counts[n].values())
        if self.smoothing != "kneser-ney":
            return [Fraction(0)] * 4
        fallback = [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(3, 2)]
        if not (times[1] and times[2] and times[3]):
            return fallback
        y = Fraction(times[1], times[1] + 2 * times[2])
        found = [Fraction(0)] + [j - (j + 1) * y * Fraction(times[j + 1], times[j]) for j in (1, 2, 3)]
        return found if all(0 <= found[j] <= j for j in (1, 2, 3)) else fallback

    def probability(self, token: Token, context: tuple[Token, ...]) -> Fraction:
        """Return p(token | context)."""
        context = context[max(0, len(context) - self.order + 1) :]
        if self.smoothing == "add-k":
            return self._add_k(token, context)
        return self._interpolated(token, context)

    def _add_k(self, token: Token, context: tuple[Token, ...]) -> Fraction:
        n = len(context) + 1
        is_whole = n == self.order or (bool(context) and context[0] == START)
        seen = {e: self.raw[n][(*context, e)] for e in self.events} if is_whole else {}
        kept = {e: count for e, count in seen.items() if n == 1 or count > self.thresholds[n - 1]}
        total = sum(seen.values()) + self.k * len(self.events)
        own = Fraction(kept.get(token, 0)) / total
        left = 1 - Fraction(sum(kept.values())) / total
        return own + left / len(self.events)

    def _interpolated(self, token: Token, context: tuple[Token, ...]) -> Fraction:
        n = len(context) + 1
        children = {e: self.counts[n][(*context, e)] for e in self.events if self.counts[n][(*context, e)]}
        lower = self._interpolated(token, context[1:]) if context else Fraction(1, len(self.events))
        total = Fraction(sum(children.values()))
        if self.smoothing == "witten-bell":
            total += len(children)
        if not total:
            return lower
        own = {
            e: (count - self.discounts[n][min(count, 3)]) / total
            for e, count in children.items()
            if n == 1 or self.raw[n][(*context, e)] > self.thresholds[n - 1]
        }
        return own.get(token, Fraction(0)) + (1 - sum(own.values(), Fraction(0))) * lower
