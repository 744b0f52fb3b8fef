"""Stop strings: the text does not depend on its division into tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.generation.stopping import EndOfDocument, StopStrings, TokenLimit


def stopped(stops: list[str], parts: list[str]) -> tuple[str, bool]:
    """Return the released text of a continuation, and whether a stop string ended it."""
    condition = StopStrings(stops)
    for part in parts:
        if condition(0, part) == "stop":
            return "".join(condition.released), True
        assert not any(stop in "".join(condition.released) for stop in stops if stop)
    condition.finish()
    return "".join(condition.released), False


def reference(stops: list[str], text: str) -> tuple[str, bool]:
    """Return the text before the stop string that is complete first; of several, before the longest."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if complete:
            return text[: end - max(map(len, complete))], True
    return text, False


@pytest.mark.parametrize(
    ("stops", "parts", "text", "is_stopped"),
    [
        (["\n\n"], ["a\n", "\nb"], "a", True),
        (["end"], ["the e", "n", "d."], "the ", True),
        (["end"], ["the en", "ough"], "the enough", False),
        (["abc", "b"], ["abc"], "a", True),
        (["abc", "bc"], ["x", "ab", "c"], "x", True),
        (["aab"], ["a", "a", "a", "b"], "a", True),
        (["stop", "top"], ["st", "op"], "", True),
        (["xyz", ""], ["xy"], "xy", False),
    ],
)
def test_stop_strings_across_tokens(stops: list[str], parts: list[str], text: str, is_stopped: bool) -> None:
    assert stopped(stops, parts) == (text, is_stopped)


@given(
    st.lists(st.text("abc", max_size=4), max_size=4),
    st.lists(st.text("abc", max_size=3), max_size=8),
)
def test_the_text_ends_before_the_first_complete_stop_string(stops: list[str], parts: list[str]) -> None:
    assert stopped(stops, parts) == reference(stops, "".join(parts))


def test_text_that_cannot_belong_to_a_stop_string_is_released_at_once() -> None:
    condition = StopStrings(["end", "no way"])
    condition(0, "the e")
    assert condition.released == ["the "]
    condition(0, "x no")
    assert condition.released == ["the ", "ex "]


def test_the_boundary_and_the_number_of_tokens_end_a_continuation() -> None:
    assert [EndOfDocument(7)(id_, "") for id_ in (6, 7)] == [None, "end"]
    limit = TokenLimit(2)
    assert [limit(0, ""), limit(0, "")] == [None, "length"]
