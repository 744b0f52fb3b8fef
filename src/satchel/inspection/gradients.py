"""Norms of the gradient of a language model's loss with respect to earlier input embeddings, by distance.

The loss is that of one token, the target. An input token has distance 1 if it directly precedes the target.
Shapes: B positions, T time, D width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from satchel import charts
from satchel.data.batches import group_by_length, pad
from satchel.errors import DataError, SettingsError
from satchel.inspection.subject import Subject, json_fields, unsupported
from satchel.models.backpack import Backpack
from satchel.models.transformer import TransformerSettings
from satchel.nn.inference import evaluation_mode
from satchel.predictor import Floats, Ids
from satchel.text.tokenizer import BYTE_LEVEL, Tokenizer

# Number of preceding tokens of encoders without a maximum length.
DEFAULT_LENGTH = 256
# Number of input tokens of one backward pass.
BATCH_TOKENS = 1 << 13


@dataclass(frozen=True)
class GradientNorms:
    """Euclidean norms of the gradient with respect to an input embedding, by its distance from the target.

    `norms[i]` is the mean over `counts[i]` targets at the distance of `distances[i]` tokens, which is
    `characters[i]` characters on average. `untrained` is True for the network before its training.
    """

    run: str
    untrained: bool
    tokenizer: str
    distances: tuple[int, ...]
    characters: Floats
    norms: Floats
    counts: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @property
    def zero_notes(self) -> list[str]:
        """A note on the distances that a logarithmic axis omits, if there are any."""
        zeros = int((self.norms == 0).sum())
        return [f"gradient 0 at {zeros:,} of {len(self.norms):,} distances (not drawn)"] if zeros else []

    @property
    def name(self) -> str:
        """Run, and whether the network is untrained."""
        return f"{self.run} (untrained)" if self.untrained else self.run

    def document(self) -> dict[str, Any]:
        """Return the values of one run in `look gradients --json`."""
        return json_fields(self, "run", "untrained", "distances", "characters", "norms", "counts", "notes")

    def picture(self, *others: "GradientNorms") -> "charts.Figure":
        """Return the norms by distance, of this and other networks in one figure with a logarithmic axis."""
        results = (self, *others)
        unit = distance_unit(results)
        curves = {
            each.name: list(zip(each.distances if unit == "tokens" else each.characters, each.norms, strict=True))
            for each in results
        }
        pairs = {each.name: each.run for each in results if each.untrained and each.run in curves}
        notes = [f"{each.name}: {note}" for each in results for note in each.zero_notes]
        return charts.gradient_norms(curves, unit, pairs, notes)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.picture()._repr_mimebundle_(include, exclude)


def distance_unit(results: Sequence[GradientNorms]) -> str:
    """Return the unit of distances: tokens, or characters if the tokenizers differ."""
    return "tokens" if len({each.tokenizer for each in results}) == 1 else "characters"


def gradient_norms(
    subject: Subject,
    ids: Ids,
    targets: Sequence[int],
    *,
    network: Any = None,
    length: int | None = None,
) -> GradientNorms:
    """Return the mean norms over the targets at these positions of a text, which starts with a boundary.

    The inputs of a target are up to `length` tokens before it in the same document, by default the context of the
    model. `network` replaces the network of the model by an untrained one.
    """
    is_untrained, network = network is not None, network or subject.network
    if network is None:
        raise unsupported(subject, "has no input embeddings", "use a network, for example --model lstm")
    encoder = network.encoder
    if isinstance(encoder, Backpack) and encoder.settings.sense_source == "table":
        raise unsupported(
            subject,
            "model.sense_source=table: sense vectors are looked up by token id and do not depend on input embeddings",
            "use a Backpack with model.sense_source=network",
        )
    length = _check_length(length, encoder.context)
    windows = [_window(ids, target, length, subject.tokenizer.boundary) for target in targets]
    longest = max(len(window) - 1 for window in windows)
    totals, characters, counts = np.zeros(longest), np.zeros(longest), np.zeros(longest, np.int64)
    sizes = token_characters(subject.tokenizer)
    with evaluation_mode(network):
        for window, norms_T in _norms(network, windows):
            # The last input token has distance 1.
            totals[: len(norms_T)] += norms_T[::-1]
            characters[: len(norms_T)] += np.cumsum(sizes[window[:-1]][::-1])
            counts[: len(norms_T)] += 1
    return GradientNorms(
        str(subject.folder),
        is_untrained,
        subject.tokenizer.sha256,
        tuple(range(1, longest + 1)),
        characters / counts,
        totals / counts,
        tuple(counts.tolist()),
        tuple(_length_notes(targets, windows) + _identity_notes(encoder, is_untrained)),
    )


def _check_length(length: int | None, context: int | None) -> int:
    if length is not None and length < 1:
        raise SettingsError(f"length: found {length}, expected 1 or more")
    if length is not None and context is not None and length > context:
        raise SettingsError(f"length: found {length:,}, but the context of the model is {context:,} tokens")
    return length or context or DEFAULT_LENGTH


def _window(ids: Ids, target: int, length: int, boundary: int) -> Ids:
    """Return the target preceded by up to `length` tokens of its document."""
    window = np.asarray(ids[max(0, target - length) : target + 1], np.int64)
    starts = np.flatnonzero(window[:-1] == boundary)
    return window[starts[-1] :] if len(starts) else window


def _norms(network: Any, windows: Sequence[Ids]) -> Iterator[tuple[Ids, Floats]]:
    """Yield each window and the gradient norm of each of its input tokens (T)."""
    device = network.head.weight.device
    for rows in group_by_length(np.array([len(window) - 1 for window in windows], np.int64), BATCH_TOKENS):
        batch = [windows[row] for row in rows]
        inputs_BT, keep_BT = (torch.from_numpy(part).to(device) for part in pad([each[:-1] for each in batch], 0))
        targets_B = torch.tensor([int(each[-1]) for each in batch], device=device)
        for window, norms_T in zip(batch, _batch_norms(network, inputs_BT, keep_BT, targets_B), strict=True):
            yield window, norms_T[: len(window) - 1]


def _batch_norms(network: Any, inputs_BT: Tensor, keep_BT: Tensor, targets_B: Tensor) -> Floats:
    encoder = network.encoder
    # Padding ends a row: a causal encoder does not see it and needs no mask.
    mask = None if encoder.causal or bool(keep_BT.all()) else keep_BT
    with torch.enable_grad():
        embedded_BTD = encoder.embed(inputs_BT).detach().requires_grad_()
        encoded_BTD = encoder.encoded(encoder.contextualise(embedded_BTD, mask))
        last_BD = encoded_BTD[torch.arange(len(targets_B)), keep_BT.sum(dim=1) - 1]
        loss = F.cross_entropy(network.head(last_BD), targets_B, reduction="sum")
        (gradient_BTD,) = torch.autograd.grad(loss, embedded_BTD)
    norms: Floats = gradient_BTD.double().norm(dim=-1).cpu().numpy()
    return norms


def _length_notes(targets: Sequence[int], windows: Sequence[Ids]) -> list[str]:
    """Return a note if the only target has more tokens before it than were used."""
    used = len(windows[0]) - 1
    if len(targets) > 1 or used == targets[0]:
        return []
    return [f"used the last {used:,} of the {targets[0]:,} tokens before the predicted token (the start included)"]


def _identity_notes(encoder: Any, is_untrained: bool) -> list[str]:
    """Return a note if the blocks of an untrained Transformer are the identity."""
    settings = getattr(encoder, "settings", None)
    if not is_untrained or not isinstance(settings, TransformerSettings) or not settings.residual:
        return []
    return ["the output matrices of the blocks are initialised with 0, so attention transmits no gradient yet"]


def spread_targets(ids: Ids, count: int) -> list[int]:
    """Return up to `count` evenly spaced positions of targets in a text that starts with a boundary."""
    if count < 1:
        raise SettingsError(f"positions: found {count}, expected 1 or more")
    if len(ids) < 2:
        raise DataError("the text has no tokens, expected at least one")
    # The last position of each of `count` equal parts, so that the last token of the text is one of them.
    return sorted({round((number + 1) * (len(ids) - 1) / count) for number in range(count)} - {0})


def token_characters(tokenizer: Tokenizer) -> Floats:
    """Return the number of characters of each token id; the boundary has none."""
    if tokenizer.kind in BYTE_LEVEL:
        # Bytes 0x80 to 0xBF continue a character.
        sizes = [sum(byte & 0xC0 != 0x80 for byte in tokenizer.bytes_of(id_)) for id_ in range(tokenizer.size)]
    else:
        space = 1 if tokenizer.kind == "word" else 0
        sizes = [len(spelling) + space for spelling in tokenizer.spellings]
    if tokenizer.kind == "char" and tokenizer.unknown is not None:
        sizes[tokenizer.unknown] = 1
    return np.array([*sizes, 0], float)
