"""What a network's vectors say of words: which are alike, by themselves and in context, and where they lie in a plane.

Letters: V vocabulary, N points, D width, O occurrences of a word, L layers.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from satchel.api.language import LanguageModel
from satchel.api.model import Model
from satchel.api.senses import Context, Neighbours, WordSimilarity
from satchel.api.translation import Translator
from satchel.data.batches import split_documents
from satchel.data.tokens import open_tokens
from satchel.errors import DataError, RunError, SettingsError
from satchel.inspection.hidden_states import Span, layers_of, of_words, read_states, reader_of
from satchel.inspection.senses import SenseView, pieces_of
from satchel.inspection.targets import known_ids
from satchel.inspection.vectors import cosines, nearest, plane_of
from satchel.nn.sense_cache import TOKENS_AT_ONCE
from satchel.predictor import Floats, Ids
from satchel.runs import folder as runs
from satchel.text.words import Word, words_of

# How much of the training text is looked at for words in context, in pieces of this length where nothing sets one,
# and how many words are shown on each side.
TOKENS_SEEN = 5_000
PIECE = 128
AROUND = 4
# How many words a map has, and how many of the nearest are told of each.
POINTS = 200
NEAR = 5


@dataclass(frozen=True)
class Likeness:
    """A place in the training text, and how alike what stands there is (a cosine)."""

    context: Context
    alike: float


@dataclass(frozen=True)
class Occurrence:
    """A word in a sentence, and the words of the training text that are most like it, each as it stands there."""

    context: Context
    near: tuple[Likeness, ...]


@dataclass(frozen=True)
class InContext:
    """A word where it stands in some sentences, at one layer; and at every layer, how alike any two of these are.

    `alike` is (L, O, O): cosines. What all words of the training text share at a layer is taken away first, so that 0
    is as alike as any two words.
    """

    word: str
    layer: int
    sites: tuple[str, ...]
    alike: Floats
    occurrences: tuple[Occurrence, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Point:
    """A word in a plane, and those most like it. `context` is the sentence, where it is a word of one."""

    word: str
    x: float
    y: float
    near: tuple[tuple[str, float], ...]
    context: Context | None = None


@dataclass(frozen=True)
class EmbeddingMap:
    """Words in the plane in which they differ most; `shares` of all differences lie along x and y."""

    what: str
    points: tuple[Point, ...]
    shares: tuple[float, float]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Found:
    """A word that stands in some text of ids, and its tokens there."""

    row: int
    span: Span
    context: Context


class VectorReader:
    """Answers questions about the vectors of words, for any network; of a translator, about the words it reads."""

    def __init__(self, model: Model) -> None:
        if model.network is None:
            raise RunError(
                f"is {model.settings.model.kind}: it has no vectors",
                "train a network, as with --model transformer",
                where=str(model.folder),
            )
        self.model = model
        self.encoder = reader_of(model.network)
        self.tokenizer = model.source_tokenizer if isinstance(model, Translator) else model.tokenizer
        # What stands before a text and after it is read too, and takes room.
        self.before, self.after = isinstance(model, LanguageModel), isinstance(model, Translator)
        self.context = self.encoder.context
        self.room = None if self.context is None else max(0, self.context - self.before - self.after)
        self._seen: dict[str, _Seen] = {}

    @functools.cached_property
    def layers(self) -> tuple[str, ...]:
        """The sites of the hidden states: layer 0 are the words themselves, the last one is what the head gets."""
        return layers_of(self.encoder)

    def layer_number(self, layer: int | None) -> int:
        """Return the number of a layer; without one, the last."""
        last = len(self.layers) - 1
        if layer is not None and not 0 <= layer <= last:
            raise SettingsError(f"layer {layer}: found layers 0 ({self.layers[0]}) to {last} ({self.layers[last]})")
        return last if layer is None else layer

    # --- words by themselves

    @functools.cached_property
    def _static(self) -> Floats:
        """What is left of the embeddings (V, D) without what all words share."""
        vectors_VD = self.encoder.embedding.weight.detach().cpu().numpy()
        centred_VD: Floats = vectors_VD - vectors_VD.mean(axis=0)
        return centred_VD

    def of(self, word: str) -> Floats:
        """Return the (D,) vector of a word without what all words share; of several tokens, the mean of theirs."""
        return self._of(known_ids(self.tokenizer, word))

    def _of(self, ids: Sequence[int]) -> Floats:
        vector: Floats = self._static[ids].mean(axis=0)
        return vector

    def near(self, word: str, top: int = 10) -> Neighbours:
        """Return the tokens most like a word. It has one vector, which counts as its only sense."""
        _check_top(top)
        ids = known_ids(self.tokenizer, word)
        return Neighbours(0, self._near(self._static, self._of(ids)[None], [ids], top)[0])

    def alike(self, first: str, second: str) -> float:
        """Return how alike two words are: a cosine."""
        return float(cosines(self.of(first)[None], self.of(second)[None])[0, 0])

    def compared(self, first: str, second: str) -> WordSimilarity:
        """Return how alike two words are by their only sense."""
        alike = self.alike(first, second)
        return WordSimilarity(first, second, (alike,), alike, alike, alike)

    def _near(
        self, vectors_VD: Floats, own_ND: Floats, own_ids: Sequence[Sequence[int]], top: int
    ) -> list[tuple[tuple[str, float], ...]]:
        """Return the tokens most like each of some vectors of words, but for the tokens of the word itself."""
        found = []
        for alike_V, ids in zip(cosines(vectors_VD, own_ND), own_ids, strict=True):
            values, places = nearest(alike_V, top, {*ids, *self._special})
            found.append(tuple(zip(map(self.tokenizer.text_of, places.tolist()), values.tolist(), strict=True)))
        return found

    @property
    def _special(self) -> tuple[int, ...]:
        unknown = self.tokenizer.unknown
        return (self.tokenizer.boundary, *([] if unknown is None else [unknown]))

    # --- words in context

    def in_context(self, word: str, sentences: Sequence[str], layer: int | None = None, top: int = 8) -> InContext:
        """Return how alike a word is to itself in several places, and what is most like it in the training text.

        Every place where it stands in the sentences counts. Layer 0 is the word itself; without a layer, the last.
        """
        _check_top(top)
        number = self.layer_number(layer)
        pieces, places, notes = self._places(word, sentences)
        by_layer = self._vectors(pieces, places, self.layers)
        seen = self._sample(self.layers[number])
        if seen is None:
            notes.append("the training text is not there: nothing is taken away, and nothing is near")
        alike = []
        for site in self.layers:
            own_OD = by_layer[site] - (0 if seen is None else seen.means[site])
            alike.append(cosines(own_OD, own_OD))
        near: list[tuple[Likeness, ...]] = [()] * len(places)
        if seen is not None:
            near = seen.near(by_layer[self.layers[number]], top)
        occurrences = [Occurrence(place.context, each) for place, each in zip(places, near, strict=True)]
        return InContext(word.strip(), number, self.layers, np.array(alike), tuple(occurrences), tuple(notes))

    def _places(self, word: str, sentences: Sequence[str]) -> tuple[list[Ids], list[_Found], list[str]]:
        """Return sentences as they are read, all places of a word in them, and what is to be said of them."""
        known_ids(self.tokenizer, word)
        if not sentences:
            raise SettingsError("found no sentence, expected one or more", "give --context 'A sentence with the word'")
        pieces, places, notes = list[Ids](), list[_Found](), list[str]()
        for row, sentence in enumerate(sentences):
            ids = np.asarray(self.tokenizer.encode(sentence).ids, np.int64)
            piece = self.framed(ids)
            words = [each for each in words_of(self.tokenizer, piece.tolist()) if self._is_word(piece, each)]
            here = [each for each in words if each.text.strip() == word.strip()]
            if self.room is not None and len(ids) > self.room:
                notes.append(f"sentence {row + 1} is longer than the context: its first {self.room:,} tokens are read")
            if not here:
                there = " ".join(dict.fromkeys(each.text.strip() for each in words))
                raise DataError(
                    f"found no {word.strip()!r} in {sentence!r}",
                    f"the words that are read there: {there or 'none'}",
                )
            pieces.append(piece)
            places += [_Found(row, (each.start, each.stop), self._around(piece, each, len(piece))) for each in here]
        return pieces, places, notes

    def framed(self, ids: Ids) -> Ids:
        """Return a text as it is read: no longer than the context, with what stands before it or after it."""
        boundary = [self.tokenizer.boundary]
        return np.concatenate([boundary * self.before, ids[: self.room], boundary * self.after]).astype(np.int64)

    def _is_word(self, piece: Ids, word: Word) -> bool:
        return bool(word.text.strip()) and not set(piece[word.start : word.stop].tolist()) & set(self._special)

    def _around(self, piece: Ids, word: Word, around: int = AROUND) -> Context:
        """Return a word with some words on each side of it; those may be of several tokens."""
        words = words_of(self.tokenizer, piece.tolist())
        place = next(number for number, each in enumerate(words) if each.start == word.start)
        start, stop = words[max(0, place - around)].start, words[min(len(words) - 1, place + around)].stop
        parts = piece[start : word.start], piece[word.start : word.stop], piece[word.stop : stop]
        return Context(*map(self.tokenizer.decode, parts))

    def _vectors(self, pieces: Sequence[Ids], places: Sequence[_Found], layers: Sequence[str]) -> dict[str, Floats]:
        """Return the vectors of words where they stand, by layer."""
        found: dict[str, list[Floats]] = {site: [np.empty(0)] * len(places) for site in layers}
        for row, states in read_states(self.encoder, pieces, layers):
            for number in (number for number, place in enumerate(places) if place.row == row):
                for site, states_TD in states.items():
                    found[site][number] = of_words(states_TD, [places[number].span])[0]
        return {site: np.array(vectors) for site, vectors in found.items()}

    # --- the training text

    def _tokens(self) -> Ids | None:
        path = self.model.folder / (runs.TRAIN_SOURCES if isinstance(self.model, Translator) else runs.TRAIN_TOKENS)
        return open_tokens(path, tokenizer=self.tokenizer).ids if path.exists() else None

    def _sample(self, site: str) -> "_Seen | None":
        """Return words from all over the training text, if it is there."""
        if site not in self._seen and (ids := self._tokens()) is not None:
            self._seen[site] = _Seen(self, self._pieces(ids), site)
        return self._seen.get(site)

    def _pieces(self, ids: Ids) -> list[Ids]:
        boundary = self.tokenizer.boundary
        if isinstance(self.model, LanguageModel):
            return pieces_of(ids, boundary, self.context or PIECE, TOKENS_SEEN)
        texts = [part for part in split_documents(ids, boundary).to_list() if len(part)]
        return [self.framed(part) for part in texts[:: max(1, -(-len(ids) // TOKENS_SEEN))]]

    # --- maps

    def map(
        self, words: Sequence[str] = (), *, count: int = POINTS, sense: int | None = None, near: int = NEAR
    ) -> EmbeddingMap:
        """Return words in a plane, by their vectors or, of a Backpack, by one of their senses.

        Without words they are the tokens that the training text has most often.
        """
        ids = [known_ids(self.tokenizer, word) for word in words] or [[id_] for id_ in self.frequent(count)]
        names = [word.strip() for word in words] or [self.tokenizer.text_of(own[0]) for own in ids]
        if sense is None:
            what, vectors_VD, own_ND = "embeddings", self._static, np.array([self._of(own) for own in ids])
        else:
            view = self._sense_view(sense)
            what, vectors_VD = f"sense {sense}", self._sense(view, sense)
            own_ND = np.array([view.of_word(own)[sense].cpu().numpy() for own in ids])
        plane = plane_of(own_ND)
        likest = self._near(vectors_VD, own_ND, ids, near)
        points = [
            Point(name, x, y, each) for name, (x, y), each in zip(names, plane.places.tolist(), likest, strict=True)
        ]
        return EmbeddingMap(what, tuple(points), plane.shares)

    def map_in_context(
        self, word: str, sentences: Sequence[str], layer: int | None = None, near: int = NEAR
    ) -> EmbeddingMap:
        """Return the places of a word in some sentences as points of a plane, by its vectors at a layer."""
        found = self.in_context(word, sentences, layer, near)
        pieces, places, _ = self._places(word, sentences)
        site = self.layers[found.layer]
        plane = plane_of(self._vectors(pieces, places, [site])[site])
        points = [
            Point(found.word, x, y, tuple((told(each.context), each.alike) for each in one.near), one.context)
            for one, (x, y) in zip(found.occurrences, plane.places.tolist(), strict=True)
        ]
        return EmbeddingMap(f"{found.word} at {site}", tuple(points), plane.shares, found.notes)

    def frequent(self, count: int) -> list[int]:
        """Return the tokens that the training text has most often, most first."""
        if count < 1:
            raise SettingsError(f"found {count}, expected 1 word or more to show")
        if (ids := self._tokens()) is None:
            raise RunError("kept no training text to take words from", "name the words", where=str(self.model.folder))
        counts_V = np.bincount(ids, minlength=self.tokenizer.size + 1)
        counts_V[list(self._special)] = 0
        best = np.argsort(-counts_V, kind="stable")[:count]
        return [int(id_) for id_ in best if counts_V[id_]]

    def _sense_view(self, sense: int) -> SenseView:
        view = self.model.reader.view  # which says so where there are no senses
        senses = view.backpack.settings.senses
        if not 0 <= sense < senses:
            raise SettingsError(f"sense {sense}: there is no such sense", f"words have {senses}: 0 to {senses - 1}")
        return view

    def _sense(self, view: SenseView, sense: int) -> Floats:
        """Return one sense of every token (V, D), without what all words share of it."""
        backpack = view.backpack
        mean_D = backpack.mean_senses()[sense]
        words = torch.arange(backpack.embedding.num_embeddings, device=mean_D.device)
        with torch.inference_mode():
            parts = [backpack.lookup(part)[:, sense].double() - mean_D for part in words.split(TOKENS_AT_ONCE)]
        vectors_VD: Floats = torch.cat(parts).cpu().numpy()
        return vectors_VD


class _Seen:
    """Words of the training text where they stand: their vectors at one layer, and the mean of all at every layer."""

    def __init__(self, reader: VectorReader, pieces: Sequence[Ids], site: str) -> None:
        self._reader, self._pieces = reader, pieces
        self._words = [
            [word for word in words_of(reader.tokenizer, piece.tolist()) if reader._is_word(piece, word)]
            for piece in pieces
        ]
        sums: dict[str, Floats] = dict.fromkeys(reader.layers, np.zeros(()))
        self._places: list[tuple[int, Word]] = []
        vectors = []
        for row, states in read_states(reader.encoder, pieces, reader.layers):
            spans = [(word.start, word.stop) for word in self._words[row]]
            if not spans:
                continue
            self._places += [(row, word) for word in self._words[row]]
            for name, states_TD in states.items():
                words_WD = of_words(states_TD, spans)
                sums[name] = sums[name] + words_WD.sum(axis=0, dtype=np.float64)
                if name == site:
                    vectors.append(words_WD)
        self.means = {name: total / max(1, len(self._places)) for name, total in sums.items()}
        self._vectors_WD = np.concatenate(vectors) if vectors else np.empty((0, reader.encoder.width))
        self._mean_D = self.means[site]

    def near(self, own_OD: Floats, top: int) -> list[tuple[Likeness, ...]]:
        """Return the places most like each of some words; of those that read the same, one."""
        return [self._told(alike_W, top) for alike_W in cosines(self._vectors_WD - self._mean_D, own_OD - self._mean_D)]

    def _told(self, alike_W: Floats, top: int) -> tuple[Likeness, ...]:
        found: dict[Context, float] = {}
        for place in np.argsort(-alike_W, kind="stable").tolist():
            row, word = self._places[place]
            found.setdefault(self._reader._around(self._pieces[row], word), float(alike_W[place]))
            if len(found) == top:
                break
        return tuple(Likeness(context, alike) for context, alike in found.items())


def told(context: Context) -> str:
    """Return a word as it stands among others, in brackets."""
    return " ".join(filter(None, [context.before.strip(), f"[{context.word.strip()}]", context.after.strip()]))


def _check_top(top: int) -> None:
    if top < 1:
        raise SettingsError(f"found {top}, expected 1 word or more to show")
