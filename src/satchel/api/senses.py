"""What a Backpack says of its senses: what they promote, how alike words are by them, and what moved a prediction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from satchel.api.classification import Classifier
from satchel.api.language import LanguageModel
from satchel.api.model import Model
from satchel.charts import html
from satchel.data.tokens import open_tokens
from satchel.errors import DataError, RunError, SettingsError
from satchel.evaluation.similarity import Agreement, agreement, read_ratings
from satchel.inspection import contributions
from satchel.inspection.aggregate import PARTS, Total, Totals
from satchel.inspection.senses import HARDLY_USED, SenseView, Use, pieces_of, similarity
from satchel.inspection.targets import known_ids, likeliest, next_token, read_prefix
from satchel.models.backpack import Backpack
from satchel.predictor import Floats, Ids
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.tasks.classification import ClassificationNetwork
from satchel.tasks.language import LanguageNetwork
from satchel.text.display import visible
from satchel.text.words import Word, words_of

if TYPE_CHECKING:
    from satchel.charts.figures import Figure

# How much of the training text is looked at to see how senses are used, and how much is shown around a word.
TOKENS_SEEN = 20_000
AROUND = 10
# A sense this like another is the same.
SAME = 0.95
# As many senses as a notebook lists of those that moved a prediction.
MOST_SENSES = 8


@dataclass(frozen=True)
class Context:
    """A place where a sense adds most of what its word adds there."""

    before: str
    word: str
    after: str


@dataclass(frozen=True)
class Sense:
    """One sense of a word.

    `share` is its part in all that the word adds to the training text, None where the word was not seen there;
    `same_as` is a sense before it that it is hardly different from.
    """

    sense: int
    promotes: tuple[tuple[str, float], ...]
    suppresses: tuple[tuple[str, float], ...]
    share: float | None
    coherence: float
    same_as: int | None
    contexts: tuple[Context, ...] = ()

    def is_hardly_used(self, senses: int) -> bool:
        """Return whether the word adds next to nothing by it."""
        return self.share is not None and self.share < HARDLY_USED / senses


@dataclass(frozen=True)
class WordSenses:
    """A word, the tokens it became, and its senses. In a notebook it shows itself."""

    word: str
    tokens: tuple[str, ...]
    senses: tuple[Sense, ...]

    def _repr_html_(self) -> str:
        rows = [
            (
                str(each.sense),
                "" if each.share is None else f"{each.share:.0%}",
                _listed(each.promotes),
                _listed(each.suppresses),
            )
            for each in self.senses
        ]
        return html.table(["sense", "share", "promotes", "suppresses"], rows, self.word)


def _listed(words: Sequence[tuple[str, float]]) -> str:
    return ", ".join(word.strip() for word, _ in words)


@dataclass(frozen=True)
class Neighbours:
    """The words that are most like a word in one sense, most first, and how alike they are (cosines)."""

    sense: int
    words: tuple[tuple[str, float], ...]

    def _repr_html_(self) -> str:
        rows = [(word.strip(), f"{alike:.3f}") for word, alike in self.words]
        return html.table(["word", "alike"], rows, f"sense {self.sense}")


@dataclass(frozen=True)
class WordSimilarity:
    """How alike two words are, by cosines of their senses."""

    first: str
    second: str
    by_sense: tuple[float, ...]
    least: float
    joined: float
    any_pair: float


@dataclass(frozen=True)
class Explanation:
    """What each sense of each word adds to a score: `values` (W, N) and `constant` add up to `logit`.

    `centred` has what is left of the values without what all words share of a sense; that stands in `bias`, and
    they add up to the logit with it and `constant` too. A word may be several tokens.
    """

    words: tuple[str, ...]
    target: str
    versus: str | None
    values: Floats
    centred: Floats
    bias: float
    constant: float
    logit: float
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What is explained."""
        versus = "" if self.versus is None else f" minus that of {visible(self.versus, spaces=True)}"
        return f"Contribution to the logit of {visible(self.target, spaces=True)}{versus}"

    def largest(self, count: int = MOST_SENSES) -> list[tuple[str, int, float]]:
        """Return the words, their senses and what these add, those first that add or take away most."""
        order = np.argsort(-np.abs(self.values), axis=None, kind="stable")[:count]
        places = zip(*np.unravel_index(order, self.values.shape), strict=True)
        return [(self.words[word], int(sense), float(self.values[word, sense])) for word, sense in places]

    def picture(self) -> "Figure":
        """Return what each sense (column) of each word (row) adds as a colour."""
        from satchel import charts

        return charts.sense_contributions(self.words, self.values, self.title)

    def _repr_html_(self) -> str:
        adds = self.values.sum(axis=1).tolist()
        sums = f"the words add {sum(adds):+.4f}, the bias {self.constant:+.4f}: together {self.logit:+.4f}"
        rows = [(visible(word, spaces=True), str(sense), f"{value:+.4f}") for word, sense, value in self.largest()]
        return (
            html.lines([self.title])
            + html.tinted(self.words, adds, [f"{value:+.2f}" for value in adds])
            + html.lines([sums, *self.notes])
            + html.table(["word", "sense", "adds"], rows)
        )


def lead(first: Explanation, second: Explanation) -> Explanation:
    """Return what adds to the lead of one score over another of the same text."""
    return replace(
        first,
        versus=second.target,
        values=first.values - second.values,
        centred=first.centred - second.centred,
        bias=first.bias - second.bias,
        constant=first.constant - second.constant,
        logit=first.logit - second.logit,
    )


def above_mean(found: Sequence[Explanation]) -> list[Explanation]:
    """Return what adds to each of several scores of one text above the mean of them all: that decides between them."""
    parts = ("values", "centred", "bias", "constant", "logit")
    means = {part: np.mean([getattr(each, part) for each in found], axis=0) for part in parts}
    return [replace(each, **{part: getattr(each, part) - mean for part, mean in means.items()}) for each in found]


class SenseReader:
    """Answers questions about the senses of a Backpack, whatever its task."""

    def __init__(self, model: Model) -> None:
        self.model, self.tokenizer = model, model.tokenizer
        encoder = getattr(model.network, "encoder", None)
        if not isinstance(encoder, Backpack):
            raise RunError(
                f"is no Backpack but {model.settings.model.kind}: it has no senses",
                "train one with --model backpack",
                where=str(model.folder),
            )
        self.network, self.backpack = model.network, encoder
        self.view = SenseView(encoder, self.network.head.weight)
        self._used: Use | None = None

    # --- senses of words

    def ids_of(self, word: str) -> list[int]:
        """Return the tokens of a word as it stands inside a sentence."""
        ids = known_ids(self.tokenizer, word)
        if len(ids) > self.backpack.context:
            raise DataError(f"found a word of {len(ids):,} tokens, expected {self.backpack.context:,} at most")
        return ids

    def of(self, word: str, top: int = 10, contexts: int = 0) -> WordSenses:
        """Return the senses of a word."""
        ids = self.ids_of(word)
        return self._described(word.strip(), ids, self.view.of_word(ids), top, contexts)

    def every(self, top: int = 10) -> Iterator[WordSenses]:
        """Return the senses of every token of the vocabulary."""
        for id_ in range(self.tokenizer.size):
            if id_ != self.tokenizer.unknown:
                yield self._described(self.tokenizer.text_of(id_), [id_], self.view.of_word([id_]), top, 0)

    def _described(self, word: str, ids: list[int], senses_ND: torch.Tensor, top: int, contexts: int) -> WordSenses:
        if top < 1 or contexts < 0:
            raise SettingsError(f"found {min(top, contexts)}, expected a number of words or contexts to show")
        use = self._use()
        shares = use.shares(ids) if use else None
        alike = _same(senses_ND)
        senses = []
        for number, found in enumerate(self.view.promoted(senses_ND, top)):
            senses.append(
                Sense(
                    number,
                    self._named(found.promotes),
                    self._named(found.suppresses),
                    None if shares is None else float(shares[number]),
                    found.coherence,
                    alike[number],
                    tuple(self._contexts(ids, number, contexts)),
                )
            )
        return WordSenses(word, tuple(map(self.tokenizer.text_of, ids)), tuple(senses))

    def _named(self, ranked: Sequence[tuple[int, float]]) -> tuple[tuple[str, float], ...]:
        """Return what is promoted by name: tokens, or the labels of a classifier or a tagger."""
        if isinstance(self.network, LanguageNetwork):
            return tuple((self.tokenizer.text_of(id_), score) for id_, score in ranked)
        return tuple((self.model.run.labels[id_], score) for id_, score in ranked)

    def _contexts(self, ids: list[int], sense: int, count: int) -> Iterator[Context]:
        use = self._use() if count else None
        for parts in use.most(ids, sense, count, AROUND) if use else ():
            yield Context(*map(self.tokenizer.decode, parts))

    def _use(self) -> Use | None:
        """Return how senses are used in the training text, if it is there."""
        path = self.model.folder / runs.TRAIN_TOKENS
        if self._used is None and path.exists():
            tokens = open_tokens(path, tokenizer=self.tokenizer)
            pieces = pieces_of(tokens.ids, self.tokenizer.boundary, self.backpack.context, TOKENS_SEEN)
            self._used = Use(self.backpack, pieces)
        return self._used

    # --- words beside words

    def near(self, word: str, top: int = 10) -> list[Neighbours]:
        """Return the tokens most like a word, sense by sense."""
        if top < 1:
            raise SettingsError(f"found {top}, expected 1 word or more to show")
        ids = self.ids_of(word)
        hidden = [*ids, self.tokenizer.boundary, *([] if self.tokenizer.unknown is None else [self.tokenizer.unknown])]
        values_NK, ids_NK = self.view.nearest(self.view.of_word(ids), top, excluded=sorted(set(hidden)))
        return [
            Neighbours(number, tuple(zip(map(self.tokenizer.text_of, found), map(float, values), strict=True)))
            for number, (values, found) in enumerate(zip(values_NK, ids_NK.tolist(), strict=True))
        ]

    def alike(self, first: str, second: str) -> WordSimilarity:
        """Return how alike two words are."""
        found = similarity(*(self.view.of_word(self.ids_of(word)) for word in (first, second)))
        return WordSimilarity(first, second, found.by_sense, found.least, found.joined, found.any_pair)

    def agreement(self, path: str | Path) -> list[Agreement]:
        """Return how well the likeness of words agrees with what people say of them, for each set of pairs."""
        return [agreement(name, ratings, self._compared) for name, ratings in read_ratings(Path(path)).items()]

    def _compared(self, first: str, second: str) -> dict[str, float] | None:
        try:
            found = self.alike(first, second)
        except DataError:
            return None
        by_sense = {f"sense {number}": alike for number, alike in enumerate(found.by_sense)}
        return {"joined": found.joined, "least": found.least, "any pair": found.any_pair, **by_sense}

    # --- what moved a prediction

    def explain_next(
        self, prefix: str, target: str | int | None = None, versus: str | int | None = None
    ) -> Explanation:
        """Return what adds to the score of a token after a text, or to its lead over another."""
        network = self.network
        if not isinstance(network, LanguageNetwork):
            raise RunError("is no language model: nothing comes next", "name one", where=str(self.model.folder))
        if target is None and versus is not None:
            raise SettingsError("found what to compare with, but no target", "give a target too")
        assert isinstance(self.model, LanguageModel)
        ids, notes = read_prefix(self.tokenizer, self.backpack.context, prefix)
        if target is None:
            chosen = likeliest(self.model.predictor, ids)
        else:
            chosen = next_token(self.tokenizer, target, prefix, notes)
        other = None if versus is None else next_token(self.tokenizer, versus, prefix, notes)
        if network.ngram is not None:
            notes.append("this explains the network's score; the n-grams it stands on have a say of their own")
        found = contributions.of_next(network, ids, chosen, other)
        name = None if other is None else self.tokenizer.text_of(other)
        return self._explanation(ids, found, self.tokenizer.text_of(chosen), name, notes)

    def weights(self, text: str) -> tuple[tuple[str, ...], Floats]:
        """Return the words of a text, and how much each of their senses counts at its end; for labels, all over it."""
        ids, _ = read_prefix(self.tokenizer, self.backpack.context, text)
        shares_T = torch.zeros(len(ids))
        shares_T[-1] = 1
        if not self.backpack.causal:
            ids, shares_T = ids[1:], torch.full((len(ids) - 1,), 1 / max(1, len(ids) - 1))
        if not len(ids):
            raise DataError("found no text, expected at least one token")
        counts_SN, _ = contributions.weighed(self.backpack, torch.as_tensor(ids), shares_T)
        words = words_of(self.tokenizer, ids.tolist())
        return tuple(word.text for word in words), _merged(counts_SN.cpu().numpy(), words)

    def explain_labels(self, text: str) -> list[Explanation]:
        """Return what adds to the score of each label of a text."""
        assert isinstance(self.network, ClassificationNetwork)
        ids = np.asarray(self.tokenizer.encode(text).ids, np.int64)
        found = contributions.of_classes(self.network, ids)
        return [
            self._explanation(ids, each, label, None, [])
            for label, each in zip(self.model.run.labels, found, strict=True)
        ]

    def _explanation(
        self, ids: Ids, found: contributions.Contributions, target: str, versus: str | None, notes: list[str]
    ) -> Explanation:
        words = words_of(self.tokenizer, ids.tolist())
        return Explanation(
            tuple(word.text for word in words),
            target,
            versus,
            _merged(found.values, words),
            _merged(found.centred, words),
            float(found.shared.sum()),
            found.constant,
            found.score,
            tuple(notes),
        )

    # --- all of a file

    def totals(
        self,
        data: str | Path,
        by: Sequence[str],
        target: str | None = None,
        versus: str | None = None,
        progress: Progress = silent,
    ) -> list[Total]:
        """Return what words, senses, positions or several of these add in a file, most first.

        For language models to the score of what follows, or of a target, above the mean of all tokens' or another's;
        a position is how many tokens away a word stands. For classifiers to each label's, above the mean of all.
        """
        if not by or set(by) - set(PARTS):
            raise SettingsError(f"--by: found {','.join(by) or 'nothing'}", f"expected some of {', '.join(PARTS)}")
        sums = Totals(frozenset(by))
        if isinstance(self.network, ClassificationNetwork):
            if target is not None or versus is not None:
                raise SettingsError("a classifier's targets are its labels: all of them are told")
            self._add_labels(sums, data, progress)
        elif isinstance(self.network, LanguageNetwork):
            self._add_what_follows(sums, data, target, versus, progress)
        else:
            raise RunError("is a tagger; this is for language models and classifiers", where=str(self.model.folder))
        return sums.listed()

    def _add_what_follows(
        self, sums: Totals, data: str | Path, target: str | None, versus: str | None, progress: Progress
    ) -> None:
        assert isinstance(self.model, LanguageModel)
        ids = self.model.tokens_of(data)
        pieces = pieces_of(ids, self.tokenizer.boundary, self.backpack.context, TOKENS_SEEN, following=1)
        chosen, other = (None if text is None else known_ids(self.tokenizer, text)[0] for text in (target, versus))
        for number, piece in enumerate(pieces):
            progress("adding up", number / len(pieces))
            words = words_of(self.tokenizer, piece[:-1].tolist())
            if not words:
                continue
            values_TSN = contributions.of_text(self.network, piece, chosen, other)
            names, starts = [word.text for word in words], np.array([word.start for word in words])
            if "position" not in sums.by:
                sums.add(names, _merged(values_TSN.sum(axis=0), words), starts)
                continue
            for time, values_SN in enumerate(values_TSN):
                seen = int((starts <= time).sum())
                sums.add(names[:seen], _merged(values_SN, words)[:seen], time - starts[:seen])

    def _add_labels(self, sums: Totals, data: str | Path, progress: Progress) -> None:
        assert isinstance(self.model, Classifier)
        texts = self.model.texts_of(data)
        for number, text in enumerate(texts):
            progress("adding up", number / len(texts))
            for each in above_mean(self.explain_labels(text)):
                sums.add(each.words, each.values, np.arange(len(each.words)), label=each.target)


def _merged(values_SN: Floats, words: Sequence[Word]) -> Floats:
    """Return the sums over the tokens of each word (W, N)."""
    if not words:
        return values_SN
    merged: Floats = np.add.reduceat(values_SN, [word.start for word in words], axis=0)
    return merged


def _same(senses_ND: torch.Tensor) -> list[int | None]:
    """Return, for each sense, the first sense before it that it is hardly different from."""
    unit = torch.nn.functional.normalize(senses_ND, dim=-1)
    alike = (unit @ unit.T > SAME).tolist()
    return [next((before for before in range(number) if alike[number][before]), None) for number in range(len(alike))]
