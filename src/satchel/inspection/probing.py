"""Linear probes: the accuracy of tags predicted from the hidden states of each layer by a linear classifier.

The control task (Hewitt and Liang, 2019) assigns a random tag to each word type. A probe can only memorise these tags;
its selectivity is the accuracy on the real tags minus the accuracy on the control task.
Shapes: N words, D width, C tags, R rows.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.data.batches import Ints, seeded_rng, split_documents
from satchel.data.examples import class_indices
from satchel.data.splits import stratified_split
from satchel.data.tagged import Unit, infer_unit, split_tags, split_units, tokenize_tagged
from satchel.errors import DataError
from satchel.inspection.hidden_states import HiddenStates
from satchel.inspection.subject import Subject, json_fields
from satchel.predictor import Floats, Ids
from satchel.progress import Progress, silent
from satchel.text.columns import table_format
from satchel.text.reading import Corpus
from satchel.text.tables import read_tagged
from satchel.text.words import Word

# Fraction of the rows that is held out, and maximum number of tagged words.
HELD_OUT = 0.25
MAX_WORDS = 6_000
# Maximum number of L-BFGS iterations, and weight of the L2 penalty relative to the loss of one word.
ITERATIONS = 100
L2_PENALTY = 1.0

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LayerProbe:
    """Held-out accuracy of a linear probe at one layer, on the tags and on the control task."""

    layer: int
    site: str
    accuracy: float
    control: float

    @property
    def selectivity(self) -> float:
        """Accuracy minus the accuracy on the control task."""
        return self.accuracy - self.control


@dataclass(frozen=True)
class Baselines:
    """Held-out accuracy of the most frequent tag, and of the most frequent tag of each word."""

    majority: float
    by_word: float


@dataclass(frozen=True)
class ProbeResult:
    """Accuracy of linear probes at each layer of a network, with baselines.

    `words` and `rows` are the numbers of fitted and held-out ones; `unit` is the unit that a tag belongs to.
    """

    data: str
    unit: Unit
    tags: tuple[str, ...]
    words: tuple[int, int]
    rows: tuple[int, int]
    baselines: Baselines
    layers: tuple[LayerProbe, ...]
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the keys of `probe --json`."""
        return {
            **json_fields(self, "data", "unit", "tags"),
            "words": dict(zip(("fitted", "held_out"), self.words, strict=True)),
            "rows": dict(zip(("fitted", "held_out"), self.rows, strict=True)),
            **asdict(self.baselines),
            "layers": [{**asdict(each), "selectivity": each.selectivity} for each in self.layers],
            "notes": list(self.notes),
        }


# --- probes on vectors ----------------------------------------------------------------------------------


def probe_layers(
    layers: dict[str, Floats], words: Sequence[str], tags_N: Ints, held_out_N: Bools, seed: int
) -> tuple[LayerProbe, ...]:
    """Return the probe of each layer, given its word vectors (N, D)."""
    control_N = control_tags(words, tags_N, seed)
    return tuple(
        LayerProbe(number, site, *(accuracy(vectors_ND, each_N, held_out_N) for each_N in (tags_N, control_N)))
        for number, (site, vectors_ND) in enumerate(layers.items())
    )


def baselines(words: Sequence[str], tags_N: Ints, held_out_N: Bools) -> Baselines:
    """Return the accuracy on held-out words of predictions by counting the tags of the other words."""
    counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
    names_N = np.array(words, object)
    for word, tag in zip(names_N[~held_out_N], tags_N[~held_out_N].tolist(), strict=True):
        counts[word][tag] += 1
    majority = int(np.bincount(tags_N[~held_out_N]).argmax())
    by_word = {word: max(sorted(count), key=count.__getitem__) for word, count in counts.items()}
    predicted_N = np.array([by_word.get(word, majority) for word in names_N[held_out_N]], np.int64)
    return Baselines(*(float((tags_N[held_out_N] == prediction).mean()) for prediction in (majority, predicted_N)))


def control_tags(words: Sequence[str], tags_N: Ints, seed: int) -> Ints:
    """Return the tags of the control task: one random tag for each word type, with the frequencies of `tags_N`."""
    rng = seeded_rng("control", seed)
    by_type = {word: tags_N[rng.integers(0, len(tags_N))] for word in sorted(set(words))}
    return np.array([by_type[word] for word in words], np.int64)


def accuracy(vectors_ND: Floats, tags_N: Ints, held_out_N: Bools) -> float:
    """Return the accuracy on held-out words of a linear classifier that is fitted to the other words."""
    inputs_ND = torch.from_numpy(_standardised(vectors_ND, held_out_N))
    classes, fitted_N = np.unique(tags_N[~held_out_N], return_inverse=True)
    weights_DC, bias_C = _fit(inputs_ND[torch.from_numpy(~held_out_N)], torch.from_numpy(fitted_N), len(classes))
    logits_NC = inputs_ND[torch.from_numpy(held_out_N)] @ weights_DC + bias_C
    return float((classes[logits_NC.argmax(dim=1).numpy()] == tags_N[held_out_N]).mean())


def _standardised(vectors_ND: Floats, held_out_N: Bools) -> Floats:
    """Return vectors with mean 0 and standard deviation 1, so that the penalty acts equally on all layers."""
    exact = np.asarray(vectors_ND, np.float64)
    fitted = exact[~held_out_N]
    deviation = fitted.std(axis=0)
    return np.asarray((exact - fitted.mean(axis=0)) / np.where(deviation > 1e-12, deviation, 1.0))


def _fit(inputs_ND: Tensor, classes_N: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return weights and bias of multinomial logistic regression; the fit starts at zero and is deterministic."""
    weights_DC = torch.zeros(inputs_ND.shape[1], classes, dtype=torch.float64, requires_grad=True)
    bias_C = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weights_DC, bias_C], max_iter=ITERATIONS, history_size=10, tolerance_grad=1e-5, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        cross_entropy = F.cross_entropy(inputs_ND @ weights_DC + bias_C, classes_N)
        loss = cross_entropy + L2_PENALTY / (2 * len(inputs_ND)) * weights_DC.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    return weights_DC.detach(), bias_C.detach()


# --- probes of a model ----------------------------------------------------------------------------------


# The encoded ids of a text, and its tagged words.
_Row = tuple[Ids, list[Word]]


def probe(
    subject: Subject,
    corpus: Corpus,
    *,
    leave_out: Sequence[str] = (),
    seed: int = 0,
    progress: Progress = silent,
) -> ProbeResult:
    """Return the accuracy of linear probes at each layer of a model on a table of tagged texts."""
    states = HiddenStates(subject)
    if len(corpus.sources) != 1 or not table_format(corpus.sources[0].name):
        raise DataError("is not a table", "expected a .tsv, .csv or .jsonl file with texts and tags", where=corpus.name)
    rows, tags, unit, notes = _rows(states, corpus, leave_out)
    held_out_R = _held_out([ids for ids, _ in rows], seed)
    words = [word.text for _, row_words in rows for word in row_words]
    tags_N, names = class_indices(tags, ())
    held_out_N = np.repeat(held_out_R, [len(row_words) for _, row_words in rows])
    if len(names) < 2 or held_out_N.all() or not held_out_N.any():
        raise DataError(
            f"the table has {_count(len(rows), 'row')} with {_count(len(names), 'tag')}; expected 2 or more of each",
            "a probe is fitted to one part of the rows and evaluated on the rest",
            where=corpus.name,
        )
    progress("computing hidden states", None)
    layers = states.of_words(rows)
    progress("fitting probes", None)
    fitted_words, fitted_rows = (int((~mask).sum()) for mask in (held_out_N, held_out_R))
    return ProbeResult(
        corpus.name,
        unit,
        tuple(names),
        (fitted_words, len(held_out_N) - fitted_words),
        (fitted_rows, len(held_out_R) - fitted_rows),
        baselines(words, tags_N, held_out_N),
        probe_layers(layers, words, tags_N, held_out_N, seed),
        tuple(notes),
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _rows(
    states: HiddenStates, corpus: Corpus, leave_out: Sequence[str]
) -> tuple[list[_Row], list[str], Unit, list[str]]:
    """Return the rows of a table with at least one tagged word, the tags of all words, their unit, and notes."""
    table, tokenizer = list(read_tagged(corpus)), states.tokenizer
    if not table:
        raise DataError("the table has no rows; expected two or more", where=corpus.name)
    unit = infer_unit(table, tokenizer, corpus.name)
    tokens, positions_N = tokenize_tagged([row.text for row in table], tokenizer, unit)
    texts = split_documents(np.asarray(tokens.ids, np.int64), tokenizer.boundary)
    rows, tags, notes, truncated, omitted = list[_Row](), list[str](), list[str](), 0, 0
    for number, (row, start, stop) in enumerate(zip(table, texts.starts_R, texts.stops_R, strict=True), start=1):
        last_N = positions_N[slice(*np.searchsorted(positions_N, [start, stop]))] - start
        limit = stop - start if states.max_tokens is None else states.max_tokens
        # A tag belongs to the last token of its unit, and a unit to the tokens after the previous one.
        begins = [0, *(last_N + 1).tolist()][: len(last_N)]
        tagged = zip(
            split_units(row.text, unit, tokenizer), split_tags(row, unit), begins, last_N.tolist(), strict=True
        )
        kept = [each for each in tagged if each[3] < limit and each[1] not in leave_out]
        words = [Word(word, states.before + begin, states.before + last + 1) for word, _, begin, last in kept]
        if words:
            rows.append((states.framed(texts.ids[start:stop]), words))
            tags += [tag for _, tag, _, _ in kept]
        beyond = int((last_N >= limit).sum())
        truncated, omitted = truncated + bool(beyond), omitted + beyond
        if len(tags) >= MAX_WORDS and number < len(table):
            notes.append(f"only the first {number:,} of {len(table):,} rows are used")
            break
    if truncated:
        context = f"the context of {states.context:,} tokens"
        notes.insert(0, f"{_count(truncated, 'row')} longer than {context}: {_count(omitted, 'tag')} beyond it omitted")
    return rows, tags, unit, notes


def _held_out(texts: Sequence[Ids], seed: int) -> Bools:
    """Return which rows are held out. Rows with the same text are on the same side, so that no text is in both."""
    distinct: dict[bytes, int] = {}
    numbers_R = np.array([distinct.setdefault(text.tobytes(), len(distinct)) for text in texts], np.int64)
    return stratified_split(np.zeros(len(distinct), np.int64), HELD_OUT, seed)[numbers_R]
