"""Charts made of characters are legible with and without colours, and fit the terminal."""

import math

import pytest

from satchel.charts import terminal


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")


def test_a_heat_map_has_a_shade_for_each_number_and_labels_beside_and_above() -> None:
    lines = terminal.heatmap(["the", "cat"], ["the", "cat"], [[1.0, 0.0], [0.5, 0.25]]).plain.split("\n")
    assert lines[:3] == ["    t c", "    h a", "    e t"]
    assert lines[3] == "the ██  "
    assert lines[4] == "cat ▒▒░░"


def test_negative_values_differ_from_positive_ones_without_colours() -> None:
    drawn = terminal.heatmap(["a"], ["x", "y", "z"], [[1.0, -1.0, math.nan]], signed=True)
    assert drawn.plain.split("\n")[1] == "a ██⠿⠿??"


def test_columns_that_do_not_fit_continue_below() -> None:
    drawn = terminal.heatmap(["row"], [str(number % 10) for number in range(130)], [[1.0] * 130]).plain
    assert drawn.count("█") == 130
    assert max(map(len, drawn.split("\n"))) <= 60
    assert len([line for line in drawn.split("\n") if line.startswith("row")]) == 3


def test_invisible_characters_in_labels_are_escaped_and_long_labels_cut() -> None:
    drawn = terminal.heatmap(["\u202eabc", "x" * 50, " a"], ["\n"], [[1.0], [1.0], [1.0]]).plain
    assert "\u202e" not in drawn
    assert "\\u{202e}abc" in drawn
    assert "x" * 17 + "…" in drawn
    assert "␣a" in drawn


def test_words_of_a_strip_stand_above_their_notes_in_lines_that_fit() -> None:
    lines = terminal.strip(["the", "cat"] * 10, [1.0, 2.0] * 10, ["1.0", "2.0"] * 10).plain.split("\n")
    assert all(len(line) <= 60 for line in lines)
    assert sum(line.count("cat") for line in lines) == sum(line.count("2.0") for line in lines) == 10
    assert lines[0].index("cat") == lines[1].index("2.0")


def test_wide_characters_count_as_two_columns() -> None:
    upper, lower = terminal.strip(["猫猫猫猫", "cat"], [1.0, 2.0], ["1.0", "2.0"]).plain.split("\n")
    assert upper == "猫猫猫猫 cat "
    assert lower.index("2.0") == 9  # four characters of two columns each, and a space


def test_words_are_tinted_by_sign_and_separated_if_the_tokenizer_dropped_the_spaces() -> None:
    text = terminal.tinted_text(["good", "film", "bad"], [2.0, 0.1, -2.0])
    assert text.plain == "good film bad"
    assert [text.plain[span.start : span.end] for span in text.spans if span.style] == ["good", "bad"]
    assert len({span.style for span in text.spans if span.style}) == 2
    assert terminal.tinted_text([" un", "believable"], [1.0, 1.0]).plain == " unbelievable"


def test_a_curve_states_its_ends_and_its_lowest_point() -> None:
    bars, summary = terminal.curve([(0, 4.0), (10, 2.0), (20, 3.0)], "bits per byte").split("\n")
    assert bars.strip() == "█▁▅"
    assert summary.strip() == "bits per byte: 4.0000 at 0, 3.0000 at 20; lowest 2.0000 at 10"
    assert terminal.curve([(0, 4.0)], "bits per byte").strip() == "bits per byte: 4.0000 at 0"


def test_a_scatter_plot_omits_labels_that_would_overlap() -> None:
    lines = terminal.scatter([("left", 0, 1), ("right", 1, 0), ("hidden", 0.01, 1)], height=3).split("\n")
    assert lines[0] == "left"
    assert lines[2].strip() == "right"
    assert len(lines[2]) > 40
    assert lines[3] == "(1 overlapping labels not shown)"
