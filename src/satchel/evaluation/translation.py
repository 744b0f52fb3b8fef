"""How good translations are: BLEU and chrF as sacrebleu defines them, beside what needs no model at all."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from satchel.charts import html
from satchel.predictor import Floats

# Of a source, to find sources that are like it.
LETTERS = 4
# As many of those that share most with a source are compared with it in full.
COMPARED = 10


@dataclass(frozen=True)
class Quality:
    """How much translations are like their references: from 0 to 100, but for exact match, which is a share."""

    bleu: float
    bleu_lowercase: float
    chrf: float
    exact_match: float

    @property
    def headline(self) -> str:
        """All of it in one line."""
        return f"BLEU {self.bleu:.2f}, chrF {self.chrf:.2f}, {self.exact_match:.2%} exact"


@dataclass(frozen=True)
class TranslationMetrics:
    """How good a translator is, and what copying and remembering would have got on the same sentences."""

    sentences: int
    quality: Quality
    signature: str
    chrf_signature: str
    perplexity: float  # of the tokens of the references, ends included
    nats_per_token: float
    unknown: int  # tokens of sources that the tokenizer does not know
    looks_swapped: bool  # sources look like what it writes, and references like what it reads
    baselines: dict[str, Quality]

    @property
    def headline(self) -> str:
        """How good it is in one line."""
        return f"{self.quality.headline} of {self.sentences:,}"

    def _repr_html_(self) -> str:
        rows = [
            (name, f"{each.bleu:.2f}", f"{each.chrf:.2f}", f"{each.exact_match:.2%}")
            for name, each in {"this model": self.quality, **self.baselines}.items()
        ]
        lines = [f"{self.sentences:,} pairs; perplexity of the references {self.perplexity:,.2f}"]
        return html.table(["", "BLEU", "chrF", "exact"], rows) + html.lines(lines)


@dataclass(frozen=True)
class Bucket:
    """What is found of some of the sentences, or of some of their words."""

    name: str
    count: int
    quality: Quality | None
    nats_per_token: float


def quality(hypotheses: Sequence[str], references: Sequence[str]) -> Quality:
    """Return how much translations are like their references."""
    bleu, lowercase, chrf = _metrics()

    def scored(metric: Any) -> float:
        return float(metric.corpus_score(list(hypotheses), [list(references)]).score)

    exact = sum(a == b for a, b in zip(hypotheses, references, strict=True)) / max(1, len(references))
    return Quality(scored(bleu), scored(lowercase), scored(chrf), exact)


def signatures(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[str, str]:
    """Return how BLEU and chrF were measured, as sacrebleu writes it."""
    bleu, _, chrf = _metrics()
    for metric in (bleu, chrf):
        metric.corpus_score(list(hypotheses), [list(references)])
    return str(bleu.get_signature()), str(chrf.get_signature())


def by_sentence(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """Return the chrF of each translation by itself."""
    *_, chrf = _metrics()
    return [float(chrf.sentence_score(a, [b]).score) for a, b in zip(hypotheses, references, strict=True)]


def _metrics() -> tuple[Any, Any, Any]:
    # It takes a while to import, and few need it.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    return BLEU(), BLEU(lowercase=True), CHRF()


def baselines(
    sources: Sequence[str], references: Sequence[str], memory: "Memory", progress: Callable[[float], None]
) -> dict[str, Quality]:
    """Return what copying the source gets, and what the translation of the most similar training source gets."""
    remembered = []
    for number, source in enumerate(sources):
        remembered.append(memory.translate(source))
        progress((number + 1) / len(sources))
    return {"copy": quality(sources, references), "memory": quality(remembered, references)}


def by_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], nats: Sequence[Floats]
) -> list[Bucket]:
    """Return how good translations are by the length of their source: in words, or in letters where there are none."""
    spaces = sum(source.count(" ") for source in sources) / max(1, sum(map(len, sources)))
    unit = "words" if spaces > 1 / 20 else "letters"
    lengths = np.array([len(source.split()) if unit == "words" else len(source) for source in sources])
    edges = _edges(lengths)
    found = []
    for low, high in edges:
        rows = np.flatnonzero((lengths >= low) & (lengths <= high)).tolist()
        if rows:
            own = quality([hypotheses[row] for row in rows], [references[row] for row in rows])
            told = np.concatenate([nats[row] for row in rows])
            found.append(Bucket(f"{low} to {high} {unit}", len(rows), own, float(told.mean())))
    return found


def by_place(places: Floats, nats: Floats, parts: int = 5) -> list[Bucket]:
    """Return what tokens cost by where in its source each is from: 0 is the beginning, 1 the end, nan is unknown."""
    found = []
    for part in range(parts):
        low, high = part / parts, (part + 1) / parts
        rows = (places >= low) & ((places < high) | (part == parts - 1))
        if rows.any():
            name = f"{low:.0%} to {high:.0%} of the source"
            found.append(Bucket(name, int(rows.sum()), None, float(nats[rows].mean())))
    return found


def _edges(lengths: Any, most: int = 6) -> list[tuple[int, int]]:
    """Return ranges of lengths, of about as many sentences each."""
    cuts = sorted({int(np.quantile(lengths, share)) for share in np.linspace(0, 1, most + 1)[1:]})
    starts = [int(lengths.min()), *(cut + 1 for cut in cuts[:-1])]
    return list(zip(starts, cuts, strict=True))


class Memory:
    """A translation memory: the translation of the training source that is most like the one that is asked about.

    Most like is that of the highest chrF, among those that share most groups of four letters, rare ones first.
    """

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        self.sources, self.targets = list(sources), list(targets)
        holders: dict[str, list[int]] = {}
        for row, source in enumerate(self.sources):
            for group in _groups(source):
                holders.setdefault(group, []).append(row)
        self._holders = {group: np.array(rows) for group, rows in holders.items()}
        self._exact = {source: row for row, source in enumerate(self.sources)}

    def translate(self, source: str) -> str:
        """Return the translation of what is most like a source."""
        return self.targets[self.nearest(source)]

    def nearest(self, source: str) -> int:
        """Return the number of the training source that is most like another."""
        from sacrebleu.metrics.chrf import CHRF

        if source in self._exact:
            return self._exact[source]
        scores = np.zeros(len(self.sources))
        for group in _groups(source):
            rows = self._holders.get(group)
            if rows is not None:
                scores[rows] += math.log(len(self.sources) / len(rows)) + 1e-9
        best = np.argsort(-scores, kind="stable")[:COMPARED]
        metric = CHRF()
        likeness = [metric.sentence_score(self.sources[row], [source]).score for row in best]
        return int(best[int(np.argmax(likeness))])


def _groups(text: str) -> Counter[str]:
    padded = f" {text.lower()} "
    return Counter(padded[start : start + LETTERS] for start in range(max(1, len(padded) - LETTERS + 1)))
