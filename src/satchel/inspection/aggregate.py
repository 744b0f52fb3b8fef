"""Sums of contributions over all texts of a file, grouped by word, sense, position and label.

Shapes: T time, S source time, W words, N senses.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from satchel.data.batches import Ints
from satchel.errors import SettingsError
from satchel.inspection.contributions import by_position, label_contributions
from satchel.inspection.senses import SAMPLED_TOKENS, sample_pieces
from satchel.inspection.subject import backpack_of, unsupported
from satchel.predictor import Floats
from satchel.progress import Progress, silent
from satchel.text.display import Role, role_of
from satchel.text.token_names import next_token
from satchel.text.words import words_of

# Keys that contributions can be grouped by. A position is the distance in tokens to the predicted token, or for a
# classifier the index of the word.
KEYS = ("word", "sense", "position")


@dataclass(frozen=True)
class Total:
    """Sum of the contributions of a group, and the number of summands."""

    key: dict[str, Any]
    total: float
    times: int

    @property
    def mean(self) -> float:
        """Mean contribution."""
        return self.total / self.times


class TotalList(list[Total]):
    """Sums of contributions, the largest first: those in `tokens` of the `total_tokens` tokens of a file."""

    def __init__(self, totals: Iterable[Total], tokens: int, total_tokens: int) -> None:
        super().__init__(totals)
        self.tokens, self.total_tokens = tokens, total_tokens

    @property
    def notes(self) -> tuple[str, ...]:
        """A note for the user if the file is not used as a whole."""
        if self.tokens == self.total_tokens:
            return ()
        return (f"{self.tokens:,} of {self.total_tokens:,} tokens of the file are used, a random sample",)


class Totals:
    """Running sums of contributions, grouped by label and by the given keys."""

    def __init__(self, by: Sequence[str]) -> None:
        if not by or set(by) - set(KEYS):
            raise SettingsError(f"--by {','.join(by)}: expected one or more of {', '.join(KEYS)}, separated by commas")
        self.by = frozenset(by)
        # Numbers of the words; a word that is spelled like a special token is another word.
        self._words: dict[tuple[str, Role | None], int] = {}
        # Sum and count by label, word, sense and position; keys that are not grouped by are 0.
        self._sums: defaultdict[tuple[str | None, int, int, int], list[float]] = defaultdict(lambda: [0.0, 0])

    def add(self, words: Sequence[str], values_WN: Floats, positions_W: Ints, label: str | None = None) -> None:
        """Add the contributions of the senses of words at the given positions."""
        values = values_WN if "sense" in self.by else values_WN.sum(axis=1, keepdims=True)
        names = [word.strip() or word for word in words]
        numbers_W = np.array([self._words.setdefault((name, role_of(name)), len(self._words)) for name in names])
        keys = np.zeros((*values.shape, len(KEYS)), np.int64)
        for column, (name, numbers) in enumerate(
            {"word": numbers_W[:, None], "sense": np.arange(values.shape[1]), "position": positions_W[:, None]}.items()
        ):
            if name in self.by:
                keys[..., column] = numbers
        distinct, inverse = np.unique(keys.reshape(-1, len(KEYS)), axis=0, return_inverse=True)
        sums, counts = np.bincount(inverse, values.ravel()), np.bincount(inverse)
        for (word, sense, position), total, count in zip(
            distinct.tolist(), sums.tolist(), counts.tolist(), strict=True
        ):
            group = self._sums[label, word, sense, position]
            group[0] += total
            group[1] += count

    def listed(self) -> list[Total]:
        """Return the sums, the largest first."""
        words, totals = [name for name, _ in self._words], []
        for (label, word, *numbers), (total, times) in self._sums.items():
            key: dict[str, Any] = {} if label is None else {"label": label}
            parts = zip(KEYS, (words[word], *numbers), strict=True)
            totals.append(Total({**key, **{name: part for name, part in parts if name in self.by}}, total, int(times)))
        return sorted(totals, key=lambda each: -each.total)


def contribution_totals(
    subject: Any,
    data: str | Path,
    by: Sequence[str],
    target: str | None = None,
    versus: str | None = None,
    progress: Progress = silent,
    *,
    raw: bool = False,
    tokens: int = SAMPLED_TOKENS,
) -> TotalList:
    """Return the summed contributions in a file, centred or `raw` (see `Contributions`), the largest first.

    For a language model (with a method `tokens_of`), contributions to the logits of the next tokens or to that of
    `target`, minus that of `versus`. For a classifier (with a method `texts_of`), contributions to the logit of each
    label. At most `tokens` tokens of the file are used: a random sample of the pieces of a text or of the texts.
    """
    if tokens < 1:
        raise SettingsError(f"--tokens {tokens}: expected 1 or more")
    totals = Totals(by)
    means_ND = backpack_of(subject).mean_senses()
    if subject.task == "lm":
        counts = _add_next_tokens(totals, subject, data, target, versus, None if raw else means_ND, progress, tokens)
    elif subject.task != "classify":
        raise unsupported(subject, "has no summed contributions", "use a language model or a classifier")
    elif target is not None or versus is not None:
        raise SettingsError("target and versus are for language models; a classifier reports all labels")
    else:
        counts = _add_labels(totals, subject, data, means_ND, progress, tokens, raw=raw)
    return TotalList(totals.listed(), *counts)


def _add_labels(
    totals: Totals, subject: Any, data: str | Path, means_ND: Tensor, progress: Progress, most: int, *, raw: bool
) -> tuple[int, int]:
    """Add the contributions of texts to all labels; return the number of tokens used and that of the file."""
    texts = subject.texts_of(data)
    progress("tokenizing", None)
    lengths = [len(subject.tokenizer.encode(text).ids) for text in texts]
    chosen = _sample(lengths, most)
    for number, index in enumerate(chosen):
        progress("summing contributions", number / len(chosen))
        for each in label_contributions(subject, texts[index], means_ND) if lengths[index] else ():
            values_WN = each.decomposition(raw=raw).values
            totals.add(each.words, values_WN, np.array(each.positions, np.int64), label=each.target)
    return sum(lengths[index] for index in chosen), sum(lengths)


def _sample(lengths: Sequence[int], most: int) -> list[int]:
    """Return a random sample of texts with at most `most` tokens in total, or one text that is longer, in order."""
    # Evenly spaced texts would not be representative of a file whose labels alternate.
    order = np.random.default_rng(0).permutation(len(lengths))
    count = int((np.cumsum(np.array(lengths, np.int64)[order]) <= most).sum())
    return sorted(order[: max(1, count)].tolist())


def _add_next_tokens(
    totals: Totals,
    subject: Any,
    data: str | Path,
    target: str | None,
    versus: str | None,
    means_ND: Tensor | None,
    progress: Progress,
    most: int,
) -> tuple[int, int]:
    """Add the contributions to the next tokens; return the number of tokens used and that of the file."""
    tokenizer, longest = subject.tokenizer, min(backpack_of(subject).context, most)
    ids_T = subject.tokens_of(data)
    # A piece has one more token, which is predicted from the others.
    pieces = sample_pieces(ids_T, tokenizer.boundary, longest, len(ids_T), following=1)
    pieces = [pieces[index] for index in _sample([len(piece) - 1 for piece in pieces], most)]
    target_id, versus_id = (None if text is None else next_token(tokenizer, text, []) for text in (target, versus))
    for number, piece in enumerate(pieces):
        progress("summing contributions", number / len(pieces))
        words = words_of(tokenizer, piece[:-1].tolist(), as_context=True)
        if not words:
            continue
        names, starts = [word.text for word in words], np.array([word.start for word in words])
        values_TSN = by_position(subject.network, piece, target_id, versus_id, means_ND)
        if "position" not in totals.by:
            totals.add(names, np.add.reduceat(values_TSN.sum(axis=0), starts), starts)
            continue
        for time, values_SN in enumerate(values_TSN):
            visible = int((starts <= time).sum())
            totals.add(names[:visible], np.add.reduceat(values_SN, starts)[:visible], time - starts[:visible])
    return sum(len(piece) - 1 for piece in pieces), len(ids_T) - 1
