"""Translators: what they answer. Letters: S source tokens, T target tokens, N senses."""

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
from satchel.data.batches import split_documents
from satchel.data.tokens import decode_documents, open_tokens
from satchel.errors import DataError, RunError, SettingsError
from satchel.evaluation.lexicon import Lexicon, learn_lexicon
from satchel.evaluation.swapped import UnigramModel, look_swapped, unigram_model
from satchel.evaluation.translation import (
    Bucket,
    TranslationMemory,
    TranslationMetrics,
    baselines,
    by_length,
    by_source_position,
    quality,
    signatures,
)
from satchel.generation.sampling import Sampling
from satchel.predictor import Floats, Ids
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text.tables import TextPair, prefer_header, read_pairs
from satchel.text.tokenizer import Tokenizer
from satchel.text.words import words_of
from satchel.training.pairs import read_held_out

if TYPE_CHECKING:
    from satchel.charts.figures import Figure
    from satchel.generation.beam import BeamSettings, Hypothesis
    from satchel.tasks.translation import NetworkTranslator, TranslationNetwork
    from satchel.training.networks import TranslationSettings

# Sources that are translated together.
BATCH = 1024
# Where a long text may be cut: after the end of a sentence, or else at any space.
SENTENCE_END = re.compile(r"(?<=[.!?;:\u3002\uff01\uff1f])\s+")


@dataclass(frozen=True)
class Alignment:
    """How much each target word looked at each source word; or, of a Backpack, what each added to it.

    Of a Backpack the values are exact: with `others`, what the target words so far added, they are how far the score
    of a word is above the mean of all words.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    values: Floats  # (target, source)
    is_exact: bool = False
    others: Floats | None = None  # (target,)

    def picture(self) -> "Figure":
        """Return the values as colours, target words beside the rows, source words above the columns."""
        from satchel import charts

        return charts.alignment(self.source, self.target, self.values, signed=self.is_exact)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.picture()._repr_mimebundle_(include, exclude)


@dataclass(frozen=True)
class Candidate:
    """A translation, the mean logarithm of its tokens' probabilities, and their sum."""

    target: str
    score: float
    logprob: float


@dataclass(frozen=True)
class Translation:
    """A source, its translations, best first, and in how many pieces it was translated."""

    source: str
    translations: tuple[Candidate, ...]
    pieces: int = 1

    @property
    def target(self) -> str:
        """The best translation."""
        return self.translations[0].target

    @property
    def score(self) -> float:
        return self.translations[0].score

    def _repr_html_(self) -> str:
        rows = [(each.target, f"{each.score:.4f}") for each in self.translations]
        return html.table(["translation", "score"], rows, self.source)


class Translator(Model):
    """A trained translator and everything it can be asked."""

    predictor: "NetworkTranslator"
    settings: "TranslationSettings"
    network: "TranslationNetwork"

    def __init__(
        self,
        network: "TranslationNetwork",
        tokenizers: tuple[Tokenizer, Tokenizer],
        settings: "TranslationSettings",
        run: runs.RunConfig,
        folder: Path,
    ) -> None:
        from satchel.tasks.translation import NetworkTranslator

        source_tokenizer, tokenizer = tokenizers
        predictor = NetworkTranslator(network, source_tokenizer.boundary, tokenizer.boundary)
        super().__init__(predictor, tokenizer, settings, run, folder)
        self.source_tokenizer = source_tokenizer

    @property
    def boundaries(self) -> tuple[int, int]:
        """The ids that end a source and a target."""
        return self.source_tokenizer.boundary, self.tokenizer.boundary

    # --- translating

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
        """Return the translation of each text, in order, reading no more than `batch` of them ahead.

        A text of nothing but white space is its own translation. One that is longer than the model's context is
        translated in pieces, and those are joined by spaces.
        """
        from satchel.generation.beam import BeamSettings

        searching = config.build(BeamSettings, options)
        if searching.best > searching.beam and sampling is None:
            raise SettingsError(
                f"best: found {searching.best} of a beam of {searching.beam}", "give a beam that is as wide"
            )
        waiting = iter(texts)
        while some := list(islice(waiting, batch)):
            yield from self._translated(some, searching, sampling, progress)

    def _translated(
        self,
        texts: list[str],
        searching: "BeamSettings",
        sampling: Sampling | None,
        progress: Callable[[float], None],
    ) -> list[Translation]:
        from satchel.generation import beam

        parts = [self._pieces(text) for text in texts]
        asked = [part for each in parts for part in each]
        encoded = [self.source_tokenizer.encode(part).ids for part in asked]
        hypotheses = iter(
            beam.translate(
                self.network,
                encoded,
                self.boundaries,
                searching,
                unknown=self.tokenizer.unknown,
                sampling=sampling,
                text_key=self.tokenizer.decode,
                progress=progress,
            )
        )
        found = []
        for text, pieces in zip(texts, parts, strict=True):
            own = [next(hypotheses) for _ in pieces]
            found.append(Translation(text, self._joined(text, own), max(1, len(pieces))))
        return found

    def _joined(self, text: str, pieces: "list[list[Hypothesis]]") -> tuple[Candidate, ...]:
        """Return the translations of a text from those of its pieces: best with best, next with next."""
        if not pieces:
            return (Candidate(text, 0.0, 0.0),)
        written = []
        for parts in zip(*pieces, strict=False):
            logprob, tokens = sum(part.logprob for part in parts), sum(len(part.ids) + 1 for part in parts)
            target = " ".join(self.tokenizer.decode(part.ids) for part in parts)
            written.append(Candidate(target, logprob / tokens, logprob))
        return tuple(written)

    def _pieces(self, text: str) -> list[str]:
        """Return a text as pieces that the model can read: mostly one; none, where there is nothing to read."""
        if not text.strip():
            return []
        longest = self.settings.model.context - 1
        if len(self.source_tokenizer.encode(text).ids) <= longest:
            return [text]
        found: list[str] = []
        for part in (part for sentence in SENTENCE_END.split(text) for part in self._short(sentence, longest)):
            joined = f"{found[-1]} {part}" if found else part
            if found and len(self.source_tokenizer.encode(joined).ids) <= longest:
                found[-1] = joined
            else:
                found.append(part)
        return found

    def _short(self, text: str, longest: int) -> Iterator[str]:
        """Return a text in halves, and those in halves, until they are short; cut at a space if there is one."""
        if len(self.source_tokenizer.encode(text).ids) <= longest or len(text) < 2:
            yield text
            return
        middle = len(text) // 2
        place = text.find(" ", middle)
        place = place if 0 < place < len(text) - 1 else text.rfind(" ", 1, middle)
        place = place if place > 0 else middle
        yield from self._short(text[:place], longest)
        yield from self._short(text[place:].lstrip(" "), longest)

    # --- given pairs

    def score(self, source: str, target: str) -> TextScore:
        """Return the log-probability of every token of a given translation, and of its end."""
        ids = [*(int(id_) for id_ in self.tokenizer.encode(target).ids), self.tokenizer.boundary]
        (logprobs,) = self._scored([TextPair(source, target, 1)])
        return TextScore(tuple(map(self.tokenizer.text_of, ids)), tuple(ids), logprobs, {})

    def _scored(self, pairs: Sequence[TextPair]) -> list[Floats]:
        longest = self.settings.model.context
        sources, targets = self._ids(pairs)
        return self.predictor.score([ids[: longest - 1] for ids in sources], [ids[: longest - 1] for ids in targets])

    def _ids(self, pairs: Sequence[TextPair]) -> tuple[list[Ids], list[Ids]]:
        return (
            [self.source_tokenizer.encode(pair.source).ids for pair in pairs],
            [self.tokenizer.encode(pair.target).ids for pair in pairs],
        )

    def align(
        self, source: str, target: str | None = None, *, layer: int | None = None, head: int | None = None
    ) -> Alignment:
        """Return which source words each word of a translation looked at; without one, of its own translation.

        Of a Backpack it is what each source word added; with a layer or a head, what its Transformer looked at.
        """
        from satchel.inspection import alignment

        target = self.translate(source).target if target is None else target
        (ids_S,), (ids_T,) = self._ids([TextPair(source, target, 1)])
        is_exact = self.has_senses and layer is None and head is None
        others_T = None
        if is_exact:
            values = alignment.contributions(self.network, ids_S, ids_T, self.boundaries, above_mean=True).sum(axis=2)
            values_TS, others_T = values[:, : len(ids_S) + 1], values[:, len(ids_S) + 1 :].sum(axis=1)
        else:
            values_TS = alignment.weights(self.network, ids_S, ids_T, self.boundaries, layer, head)
        return self._in_words(ids_S, ids_T, values_TS, others_T)

    def _in_words(self, ids_S: Ids, ids_T: Ids, values_TS: Floats, others_T: Floats | None) -> Alignment:
        """Return an alignment of words from one of tokens: looking is shared out among them, adding adds up."""
        sources = words_of(self.source_tokenizer, [*ids_S.tolist(), self.source_tokenizer.boundary])
        targets = words_of(self.tokenizer, [*ids_T.tolist(), self.tokenizer.boundary])
        values = np.add.reduceat(values_TS, [word.start for word in sources], axis=1)
        starts = [word.start for word in targets]
        values = np.add.reduceat(values, starts, axis=0)
        if others_T is None:
            values /= np.array([[word.stop - word.start] for word in targets])
        return Alignment(
            tuple(word.text for word in sources),
            tuple(word.text for word in targets),
            values,
            others_T is not None,
            None if others_T is None else np.add.reduceat(others_T, starts),
        )

    # --- how good it is

    def evaluate(
        self,
        data: str | Path | None = None,
        *,
        reading: config.Tree | None = None,
        progress: Progress = silent,
        **options: Any,
    ) -> TranslationMetrics:
        """Return how good its translations of a table's sources are; without data, of those that were held out."""
        pairs = self.pairs(data, reading)
        found = self._answers(pairs, progress, options)
        references = [pair.target for pair in pairs]
        nats = -np.concatenate(self._scored(pairs))
        own, signature = quality(found, references), signatures(found, references)
        sources = [pair.source for pair in pairs]
        mean = float(nats.mean())
        return TranslationMetrics(
            sentences=len(pairs),
            quality=own,
            signature=signature[0],
            chrf_signature=signature[1],
            perplexity=float(np.exp(mean)) if mean < 700 else float("inf"),
            nats_per_token=mean,
            looks_swapped=look_swapped(pairs, *self._sides()),
            unknown=sum(self.source_tokenizer.encode(source).unknown for source in sources),
            baselines=baselines(sources, references, self.memory(), lambda done: progress("remembering", done)),
        )

    def by_length(
        self,
        data: str | Path | None = None,
        *,
        reading: config.Tree | None = None,
        progress: Progress = silent,
        **options: Any,
    ) -> list[Bucket]:
        """Return how good its translations are by the length of their sources."""
        pairs = self.pairs(data, reading)
        found = self._answers(pairs, progress, options)
        nats = [-each for each in self._scored(pairs)]
        return by_length([pair.source for pair in pairs], found, [pair.target for pair in pairs], nats)

    def by_position(
        self,
        data: str | Path | None = None,
        *,
        reading: config.Tree | None = None,
        progress: Progress = silent,
    ) -> list[Bucket]:
        """Return what target words cost by where in its source the word stands that each is most likely of.

        That is told by counting in the training pairs, whatever the model looks at; words that stand in a source
        twice tell nothing.
        """
        pairs = self.pairs(data, reading)
        progress("aligning", None)
        lexicon = self.lexicon()
        nats = [-each[:-1] for each in self._scored(pairs)]
        places = []
        for source, target, own in zip(*self._ids(pairs), nats, strict=True):
            found = lexicon.source_of(source, target[: len(own)]) if len(source) else np.zeros(0, np.int64)
            is_once = np.array([(source == source[place]).sum() == 1 for place in found], bool)
            places.append(np.where(is_once, found / max(1, len(source) - 1), np.nan) if len(found) else np.zeros(0))
        return by_source_position(np.concatenate(places), np.concatenate(nats))

    def lexicon(self) -> Lexicon:
        """Return which source token a target token is most likely of, counted in the pairs it was trained on."""
        sources, targets = (
            split_documents(open_tokens(self.folder / name, tokenizer=tokenizer).ids, tokenizer.boundary)
            for name, tokenizer in self._training_files
        )
        return learn_lexicon(sources.to_list(), targets.to_list(), self.tokenizer.size + 1)

    def _answers(self, pairs: Sequence[TextPair], progress: Progress, options: dict[str, Any]) -> list[str]:
        def done(share: float) -> None:
            progress("translating", share)

        return [
            each.target
            for each in self.predict((pair.source for pair in pairs), batch=len(pairs), progress=done, **options)
        ]

    def pairs(self, data: str | Path | None = None, reading: config.Tree | None = None) -> list[TextPair]:
        """Return the pairs of a table or of two aligned files; without data, those that the run holds out."""
        if data is None:
            path = self.folder / runs.VALID_PAIRS
            if not path.exists():
                raise RunError(
                    "kept nothing to evaluate on", "name a file, or train with --valid 0.05", where=str(self.folder)
                )
            return read_held_out(path)
        corpus = self.corpus(data, reading)
        if len(corpus.sources) == 1 and not (reading and "columns" in reading):
            corpus = prefer_header(corpus)
        found = list(read_pairs(corpus))
        if not found:
            raise DataError("found no pairs, expected at least one", where=str(data))
        return found

    def _sides(self) -> tuple[UnigramModel, UnigramModel]:
        sources, targets = (
            unigram_model(open_tokens(self.folder / name, tokenizer=tokenizer).ids, tokenizer)
            for name, tokenizer in self._training_files
        )
        return sources, targets

    @property
    def _training_files(self) -> tuple[tuple[str, Tokenizer], tuple[str, Tokenizer]]:
        return (runs.TRAIN_SOURCES, self.source_tokenizer), (runs.TRAIN_TOKENS, self.tokenizer)

    def memory(self) -> TranslationMemory:
        """Return the translation memory of the pairs it was trained on."""
        sources, targets = (
            decode_documents(open_tokens(self.folder / name, tokenizer=tokenizer).ids, tokenizer)
            for name, tokenizer in self._training_files
        )
        return TranslationMemory(list(sources), list(targets))
