"""Translators. Imports torch inside methods only, so that `satchel.api` is imported without it.

Shapes: S source tokens, T target tokens.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from satchel import config
from satchel.api.language import TextScore, named_tokens
from satchel.api.model import Model
from satchel.charts import html
from satchel.data.tokens import decode_documents
from satchel.errors import RunError, SettingsError
from satchel.evaluation.comparison import UnitCosts
from satchel.evaluation.likelihood import TextLikelihood
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
from satchel.generation.batch import most_probable
from satchel.generation.sampling import Sampling
from satchel.predictor import Floats, Ids
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text.tables import TextPair, read_pairs
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
# White space after the end of a sentence or of a paragraph, where long sources are split. Chinese and Japanese sentence
# marks need no white space.
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])\s*|\s*\n\s*")
# Long sentences are split into windows of at most this many times the mean length of the training sources, but not of
# fewer than MIN_WINDOW tokens.
WINDOW_FACTOR, MIN_WINDOW = 2, 32


@dataclass(frozen=True)
class Candidate:
    """A translation; `score` is the mean log-probability per token, `logprob` the sum."""

    target: str
    score: float
    logprob: float


@dataclass(frozen=True)
class TranslatedPart:
    """A part of a long source that begins at the character `start`, and its best translation."""

    start: int
    source: str
    target: str


@dataclass(frozen=True)
class Translation:
    """Translations of a source in descending order of score; `parts` are empty unless the source was split."""

    source: str
    translations: tuple[Candidate, ...]
    parts: tuple[TranslatedPart, ...] = ()
    align: "Callable[[str, str], Alignment] | None" = field(default=None, repr=False, compare=False)

    @cached_property
    def alignment(self) -> "Alignment | None":
        """The alignment of the best translation; None without attention, for white space, and for several parts."""
        if self.align is None or self.pieces > 1 or not self.source.strip():
            return None
        return self.align(self.source, self.target)

    def cells(self) -> dict[str, Any]:
        """Return the columns of a table of translations."""
        return {"target": self.target, "score": round(self.score, 4)}

    def document(self, *, alignment: bool = False) -> dict[str, Any]:
        """Return the keys of a translation in `translate --json`."""
        lists: dict[str, Any] = {
            "others": [asdict(each) for each in self.translations[1:]],
            "parts": [asdict(each) for each in self.parts],
        }
        fields = {"source": self.source, **self.cells(), **{name: each for name, each in lists.items() if each}}
        aligned = self.alignment if alignment else None
        return fields if aligned is None else {**fields, "alignment": aligned.document()}

    @property
    def pieces(self) -> int:
        """Number of parts into which the source was split; 1 if it was not split."""
        return max(1, len(self.parts))

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

        White space is returned unchanged. A text longer than the context is translated in parts, sentences if they
        fit, and joined by the white space between them.
        """
        from satchel.generation import beam

        settings = config.build(beam.BeamSettings, options)
        if settings.best > settings.beam and sampling is None:
            raise SettingsError(
                f"best={settings.best} is larger than beam={settings.beam}", "use a beam at least as large as best"
            )
        remaining = iter(texts)
        while chunk := list(islice(remaining, batch)):
            parts = [self._split(text) for text in chunk]
            hypotheses = iter(
                beam.translate(
                    self.network,
                    [self.source_tokenizer.encode(part).ids for text_parts in parts for _, part in text_parts],
                    self.boundaries,
                    settings,
                    unknown=self.tokenizer.unknown,
                    sampling=sampling,
                    text_key=self.tokenizer.decode,
                    progress=progress,
                )
            )
            for text, text_parts in zip(chunk, parts, strict=True):
                yield self._join(text, text_parts, [next(hypotheses) for _ in text_parts])

    def _split(self, text: str) -> list[tuple[int, str]]:
        """Return the parts of a text that are translated, with the characters at which they begin."""
        longest, facts = self.settings.model.context - 1, self.run.facts
        mean = facts["source_counts"]["tokens"] / max(1, facts["counts"]["documents"])
        window = min(longest, max(MIN_WINDOW, math.ceil(WINDOW_FACTOR * mean)))
        return split_source(text, lambda part: len(self.source_tokenizer.encode(part).ids), longest, window)

    def _join(
        self, text: str, parts: list[tuple[int, str]], hypotheses: "Sequence[Sequence[Hypothesis]]"
    ) -> Translation:
        """Return the translations of a text: the n-th joins the n-th best translations of its parts."""
        if not parts:
            return Translation(text, (Candidate(text, 0.0, 0.0),))
        align = self.align if getattr(self.settings.model, "attention", "") != "none" else None
        # The white space after each part but the last.
        gaps = [text[start + len(part) : after] for (start, part), (after, _) in pairwise(parts)]
        candidates, best = [], [""] * len(parts)
        for rank, chosen in enumerate(zip(*hypotheses, strict=False)):
            logprob, tokens = sum(each.logprob for each in chosen), sum(len(each.ids) + 1 for each in chosen)
            targets = [self.tokenizer.decode(each.ids) for each in chosen]
            joined = "".join(target + gap for target, gap in zip(targets, [*gaps, ""], strict=True))
            candidates.append(Candidate(joined, logprob / tokens, logprob))
            best = targets if rank == 0 else best
        translated = zip(parts, best, strict=True) if len(parts) > 1 else ()
        pieces = tuple(TranslatedPart(*part, target) for part, target in translated)
        return Translation(text, tuple(candidates), pieces, align)

    # --- given pairs

    def score(self, source: str, target: str, top: int = 0) -> TextScore:
        """Return the log-probability of every token of a translation and of its end.

        Of texts longer than the context the first tokens are used. With `top`, the most probable tokens in place of
        each token are returned too.
        """
        trace = self._trace(source, target, None)
        scored = trace.targets
        alternatives: Any = ()
        if top:
            logprobs_TV = trace.tensor("logits").double().log_softmax(dim=-1).cpu().numpy()
            ranked = (most_probable(logprobs_V, top) for logprobs_V in logprobs_TV[: len(scored.ids)])
            alternatives = tuple(named_tokens(self.tokenizer, each) for each in ranked)
        return TextScore(
            self.tokenizer.tokens_of(scored.ids),
            scored.ids,
            -scored.surprise,
            {},
            trace.window,
            trace.source_window,
            alternatives,
        )

    def score_pairs(self, pairs: Iterable[tuple[str, str]], batch: int = BATCH) -> Iterator[TextLikelihood]:
        """Return the likelihood of the target of each pair of source and target, in order.

        The values are those of `score`; pairs of similar length are scored in one batch, and at most `batch` pairs are
        read ahead.
        """
        remaining = iter(pairs)
        longest = self.settings.model.context - 1
        while chunk := list(islice(remaining, batch)):
            sources = [self.source_tokenizer.encode(source) for source, _ in chunk]
            targets = [self.tokenizer.encode(target) for _, target in chunk]
            parts = ([each.ids[:longest] for each in encodings] for encodings in (sources, targets))
            scores = self.predictor.score(*parts)
            for (_, text), source, target, logprobs in zip(chunk, sources, targets, scores, strict=True):
                # The end of a truncated target is not predicted.
                is_whole = len(target.ids) <= longest
                scored = logprobs if is_whole else logprobs[:-1]
                size = len(text.encode()) if is_whole and target.lossless else None
                is_truncated = not is_whole or len(source.ids) > longest
                yield TextLikelihood(text, float(scored.sum()), len(scored), target.unknown, size, is_truncated)

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
    ) -> tuple[str, list[UnitCosts], Iterable[str]]:
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
        return "sentence_chrf", scores, [pair.source for pair in pairs]


def split_source(text: str, count_tokens: Callable[[str], int], longest: int, window: int) -> list[tuple[int, str]]:
    """Return the parts of a text, with the characters at which they begin; empty if it is white space.

    A text of at most `longest` tokens is one part. A longer text is split at ends of sentences, and longer sentences
    into windows of at most `window` tokens. White space between parts belongs to none of them.
    """
    if not text.strip():
        return []
    if count_tokens(text) <= longest:
        return [(0, text)]
    ends = [(0, 0), *(match.span() for match in SENTENCE_END.finditer(text)), (len(text), len(text))]
    parts = [_stripped(text, start, stop) for (_, start), (stop, _) in pairwise(ends)]
    sentences = [(start, part) for start, part in parts if part]
    return [
        piece
        for start, sentence in sentences
        for piece in (
            [(start, sentence)]
            if count_tokens(sentence) <= longest
            else _windows(start, sentence, count_tokens, window)
        )
    ]


def _windows(start: int, text: str, count_tokens: Callable[[str], int], window: int) -> list[tuple[int, str]]:
    """Return halves of a text, of halves and so on, until they have at most `window` tokens; cuts are at spaces."""
    if len(text) < 2 or count_tokens(text) <= window:
        return [(start, text)]
    middle = len(text) // 2
    space = re.compile(r"\s").search(text, middle)
    cut = space.start() if space is not None else max(text.rfind(character, 1, middle) for character in " \t\n")
    cut = cut if 0 < cut < len(text) else middle
    halves = [_stripped(text, 0, cut), _stripped(text, cut, len(text))]
    return [part for place, half in halves if half for part in _windows(start + place, half, count_tokens, window)]


def _stripped(text: str, start: int, stop: int) -> tuple[int, str]:
    """Return a part of a text without white space around it, and the character at which it begins."""
    part = text[start:stop]
    return start + len(part) - len(part.lstrip()), part.strip()
