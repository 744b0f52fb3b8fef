"""Charts show all labels and values, at any size."""

import json
import re
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from satchel import charts
from satchel.charts import strips
from satchel.charts.arrays import pooled, rounded
from satchel.charts.figures import Figure
from satchel.charts.labels import full_text, label
from satchel.charts.palette import LIGHT, rgb
from tests.charts.charts import OF_WORDS, OTHERS, WORDS, maps, numbers, texts, weights

# Charts that show spaces as spaces: running text, words, and names of runs.
WITHOUT_MARKS = ("surprise_strip", "order_strip", "alignment", "signed alignment", "comparison", "training_curves")


@pytest.mark.parametrize("name", OF_WORDS)
def test_a_chart_of_words_contains_every_word_and_its_title(name: str) -> None:
    figure = OF_WORDS[name](WORDS)
    written = texts(figure.svg())
    assert figure.title in " ".join(written)
    for word in WORDS:
        shown = word if name in WITHOUT_MARKS else label(word)
        assert sum(text.startswith(shown.strip()) for text in written) >= WORDS.count(word)


@pytest.mark.parametrize("name", OTHERS)
def test_a_chart_contains_its_title_and_its_labels(name: str) -> None:
    make, expected = OTHERS[name]
    figure = make()
    written = texts(figure.svg())
    assert figure.title in " ".join(written)
    assert all(text in written for text in expected), (expected, written)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "name", ["attention_map", "heads_grid", "head_lines", "surprise_strip", "curves", "embedding_map"]
)
def test_values_that_are_not_finite_can_be_drawn(name: str, bad: float) -> None:
    values = weights(5, 5)
    values[2, 3] = bad
    figure = {
        "attention_map": lambda: charts.attention_map(WORDS, WORDS, values),
        "heads_grid": lambda: charts.heads_grid(WORDS, WORDS, {(0, 0): values}),
        "head_lines": lambda: charts.head_lines(WORDS, WORDS, {(0, 0): values}),
        "surprise_strip": lambda: charts.surprise_strip(WORDS, values[2]),
        "curves": lambda: charts.training_curves({"a": list(enumerate(values[2]))}, bad),
        "embedding_map": lambda: charts.embedding_map(WORDS, values[:, 2:4]),
    }[name]()
    json.dumps(figure.spec(), allow_nan=False)
    svg = figure.svg()
    assert "NaN" not in svg
    assert "Infinity" not in svg


def test_cells_without_a_finite_value_are_grey() -> None:
    assert charts.attention_map(WORDS, WORDS, np.full((5, 5), -np.inf)).svg().count(f'fill="{LIGHT.rule2}"') == 25


@pytest.mark.parametrize("name", ["attention_map", "attention_maps", "head_lines", "sense_weights", "embedding_map"])
def test_a_chart_without_words_is_empty(name: str) -> None:
    assert OF_WORDS[name]([]).svg().startswith("<svg")


def test_a_shape_that_differs_from_the_labels_raises_an_error() -> None:
    with pytest.raises(ValueError, match=r"values have shape \(5, 4\), expected \(5, 5\)"):
        charts.attention_map(WORDS, WORDS, weights(5, 4))
    with pytest.raises(ValueError, match="4 values for 5 tokens"):
        charts.surprise_strip(WORDS, [1.0] * 4)


# --- values --------------------------------------------------------------------------------------------


def test_pooling_keeps_the_maximum_of_each_block() -> None:
    values = np.array([[1.0, 2.0, 3.0], [4.0, np.nan, -7.0], [0.5, -9.0, np.nan]])
    np.testing.assert_array_equal(pooled(values, 2), [[4.0, 3.0], [0.5, np.nan]])
    np.testing.assert_array_equal(pooled(values, 2, signed=True), [[4.0, -7.0], [-9.0, np.nan]])
    assert pooled(values, 3) is values


def test_values_are_rounded_to_five_digits() -> None:
    assert rounded([[1 / 3, 1e-9], [np.nan, np.inf]]) == [[0.33333, 0.0], [None, None]]
    assert rounded([-123456.789, 2.0]) == [-123460.0, 0.0]
    assert rounded([0.0, 1e-320, 1e308]) == [0.0, 0.0, pytest.approx(1e308)]
    assert rounded([1e-320]) == [0.0]
    assert rounded(2 / 3) == 0.66667


def test_a_long_text_is_pooled_and_the_note_says_so() -> None:
    words = [f"w{place}" for place in range(400)]
    values = np.zeros((400, 400), np.float32)
    values[301, 4] = 0.75
    figure = charts.attention_map(words, words, values)
    (record,) = _tables(figure.spec())
    side = 134  # blocks of 3
    assert len(record["value"]) == side**2
    assert record["value"][100 * side + 1] == 0.75
    svg = figure.svg()
    assert len(svg) < 200_000  # what is zero is not drawn
    written = texts(svg)
    assert "400 x 400 values; each cell shows the maximum of a block of 3 x 3" in written
    assert {"w3", "w399"} <= set(written)
    assert not {"w1", "w2"} & set(written)


def _tables(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return next(rows for rows in spec["datasets"].values() if rows and "value" in rows[0])


def test_the_maps_of_a_grid_are_pooled_and_consumed_one_at_a_time() -> None:
    alive: list[weakref.ref[npt.NDArray[np.float32]]] = []
    most = 0

    def one_by_one() -> Iterator[tuple[tuple[int, int], npt.NDArray[np.float32]]]:
        nonlocal most
        for place in range(12):
            made = np.tril(np.full((300, 300), 1 / 300, np.float32))
            alive.append(weakref.ref(made))
            most = max(most, sum(each() is not None for each in alive))
            yield (place // 4, place % 4), made

    words = [f"w{place}" for place in range(300)]
    figure = charts.heads_grid(words, words, one_by_one())
    assert most <= 2
    tables = _tables(figure.spec())
    assert len(tables) == 12
    assert {len(table["value"]) for table in tables} == {30**2}


def test_means_over_layers_and_heads_can_be_selected() -> None:
    weights_by_head = maps(5)
    tables = {
        (table["layer"], table["head"]): table["value"]
        for table in _tables(charts.attention_maps(WORDS, WORDS, weights_by_head).spec())
    }
    assert len(tables) == 3 * 4
    for name, chosen in {
        ("mean over layers", "mean over heads"): list(weights_by_head.values()),
        ("layer 1", "mean over heads"): [weights_by_head[1, head] for head in range(3)],
        ("mean over layers", "head 2"): [weights_by_head[layer, 2] for layer in range(2)],
        ("layer 1", "head 2"): [weights_by_head[1, 2]],
    }.items():
        np.testing.assert_allclose(tables[name], np.mean(chosen, axis=0).reshape(-1), atol=2e-5)
    assert "layer 0, head 0" in texts(charts.attention_maps(WORDS, WORDS, weights_by_head).svg())
    assert "layer 1, head 2" in texts(charts.attention_maps(WORDS, WORDS, weights_by_head, shown=(1, 2)).svg())
    mean = charts.attention_maps(WORDS, WORDS, weights_by_head, shown=("mean over layers", "mean over heads"))
    assert "mean over layers, mean over heads" in texts(mean.svg())
    alone = texts(charts.attention_maps(WORDS, WORDS, {(4, 7): weights_by_head[0, 0]}).svg())
    assert "layer 4, head 7" in alone


def test_cells_are_at_the_positions_of_their_values() -> None:
    values = np.zeros((2, 3))
    values[1, 2] = 1.0
    svg = charts.attention_map(["a", "b"], ["x", "y", "z"], values).svg()
    # Cells are 26 wide and high.
    strongest = re.escape(f"rgb{rgb(LIGHT.sequential[7])}")
    assert re.findall(rf'd="M([0-9.,]+)h26v26h-26Z" fill="{strongest}"', svg) == ["52,26"]


def test_a_row_of_zeros_keeps_its_position_in_a_large_map() -> None:
    words = [f"w{place}" for place in range(60)]
    values = np.zeros((60, 60))
    values[59, 59] = 1.0  # all others are left to the ground
    written = texts(charts.attention_map(words, words, values).svg())
    assert [text for text in written if text.startswith("w")].count("w30") == 2


def test_small_weights_have_no_line() -> None:
    words = [f"w{place}" for place in range(120)]
    values = np.full((120, 120), 0.001)
    values[:, 0] = 0.5
    values[:, 5] = 0.2
    svg = charts.head_lines(words, words, {(0, 0): values}).svg()
    assert svg.count("<line") == 2 * 120


def test_the_first_row_of_a_causal_map_does_not_determine_the_colours() -> None:
    words, values = ["a", "b", "c"], np.array([[1.0, 0, 0], [0.8, 0.2, 0], [0.3, 0.3, 0.4]])
    figure = charts.attention_map(words, words, values)
    assert "0.8" in texts(figure.svg())
    assert any("first row" in line for line in texts(figure.svg()))
    # Both maps have their own scale.
    both = {(0, 0): values, (0, 1): np.tri(3) / np.tri(3).sum(axis=1, keepdims=True)}
    scales = next(
        each for each in charts.attention_maps(words, words, both).spec()["params"] if each["name"] == "largest"
    )
    assert scales["value"]["layer 0, head 0"] == pytest.approx(0.8)
    assert scales["value"]["layer 0, head 1"] == pytest.approx(0.5)
    assert "0.5" in texts(charts.attention_maps(words, words, both, shown=(0, 1)).svg())


def test_a_scale_that_is_not_linear_is_labelled() -> None:
    words = [f"w{place}" for place in range(60)]
    written = texts(charts.attention_map(words, words, weights(60, 60)).svg())
    assert "(square-root scale)" in written
    assert any("90% quantile" in line for line in written)
    assert "(scale: power 0.75)" in texts(charts.alignment(WORDS, WORDS, numbers(5, 5), signed=True).svg())
    assert "(square-root scale)" not in texts(charts.attention_map(WORDS, WORDS, weights(5, 5)).svg())


def test_lines_are_the_largest_weights_above_a_threshold_which_the_notes_state() -> None:
    words = [f"w{place}" for place in range(20)]
    figure = charts.head_lines(words, words, {(0, 0): np.tri(20) / np.tri(20).sum(axis=1, keepdims=True)})
    assert figure.svg().count("<line") == sum(min(3, row) for row in range(2, 11))  # weights of at least 0.1
    assert "the 3 largest weights of each query if at least 0.1;" in " ".join(texts(figure.svg()))


def test_a_grid_of_heads_has_token_labels() -> None:
    words = [f"word{place}" for place in range(20)]
    written = texts(charts.heads_grid(words, words, maps(20)).svg())
    assert sum(text.startswith("word") for text in written) >= 2 * 20
    assert {"layer 0", "layer 1", "head 0", "head 2"} <= set(written)


@pytest.mark.parametrize("name", ["attention_map", "head_lines", "logit_lens", "sense_contributions", "attribution"])
def test_repeated_words_are_distinguished_by_position(name: str) -> None:
    written = "".join(texts(OF_WORDS[name](["the", " cat", "the", " cat", " sat"]).svg()))
    assert "the₀" in written
    assert "the₂" in written
    assert "cat₃" in written
    assert "sat₄" not in written


# --- strips --------------------------------------------------------------------------------------------


def test_a_strip_is_wrapped_at_the_width_of_the_figure_and_at_line_breaks() -> None:
    words = ["one", " two", "\n", "three"]
    figure = charts.surprise_strip(words, [1.0, 2.0, 3.0, 4.0])
    lines = [record["line"] for record in next(iter(figure.spec()["datasets"].values()))]
    assert lines == [0, 0, 0, 1]
    long = charts.surprise_strip(["word "] * 60, np.ones(60))
    wide, narrow = (
        max(record["line"] for record in next(iter(long.spec(width=width)["datasets"].values())))
        for width in (800, 317)
    )
    assert narrow > wide > 0


def test_a_very_long_text_is_cut_and_the_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "MAX_TOKENS", 30)
    written = texts(charts.surprise_strip(["ab"] * 35, np.ones(35)).svg())
    assert "first 30 of 35 tokens" in written
    assert written.count("ab") == 30


# --- labels --------------------------------------------------------------------------------------------


def test_labels_show_invisible_characters() -> None:
    assert label(" a b") == "␣a␣b"
    assert label("\u00a0") == "␣"
    assert label("\n") == "\\n"
    assert label("\u0301") == "◌\u0301"
    assert label("x" * 100) == "x" * 23 + "…"
    assert full_text("x" * 100) == "x" * 100
    assert full_text("a b") == "a b"
    assert full_text(" a") == "␣a"


def test_tooltips_contain_the_full_text_of_a_cut_label() -> None:
    long = "unbelievably_long_identifier_that_does_not_end"
    spec = charts.attention_map([long], [long], [[1.0]]).spec()
    lists = {parameter["name"]: parameter["value"] for parameter in spec["params"]}
    assert lists["rows"] == [long[:23] + "…"]
    assert lists["full_rows"] == [long]


# --- other charts ------------------------------------------------------------------------------------


def test_labels_of_an_embedding_map_do_not_overlap() -> None:
    places = [[5.0, 5.0], [5.001, 5.0], [0.0, 0.0], [10.0, 10.0]]
    svg = charts.embedding_map(["first", "second", "third", "fourth"], places).svg()
    crowded = charts.embedding_map([f"word{place}" for place in range(200)], numbers(200, 2) ** 3)
    assert {"first", "second", "third", "fourth"} <= set(texts(svg))  # on either side of their points
    assert 20 < sum(text.startswith("word") for text in texts(crowded.svg())) < 150


def test_long_curves_are_sampled_and_values_without_a_logarithm_omitted() -> None:
    spec = charts.training_curves({"a": [(step, 1 / (1 + step)) for step in range(5000)]}).spec()
    (record,) = next(rows for rows in spec["datasets"].values() if "x" in rows[0])
    assert len(record["x"]) == 600
    assert (record["x"][0], record["x"][-1]) == (0, 4999)
    points = {"a": [(0, 1.0), (64, 0.0), (128, 2.0)]}
    spec = charts.line_chart(points, "length", "seconds", "Time", log_x=True, log_y=True).spec()
    (record,) = next(rows for rows in spec["datasets"].values() if "x" in rows[0])
    assert (record["x"], record["y"]) == ([128.0], [2.0])


def test_sense_weights_are_coloured_by_the_weight_of_each_word_and_sense() -> None:
    values = np.array([[0.25, 0.5], [0.75, 0.5]])
    figure = charts.sense_weights(["a", "b"], values)
    (record,) = _tables(figure.spec())
    assert record["value"] == [0.25, 0.5, 0.75, 0.5]
    written = texts(figure.svg())
    assert {"sense weight", "0.75"} <= set(written)
    assert "the weights of each sense sum to 1 over the words" in written


def test_contributions_have_totals_by_word_and_a_bias_outside_of_the_colour_scale() -> None:
    figure = charts.sense_contributions(["a", "b"], [[1.0, 2.0], [-4.0, 0.5]], "Title", bias=90.0, notes=["note"])
    spec = figure.spec()
    (record,) = _tables(spec)
    assert record["value"] == [3.0, 1.0, 2.0, -3.5, -4.0, 0.5, 90.0, None, None]
    assert record["text"] == ["+3.00", "", "", "-3.50", "", "", "+90.00", "", ""]
    assert {"total", "bias", "note", "4"} <= set(texts(figure.svg()))
    assert "90" not in texts(figure.svg())


def test_attributions_of_all_methods_have_one_colour_scale() -> None:
    figure = charts.attribution(["a", "b"], {"small": [0.5, -0.25], "large": [10.0, 20.0]}, notes=["gap 1 %"])
    (record,) = _tables(figure.spec())
    assert record["value"] == [0.5, 10.0, -0.25, 20.0]
    assert record["text"] == ["+0.50", "+10.00", "-0.25", "+20.00"]
    assert {"gap 1 %", "20"} <= set(texts(figure.svg()))


@pytest.mark.parametrize("count", [120, 4000])
def test_figures_of_long_texts_show_the_largest_values_and_the_sum_of_the_others(count: int) -> None:
    words = [f"w{place}" for place in range(count)]
    values = np.full((count, 16), 0.001)
    values[[3, count - 1], 5] = 9.0, -9.0
    shares = values.clip(0) / values.clip(0).sum(axis=0)
    figures = {
        "contributions": charts.sense_contributions(words, values, "Title", bias=1.0),
        "attribution": charts.attribution(words, {"exact": values[:, 5]}),
        "weights": charts.sense_weights(words, shares),
    }
    for name, figure in figures.items():
        svg = figure.svg()
        written = " ".join(texts(svg))
        assert float(re.findall(r'<svg[^>]* height="([0-9.]+)"', svg)[0]) < 1700, name
        assert f"59 of {count:,} words with the largest values" in written
        assert f"{count - 59:,} other words" in written
        assert "w3 " in written
        assert len(figure.html()) < 5_000_000
    (record,) = _tables(figures["contributions"].spec())
    sums = np.array(record["value"], float).reshape(-1, 17)[:-1].sum(axis=0)
    np.testing.assert_allclose(sums[1:], values.sum(axis=0), atol=0.01)


def test_a_lens_has_a_row_for_each_token_and_no_colour_without_a_next_token() -> None:
    figure = charts.logit_lens(
        ["a", "b"],
        ["first", "last"],
        [["p", "q"], ["r", "s"]],
        [[0.0, np.nan], [np.log(2), np.nan]],
        [[1, 0], [2, 0]],
        targets=["next"],
    )
    (record,) = _tables(figure.spec())
    assert record["text"] == ["p", "r", "q", "s"]
    assert record["value"] == [1.0, 0.5, None, None]
    assert record["tooltip rank of next token"][1] == "2"
    assert {"a → next", "b", "first", "last", "token → next token"} <= set(texts(figure.svg()))


def test_a_chart_of_patterns_states_how_many_heads_it_shows() -> None:
    scores = {"previous": {(layer, head): 0.1 for layer in range(4) for head in range(4)}}
    assert "top 10 of 16 heads of each pattern" in texts(charts.heads_by_pattern(scores).svg())
    many = {f"pattern {number}": scores["previous"] for number in range(20)}
    assert "top 4 of 16 heads of each pattern" in texts(charts.heads_by_pattern(many).svg())


def test_a_map_of_words_has_titles_of_axes_and_states_how_many_words_are_labelled() -> None:
    words = [f"word{place}" for place in range(400)]
    figure = charts.embedding_map(words, numbers(400, 2), axes=("PC 1 (60.0% of the variance)", "PC 2"))
    written = texts(figure.svg())
    assert "PC 1 (60.0% of the variance)" in written
    labelled = {text for text in written if text.startswith("word")}
    assert len(labelled) <= 150
    assert f"{len(labelled)} of 400 words are labelled, the first ones that do not overlap" in written


# --- long texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["attention_map", "head_lines", "logit_lens", "surprise_strip", "embedding_map"])
def test_the_figure_of_a_long_text_is_bounded(name: str) -> None:
    svg = OF_WORDS[name]([f"w{place}\n" for place in range(1000)]).svg()
    size = re.search(r'<svg[^>]* width="([0-9.]+)" height="([0-9.]+)"', svg)
    assert size
    assert float(size[1]) <= 1500
    assert float(size[2]) <= 2200


# --- tensors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_charts_accept_tensors_that_require_gradients(dtype: torch.dtype) -> None:
    weights_TS = torch.full((2, 2), 0.5, dtype=dtype, requires_grad=True)
    assert charts.attention_map(["a", "b"], ["a", "b"], weights_TS).spec()
    assert charts.surprise_strip(["a", "b"], weights_TS[0]).spec()
    assert charts.sense_contributions(["a", "b"], weights_TS, "title").spec()
    assert charts.attribution(["a", "b"], {"exact": weights_TS[0]}).spec()


def test_dot_products_by_distance_are_means_over_the_pairs_of_positions() -> None:
    vectors = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], requires_grad=True)
    (record,) = records_of(charts.dot_products_by_distance(vectors))
    assert record["x"] == [0, 1, 2]
    assert record["y"] == pytest.approx([7 / 3, 1.0, 1.0], rel=1e-4)
    (dense,) = records_of(charts.dot_products_by_distance({"a": torch.tensor([3.0, 2.0, 1.0])}))
    assert dense["y"] == [3.0, 2.0, 1.0]


def records_of(figure: Figure) -> list[dict[str, Any]]:
    """Return the data of a chart whose layers share them."""
    (records,) = figure.spec()["datasets"].values()
    assert isinstance(records, list)
    return records


def test_a_curve_is_pairs_or_values() -> None:
    with pytest.raises(ValueError, match=r"values have shape \(2, 3\), expected \(2, 2\)"):
        charts.line_chart({"a": np.ones((2, 3))}, "x", "y", "title")


def test_values_of_a_curve_and_names_of_baselines_do_not_overlap() -> None:
    figure = charts.training_curves({"run": [(100, 3.0), (300, 2.2), (310, 2.19)]}, 2.19)
    written = texts(figure.svg())
    assert "2.190" in written
    assert "2.200" not in written  # its label would overlap that of the last point
    assert "n-gram 2.19" in written
    near = charts.line_chart({"a": [(0, 1.0), (1, 0.5)]}, "x", "y", "title", baselines={"first": 0.7, "second": 0.701})
    assert "first, second 0.7" in texts(near.svg())
