"""Senses of words in a Backpack: promoted and suppressed tokens, similarity of words, and use in the training text.

All comparisons subtract the mean of each sense over the vocabulary.
Shapes: V vocabulary, N senses, D width, T tokens of a word or a text, K listed tokens, P occurrences of a word.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.charts import html
from satchel.errors import DataError, SettingsError
from satchel.evaluation.similarity import Agreement, agreement, read_ratings
from satchel.inspection.contributions import sense_counts
from satchel.inspection.subject import Subject, backpack_of, class_name
from satchel.inspection.targets import known_ids
from satchel.models.backpack import Backpack
from satchel.predictor import Floats, Ids
from satchel.runs import folder as runs
from satchel.text.display import role_of, with_roles
from satchel.text.tokenizer import Tokenizer
from satchel.text.windows import Window, select_window
from satchel.text.words import words_of

# Number of tokens of the training text in which the use of senses is measured.
SAMPLED_TOKENS = 20_000
# Number of tokens shown on each side of an occurrence.
CONTEXT_TOKENS = 10
# Number of tokens whose senses are computed in one batch.
BATCH_TOKENS = 64
# A sense is rarely used if the interval of its share is below this fraction of an equal share.
RARELY_USED = 0.1
# Number of resamples of the bootstrap interval of a share, and of random directions for the chance level of coherence.
RESAMPLES = 200
RANDOM_DIRECTIONS = 200
# Limits of 95 % intervals, in percent.
INTERVAL = (2.5, 97.5)
# Two senses of a word with a larger cosine similarity are reported as the same.
SAME_SENSE = 0.95


@dataclass(frozen=True)
class Context:
    """An occurrence of a word with the text before and after it."""

    before: str
    word: str
    after: str

    @property
    def marked(self) -> str:
        """The text with the word in brackets."""
        return " ".join(filter(None, [self.before.strip(), f"[{self.word.strip()}]", self.after.strip()]))


@dataclass(frozen=True)
class Sense:
    """One sense of a word.

    `promotes` and `suppresses` are the tokens or labels with the largest and smallest logits of the sense vector, and
    `coherence` is the mean cosine similarity of the promoted ones. `share` is the part of the sense in the total length
    of the vectors that the word adds to encodings of the training text, None if the word does not occur there, with a
    95 % bootstrap interval over its occurrences, None if it occurs once. `same_as` is an earlier sense with nearly the
    same direction.
    """

    sense: int
    promotes: tuple[tuple[str, float], ...]
    suppresses: tuple[tuple[str, float], ...]
    share: float | None
    coherence: float
    same_as: int | None
    contexts: tuple[Context, ...] = ()
    share_interval: tuple[float, float] | None = None

    def is_rarely_used(self, senses: int) -> bool:
        """Return whether the interval of the share is far below an equal share among `senses` senses."""
        return self.share_interval is not None and self.share_interval[1] < RARELY_USED / senses


@dataclass(frozen=True)
class Chance:
    """Values of a measure for random directions instead of senses: their mean and the limits of 95 % of them."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class WordSenses:
    """A word, its tokens and its senses; with `has_labels`, the senses promote labels instead of tokens.

    `occurrences` is the number of occurrences of the word in the sample of the training text, and `coherence_chance`
    the coherence of random directions.
    """

    word: str
    tokens: tuple[str, ...]
    senses: tuple[Sense, ...]
    occurrences: int
    coherence_chance: Chance
    has_labels: bool = False

    def label_scores(self, sense: Sense) -> tuple[str, str]:
        """Return the promoted and the suppressed labels of a sense with their scores, as text."""
        promoted, suppressed = (
            ", ".join(f"{label} {score:+.3f}" for label, score in ranked if score * sign > 0)
            for ranked, sign in ((sense.promotes, 1), (sense.suppresses, -1))
        )
        return promoted, suppressed

    def document(self, sense: int | None = None) -> dict[str, Any]:
        """Return the keys of a word in `senses --json`, with all senses or one of them."""
        senses = [asdict(each) for each in self.senses if sense in (None, each.sense)]
        for each in senses:
            for key in ("promotes", "suppresses"):
                each[key] = [
                    {"word": word, "role": role_of(word), "score": round(score, 6)} for word, score in each[key]
                ]
        return with_roles(
            {
                "word": self.word,
                "tokens": list(self.tokens),
                "senses": senses,
                "occurrences": self.occurrences,
                "coherence_chance": asdict(self.coherence_chance),
            }
        )

    @property
    def chance_note(self) -> str:
        """The chance level of the coherence as text."""
        chance = self.coherence_chance
        return (
            "coherence: mean cosine similarity of the promoted tokens; "
            f"of random directions {chance.mean:.2f} (95 %: {chance.low:.2f} to {chance.high:.2f})"
        )

    def _repr_html_(self) -> str:
        rows = []
        for each in self.senses:
            ranked = (each.promotes, each.suppresses)
            names = self.label_scores(each) if self.has_labels else map(_joined, ranked)
            share = "" if each.share is None else f"{each.share:.0%}"
            rows.append([str(each.sense), share, *([] if self.has_labels else [f"{each.coherence:.2f}"]), *names])
        columns = ["sense", "share", *([] if self.has_labels else ["coherence"]), "promotes", "suppresses"]
        return html.table(columns, rows, self.word) + html.lines([] if self.has_labels else [self.chance_note])


def _joined(ranked: Sequence[tuple[str, float]]) -> str:
    return ", ".join(name.strip() for name, _ in ranked)


@dataclass(frozen=True)
class Neighbours:
    """The tokens most similar to a word in one sense, with their cosine similarities, largest first."""

    sense: int
    words: tuple[tuple[str, float], ...]

    def document(self) -> list[dict[str, Any]]:
        """Return the words as JSON."""
        return [{"word": word, "alike": similarity} for word, similarity in self.words]

    def _repr_html_(self) -> str:
        rows = [(word.strip(), f"{similarity:.3f}") for word, similarity in self.words]
        return html.table(["word", "cosine similarity"], rows, f"sense {self.sense}")


class SimilarWords(list[Neighbours]):
    """The tokens most similar to a word: by sense, or by embedding as the only list."""

    def __init__(self, word: str, lists: Iterable[Neighbours], *, has_senses: bool) -> None:
        super().__init__(lists)
        self.word, self.has_senses = word, has_senses

    def document(self) -> dict[str, Any]:
        """Return the keys of `similar --json` for one word."""
        if not self.has_senses:
            return {"word": self.word, "words": self[0].document()}
        return {"word": self.word, "senses": [{"sense": each.sense, "words": each.document()} for each in self]}


@dataclass(frozen=True)
class WordSimilarity:
    """Cosine similarities of two words: of each sense, their minimum, of the concatenated senses, and the maximum
    over all pairs of senses."""

    first: str
    second: str
    by_sense: tuple[float, ...]
    least: float
    joined: float
    any_pair: float
    has_senses: bool = field(default=True, repr=False)

    def document(self) -> dict[str, Any]:
        """Return the keys of `similar --json` for two words."""
        if not self.has_senses:
            return {"first": self.first, "second": self.second, "alike": self.joined}
        return {name: value for name, value in asdict(self).items() if name != "has_senses"}


class SenseVectors:
    """Sense vectors of the vocabulary of a Backpack, of any task with a single text as input.

    Means over the vocabulary and the use of senses are computed once, from the parameters at that time.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject, self.tokenizer, self.backpack = subject, subject.tokenizer, backpack_of(subject)
        self._means_ND = self.backpack.mean_senses()
        outputs_VD = subject.network.head.weight.detach().double()
        # A constant added to all logits does not change the softmax.
        self._outputs_VD = outputs_VD - outputs_VD.mean(dim=0)
        self._chances: dict[int, Chance] = {}

    def check_sense(self, sense: int) -> None:
        """Raise an error if the sense with this number does not exist."""
        if not 0 <= sense < len(self._means_ND):
            raise SettingsError(f"sense {sense} does not exist; expected 0 to {len(self._means_ND) - 1}")

    # --- senses of a word

    def describe(self, word: str, top: int = 10, contexts: int = 0) -> WordSenses:
        """Return the senses of a word, each with `top` promoted tokens and up to `contexts` occurrences."""
        return self._describe(word.strip(), self._ids(word), top, contexts)

    def describe_all(self, top: int = 10) -> Iterator[WordSenses]:
        """Return the senses of each token of the vocabulary."""
        for id_ in range(self.tokenizer.size):
            if id_ != self.tokenizer.unknown:
                yield self._describe(self.tokenizer.text_of(id_), [id_], top, 0)

    def _describe(self, word: str, ids: list[int], top: int, contexts: int) -> WordSenses:
        if top < 1 or contexts < 0:
            raise SettingsError(f"top={top}, contexts={contexts}: expected top of 1 or more and contexts of 0 or more")
        senses_ND, usage = self.of_ids(ids), self.usage
        share = usage.share(ids) if usage else None
        unit_ND = F.normalize(senses_ND, dim=-1)
        is_same_NN = (unit_ND @ unit_ND.T > SAME_SENSE).tolist()
        senses = []
        for number, scores_V in enumerate(senses_ND @ self._outputs_VD.T):
            occurrences = usage.contexts(ids, number, contexts) if usage and contexts else ()
            high, low = (scores_V.topk(min(top, len(scores_V)), largest=largest) for largest in (True, False))
            senses.append(
                Sense(
                    number,
                    self._ranked(high.indices, high.values),
                    self._ranked(low.indices, low.values),
                    None if share is None else float(share.values_N[number]),
                    float(_mean_cosine(self._outputs_VD[high.indices])),
                    next((other for other in range(number) if is_same_NN[number][other]), None),
                    tuple(Context(*map(self.tokenizer.decode, parts)) for parts in occurrences),
                    None if share is None else share.interval(number),
                )
            )
        count = 0 if share is None else share.occurrences
        return WordSenses(
            word, self.tokenizer.tokens_of(ids), tuple(senses), count, self._chance(top), self.subject.task != "lm"
        )

    def _chance(self, top: int) -> Chance:
        """Return the coherence of random directions."""
        if top not in self._chances:
            generator = torch.Generator().manual_seed(0)
            width, count = self._outputs_VD.shape[1], min(top, len(self._outputs_VD))
            directions_DR = torch.randn(width, RANDOM_DIRECTIONS, generator=generator).to(self._outputs_VD)
            best_KR = (self._outputs_VD @ directions_DR).topk(count, dim=0).indices
            values = _mean_cosine(self._outputs_VD[best_KR.T]).cpu().numpy()
            self._chances[top] = Chance(float(values.mean()), *map(float, np.percentile(values, INTERVAL)))
        return self._chances[top]

    def _ids(self, word: str) -> list[int]:
        ids = known_ids(self.tokenizer, word)
        if len(ids) > self.backpack.context:
            raise DataError(
                f"{word!r} has {len(ids):,} tokens; expected at most {self.backpack.context:,}, the context"
            )
        return ids

    def _ranked(self, ids_K: Tensor, scores_K: Tensor) -> tuple[tuple[str, float], ...]:
        names = [class_name(self.subject, number) for number in ids_K.tolist()]
        return tuple(zip(names, scores_K.tolist(), strict=True))

    @cached_property
    def usage(self) -> "SenseUsage | None":
        """Use of the senses in a sample of the training text; None if the run folder does not contain it."""
        folder = self.subject.folder
        if not (folder / runs.TRAIN_TOKENS).exists():
            return None
        ids = runs.run_tokens(folder, runs.TRAIN_TOKENS, self.tokenizer).ids
        pieces = sample_pieces(ids, self.tokenizer.boundary, self.backpack.context, SAMPLED_TOKENS)
        return SenseUsage(self.backpack, pieces)

    # --- sense vectors

    def of_ids(self, ids_T: Sequence[int]) -> Tensor:
        """Return the centred senses (N, D) of a word.

        Each sense of a word of several tokens is the mean over its tokens, weighted by their sense weights at the last.
        """
        ids = torch.tensor(ids_T, device=self._means_ND.device)
        if len(ids_T) == 1:
            return self._lookup(ids)[0]
        last_T = (torch.arange(len(ids_T), device=ids.device) == len(ids_T) - 1).float()
        counts_TN, senses_TND = sense_counts(self.backpack, ids, last_T)
        shares_TN = counts_TN / counts_TN.sum(dim=0).clamp(min=1e-12)
        return torch.einsum("tn,tnd->nd", shares_TN, senses_TND) - self._means_ND

    def batches(self) -> Iterator[Tensor]:
        """Return the centred senses (B, N, D) of the whole vocabulary in batches."""
        ids_V = torch.arange(self.backpack.embedding.num_embeddings, device=self._means_ND.device)
        return map(self._lookup, ids_V.split(BATCH_TOKENS))

    def _lookup(self, ids_B: Tensor) -> Tensor:
        """Return the centred senses (B, N, D) of tokens."""
        with torch.inference_mode():
            return self.backpack.lookup(ids_B).double() - self._means_ND

    def one_sense(self, sense: int) -> Floats:
        """Return one centred sense (V, D) of the whole vocabulary."""
        self.check_sense(sense)
        return np.concatenate([part_BND[:, sense].cpu().numpy() for part_BND in self.batches()])

    # --- similarity of words

    def neighbours(self, word: str, top: int = 10) -> list[Neighbours]:
        """Return the tokens most similar to a word, by sense."""
        check_top(top)
        ids = self._ids(word)
        unit_ND = F.normalize(self.of_ids(ids), dim=-1)
        parts = [torch.einsum("bnd,nd->nb", F.normalize(part_BND, dim=-1), unit_ND) for part_BND in self.batches()]
        cosines_NV = torch.cat(parts, dim=1)
        excluded = sorted({*ids, *special_ids(self.tokenizer)})
        cosines_NV[:, excluded] = -torch.inf
        best = cosines_NV.topk(min(top, cosines_NV.shape[1] - len(excluded)), dim=-1)
        rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [
            Neighbours(sense, tuple(zip(self.tokenizer.tokens_of(ids_K), cosines_K, strict=True)))
            for sense, (ids_K, cosines_K) in enumerate(rows)
        ]

    def similarity(self, first: str, second: str) -> WordSimilarity:
        """Return the cosine similarities of the senses of two words."""
        a_ND, b_ND = (self.of_ids(self._ids(word)) for word in (first, second))
        cosines_NN = F.normalize(a_ND, dim=-1) @ F.normalize(b_ND, dim=-1).T
        by_sense = tuple(cosines_NN.diagonal().tolist())
        joined = float(F.cosine_similarity(a_ND.flatten(), b_ND.flatten(), dim=0))
        return WordSimilarity(first, second, by_sense, min(by_sense), joined, float(cosines_NN.max()))

    def agreement(self, path: str | Path) -> list[Agreement]:
        """Return the rank correlation of the similarities with human ratings, for each set of pairs in a file."""

        def similarities(first: str, second: str) -> dict[str, float] | None:
            try:
                words = self.similarity(first, second)
            except DataError:
                return None
            by_sense = {f"sense {number}": value for number, value in enumerate(words.by_sense)}
            return {"joined": words.joined, "least": words.least, "any pair": words.any_pair, **by_sense}

        return [agreement(name, ratings, similarities) for name, ratings in read_ratings(Path(path)).items()]

    # --- sense weights in a text

    def weights(self, text: str, start: int | None = None) -> tuple[tuple[str, ...], Floats, Window]:
        """Return the words of a text, their sense weights (W, N) at its last position, and the window of its tokens.

        For encoders that attend in both directions: the mean over all positions.
        """
        all_ids = np.asarray(self.tokenizer.encode(text).ids, np.int64)
        if self.backpack.causal:
            all_ids = np.append(self.tokenizer.boundary, all_ids)
        window = select_window(len(all_ids), self.backpack.context, start)
        ids = all_ids[window.part]
        if not len(ids):
            raise DataError("the text is empty; expected at least one token")
        device = self._means_ND.device
        positions_T = torch.arange(len(ids), device=device) >= (len(ids) - 1 if self.backpack.causal else 0)
        weights_T = positions_T.double() / positions_T.sum()
        counts_SN, _ = sense_counts(self.backpack, torch.as_tensor(ids, device=device), weights_T)
        words = words_of(self.tokenizer, ids.tolist(), as_context=True)
        by_word = np.add.reduceat(counts_SN.cpu().numpy(), [word.start for word in words])
        return tuple(word.text for word in words), by_word, window


def _mean_cosine(vectors_KD: Tensor) -> Tensor:
    """Return the mean cosine similarity of all pairs of vectors (..., K, D)."""
    unit_KD = F.normalize(vectors_KD, dim=-1)
    cosines_KK = unit_KD @ unit_KD.transpose(-1, -2)
    count = vectors_KD.shape[-2]
    diagonal = cosines_KK.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
    return (cosines_KK.sum(dim=(-2, -1)) - diagonal) / max(1, count * (count - 1))


class Share:
    """The share (N,) of each sense in the total length of the vectors of a word, from the amounts (P, N)."""

    def __init__(self, amounts_PN: Floats) -> None:
        self.occurrences = len(amounts_PN)
        self.values_N = _shares(amounts_PN.sum(axis=0))
        self._limits_N: Floats | None = None
        if self.occurrences > 1:
            equal = np.full(self.occurrences, 1 / self.occurrences)
            counts_RP = np.random.default_rng(0).multinomial(self.occurrences, equal, size=RESAMPLES)
            self._limits_N = np.percentile(_shares(counts_RP @ amounts_PN), INTERVAL, axis=0)

    def interval(self, sense: int) -> tuple[float, float] | None:
        """Return the 95 % bootstrap interval of the share of a sense; None for a single occurrence."""
        if self._limits_N is None:
            return None
        return float(self._limits_N[0, sense]), float(self._limits_N[1, sense])


def _shares(totals_N: Floats) -> Floats:
    return np.asarray(totals_N / np.maximum(totals_N.sum(axis=-1, keepdims=True), 1e-300))


class SenseUsage:
    """Use of senses in a text: the length of the vector that each sense of each token adds to all encodings.

    A piece of the text is encoded when a word that occurs in it is looked up.
    """

    def __init__(self, backpack: Backpack, pieces: Sequence[Ids]) -> None:
        self._backpack = backpack
        self._ids = np.concatenate([np.asarray(piece, np.int64) for piece in pieces])
        self._stops = np.cumsum([len(piece) for piece in pieces])
        # Missing until the piece is encoded.
        self._amounts_TN = np.full((len(self._ids), backpack.settings.senses), np.nan)

    def share(self, word: Sequence[int]) -> Share | None:
        """Return the share of each sense in the total length of the vectors of a word; None if it is absent."""
        _, amounts_PN = self._occurrences(word)
        return Share(amounts_PN) if len(amounts_PN) else None

    def contexts(
        self, word: Sequence[int], sense: int, count: int, around: int = CONTEXT_TOKENS
    ) -> list[tuple[Ids, Ids, Ids]]:
        """Return the ids before, of and after a word at the occurrences with the largest share of a sense."""
        starts_P, amounts_PN = self._occurrences(word)
        shares_P = _shares(amounts_PN)[:, sense]
        parts = []
        for start in starts_P[np.argsort(-shares_P, kind="stable")[:count]].tolist():
            stop = start + len(word)
            first, last = self._piece(start).start, self._piece(stop - 1).stop
            before, after = slice(max(first, start - around), start), slice(stop, min(last, stop + around))
            parts.append((self._ids[before], self._ids[start:stop], self._ids[after]))
        return parts

    def _occurrences(self, word: Sequence[int]) -> tuple[Ids, Floats]:
        """Return the first positions (P,) of a word, and the amounts (P, N) summed over its tokens."""
        last = max(0, len(self._ids) - len(word) + 1)
        is_here = np.ones(last, bool)
        for offset, id_ in enumerate(word):
            is_here &= self._ids[offset : last + offset] == id_
        starts_P = np.flatnonzero(is_here)
        positions_PT = starts_P[:, None] + np.arange(len(word))
        for position in positions_PT.ravel().tolist():
            piece = self._piece(position)
            if np.isnan(self._amounts_TN[position, 0]):
                self._amounts_TN[piece] = amounts(self._backpack, self._ids[piece])
        return starts_P, self._amounts_TN[positions_PT].sum(axis=1)

    def _piece(self, position: int) -> slice:
        """Return the positions of the piece that contains a position."""
        number = int(np.searchsorted(self._stops, position, side="right"))
        return slice(int(self._stops[number - 1]) if number else 0, int(self._stops[number]))


def amounts(backpack: Backpack, text: Ids) -> Floats:
    """Return the length (T, N) of the vector that each sense of each token adds to all encodings of a text."""
    ids = torch.as_tensor(np.asarray(text, np.int64), device=backpack.embedding.weight.device)
    counts_TN, senses_TND = sense_counts(backpack, ids, torch.ones(len(ids), device=ids.device))
    return np.asarray((counts_TN * senses_TND.norm(dim=-1)).cpu().numpy())


def check_top(top: int) -> None:
    """Raise an error unless the number of listed tokens is positive."""
    if top < 1:
        raise SettingsError(f"top={top}: expected 1 or more")


def special_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of the boundary token and, if there is one, of the unknown token."""
    return [tokenizer.boundary, *([] if tokenizer.unknown is None else [tokenizer.unknown])]


def sample_pieces(ids_T: Ids, boundary: int, longest: int, most: int, *, following: int = 0) -> list[Ids]:
    """Return evenly spaced pieces of a text, about `most` tokens in total.

    Documents are cut into pieces of up to `longest` tokens; each piece also contains the `following` next tokens.
    """
    ids = np.asarray(ids_T, np.int64)
    starts = np.flatnonzero(ids[:-1] == boundary)
    pieces: list[Ids] = [
        ids[begin : min(begin + longest, stop) + following]
        for start, stop in zip(starts, [*starts[1:], len(ids) - 1], strict=True)
        for begin in range(start, stop, longest)
    ]
    return pieces[:: max(1, -(-len(ids) // most))]
