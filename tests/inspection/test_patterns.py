"""Does a map make sense? How much of it is where one would expect it, beside what chance would give."""

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
    maps: Any = OneHead(weights_TS)
    return next(iter(rank([(maps, {"pattern": expected_TS})], causal=causal)), None)


def uniform(times: int, *, causal: bool) -> Any:
    weights = np.tri(times) if causal else np.ones((times, times))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", PATTERNS)
def test_who_looks_everywhere_scores_at_chance(name: str, causal: bool) -> None:
    found = fit(uniform(len(SENTENCE), causal=causal), PATTERNS[name](SENTENCE), causal=causal)
    if name == "next" and causal:
        assert found is None
        return
    assert found is not None
    assert 0 < found.chance < 1
    assert found.weight == pytest.approx(found.chance)
    assert found.hits == pytest.approx(found.chance)


@pytest.mark.parametrize("name", PATTERNS)
def test_who_looks_where_it_is_expected_scores_one_and_who_never_does_nothing(name: str) -> None:
    places = PATTERNS[name](SENTENCE)
    asked = np.asarray(places.any(axis=1))
    right = np.where(places, 1 / np.maximum(1, places.sum(axis=1, keepdims=True)), 0)
    found = fit(right, places)
    assert found is not None
    assert found.weight == pytest.approx(1)
    assert (found.hits, found.queries) == (1, int(asked.sum()))
    other = ~places
    wrong = other / other.sum(axis=1, keepdims=True)
    assert fit(wrong, places) == replace(found, weight=0, hits=0)


@pytest.mark.item(95)
def test_a_map_is_scored_by_hand() -> None:
    map_TS = np.array([[1, 0, 0], [0.25, 0.75, 0], [0.5, 0.2, 0.3]])
    places = np.array([[0, 0, 1], [1, 0, 0], [1, 1, 0]], bool)
    # The first query may not see what it is expected to look at, and does not count.
    found = fit(map_TS, places, causal=True)
    assert found is not None
    assert found.queries == 2
    assert found.weight == pytest.approx((0.25 + 0.7) / 2)
    assert found.hits == 0.5
    assert found.chance == pytest.approx((1 / 2 + 2 / 3) / 2)
    seen = fit(map_TS, places)
    assert seen is not None
    assert seen.queries == 3
    assert seen.weight == pytest.approx(0.95 / 3)
    assert fit(map_TS, np.zeros((3, 3), bool)) is None


def told(places: Expected) -> list[tuple[int, int]]:
    return [(int(query), int(key)) for query, key in np.argwhere(places)]


def test_patterns_say_where_to_look() -> None:
    tokens = tuple("abab")
    found = {name: told(pattern(tokens)) for name, pattern in patterns.GENERAL.items()}
    assert found == {
        "same": [(0, 2), (1, 3), (2, 0), (3, 1)],
        "earlier": [(2, 0), (3, 1)],
        "new": [(0, 0), (1, 1)],
        "self": [(0, 0), (1, 1), (2, 2), (3, 3)],
        "previous": [(1, 0), (2, 1), (3, 2)],
        "next": [(0, 1), (1, 2), (2, 3)],
        "first": [(0, 0), (1, 0), (2, 0), (3, 0)],
    }
    assert told(patterns.same("ab", "cab")) == [(0, 1), (1, 2)]
    words = ["<start>", *SENTENCE]
    assert {name: [tuple(words[place] for place in pair) for pair in told(PATTERNS[name](words))]
            for name in ("subject", "object", "referent")} == {
        "subject": [("greeted", "queen")],
        "object": [("greeted", "uncle"), ("saw", "uncle")],
        "referent": [("him", "uncle"), ("they", "twins")],
    }  # fmt: skip
    for pattern in PATTERNS.values():
        assert pattern(()).shape == (0, 0)


# --- heads ---------------------------------------------------------------------------------------------

TEXTS = ((10, 3, 1, 4, 1, 5), (10, 9, 2, 9))


def traced(name: str) -> list[Trace]:
    network = LanguageNetwork(make(name)).eval()
    return [Trace([str(id_) for id_ in ids], network, text_batch(network, np.array(ids))) for ids in TEXTS]


@pytest.mark.parametrize("name", ["usual", "wide", "backpack"])
def test_heads_are_ranked_over_all_queries_of_all_texts(name: str) -> None:
    traces = traced(name)
    asked = ("previous", "same")
    rows = rank(
        [(trace.attention, {name: PATTERNS[name](trace.tokens) for name in asked}) for trace in traces], causal=True
    )
    layers = len(traces[0].attention)
    assert [row.pattern for row in rows] == ["previous"] * 3 * layers + ["same"] * 3 * layers
    for pattern in asked:
        own = [row for row in rows if row.pattern == pattern]
        assert [row.weight for row in own] == sorted((row.weight for row in own), reverse=True)
        assert {(row.layer, row.head) for row in own} == {(la, he) for la in range(layers) for he in range(3)}
    best = rows[0]
    weights = [
        trace.attention[best.layer, best.head][t, t - 1] for trace in traces for t in range(1, len(trace.tokens))
    ]
    assert best.queries == len(weights) == 8
    assert best.weight == pytest.approx(np.mean(weights))
    # No map is kept that nobody asked for.
    assert not [site for trace in traced(name) for site in trace._values if site.endswith("weights")]


def test_one_layer_is_there_at_a_time() -> None:
    (trace, _) = traced("usual")
    kept = []

    class Watched(dict[str, Expected]):
        def items(self) -> Any:
            kept.append([name for name in trace._values if name.endswith("weights")])
            return super().items()

    rank([(trace.attention, Watched(self=PATTERNS["self"](trace.tokens)))])
    assert len(kept) == 6
    assert all(len(names) <= 1 for names in kept)
    assert not [name for name in trace._values if name.endswith("weights")]


def test_a_pattern_of_another_size_is_told() -> None:
    trace = traced("usual")[0]
    with pytest.raises(SettingsError, match=r"shape \(2, 2\); expected \(6, 6\)"):
        rank([(trace.attention, {"odd": np.ones((2, 2), bool)})])


# --- models --------------------------------------------------------------------------------------------

SMALL: dict[str, Any] = {"model.width": 16, "model.layers": 2, "model.heads": 2, "model.context": 16}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("patterns")
    (path / "text.txt").write_text("the cat sat on the mat and the dog sat on the cat\n" * 40)
    (path / "rows.tsv").write_text("label\ttext\n" + "good\tthe cat sat\nbad\tthe dog ran\n" * 20)
    return path


@pytest.mark.parametrize(
    ("data", "model"),
    [("text.txt", "transformer"), ("text.txt", "backpack"), ("rows.tsv", "transformer"), ("rows.tsv", "backpack")],
)
def test_every_model_with_heads_can_be_asked(folder: Path, data: str, model: str) -> None:
    asked = satchel.train(
        folder / data, model=model, tokenizer="word", steps=2, settings=SMALL, out=folder / "run", force=True
    )
    found = asked.patterns(["the cat sat on the cat", "the dog sat"])
    names = list(dict.fromkeys(row.pattern for row in found.rows))
    # What comes later is seen by those who label.
    assert ("next" in names) == (data == "rows.tsv")
    assert len(found.rows) == len(names) * 4
    assert found.texts == 2
    assert found.best("same") == next(row for row in found.rows if row.pattern == "same")

    def after_the(tokens: Sequence[str]) -> Expected:
        return patterns.at([(place, place - 1) for place, word in enumerate(tokens) if word == "cat"], tokens)

    own = asked.patterns(["the cat sat on the cat"], {"after the": after_the})
    assert {(row.pattern, row.queries) for row in own.rows} == {("after the", 2)}
    trace = asked.trace("the cat sat on the cat")
    best = own.rows[0]
    places = after_the(trace.tokens)
    expected = fit(trace.attention[best.layer, best.head], places, causal=data == "text.txt")
    assert expected is not None
    assert best == replace(expected, layer=best.layer, head=best.head, pattern="after the")


def test_a_translator_is_asked_where_in_the_source_it_looks(folder: Path) -> None:
    settings = {**SMALL, "data.size": 200, "model.context": 32}
    model = satchel.train("@reverse", steps=2, settings=settings, out=folder / "pairs")
    found = model.patterns([("abcde", "edcba"), "abc"])
    assert {row.pattern for row in found.rows} == {"same", "aligned"}
    one = model.patterns([("abcde", "edcba")])
    # All letters, and of what is most likely of what also the end.
    assert {(row.pattern, row.queries) for row in one.rows} == {("same", 6), ("aligned", 6)}
    assert one.best("same").weight == pytest.approx(one.best("aligned").weight)
    backwards = model.patterns(
        [("aabca", "acbaa")],
        {"backwards": lambda written, source: np.eye(6, dtype=bool)[[4, 3, 2, 1, 0, 5]]},
    )
    assert {row.queries for row in backwards.rows} == {6}
    with pytest.raises(SettingsError, match=r"unknown pattern previous\nexpected some of same, aligned"):
        model.patterns(["abc"], ["previous"])


def test_what_cannot_be_asked_is_told(folder: Path) -> None:
    model = satchel.train(
        folder / "text.txt", model="transformer", tokenizer="word", steps=1, settings=SMALL, out=folder / "one"
    )
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
    counted = satchel.train(folder / "text.txt", model="ngram", tokenizer="word", out=folder / "counted")
    with pytest.raises(SettingsError, match="no attention weights"):
        counted.patterns(["the cat"])


# --- what trained heads do -------------------------------------------------------------------------------


def strings(count: int) -> list[str]:
    return [text for _, text in DATASETS["@counting"].generator(DataSettings(size=10 * count), 0, "test")]


def beside(found: Patterns, row: HeadFit, pattern: str) -> HeadFit:
    """Return how the same head fits another pattern."""
    return next(each for each in found.rows if (each.layer, each.head, each.pattern) == (row.layer, row.head, pattern))


def test_heads_that_count_are_found(tmp_path: Path) -> None:
    settings = {"data.size": 5000, "data.valid": 0, "model.heads": 2}
    model = satchel.train("@counting", recipe="counting", steps=150, settings=settings, out=tmp_path / "run")
    found = model.patterns(strings(40))
    for name, times in (("same", 2.5), ("earlier", 3.5), ("new", 4)):
        assert found.best(name).weight > times * found.best(name).chance
    # Where a letter stands matters little: what it is does.
    for name in ("previous", "next"):
        assert found.best(name).weight < 1.5 * found.best(name).chance
    # A letter that was not there before looks at itself more than at any other, most of the time.
    assert found.best("new").hits > 0.5


@pytest.mark.item(37, 95)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_first_v_attends_to_itself_and_the_next_to_one_before(tmp_path: Path) -> None:
    settings = {"data.size": 20_000, "training.evaluate_every": 1000}
    model = satchel.train(
        "@counting", recipe="counting", steps=500, settings=settings, out=tmp_path / "run", task="tag"
    )
    assert model.report is not None
    assert getattr(model.report.valid, "accuracy", 0) > 0.99
    found = model.patterns(strings(100))
    new = found.best("new")
    assert new.weight > 6 * new.chance
    assert new.hits > 0.85
    # The same head looks at itself less often where the letter stood before.
    own = beside(found, new, "self")
    assert (own.hits * own.queries - new.hits * new.queries) / (own.queries - new.queries) < 0.5
    assert found.best("earlier").hits > 0.6

    def first_v(tokens: Sequence[str]) -> Expected:
        return np.asarray(patterns.new(tokens) & (np.array(tokens) == "v"))

    def next_v(tokens: Sequence[str]) -> Expected:
        return np.asarray(patterns.earlier(tokens) & (np.array(tokens) == "v")[:, None])

    texts = [text for text in strings(6000) if text.count("v") > 1]
    assert len(texts) > 20
    found = model.patterns(texts, {"first v": first_v, "next v": next_v})
    assert found.best("first v").hits > 0.7
    assert found.best("next v").hits > 0.7


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_heads_find_subject_object_and_referents(tmp_path: Path) -> None:
    model = satchel.train("@roles", recipe="roles", out=tmp_path / "run", task="lm")
    assert model.evaluate().nats_per_token / np.log(2) < roles.entropy_per_word() + 0.02
    (_, lines), *_ = DATASETS["@roles"].generator(DataSettings(size=1000), 0, "test")
    found = model.patterns(lines.splitlines(), ["subject", "object", "referent"])
    for name in ("subject", "object"):
        assert found.best(name).weight > 0.5 > 4 * found.best(name).chance
        assert found.best(name).hits > 0.9
    # Pronouns of two kinds may be the work of two heads.
    assert found.best("referent").weight > 4 * found.best("referent").chance
    costs = {(row.layer, row.head): row.cost for row in model.head_costs().rows}
    best = found.best("object")
    assert costs[best.layer, best.head] > 0.01
