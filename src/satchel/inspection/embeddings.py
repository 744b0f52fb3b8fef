"""Word vectors: nearest neighbours by embedding, similarity of a word in several contexts, and maps by PCA.

All comparisons subtract the mean vector, which all words share.
Shapes: V vocabulary, N vectors, D width, K components, L layers, O occurrences of a word, W words of a sample.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from satchel import charts
from satchel.data.batches import split_documents
from satchel.errors import DataError, RunError, SettingsError
from satchel.inspection.hidden_states import HiddenStates
from satchel.inspection.senses import (
    Context,
    Neighbours,
    SenseVectors,
    WordSimilarity,
    check_top,
    sample_pieces,
    special_ids,
)
from satchel.inspection.subject import Subject, json_fields
from satchel.inspection.targets import known_ids
from satchel.predictor import Floats, Ids
from satchel.runs import folder as runs
from satchel.text.words import Word, words_of

# Number of tokens of the training text whose words are compared in context, and the length of its pieces if the
# encoder has no maximum context.
SAMPLED_TOKENS = 5_000
PIECE = 128
# Number of words shown on each side of an occurrence.
CONTEXT_WORDS = 4
# Default number of words on a map, and of neighbours of each.
MAP_WORDS = 200
MAP_NEIGHBOURS = 5
# Number of rows whose cosine similarities are computed in one batch, in double precision.
BATCH_ROWS = 4096


# --- arithmetic -----------------------------------------------------------------------------------------


def cosines(vectors_VD: Floats, queries_ND: Floats) -> Floats:
    """Return the cosine similarities (N, V) of each query with each vector; 0 for zero vectors."""
    unit_DN = _unit(queries_ND).T
    parts = [vectors_VD[start : start + BATCH_ROWS] for start in range(0, len(vectors_VD), BATCH_ROWS)]
    return np.concatenate([np.empty((len(queries_ND), 0)), *((_unit(part) @ unit_DN).T for part in parts)], axis=1)


def _unit(vectors_ND: Floats) -> Floats:
    exact = np.asarray(vectors_ND, np.float64)
    return np.asarray(exact / np.maximum(np.linalg.norm(exact, axis=-1, keepdims=True), 1e-300))


def nearest(cosines_V: Floats, top: int, excluded: Collection[int] = ()) -> tuple[Floats, Ids]:
    """Return the largest cosine similarities and their indices in descending order."""
    allowed = np.setdiff1d(np.arange(len(cosines_V)), np.array(list(excluded), np.int64))
    best = allowed[np.argsort(-cosines_V[allowed], kind="stable")[:top]]
    return cosines_V[best], best


def pca(vectors_ND: Floats) -> tuple[Floats, tuple[float, float]]:
    """Return the coordinates (N, 2) on the first two principal components, and the explained variance ratio of each.

    The sign of a component is undetermined: its largest coefficient is made positive.
    """
    exact = np.asarray(vectors_ND, np.float64)
    left_NK, sizes_K, directions_KD = np.linalg.svd(exact - exact.mean(axis=0), full_matrices=False)
    largest_K = np.abs(directions_KD).argmax(axis=1)
    signs_K = np.sign(directions_KD[np.arange(len(directions_KD)), largest_K])
    # A single vector, or vectors of width 1, have no second component.
    missing = max(0, 2 - len(sizes_K))
    coordinates = np.pad(left_NK * sizes_K * signs_K, ((0, 0), (0, missing)))[:, :2]
    variances_K = sizes_K**2 / max(float((sizes_K**2).sum()), 1e-300)
    first, second = np.pad(variances_K, (0, missing))[:2].tolist()
    return coordinates, (first, second)


# --- results --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SimilarContext:
    """An occurrence of a word in the training text, and its cosine similarity to another occurrence."""

    context: Context
    similarity: float


@dataclass(frozen=True)
class Occurrence:
    """An occurrence of a word in a sentence, and the most similar words in the training text."""

    context: Context
    neighbours: tuple[SimilarContext, ...]


@dataclass(frozen=True)
class InContext:
    """Occurrences of a word in sentences: neighbours at one layer, and similarities to each other at every layer.

    `vectors` (O, D) are the hidden states at `layer`. `similarity` (L, O, O) holds cosine similarities after
    subtracting the mean over the words of the training text, so that 0 is the similarity of unrelated words.
    """

    word: str
    layer: int
    sites: tuple[str, ...]
    vectors: Floats
    similarity: Floats
    occurrences: tuple[Occurrence, ...]
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the keys of `similar --context --json`."""
        return {
            **json_fields(self, "word", "layer"),
            "layers": [
                {"layer": layer, "site": site, "alike": self.similarity[layer].tolist()}
                for layer, site in enumerate(self.sites)
            ],
            "contexts": [
                {
                    **asdict(each.context),
                    "near": [{**asdict(one.context), "alike": one.similarity} for one in each.neighbours],
                }
                for each in self.occurrences
            ],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Point:
    """A word on a map with its nearest neighbours; `context` is set for a word in a sentence."""

    word: str
    x: float
    y: float
    neighbours: tuple[tuple[str, float], ...]
    context: Context | None = None


@dataclass(frozen=True)
class EmbeddingMap:
    """Words on the first two principal components of their vectors."""

    what: str
    points: tuple[Point, ...]
    explained_variance: tuple[float, float]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Title of charts."""
        return f"2-D PCA of {self.what} (explained variance {sum(self.explained_variance):.0%})"

    @property
    def axes(self) -> tuple[str, str]:
        """Titles of the axes, with the explained variance of each principal component."""
        first, second = (
            f"PC {place} ({share:.1%} of the variance)" for place, share in enumerate(self.explained_variance, 1)
        )
        return first, second

    def document(self) -> dict[str, Any]:
        """Return the keys of `look embeddings --json`."""
        points = [
            {
                **json_fields(each, "word", "x", "y"),
                "nearest": [{"word": word, "alike": similarity} for word, similarity in each.neighbours],
            }
            for each in self.points
        ]
        return {"points": points, "shares": list(self.explained_variance)}

    def picture(self) -> "charts.Figure":
        """Return a scatter plot of the words."""
        contexts = ["" if each.context is None else each.context.marked for each in self.points]
        return charts.embedding_map(
            [each.word for each in self.points],
            [(each.x, each.y) for each in self.points],
            nearest=[[word for word, _ in each.neighbours] for each in self.points],
            contexts=contexts if any(contexts) else None,
            axes=self.axes,
            title=self.title,
        )


# --- word vectors of a model ----------------------------------------------------------------------------


class _Sample(NamedTuple):
    """Words of the training text, their vectors (W, D) by layer, and the means (D,) of these."""

    located: list[tuple[Ids, Word]]
    vectors: dict[str, Floats]
    means: dict[str, Floats]


class WordVectors:
    """Embeddings and hidden states of words in any network; for a translator, of the words of the source."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.states = subject, HiddenStates(subject)
        self.tokenizer = self.states.tokenizer
        self._special = set(special_ids(self.tokenizer))

    # --- embeddings

    @cached_property
    def _embeddings(self) -> Floats:
        vectors_VD = self.states.encoder.embedding.weight.detach().cpu().numpy()
        return np.asarray(vectors_VD - vectors_VD.mean(axis=0))

    def vector(self, word: str) -> Floats:
        """Return the centred embedding (D,) of a word: the mean over its tokens."""
        return np.asarray(self._embeddings[known_ids(self.tokenizer, word)].mean(axis=0))

    def neighbours(self, word: str, top: int = 10) -> Neighbours:
        """Return the tokens most similar to a word by embedding, which counts as sense 0."""
        check_top(top)
        ids = known_ids(self.tokenizer, word)
        return Neighbours(0, self._neighbours(self._embeddings, self.vector(word)[None], [ids], top)[0])

    def similarity(self, first: str, second: str) -> WordSimilarity:
        """Return the cosine similarity of the embeddings of two words, which count as their only sense."""
        cosine = float(cosines(self.vector(first)[None], self.vector(second)[None])[0, 0])
        return WordSimilarity(first, second, (cosine,), cosine, cosine, cosine, has_senses=False)

    def _neighbours(
        self, vectors_VD: Floats, queries_ND: Floats, query_ids: Sequence[Sequence[int]], top: int
    ) -> list[tuple[tuple[str, float], ...]]:
        """Return the tokens most similar to each query, except its own tokens and special tokens."""
        neighbours: list[tuple[tuple[str, float], ...]] = []
        for cosines_V, ids in zip(cosines(vectors_VD, queries_ND), query_ids, strict=True):
            values, best = nearest(cosines_V, top, {*ids, *self._special})
            neighbours.append(tuple(zip(self.tokenizer.tokens_of(best), values.tolist(), strict=True)))
        return neighbours

    # --- words in context

    def in_context(self, word: str, sentences: Sequence[str], layer: int | None = None, top: int = 8) -> InContext:
        """Return the similarities of all occurrences of a word in sentences, and their `top` nearest neighbours.

        Layer 0 is the embedding; the default is the last layer.
        """
        check_top(top)
        layers = self.states.layers
        number = len(layers) - 1 if layer is None else layer
        if not 0 <= number < len(layers):
            raise SettingsError(
                f"layer {number} does not exist; expected 0 ({layers[0]}) to {len(layers) - 1} ({layers[-1]})"
            )
        occurrences, notes = self._occurrences(word, sentences)
        vectors, sample = self.states.of_words(occurrences), self._sample
        if sample is None:
            notes.append("the run folder has no training text: the mean is not subtracted, and there are no neighbours")
        by_layer = [vectors[site] - (0 if sample is None else sample.means[site]) for site in layers]
        neighbours: list[tuple[SimilarContext, ...]] = [()] * len(by_layer[number])
        if sample is not None:
            cosines_OW = cosines(sample.vectors[layers[number]] - sample.means[layers[number]], by_layer[number])
            neighbours = [self._similar_contexts(sample.located, cosines_W, top) for cosines_W in cosines_OW]
        contexts = [self._context(text, each, len(text)) for text, words in occurrences for each in words]
        return InContext(
            word.strip(),
            number,
            layers,
            vectors[layers[number]],
            np.array([cosines(vectors_OD, vectors_OD) for vectors_OD in by_layer]),
            tuple(map(Occurrence, contexts, neighbours)),
            tuple(notes),
        )

    def _occurrences(self, word: str, sentences: Sequence[str]) -> tuple[list[tuple[Ids, list[Word]]], list[str]]:
        """Return the ids of each sentence with the occurrences of a word in it, and notes for the user."""
        known_ids(self.tokenizer, word)
        if not sentences:
            raise SettingsError("no sentences are given; expected one or more", "give --context 'A sentence'")
        occurrences, notes, limit = list[tuple[Ids, list[Word]]](), list[str](), self.states.max_tokens
        for number, sentence in enumerate(sentences, start=1):
            ids = np.asarray(self.tokenizer.encode(sentence).ids, np.int64)
            text = self.states.framed(ids)
            words = self._words(text)
            matches = [each for each in words if each.text.strip() == word.strip()]
            if limit is not None and len(ids) > limit:
                notes.append(f"sentence {number} exceeds the context: only its first {limit:,} tokens are used")
            if not matches:
                others = " ".join(dict.fromkeys(each.text.strip() for each in words))
                raise DataError(f"{word.strip()!r} is not in {sentence!r}", f"its words: {others or 'none'}")
            occurrences.append((text, matches))
        return occurrences, notes

    def _words(self, text: Ids) -> list[Word]:
        """Return the words of a text without white space and special tokens."""
        words = words_of(self.tokenizer, text.tolist())
        return [
            word
            for word in words
            if word.text.strip() and self._special.isdisjoint(text[word.start : word.stop].tolist())
        ]

    def _context(self, text: Ids, word: Word, around: int = CONTEXT_WORDS) -> Context:
        """Return a word with up to `around` words on each side."""
        words = words_of(self.tokenizer, text.tolist())
        index = next(number for number, each in enumerate(words) if each.start == word.start)
        start, stop = words[max(0, index - around)].start, words[min(len(words) - 1, index + around)].stop
        parts = text[start : word.start], text[word.start : word.stop], text[word.stop : stop]
        return Context(*map(self.tokenizer.decode, parts))

    def _similar_contexts(
        self, located: Sequence[tuple[Ids, Word]], cosines_W: Floats, top: int
    ) -> tuple[SimilarContext, ...]:
        """Return the most similar words of the training text; repeated contexts count once."""
        best: dict[Context, float] = {}
        for number in np.argsort(-cosines_W, kind="stable").tolist():
            best.setdefault(self._context(*located[number]), float(cosines_W[number]))
            if len(best) == top:
                break
        return tuple(SimilarContext(context, similarity) for context, similarity in best.items())

    # --- the training text

    def _training_ids(self) -> Ids | None:
        name = runs.TRAIN_SOURCES if self.subject.task == "translate" else runs.TRAIN_TOKENS
        folder = self.subject.folder
        return runs.run_tokens(folder, name, self.tokenizer).ids if (folder / name).exists() else None

    @cached_property
    def _sample(self) -> _Sample | None:
        """Words from all parts of the training text; None if the run folder does not contain it."""
        if (ids := self._training_ids()) is None:
            return None
        if self.subject.task == "lm":
            texts = sample_pieces(ids, self.tokenizer.boundary, self.states.context or PIECE, SAMPLED_TOKENS)
        else:
            parts = [part for part in split_documents(ids, self.tokenizer.boundary).to_list() if len(part)]
            texts = [self.states.framed(part) for part in parts[:: max(1, -(-len(ids) // SAMPLED_TOKENS))]]
        words = [(text, self._words(text)) for text in texts]
        vectors = self.states.of_words(words)
        means = {site: vectors_WD.mean(axis=0, dtype=np.float64) for site, vectors_WD in vectors.items()}
        return _Sample([(text, word) for text, each in words for word in each], vectors, means)

    def frequent(self, count: int) -> list[int]:
        """Return the ids of the most frequent tokens of the training text, in descending order."""
        if count < 1:
            raise SettingsError(f"count={count}: expected 1 or more")
        if (ids := self._training_ids()) is None:
            raise RunError(
                "contains no training text to count words in", "name the words", where=str(self.subject.folder)
            )
        counts_V = np.bincount(ids, minlength=self.tokenizer.size + 1)
        counts_V[list(self._special)] = 0
        return [int(id_) for id_ in np.argsort(-counts_V, kind="stable")[:count] if counts_V[id_]]

    # --- maps

    def map(
        self, words: Sequence[str] = (), *, count: int = MAP_WORDS, sense: int | None = None, top: int = MAP_NEIGHBOURS
    ) -> EmbeddingMap:
        """Return a two-dimensional PCA of words by embedding or, for a Backpack, by one sense.

        The default words are the `count` most frequent tokens of the training text.
        """
        ids = [known_ids(self.tokenizer, word) for word in words] or [[id_] for id_ in self.frequent(count)]
        names = [word.strip() for word in words] or [self.tokenizer.text_of(each[0]) for each in ids]
        if sense is None:
            vectors_VD, queries_ND = self._embeddings, np.array([self._embeddings[each].mean(axis=0) for each in ids])
        else:
            senses = SenseVectors(self.subject)
            vectors_VD = senses.one_sense(sense)
            queries_ND = np.array([senses.of_ids(each)[sense].cpu().numpy() for each in ids])
        neighbours = self._neighbours(vectors_VD, queries_ND, ids, top)
        return _map("embeddings" if sense is None else f"sense {sense}", names, queries_ND, neighbours)

    def map_in_context(
        self, word: str, sentences: Sequence[str], layer: int | None = None, top: int = MAP_NEIGHBOURS
    ) -> EmbeddingMap:
        """Return a two-dimensional PCA of the occurrences of a word in sentences, by hidden states of a layer."""
        result = self.in_context(word, sentences, layer, top)
        neighbours = [
            tuple((each.context.marked, each.similarity) for each in occurrence.neighbours)
            for occurrence in result.occurrences
        ]
        contexts = [occurrence.context for occurrence in result.occurrences]
        name = f"{result.word} at {result.sites[result.layer]}"
        return _map(name, [result.word] * len(contexts), result.vectors, neighbours, contexts, result.notes)


def _map(
    what: str,
    names: Sequence[str],
    vectors_ND: Floats,
    neighbours: Sequence[tuple[tuple[str, float], ...]],
    contexts: Sequence[Context | None] | None = None,
    notes: tuple[str, ...] = (),
) -> EmbeddingMap:
    coordinates, explained_variance = pca(vectors_ND)
    points = map(Point, names, *coordinates.T.tolist(), neighbours, contexts or [None] * len(names))
    return EmbeddingMap(what, tuple(points), explained_variance, notes)
