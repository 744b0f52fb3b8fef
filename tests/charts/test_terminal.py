"""Pictures made of letters say the same with and without colours, and fit the terminal."""

import math

import pytest

from satchel.charts import terminal as drawing


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")


def test_a_map_has_a_shade_for_each_number_and_words_beside_and_above(capsys: pytest.CaptureFixture[str]) -> None:
    drawing.draw_map(["the", "cat"], ["the", "cat"], [[1.0, 0.0], [0.5, 0.25]])
    lines = capsys.readouterr().out.split("\n")
    assert lines[:3] == ["    t c", "    h a", "    e t"]
    assert lines[3] == "the ██  "
    assert lines[4] == "cat ▒▒░░"


def test_what_takes_away_looks_other_than_what_adds_even_without_colours(capsys: pytest.CaptureFixture[str]) -> None:
    drawing.draw_map(["a"], ["x", "y", "z"], [[1.0, -1.0, math.nan]], signed=True)
    assert capsys.readouterr().out.split("\n")[1] == "a ██⠿⠿??"


def test_more_columns_than_fit_come_in_parts_and_none_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    drawing.draw_map(["row"], [str(number % 10) for number in range(130)], [[1.0] * 130])
    out = capsys.readouterr().out
    assert out.count("█") == 130
    assert max(map(len, out.split("\n"))) <= 60
    assert len([line for line in out.split("\n") if line.startswith("row")]) == 3


def test_names_that_cannot_be_seen_are_spelled_out_and_long_ones_cut(capsys: pytest.CaptureFixture[str]) -> None:
    drawing.draw_map(["\u202eabc", "x" * 50, " a"], ["\n"], [[1.0], [1.0], [1.0]])
    out = capsys.readouterr().out
    assert "\u202e" not in out
    assert "\\u{202e}abc" in out
    assert "x" * 17 + "…" in out
    assert "␣a" in out


def test_words_stand_above_their_numbers_in_lines_that_fit(capsys: pytest.CaptureFixture[str]) -> None:
    drawing.draw_strip(["the", "cat"] * 10, [1.0, 2.0] * 10, ["1.0", "2.0"] * 10)
    lines = [line for line in capsys.readouterr().out.split("\n") if line]
    assert all(len(line) <= 60 for line in lines)
    assert sum(line.count("cat") for line in lines) == sum(line.count("2.0") for line in lines) == 10
    assert lines[0].index("cat") == lines[1].index("2.0")


def test_words_of_two_columns_do_not_move_what_stands_below(capsys: pytest.CaptureFixture[str]) -> None:
    drawing.draw_strip(["猫猫猫猫", "cat"], [1.0, 2.0], ["1.0", "2.0"])
    upper, lower = capsys.readouterr().out.split("\n")[:2]
    assert upper == "猫猫猫猫 cat "
    assert lower.index("2.0") == 9  # four letters of two columns each, and a space


def test_a_curve_tells_its_ends_and_its_lowest_point(capsys: pytest.CaptureFixture[str]) -> None:
    drawing.draw_curve([(0, 4.0), (10, 2.0), (20, 3.0)], "bits per byte")
    bars, told = capsys.readouterr().out.split("\n")[:2]
    assert bars.strip() == "█▁▅"
    assert told.strip() == "bits per byte: 4.0000 at 0, 3.0000 at 20; lowest 2.0000 at 10"


def test_points_stand_where_they_are_and_none_hides_another(capsys: pytest.CaptureFixture[str]) -> None:
    drawing.draw_points([("left", 0, 1), ("right", 1, 0), ("hidden", 0.01, 1)], height=3)
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == "left"
    assert lines[2].strip() == "right"
    assert len(lines[2]) > 40
    assert lines[3] == "(1 that would stand over others are left out)"
