"""The quantity that contributions and attributions explain: a logit, or the difference of two logits.

Shapes: T time, D width, C classes, N tagged units.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from satchel.data.examples import tokenize_texts
from satchel.data.tagged import split_units, tokenize_tagged
from satchel.data.tokens import TokenFile
from satchel.errors import DataError, SettingsError
from satchel.inspection.subject import Subject, class_name, unsupported
from satchel.models.dan import Dan
from satchel.models.encoder import Encoder
from satchel.predictor import Floats, Ids
from satchel.tasks.classification import share
from satchel.tasks.windows import overlapping_windows
from satchel.text.token_names import next_token
from satchel.text.tokenizer import Tokenizer
from satchel.text.windows import Window, select_window, whole_window
from satchel.text.words import Word, word_ids, words_of

# A next token (as text or id), a label, or for a tagger the position of a word, with or without its tag.
Target = str | int | tuple[int, str]


@dataclass(frozen=True)
class Logit:
    """A logit, or a difference of two logits, as a linear function of the encodings of a text.

    Its value is the sum over positions of weights_T * (encoding . direction_D), plus `constant`. `mean_D` is the mean
    direction over all classes, which does not affect the softmax; zeros for a difference. `words` groups the tokens
    into words; without words each token stands for itself. `window` are the tokens of the text that are used.
    """

    encoder: Encoder
    ids_T: Tensor
    weights_T: Tensor
    direction_D: Tensor
    mean_D: Tensor
    constant: float
    window: Window
    target: str = ""
    versus: str | None = None
    words: tuple[Word, ...] = ()
    tokens: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def by_word(self, values: Floats) -> Floats:
        """Return the sums over the tokens of each word, along the first axis."""
        return np.add.reduceat(values, [word.start for word in self.words], axis=0) if self.words else values


def logit(network: Any, ids_T: Ids, target: int, versus: int | None = None, position: int = -1) -> Logit:
    """Return the logit of a class, or its difference from the logit of `versus`.

    A classification network pools all positions; other networks compute the logit at one `position`.
    """
    direction_D, constant = _row(network.head, target)
    mean_D = network.head.weight.detach().mean(dim=0, dtype=torch.float64)
    if versus is not None:
        versus_D, versus_constant = _row(network.head, versus)
        direction_D, constant = direction_D - versus_D, constant - versus_constant
        mean_D = torch.zeros_like(mean_D)
    ids = torch.as_tensor(np.asarray(ids_T, np.int64), device=direction_D.device)
    if pooling := getattr(network, "pooling", None):
        weights_T = direction_D.new_full(ids.shape, share(len(ids), pooling))
    else:
        weights_T = direction_D.new_zeros(ids.shape)
        weights_T[position] = 1
    return Logit(network.encoder, ids, weights_T, direction_D, mean_D, constant, whole_window(len(ids)))


def _row(head: Any, number: int) -> tuple[Tensor, float]:
    """Return the weights and the bias of one class, in double precision."""
    bias = getattr(head, "bias", None)
    return head.weight[number].detach().double(), 0.0 if bias is None else bias[number].item()


# --- the logit named by a target and a text -----------------------------------------------------------


def find_logit(
    subject: Subject,
    text: str,
    target: Target | None = None,
    versus: str | int | None = None,
    start: int | None = None,
) -> Logit:
    """Return the logit of a target given a text, or its difference from the logit of `versus`.

    A target is the next token, a label, or for a tagger the index of a word and its tag: (3, "NOUN"), 3 or "3:NOUN".
    The default target is the most probable one. The next token is predicted from the last tokens of the text, as many
    as the context, or from those from the token `start` on.
    """
    if target is None and versus is not None:
        raise SettingsError("versus is given without a target", "give the target that it is compared with")
    if subject.task == "translate":
        raise unsupported(subject, "has a logit for each target token", "see `satchel look alignment`")
    if subject.network is None:
        raise unsupported(subject, "has no embeddings", "train a network, for example with --model transformer")
    if subject.task == "lm":
        return _next_token_logit(subject, text, target, versus, start)
    if start is not None:
        raise SettingsError(
            f"--start {start}: expected a language model, but the task is {subject.task}",
            "omit it: a label depends on the whole text, and a tag on the tokens around it",
        )
    return (_label_logit if subject.task == "classify" else _tag_logit)(subject, text, target, versus)


def label_logits(subject: Subject, text: str) -> list[Logit]:
    """Return the logit of each label of a classifier, in the order of the labels."""
    ids_T = np.asarray(subject.tokenizer.encode(text).ids, np.int64)
    return [_named_logit(subject, ids_T, number) for number in range(len(subject.labels))]


def _next_token_logit(
    subject: Subject, text: str, target: Target | None, versus: str | int | None, start: int | None
) -> Logit:
    if isinstance(target, tuple):
        raise SettingsError(f"target={target} is a pair; expected a word or a token id")
    tokenizer, network = subject.tokenizer, subject.network
    ids_T, window = read_prefix(tokenizer, network.encoder.context, text, start)
    notes = list(window.notes)
    before = text if window.stop == window.total else tokenizer.decode(ids_T)
    follows_space = not before or before[-1].isspace()
    if target is None:
        chosen = int(subject.predictor.decoder().join([ids_T])[0].argmax())
    else:
        chosen = next_token(tokenizer, target, notes, follows_space=follows_space)
    other = None if versus is None else next_token(tokenizer, versus, notes, follows_space=follows_space)
    if network.ngram is not None:
        notes.append("the logit of the network is explained, without the n-gram model it is interpolated with")
    return replace(_named_logit(subject, ids_T, chosen, other, notes=notes), window=window)


def _label_logit(subject: Subject, text: str, target: Target | None, versus: str | int | None) -> Logit:
    tokens = tokenize_texts([text], subject.tokenizer)
    ids_T = inner_ids(tokens)
    chosen = int(subject.predictor.label(tokens.ids)[0].argmax()) if target is None else _label(subject, target)
    other = None if versus is None else _label(subject, versus)
    return _named_logit(subject, ids_T, chosen, other)


def _tag_logit(subject: Subject, text: str, target: Target | None, versus: str | int | None) -> Logit:
    unit = subject.run.facts["unit"]
    tokens, positions_N = tokenize_tagged([text], subject.tokenizer, unit)
    ids_T = inner_ids(tokens)
    number, tag = _parse_tag(target, unit)
    if not 0 <= number < len(positions_N):
        raise SettingsError(f"{unit} {number} does not exist; expected 0 to {len(positions_N) - 1}")
    position = int(positions_N[number])
    chosen = int(subject.predictor.label(tokens.ids)[position].argmax()) if tag is None else _label(subject, tag)
    other = None if versus is None else _label(subject, versus)
    # A tag belongs to the last token of its unit, and a unit to the tokens after the previous one. Position 0 is the
    # boundary token before the text.
    spans = zip(split_units(text, unit, subject.tokenizer), pairwise([0, *positions_N.tolist()]), strict=True)
    words = [Word(part, start, stop) for part, (start, stop) in spans]
    window = _tag_window(subject.network.encoder, len(ids_T), position - 1)
    inside = [word.inside(window) for word in words if word.start < window.stop and word.stop > window.start]
    explained = _named_logit(
        subject, ids_T[window.part], chosen, other, position - 1 - window.start, notes=window.notes, words=inside
    )
    return replace(explained, target=f"{explained.target} at {words[number].text}", window=window)


def _tag_window(encoder: Encoder, length: int, position: int) -> Window:
    """Return the window of a text in which the tag at a position is predicted."""
    windows = overlapping_windows(length, encoder.context, causal=encoder.causal)
    window = next(window for window, predicted in windows if predicted.start <= position < predicted.stop)
    return Window(window.start, window.stop - window.start, length)


def inner_ids(tokens: TokenFile) -> Ids:
    """Return the token ids of a single text without the boundary tokens around it."""
    if len(tokens.ids) < 3:
        raise DataError("the text is empty; expected at least one token")
    return np.asarray(tokens.ids[1:-1], np.int64)


def _named_logit(
    subject: Subject,
    ids_T: Ids,
    target: int,
    versus: int | None = None,
    position: int = -1,
    notes: Sequence[str] = (),
    words: Sequence[Word] | None = None,
) -> Logit:
    """Return a logit with the names of its classes, tokens and words."""
    notes, encoder, ids = list(notes), subject.network.encoder, ids_T.tolist()
    context = encoder.context
    if context is not None and len(ids) > context:
        notes.append(f"the text exceeds the context of {context:,} tokens and is encoded in windows of that length")
    if isinstance(encoder, Dan) and encoder.pairs is not None:
        notes.append("the effect of a bigram embedding is attributed to the second token of the bigram")
    return replace(
        logit(subject.network, ids_T, target, versus, position),
        target=class_name(subject, target),
        versus=None if versus is None else class_name(subject, versus),
        words=tuple(words_of(subject.tokenizer, ids, as_context=True) if words is None else words),
        tokens=subject.tokenizer.tokens_of(ids, as_context=True),
        notes=tuple(notes),
    )


def _label(subject: Subject, label: object) -> int:
    """Return the index of a label."""
    if label not in subject.labels:
        raise SettingsError(f"unknown label {label}", f"expected one of {', '.join(subject.labels)}")
    return subject.labels.index(str(label))


def _parse_tag(target: Target | None, unit: str) -> tuple[int, str | None]:
    """Return the index of a tagged unit and its tag, if given: from `3:NOUN`, `3`, 3 or (3, "NOUN")."""
    if isinstance(target, tuple):
        return target
    number, _, tag = ("" if target is None else str(target)).partition(":")
    if not number.strip().isdecimal():
        raise SettingsError(
            f"target={target}: expected the index of a {unit}, from 0, optionally with a tag", "give 3 or 3:NOUN"
        )
    return int(number), tag or None


# --- next tokens ----------------------------------------------------------------------------------------


def read_prefix(tokenizer: Tokenizer, context: int | None, prefix: str, start: int | None = None) -> tuple[Ids, Window]:
    """Return the ids that the next token is predicted from, and their window in the text with its boundary."""
    ids = np.concatenate([[tokenizer.boundary], tokenizer.encode(prefix).ids]).astype(np.int64)
    window = select_window(len(ids), context, start)
    return ids[window.part], window


def known_ids(tokenizer: Tokenizer, word: str) -> list[int]:
    """Return the token ids of a word inside a sentence, with its leading space."""
    ids = word_ids(tokenizer, word) if word.strip() else []
    if not ids:
        raise DataError(f"{word!r} has no tokens; expected a word")
    if tokenizer.unknown in ids:
        raise DataError(
            f"{word!r} is not in the vocabulary",
            "give a word of the training text in the same spelling, or train with --tokenizer bpe",
        )
    return ids
