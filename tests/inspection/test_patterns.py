"""Attention patterns: the weight of heads on expected positions, compared with uniform attention."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel.datasets import roles
from satchel.datasets.registry import DATASETS
from satchel.errors import DataError, SettingsError
from satchel.inspection import patterns
from satchel.inspection.patterns import PATTERNS, Expected, HeadFit, Patterns, rank
from satchel.inspection.trace import Trace, text_batch
from satchel.tasks.language import LanguageNetwork
from satchel.text.reading import DataSettings
from tests.inspection.conftest import count_ngrams, train
from tests.models.encoders import make

SENTENCE = (
    "the queen near the monk greeted her uncle beside the nuns and saw him rest with the twins before they slept"
).split()


class OneHead:
    """Attention weights of a model with one head."""

    def __init__(self, weights_TS: Any) -> None:
        self.weights_TS = weights_TS

    def each(self) -> Iterator[tuple[int, int, Any]]:
        yield 0, 0, self.weights_TS


def fit(weights_TS: Any, expected_TS: Expected, *, causal: bool = False) -> HeadFit | None:
    """Return the fit of one head; None if no expected position is visible."""
    maps: Any = OneHead(weights_TS)
    return next(iter(rank([(maps, {"pattern": expected_TS})], causal=causal)), None)


def uniform(times: int, *, causal: bool) -> Any:
    weights = np.tri(times) if causal else np.ones((times, times))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", PATTERNS)
def test_uniform_attention_scores_at_chance(name: str, causal: bool) -> None:
    result = fit(uniform(len(SENTENCE), causal=causal), PATTERNS[name](SENTENCE), causal=causal)
    if name == "next" and causal:
        assert result is None
        return
    assert result is not None
    assert 0 < result.chance < 1
    assert result.weight == pytest.approx(result.chance)
    assert result.hits == pytest.approx(result.chance)


@pytest.mark.parametrize("name", PATTERNS)
def test_attention_on_the_expected_positions_scores_one_and_elsewhere_zero(name: str) -> None:
    expected = PATTERNS[name](SENTENCE)
    right = fit(np.where(expected, 1 / np.maximum(1, expected.sum(axis=1, keepdims=True)), 0), expected)
    assert right is not None
    assert right.weight == pytest.approx(1)
    assert (right.hits, right.queries) == (1, int(expected.any(axis=1).sum()))
    wrong = fit(~expected / (~expected).sum(axis=1, keepdims=True), expected)
    assert wrong == replace(right, weight=0, hits=0)


@pytest.mark.item(95)
def test_the_fit_of_a_small_example() -> None:
    weights_TS = np.array([[1, 0, 0], [0.25, 0.75, 0], [0.5, 0.2, 0.3]])
    expected = np.array([[0, 0, 1], [1, 0, 0], [1, 1, 0]], bool)
    # The expected position of the first query is not visible, so this query does not count.
    result = fit(weights_TS, expected, causal=True)
    assert result is not None
    assert result.queries == 2
    assert result.weight == pytest.approx((0.25 + 0.7) / 2)
    assert result.hits == 0.5
    assert result.chance == pytest.approx((1 / 2 + 2 / 3) / 2)
    bidirectional = fit(weights_TS, expected)
    assert bidirectional is not None
    assert bidirectional.queries == 3
    assert bidirectional.weight == pytest.approx(0.95 / 3)
    assert fit(weights_TS, np.zeros((3, 3), bool)) is None


def positions_of(expected: Expected) -> list[tuple[int, int]]:
    return [(int(query), int(key)) for query, key in np.argwhere(expected)]


def test_patterns_return_the_expected_positions() -> None:
    tokens = tuple("abab")
    result = {name: positions_of(pattern(tokens)) for name, pattern in patterns.GENERAL.items()}
    assert result == {
        "same": [(0, 2), (1, 3), (2, 0), (3, 1)],
        "earlier": [(2, 0), (3, 1)],
        "new": [(0, 0), (1, 1)],
        "self": [(0, 0), (1, 1), (2, 2), (3, 3)],
        "previous": [(1, 0), (2, 1), (3, 2)],
        "next": [(0, 1), (1, 2), (2, 3)],
        "first": [(0, 0), (1, 0), (2, 0), (3, 0)],
    }
    assert positions_of(patterns.same("ab", "cab")) == [(0, 1), (1, 2)]
    words = ["<start>", *SENTENCE]
    assert {name: [tuple(words[place] for place in pair) for pair in positions_of(PATTERNS[name](words))]
            for name in ("subject", "object", "referent")} == {
        "subject": [("greeted", "queen")],
        "object": [("greeted", "uncle"), ("saw", "uncle")],
        "referent": [("him", "uncle"), ("they", "twins")],
    }  # fmt: skip
    for pattern in PATTERNS.values():
        assert pattern(()).shape == (0, 0)


# --- heads ----------------------------------------------------------------------------------------------

TEXTS = ((10, 3, 1, 4, 1, 5), (10, 9, 2, 9))


def traced(name: str) -> list[Trace]:
    network = LanguageNetwork(make(name)).eval()
    return [Trace([str(id_) for id_ in ids], network, text_batch(network, np.array(ids))) for ids in TEXTS]


def recorded_weights(trace: Trace) -> list[str]:
    return [site for site in trace._values if site.endswith("weights")]


@pytest.mark.parametrize("name", ["usual", "wide", "backpack"])
def test_heads_are_ranked_by_their_mean_weight_over_all_queries(name: str) -> None:
    traces = traced(name)
    names = ("previous", "same")
    rows = rank(
        [(trace.attention, {each: PATTERNS[each](trace.tokens) for each in names}) for trace in traces], causal=True
    )
    layers = len(traces[0].attention)
    assert [row.pattern for row in rows] == ["previous"] * 3 * layers + ["same"] * 3 * layers
    for pattern in names:
        group = [row for row in rows if row.pattern == pattern]
        assert [row.weight for row in group] == sorted((row.weight for row in group), reverse=True)
        assert {(row.layer, row.head) for row in group} == {(la, he) for la in range(layers) for he in range(3)}
    # Attention weights are discarded after use.
    assert not any(map(recorded_weights, traces))
    best = rows[0]
    weights = [
        trace.attention[best.layer, best.head][t, t - 1] for trace in traces for t in range(1, len(trace.tokens))
    ]
    assert best.queries == len(weights) == 8
    assert best.weight == pytest.approx(np.mean(weights))


def test_only_one_layer_is_in_memory_at_a_time() -> None:
    (trace, _) = traced("usual")
    recorded = []

    class Observed(dict[str, Expected]):
        def items(self) -> Any:
            recorded.append(recorded_weights(trace))
            return super().items()

    rank([(trace.attention, Observed(self=PATTERNS["self"](trace.tokens)))])
    assert len(recorded) == 6
    assert all(len(sites) <= 1 for sites in recorded)
    assert not recorded_weights(trace)


def test_a_pattern_of_another_shape_is_an_error() -> None:
    trace = traced("usual")[0]
    with pytest.raises(SettingsError, match=r"shape \(2, 2\); expected \(6, 6\)"):
        rank([(trace.attention, {"odd": np.ones((2, 2), bool)})])


# --- trained models -------------------------------------------------------------------------------------


def before_cat(tokens: Sequence[str]) -> Expected:
    """Return the position before each `cat`."""
    return patterns.at([(position, position - 1) for position, word in enumerate(tokens) if word == "cat"], tokens)


@pytest.mark.parametrize("kind", ["transformer", "backpack"])
@pytest.mark.parametrize("data", ["text.txt", "rows.tsv"])
def test_patterns_of_models_with_heads(folder: Path, data: str, kind: str) -> None:
    model = train(folder, data, model=kind, tokenizer="word")
    result = model.patterns(["the cat sat on the cat", "the dog sat"])
    names = list(dict.fromkeys(row.pattern for row in result.rows))
    # Classifiers also attend to later positions.
    assert ("next" in names) == (data == "rows.tsv")
    assert len(result.rows) == len(names) * 4
    assert result.texts == 2
    assert result.best("same") == next(row for row in result.rows if row.pattern == "same")
    custom = model.patterns(["the cat sat on the cat"], {"before cat": before_cat})
    assert {(row.pattern, row.queries) for row in custom.rows} == {("before cat", 2)}
    trace, best = model.trace("the cat sat on the cat"), custom.rows[0]
    expected = fit(trace.attention[best.layer, best.head], before_cat(trace.tokens), causal=data == "text.txt")
    assert expected is not None
    assert best == replace(expected, layer=best.layer, head=best.head, pattern="before cat")


def test_patterns_of_the_cross_attention_of_a_translator(folder: Path) -> None:
    model = train(folder, "@reverse", settings={"data.size": 200, "model.context": 32})
    assert {row.pattern for row in model.patterns([("abcde", "edcba"), "abc"]).rows} == {"same", "aligned"}
    result = model.patterns([("abcde", "edcba")])
    # The queries are the five letters and the boundary token.
    assert {(row.pattern, row.queries) for row in result.rows} == {("same", 6), ("aligned", 6)}
    assert result.best("same").weight == pytest.approx(result.best("aligned").weight)
    reverse = {"reverse": lambda target, source: np.eye(6, dtype=bool)[[4, 3, 2, 1, 0, 5]]}
    assert {row.queries for row in model.patterns([("aabca", "acbaa")], reverse).rows} == {6}
    with pytest.raises(SettingsError, match=r"unknown pattern previous\nexpected some of same, aligned"):
        model.patterns(["abc"], ["previous"])


def test_invalid_patterns_and_texts_are_errors(folder: Path) -> None:
    model = train(folder, model="transformer", tokenizer="word")
    with pytest.raises(SettingsError, match="unknown pattern odd\nexpected some of same, earlier"):
        model.patterns(["the cat"], ["same", "odd"])
    with pytest.raises(DataError, match="subject: no query"):
        model.patterns(["the cat the"], ["same", "subject"])
    with pytest.raises(DataError, match="next: no query"):
        model.patterns(["the cat the"], ["next"])
    with pytest.raises(DataError, match="expected a list"):
        model.patterns("the cat")
    with pytest.raises(SettingsError, match="unknown pattern referent"):
        model.patterns(["the cat the"]).best("referent")
    with pytest.raises(SettingsError, match="no attention weights"):
        count_ngrams(folder).patterns(["the cat"])


# --- patterns that training produces --------------------------------------------------------------------


def strings(count: int) -> list[str]:
    return [text for _, text in DATASETS["@counting"].generator(DataSettings(size=10 * count), 0, "test")]


def same_head(result: Patterns, row: HeadFit, pattern: str) -> HeadFit:
    """Return the fit of the same head to another pattern."""
    return next(each for each in result.rows if (each.layer, each.head, each.pattern) == (row.layer, row.head, pattern))


def test_a_trained_counting_model_has_heads_for_the_same_letter(tmp_path: Path) -> None:
    settings = {"data.size": 5000, "data.valid": 0, "model.heads": 2}
    model = satchel.train("@counting", recipe="counting", steps=150, settings=settings, out=tmp_path / "run")
    result = model.patterns(strings(40))
    for name, times in (("same", 2.5), ("earlier", 3.5), ("new", 4)):
        assert result.best(name).weight > times * result.best(name).chance
    # Positions matter less than letters.
    for name in ("previous", "next"):
        assert result.best(name).weight < 1.5 * result.best(name).chance
    # Most new letters have their largest attention weight on themselves.
    assert result.best("new").hits > 0.5


@pytest.mark.item(37, 95)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_first_v_attends_to_itself_and_later_ones_to_an_earlier_v(tmp_path: Path) -> None:
    settings = {"data.size": 20_000, "training.evaluate_every": 1000}
    model = satchel.train(
        "@counting", recipe="counting", steps=500, settings=settings, out=tmp_path / "run", task="tag"
    )
    assert model.report is not None
    assert getattr(model.report.valid, "accuracy", 0) > 0.99
    result = model.patterns(strings(100))
    new = result.best("new")
    assert new.weight > 6 * new.chance
    assert new.hits > 0.85
    # The same head attends less often to the position itself if the letter is repeated.
    own = same_head(result, new, "self")
    assert (own.hits * own.queries - new.hits * new.queries) / (own.queries - new.queries) < 0.5
    assert result.best("earlier").hits > 0.6

    def first_v(tokens: Sequence[str]) -> Expected:
        return np.asarray(patterns.new(tokens) & (np.array(tokens) == "v"))

    def next_v(tokens: Sequence[str]) -> Expected:
        return np.asarray(patterns.earlier(tokens) & (np.array(tokens) == "v")[:, None])

    texts = [text for text in strings(6000) if text.count("v") > 1]
    assert len(texts) > 20
    result = model.patterns(texts, {"first v": first_v, "next v": next_v})
    assert result.best("first v").hits > 0.7
    assert result.best("next v").hits > 0.7


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_trained_model_has_heads_for_subject_object_and_referent(tmp_path: Path) -> None:
    model = satchel.train("@roles", recipe="roles", out=tmp_path / "run", task="lm")
    assert model.evaluate().nats_per_token / np.log(2) < roles.entropy_per_word() + 0.02
    (_, lines), *_ = DATASETS["@roles"].generator(DataSettings(size=1000), 0, "test")
    result = model.patterns(lines.splitlines(), ["subject", "object", "referent"])
    for name in ("subject", "object"):
        assert result.best(name).weight > 0.5 > 4 * result.best(name).chance
        assert result.best(name).hits > 0.9
    # Different heads may serve different kinds of pronouns.
    assert result.best("referent").weight > 4 * result.best("referent").chance
    costs = {(row.layer, row.head): row.cost for row in model.head_costs().rows}
    best = result.best("object")
    assert costs[best.layer, best.head] > 0.01
