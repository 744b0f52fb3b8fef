"""Which heads of a model look where one would expect them to."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from satchel.api.model import Model
from satchel.api.translation import Translator
from satchel.errors import DataError, SettingsError
from satchel.inspection.patterns import GENERAL, PATTERNS, HeadFit, Pattern, Places, at, rank, same
from satchel.inspection.trace import Maps

# A text; of a translator also a source and its translation.
Text = str | tuple[str, str]


@dataclass(frozen=True)
class Patterns:
    """How well each head fits each pattern over some texts: pattern by pattern, the best heads first."""

    rows: tuple[HeadFit, ...]
    texts: int

    def best(self, pattern: str) -> HeadFit:
        """Return the head that fits a pattern best."""
        found = next((row for row in self.rows if row.pattern == pattern), None)
        if found is None:
            there = ", ".join(dict.fromkeys(row.pattern for row in self.rows))
            raise SettingsError(f"there is no pattern {pattern}", f"there is {there}")
        return found


def patterns_of(
    model: Model, texts: Sequence[Text], patterns: Sequence[str] | Mapping[str, Pattern] | None = None
) -> Patterns:
    """Return how well the heads fit patterns: some by name, or functions of tokens; without any, all that apply.

    Of a translator it is where in the source it looks for what it is about to write: its patterns are functions of
    the tokens that are written, and of those of the source.
    """
    if isinstance(texts, str) or not texts:
        raise DataError("found no list of texts, expected one or more")
    is_pair = isinstance(model, Translator)
    known, usual = (_of_pairs(model), ("same", "aligned")) if isinstance(model, Translator) else (PATTERNS, GENERAL)
    asked = _chosen(known, usual if patterns is None else patterns)
    is_causal = not is_pair and bool(getattr(getattr(model.network, "encoder", None), "causal", False))
    rows = rank(_looked(model, texts, asked), causal=is_causal)
    silent = {} if patterns is None else {name for name in asked if name not in {row.pattern for row in rows}}
    if silent:
        raise DataError(
            f"in these texts nothing is expected by {', '.join(silent)}, or it comes later and cannot be seen",
            "give other texts, or ask for other patterns",
        )
    return Patterns(tuple(rows), len(texts))


def _looked(
    model: Model, texts: Sequence[Text], patterns: Mapping[str, Pattern]
) -> Iterator[tuple[Maps, dict[str, Places]]]:
    """Return the maps of each text and what is expected of them."""
    is_pair = isinstance(model, Translator)
    for text in texts:
        trace = model.trace(text) if isinstance(text, str) else model.trace(*text)
        maps = trace.cross if is_pair else trace.attention
        if not len(maps):
            raise SettingsError("found no attention: this model does not look at anything", "ask a transformer")
        # Who writes looks for what is about to be written.
        tokens = (trace.told.tokens, trace.source) if is_pair else (trace.tokens,)
        yield maps, {name: pattern(*tokens) for name, pattern in patterns.items()}


def _chosen(known: Mapping[str, Pattern], asked: Iterable[str] | Mapping[str, Pattern]) -> Mapping[str, Pattern]:
    if isinstance(asked, Mapping):
        return asked
    names = list(asked)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SettingsError(f"there is no pattern {', '.join(unknown)}", f"there is {', '.join(known)}")
    return {name: known[name] for name in names}


def _of_pairs(model: Translator) -> dict[str, Pattern]:
    """Return the patterns of translations: the same token, and the one that each is most likely of, by counting."""
    sources, targets = (
        {tokenizer.text_of(id_): id_ for id_ in range(tokenizer.size + 1)}
        for tokenizer in (model.source_tokenizer, model.tokenizer)
    )
    lexicon = functools.cache(model.lexicon)

    def aligned(written: Sequence[str], source: Sequence[str]) -> Places:
        # The ends have each other.
        own, other = (np.array([ids[text] for text in texts]) for ids, texts in ((targets, written), (sources, source)))
        found = lexicon().source_of(other[:-1], own[:-1]) if len(other) > 1 else ()
        return at([*enumerate(found), (len(own) - 1, len(other) - 1)], written, source)

    return {"same": same, "aligned": aligned}
