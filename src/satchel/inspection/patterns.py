"""Attention patterns of a model: the attention weight of each head on the positions that a pattern expects.

Shapes: T time, S source time, H heads.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from satchel import charts
from satchel.datasets import roles
from satchel.errors import DataError, SettingsError
from satchel.inspection.alignment import training_lexicon
from satchel.inspection.heads import GENERAL as GENERAL
from satchel.inspection.heads import Expected as Expected
from satchel.inspection.heads import HeadFit as HeadFit
from satchel.inspection.heads import Pattern as Pattern
from satchel.inspection.heads import at as at
from satchel.inspection.heads import earlier as earlier
from satchel.inspection.heads import new as new
from satchel.inspection.heads import rank as rank
from satchel.inspection.heads import same as same
from satchel.inspection.subject import Subject, json_fields
from satchel.inspection.trace import AttentionMaps, Trace
from satchel.text.display import Token
from satchel.text.windows import Window, truncation_notes

# A text; for a translator also a pair of source and target.
Text = str | tuple[str, str]


@dataclass(frozen=True)
class Patterns:
    """Agreement of each head with each pattern over several texts: by pattern, the best heads first."""

    rows: tuple[HeadFit, ...]
    texts: int
    # Tokens of each text that are used; for a translator, of each target.
    windows: tuple[Window, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on texts that are not used as a whole."""
        return truncation_notes(self.windows)

    def of_layer(self, layer: int | None) -> "Patterns":
        """Return the rows of one layer; None returns all rows."""
        return self if layer is None else replace(self, rows=tuple(row for row in self.rows if row.layer == layer))

    def document(self) -> dict[str, Any]:
        """Return the keys of `look patterns --json`."""
        heads = [asdict(row) for row in self.rows]
        return {"texts": self.texts, "heads": heads, **json_fields(self, "windows", "notes")}

    def picture(self) -> "charts.Figure":
        """Return the weights of the best heads of each pattern as bars, beside those of uniform attention."""
        weights: dict[str, dict[tuple[int, int], float]] = {}
        for row in self.rows:
            weights.setdefault(row.pattern, {})[row.layer, row.head] = row.weight
        chances = {row.pattern: row.chance for row in self.rows}
        return charts.heads_by_pattern(weights, chances=chances).with_notes(self.notes)

    def best(self, pattern: str) -> HeadFit:
        """Return the head that agrees best with a pattern."""
        _check_names([pattern], list(dict.fromkeys(row.pattern for row in self.rows)))
        return next(row for row in self.rows if row.pattern == pattern)


# --- patterns -------------------------------------------------------------------------------------------


def of_role(role: str, tokens: Sequence[str]) -> Expected:
    """Return the positions of a grammatical role in a sentence of @roles."""
    return at(roles.expected_attention(tokens)[role], tokens)


# Patterns of any text, and those of sentences of @roles.
PATTERNS: dict[str, Pattern] = {
    **GENERAL,
    **{role: functools.partial(of_role, role) for role in roles.expected_attention(())},
}


# --- patterns of a model --------------------------------------------------------------------------------


def find_patterns(
    subject: Subject,
    texts: Sequence[Text],
    traced: Callable[[Text], Trace],
    patterns: Sequence[str] | Mapping[str, Pattern] | None = None,
) -> Patterns:
    """Return the agreement of all heads of a model with patterns, given by name or as functions of tokens.

    `traced` returns the trace of a text. The default patterns are those that apply to any text. For a translator the
    cross-attention is compared; its patterns are functions of the target and the source tokens.
    """
    if isinstance(texts, str) or not texts:
        raise DataError("texts: expected a list of one or more texts")
    is_pair = subject.task == "translate"
    known = {"same": same, "aligned": _aligned(subject)} if is_pair else PATTERNS
    if patterns is None:
        chosen: Mapping[str, Pattern] = known if is_pair else GENERAL
    elif isinstance(patterns, Mapping):
        chosen = patterns
    else:
        _check_names(patterns, list(known))
        chosen = {name: known[name] for name in patterns}
    is_causal = not is_pair and bool(getattr(getattr(subject.network, "encoder", None), "causal", False))
    windows: list[Window] = []
    rows = rank(_expected(map(traced, texts), chosen, is_pair, windows), causal=is_causal)
    missing = {} if patterns is None else {name for name in chosen if name not in {row.pattern for row in rows}}
    if missing:
        raise DataError(
            f"{', '.join(missing)}: no query of these texts has a visible expected position",
            "give other texts or other patterns",
        )
    return Patterns(tuple(rows), len(texts), tuple(windows))


def _check_names(names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in known]:
        raise SettingsError(f"unknown pattern {', '.join(unknown)}", f"expected some of {', '.join(known)}")


def _expected(
    traces: Iterable[Trace], patterns: Mapping[str, Pattern], is_pair: bool, windows: list[Window]
) -> Iterator[tuple[AttentionMaps, dict[str, Expected]]]:
    """Yield the attention weights of each text and the expected positions by pattern; append its window."""
    for trace in traces:
        windows.append(trace.window)
        maps = trace.cross if is_pair else trace.maps()
        if not len(maps):
            raise SettingsError("this model has no attention weights", "use a transformer or a backpack")
        # The queries of cross-attention are compared as the tokens that they predict.
        tokens = (trace.targets.tokens, trace.source) if is_pair else (trace.tokens,)
        yield maps, {name: pattern(*tokens) for name, pattern in patterns.items()}


def _aligned(subject: Subject) -> Pattern:
    """Return the pattern of the source token with the largest translation probability for each target token."""
    lexicon = functools.cache(lambda: training_lexicon(subject))

    def aligned(target: Sequence[Token], source: Sequence[Token]) -> Expected:
        targets, sources = (np.array([token.id for token in tokens]) for tokens in (target, source))
        positions = lexicon().source_of(sources[:-1], targets[:-1]) if len(sources) > 1 else ()
        # The boundary tokens at the ends correspond to each other.
        return at([*enumerate(positions), (len(targets) - 1, len(sources) - 1)], target, source)

    return aligned
