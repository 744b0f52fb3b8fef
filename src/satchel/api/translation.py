"""Translators. Imports torch inside methods only, so that `satchel.api` is imported without it.

Shapes: S source tokens, T target tokens.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from satchel import config
from satchel.api.language import TextScore
from satchel.api.model import Model
from satchel.charts import html
from satchel.data.tokens import decode_documents
from satchel.errors import RunError, SettingsError
from satchel.evaluation.comparison import UnitCosts
from satchel.evaluation.translation import (
    Bucket,
    TranslationMemory,
    TranslationMetrics,
    UnigramModel,
    baselines,
    by_length,
    by_sentence,
    by_source_position,
    look_swapped,
    quality,
    signatures,
)
from satchel.generation.sampling import Sampling
from satchel.predictor import Floats, Ids
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text.tables import TextPair, read_pairs
from satchel.text.tokenizer import Tokenizer
from satchel.text.windows import refuse_start
from satchel.training.examples.common import require_rows
from satchel.training.examples.pairs import read_valid_pairs

if TYPE_CHECKING:
    from satchel.generation.beam import Hypothesis
    from satchel.inspection.alignment import Alignment
    from satchel.inspection.trace import Trace
    from satchel.tasks.translation import NetworkTranslator, TranslationNetwork

# Number of sources translated at once.
BATCH = 1024
# Ends of sentences, where long sources are split.
SENTENCE_END = re.compile(r"(?<=[.!?;:\u3002\uff01\uff1f])\s+")


@dataclass(frozen=True)
class Candidate:
    """A translation; `score` is the mean log-probability per token, `logprob` the sum."""

    target: str
    score: float
    logprob: float


@dataclass(frozen=True)
class Translation:
    """Translations of a source in descending order of score, and the number of parts it was split into."""

    source: str
    translations: tuple[Candidate, ...]
    pieces: int = 1

    @property
    def target(self) -> str:
        """The best translation."""
        return self.translations[0].target

    @property
    def score(self) -> float:
        """Mean log-probability per token of the best translation."""
        return self.translations[0].score

    def _repr_html_(self) -> str:
        rows = [(each.target, f"{each.score:.4f}") for each in self.translations]
        return html.table(["translation", "score"], rows, self.source)


class Translator(Model):
    """A trained translator."""

    predictor: "NetworkTranslator"
    network: "TranslationNetwork"

    @property
    def boundaries(self) -> tuple[int, int]:
        """Boundary ids of sources and targets."""
        return self.source_tokenizer.boundary, self.tokenizer.boundary

    # --- translations

    def translate(self, text: str, **options: Any) -> Translation:
        """Return the translation of a text. Options are those of BeamSettings: beam, best, length_penalty, longest."""
        return next(self.predict([text], **options))

    def predict(
        self,
        texts: Iterable[str],
        *,
        batch: int = BATCH,
        sampling: Sampling | None = None,
        progress: Callable[[float], None] = lambda done: None,
        **options: Any,
    ) -> Iterator[Translation]:
        """Return the translation of each text, in order, reading at most `batch` texts ahead.

        White space is returned unchanged. Texts longer than the context are translated in parts, joined by spaces.
        """
        from satchel.generation import beam

        settings = config.build(beam.BeamSettings, options)
        if settings.best > settings.beam and sampling is None:
            raise SettingsError(
                f"best={settings.best} is larger than beam={settings.beam}", "use a beam at least as large as best"
            )
        remaining = iter(texts)
        while chunk := list(islice(remaining, batch)):
            parts = [_split_source(text, self.source_tokenizer, self.settings.model.context - 1) for text in chunk]
            hypotheses = iter(
                beam.translate(
                    self.network,
                    [self.source_tokenizer.encode(part).ids for text_parts in parts for part in text_parts],
                    self.boundaries,
                    settings,
                    unknown=self.tokenizer.unknown,
                    sampling=sampling,
                    text_key=self.tokenizer.decode,
                    progress=progress,
                )
            )
            for text, text_parts in zip(chunk, parts, strict=True):
                candidates = self._join(text, [next(hypotheses) for _ in text_parts])
                yield Translation(text, candidates, max(1, len(text_parts)))

    def _join(self, text: str, parts: "list[list[Hypothesis]]") -> tuple[Candidate, ...]:
        """Return the translations of a text: the n-th joins the n-th best translations of its parts."""
        if not parts:
            return (Candidate(text, 0.0, 0.0),)
        candidates = []
        for hypotheses in zip(*parts, strict=False):
            logprob, tokens = sum(each.logprob for each in hypotheses), sum(len(each.ids) + 1 for each in hypotheses)
            target = " ".join(self.tokenizer.decode(each.ids) for each in hypotheses)
            candidates.append(Candidate(target, logprob / tokens, logprob))
        return tuple(candidates)

    # --- given pairs

    def score(self, source: str, target: str) -> TextScore:
        """Return the log-probability of every token of a translation and of its end.

        Of texts longer than the context the first tokens are used.
        """
        trace = self._trace(source, target, None)
        scored = trace.targets
        return TextScore(
            self.tokenizer.tokens_of(scored.ids), scored.ids, -scored.surprise, {}, trace.window, trace.source_window
        )

    def _logprobs(self, pairs: Sequence[TextPair]) -> list[Floats]:
        """Return the log-probabilities of the target tokens of each pair, truncated to the context."""
        longest = self.settings.model.context - 1
        sources, targets = self._ids(pairs)
        return self.predictor.score([ids[:longest] for ids in sources], [ids[:longest] for ids in targets])

    def _ids(self, pairs: Sequence[TextPair]) -> tuple[list[Ids], list[Ids]]:
        return (
            [self.source_tokenizer.encode(pair.source).ids for pair in pairs],
            [self.tokenizer.encode(pair.target).ids for pair in pairs],
        )

    def align(
        self, source: str, target: str | None = None, *, layer: int | None = None, head: int | None = None
    ) -> "Alignment":
        """Return the alignment of a source and a target, by default of the model's own translation.

        The values are attention weights from target words to source words. For a Backpack they are contributions of
        source words; with a layer or a head, the attention weights of its Transformer.
        """
        from satchel.inspection.alignment import align

        return align(self, source, self._target(source, target), layer=layer, head=head)

    def _target(self, source: str, target: str | None) -> str:
        return self.translate(source).target if target is None else target

    def _trace(self, text: str, target: str | None, start: int | None) -> "Trace":
        from satchel.inspection.trace import trace_translation

        refuse_start(start)
        return trace_translation(self, text, self._target(text, target))

    # --- evaluation

    def evaluate(
        self,
        data: str | Path | None = None,
        *,
        reading: config.Tree | None = None,
        progress: Progress = silent,
        **options: Any,
    ) -> TranslationMetrics:
        """Return the metrics of the translations of a table's sources; without data, of the held-out pairs."""
        pairs = self.pairs(data, reading)
        hypotheses = self._hypotheses(pairs, progress, options)
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        bleu_signature, chrf_signature = signatures(hypotheses, references)
        mean = float(-np.concatenate(self._logprobs(pairs)).mean())
        files, tokenizers = self._files, (self.source_tokenizer, self.tokenizer)
        training = list(zip((files.tokens(runs.TRAIN_SOURCES).ids, files.tokens().ids), tokenizers, strict=True))
        memory = TranslationMemory(*(list(decode_documents(*each)) for each in training))
        return TranslationMetrics(
            sentences=len(pairs),
            quality=quality(hypotheses, references),
            signature=bleu_signature,
            chrf_signature=chrf_signature,
            perplexity=float(np.exp(mean)) if mean < 700 else float("inf"),
            nats_per_token=mean,
            looks_swapped=look_swapped(pairs, *(UnigramModel(*each) for each in training)),
            unknown=sum(self.source_tokenizer.encode(source).unknown for source in sources),
            baselines=baselines(
                sources, references, memory, lambda done: progress("searching the translation memory", done)
            ),
        )

    def by_length(
        self,
        data: str | Path | None = None,
        *,
        reading: config.Tree | None = None,
        progress: Progress = silent,
        **options: Any,
    ) -> list[Bucket]:
        """Return the quality of the translations by the length of the source."""
        pairs = self.pairs(data, reading)
        hypotheses = self._hypotheses(pairs, progress, options)
        nats = [-logprobs for logprobs in self._logprobs(pairs)]
        return by_length([pair.source for pair in pairs], hypotheses, [pair.target for pair in pairs], nats)

    def by_position(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> list[Bucket]:
        """Return the loss of target tokens by the relative position of their source token.

        Tokens are aligned by a lexicon of the training pairs, independently of the model. Target tokens whose source
        token occurs more than once are excluded.
        """
        from satchel.inspection.alignment import training_lexicon

        pairs = self.pairs(data, reading)
        progress("aligning", None)
        lexicon = training_lexicon(self)
        nats = [-logprobs[:-1] for logprobs in self._logprobs(pairs)]
        positions = []
        for source, target, target_nats in zip(*self._ids(pairs), nats, strict=True):
            aligned = lexicon.source_of(source, target[: len(target_nats)]) if len(source) else np.zeros(0, np.int64)
            is_unique = np.array([(source == source[position]).sum() == 1 for position in aligned], bool)
            relative = aligned / max(1, len(source) - 1)
            positions.append(np.where(is_unique, relative, np.nan) if len(aligned) else np.zeros(0))
        return by_source_position(np.concatenate(positions), np.concatenate(nats))

    def _hypotheses(self, pairs: Sequence[TextPair], progress: Progress, options: dict[str, Any]) -> list[str]:
        """Return the best translation of each source."""
        sources = (pair.source for pair in pairs)
        translations = self.predict(
            sources, batch=len(pairs), progress=lambda done: progress("translating", done), **options
        )
        return [translation.target for translation in translations]

    def texts_of(self, data: str | Path) -> list[tuple[str, str]]:
        """Return the pairs of source and target in data."""
        return [(pair.source, pair.target) for pair in self.pairs(data)]

    def pairs(self, data: str | Path | None = None, reading: config.Tree | None = None) -> list[TextPair]:
        """Return the pairs of a table or of two aligned files; without data, the held-out pairs."""
        if data is None:
            if not (self.folder / runs.VALID_PAIRS).exists():
                raise self._no_valid_data()
            return read_valid_pairs(self._files)
        return require_rows(read_pairs(self.table(data, reading)), str(data), "pairs")

    def excerpt(self, characters: int) -> str:
        """Return the start of the first held-out source; empty if there is none."""
        pairs = read_valid_pairs(self._files)
        return pairs[0].source[:characters] if pairs else ""

    @classmethod
    def unit_costs(
        cls, models: "Sequence[Translator]", data: str | Path | None, reading: config.Tree, progress: Progress
    ) -> tuple[str, list[UnitCosts]]:
        """Return the chrF of each model by sentence."""
        pairs = models[0].pairs(data, reading)
        scores: list[UnitCosts] = []
        for model in models:
            if data is None and [pair[:2] for pair in model.pairs()] != [pair[:2] for pair in pairs]:
                raise RunError("the runs have different held-out pairs", "give pairs with --data")
            progress(f"translating with {model.folder.name}", len(scores) / len(models))
            hypotheses = [each.target for each in model.predict(pair.source for pair in pairs)]
            chrf = np.array(by_sentence(hypotheses, [pair.target for pair in pairs]))
            scores.append(UnitCosts(chrf, np.ones(len(chrf))))
        return "sentence_chrf", scores


def _split_source(text: str, tokenizer: Tokenizer, longest: int) -> list[str]:
    """Return parts of a text with at most `longest` tokens each, split at ends of sentences; empty for white space."""
    if not text.strip():
        return []

    def fits(part: str) -> bool:
        return len(tokenizer.encode(part).ids) <= longest

    def halves(part: str) -> Iterator[str]:
        """Split a part into halves, at a space if there is one, until they fit."""
        if fits(part) or len(part) < 2:
            yield part
            return
        middle = len(part) // 2
        cut = part.find(" ", middle)
        cut = cut if 0 < cut < len(part) - 1 else part.rfind(" ", 1, middle)
        cut = cut if cut > 0 else middle
        yield from halves(part[:cut])
        yield from halves(part[cut:].lstrip(" "))

    if fits(text):
        return [text]
    parts: list[str] = []
    for part in (part for sentence in SENTENCE_END.split(text) for part in halves(sentence)):
        if parts and fits(joined := f"{parts[-1]} {part}"):
            parts[-1] = joined
        else:
            parts.append(part)
    return parts
