"""Translation metrics: BLEU and chrF by sacrebleu, exact match, baselines, and detection of swapped columns."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from satchel.charts import html
from satchel.predictor import Floats, Ids
from satchel.text.tables import TextPair
from satchel.text.tokenizer import Tokenizer

# Length of the character n-grams used to retrieve similar sources.
NGRAM_LENGTH = 4
# Number of retrieved sources that are compared by chrF.
RETRIEVED = 10
# Swapped columns: number of pairs that are compared.
SWAPPED_PAIRS = 500
# Minimum difference in nats per character; smaller ones may be chance, or both languages are too similar.
SWAPPED_MARGIN = 0.05
# Maximum number of ranges of source lengths.
LENGTH_RANGES = 6


@dataclass(frozen=True)
class Quality:
    """Similarity of translations to their references: BLEU and chrF from 0 to 100, exact match as a fraction."""

    bleu: float
    bleu_lowercase: float
    chrf: float
    exact_match: float

    @property
    def headline(self) -> str:
        """One-line summary."""
        return f"BLEU {self.bleu:.2f}, chrF {self.chrf:.2f}, {self.exact_match:.2%} exact"


@dataclass(frozen=True)
class TranslationMetrics:
    """Metrics of a translator, with the baselines on the same sentences."""

    sentences: int
    quality: Quality
    signature: str
    chrf_signature: str
    perplexity: float  # of the reference tokens, including the end token
    nats_per_token: float
    unknown: int  # number of unknown tokens in the sources
    looks_swapped: bool  # source and target columns appear to be exchanged
    baselines: dict[str, Quality]

    @property
    def headline(self) -> str:
        """One-line summary with the number of sentences."""
        return f"{self.quality.headline} on {self.sentences:,} sentences"

    def document(self) -> dict[str, Any]:
        """Return the metrics as JSON."""
        metrics = asdict(self)
        return {"sentences": metrics.pop("sentences"), **metrics.pop("quality"), **metrics}

    def _repr_html_(self) -> str:
        rows = [
            (name, f"{each.bleu:.2f}", f"{each.chrf:.2f}", f"{each.exact_match:.2%}")
            for name, each in {"this model": self.quality, **self.baselines}.items()
        ]
        lines = [f"{self.sentences:,} pairs; perplexity of the references {self.perplexity:,.2f}"]
        return html.table(["", "BLEU", "chrF", "exact"], rows) + html.lines(lines)


@dataclass(frozen=True)
class Bucket:
    """Metrics of a subset of the sentences or tokens."""

    name: str
    count: int
    quality: Quality | None
    nats_per_token: float


def quality(hypotheses: Sequence[str], references: Sequence[str]) -> Quality:
    """Return BLEU, chrF and exact match of translations against their references."""
    bleu, lowercase, chrf = _metrics()

    def score(metric: Any) -> float:
        return float(metric.corpus_score(list(hypotheses), [list(references)]).score)

    exact = sum(a == b for a, b in zip(hypotheses, references, strict=True)) / max(1, len(references))
    return Quality(score(bleu), score(lowercase), score(chrf), exact)


def signatures(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[str, str]:
    """Return sacrebleu's signatures of BLEU and chrF."""
    bleu, _, chrf = _metrics()
    for metric in (bleu, chrf):
        metric.corpus_score(list(hypotheses), [list(references)])
    return str(bleu.get_signature()), str(chrf.get_signature())


def by_sentence(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """Return the sentence-level chrF of each translation."""
    *_, chrf = _metrics()
    return [float(chrf.sentence_score(a, [b]).score) for a, b in zip(hypotheses, references, strict=True)]


def _metrics() -> tuple[Any, Any, Any]:
    # Imported here because it is slow and only needed for translation.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    return BLEU(), BLEU(lowercase=True), CHRF()


def baselines(
    sources: Sequence[str], references: Sequence[str], memory: "TranslationMemory", progress: Callable[[float], None]
) -> dict[str, Quality]:
    """Return the metrics of copying the source, and of the translation of the most similar training source."""
    retrieved = []
    for number, source in enumerate(sources):
        retrieved.append(memory.translate(source))
        progress((number + 1) / len(sources))
    return {"copy": quality(sources, references), "memory": quality(retrieved, references)}


def by_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], nats: Sequence[Floats]
) -> list[Bucket]:
    """Return metrics by source length: in words, or in characters for texts without spaces."""
    spaces = sum(source.count(" ") for source in sources) / max(1, sum(map(len, sources)))
    unit = "words" if spaces > 1 / 20 else "letters"
    lengths = np.array([len(source.split()) if unit == "words" else len(source) for source in sources])
    # Up to LENGTH_RANGES ranges of lengths with about the same number of sentences each.
    cuts = sorted({int(np.quantile(lengths, share)) for share in np.linspace(0, 1, LENGTH_RANGES + 1)[1:]})
    buckets = []
    for low, high in zip([int(lengths.min()), *(cut + 1 for cut in cuts[:-1])], cuts, strict=True):
        rows = np.flatnonzero((lengths >= low) & (lengths <= high)).tolist()
        if rows:
            metrics = quality([hypotheses[row] for row in rows], [references[row] for row in rows])
            bucket_nats = np.concatenate([nats[row] for row in rows])
            buckets.append(Bucket(f"{low} to {high} {unit}", len(rows), metrics, float(bucket_nats.mean())))
    return buckets


def by_source_position(positions: Floats, nats: Floats) -> list[Bucket]:
    """Return mean nats of target tokens by relative position of the aligned source token (0 to 1; NaN: unknown)."""
    buckets = []
    for low, high in pairwise(part / 5 for part in range(6)):
        rows = (positions >= low) & ((positions < high) | (high == 1))
        if rows.any():
            name = f"{low:.0%} to {high:.0%} of the source"
            buckets.append(Bucket(name, int(rows.sum()), None, float(nats[rows].mean())))
    return buckets


class TranslationMemory:
    """Returns the target of the most similar training source.

    Candidates are retrieved by shared character 4-grams with inverse document frequency weights and ranked by chrF.
    """

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        self.sources, self.targets = list(sources), list(targets)
        index: dict[str, list[int]] = {}
        for row, source in enumerate(self.sources):
            for ngram in _ngrams(source):
                index.setdefault(ngram, []).append(row)
        self._index = {ngram: np.array(rows) for ngram, rows in index.items()}
        self._exact = {source: row for row, source in enumerate(self.sources)}

    def translate(self, source: str) -> str:
        """Return the target of the most similar training source."""
        if source in self._exact:
            return self.targets[self._exact[source]]
        scores = np.zeros(len(self.sources))
        for ngram in _ngrams(source):
            rows = self._index.get(ngram)
            if rows is not None:
                scores[rows] += math.log(len(self.sources) / len(rows)) + 1e-9
        best = np.argsort(-scores, kind="stable")[:RETRIEVED]
        similarities = by_sentence([self.sources[row] for row in best], [source] * len(best))
        return self.targets[int(best[np.argmax(similarities)])]


def _ngrams(text: str) -> Counter[str]:
    padded = f" {text.lower()} "
    return Counter(padded[start : start + NGRAM_LENGTH] for start in range(max(1, len(padded) - NGRAM_LENGTH + 1)))


class UnigramModel:
    """Unigram model of the source texts or of the target texts, with add-0.5 smoothing."""

    def __init__(self, ids: Ids, tokenizer: Tokenizer) -> None:
        counts_V = np.bincount(np.asarray(ids, np.int64), minlength=tokenizer.size + 1)[: tokenizer.size] + 0.5
        self._logprobs_V, self._tokenizer = np.log(counts_V / counts_V.sum()), tokenizer

    def nats_per_character(self, texts: Sequence[str]) -> float:
        """Return the negative log-likelihood of texts per character."""
        nats = -sum(float(self._logprobs_V[self._tokenizer.encode(text).ids].sum()) for text in texts)
        return nats / max(1, sum(map(len, texts)))


def look_swapped(pairs: Sequence[TextPair], source_model: UnigramModel, target_model: UnigramModel) -> bool:
    """Return whether the sources fit the target model better than the source model, and the targets vice versa."""
    sources = [pair.source for pair in pairs[:SWAPPED_PAIRS]]
    targets = [pair.target for pair in pairs[:SWAPPED_PAIRS]]
    return (
        source_model.nats_per_character(sources) > target_model.nats_per_character(sources) + SWAPPED_MARGIN
        and target_model.nats_per_character(targets) > source_model.nats_per_character(targets) + SWAPPED_MARGIN
    )
