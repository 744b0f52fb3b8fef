"""Fragments of HTML for notebooks."""

import math
import re
from html.parser import HTMLParser

from satchel.charts import html


class Page(HTMLParser):
    """Parses a fragment of HTML: its tags, styles and text. Every tag must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.styles: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style"}
        self.styles += [value or "" for _, value in attrs]
        self.open += [tag] if tag != "br" else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data}|"


def test_the_largest_value_has_the_strongest_tint_and_an_infinite_one_is_grey() -> None:
    page = Page(html.tinted(["a", "b", "c", "d"], [2.0, -1.0, 0.0, math.inf], ["1", "2", "3", "4"]))
    tints = re.findall(r"background:(rgba\([^)]*\))", ";".join(page.styles))
    assert tints == ["rgba(0,114,178,0.60)", "rgba(213,94,0,0.30)", "rgba(0,114,178,0.00)", "rgba(135,142,148,0.30)"]


def test_invisible_characters_are_spelled_out() -> None:
    page = Page(html.tinted([" ", "a b", "\u202e", "\n"], [0.0] * 4, [""] * 4))
    assert [part for part in page.text.split("|") if part] == ["␣", "a b", "\\u{202e}", "\\n"]
    assert "br" in page.tags


def test_a_long_text_is_truncated_with_a_note() -> None:
    count = html.MAX_WORDS + 7
    page = Page(html.tinted(["w"] * count, [1.0] * count, ["1.0"] * count))
    assert page.text.count("w|") == html.MAX_WORDS
    assert "and 7 more" in page.text


def test_columns_of_numbers_are_aligned_right() -> None:
    page = html.table(["word", "value"], [["12", "+1.5"], ["a", "-3"]])
    assert re.findall(r"text-align:(\w+)", page) == ["left", "right"] * 3
