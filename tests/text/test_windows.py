"""Windows of the tokens of a text: the last ones by default, or those from a given position on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import SettingsError
from satchel.text.windows import Window, pair_notes, select_window, truncation_notes, whole_window


@given(st.integers(1, 50), st.one_of(st.none(), st.integers(1, 60)), st.one_of(st.none(), st.integers(0, 49)))
def test_a_window_has_at_most_as_many_tokens_as_the_context(total: int, context: int | None, start: int | None) -> None:
    if start is not None and start >= total:
        with pytest.raises(SettingsError, match=f"--start {start}: expected 0 to {total - 1}"):
            select_window(total, context, start)
        return
    window = select_window(total, context, start)
    assert 0 < window.tokens <= min(total, context or total)
    assert window.stop <= total
    assert window.start == (total - window.tokens if start is None else start)
    assert len(range(total)[window.part]) == window.tokens
    assert bool(window.notes) == (window.tokens < total)


def test_notes_name_the_tokens_that_are_used() -> None:
    assert select_window(1001, 128).notes == ("only tokens 873 to 1,000 of 1,001 are used (the first token is 0)",)
    assert select_window(3, 1).notes == ("only token 2 of 3 is used (the first token is 0)",)
    assert whole_window(7).notes == ()
    assert pair_notes(Window(0, 2, 3), whole_window(4)) == (
        "source: only tokens 0 to 1 of 3 are used (the first token is 0)",
    )


def test_truncated_texts_are_counted() -> None:
    windows = [select_window(length, 8) for length in (4, 20, 9)]
    assert truncation_notes(windows) == ("2 of 3 texts have more than 8 tokens: the last 8 of each are used",)
    assert truncation_notes(windows[:1]) == ()
    assert truncation_notes([whole_window(3), whole_window(4)]) == ()
    assert truncation_notes([select_window(20, 8, 2), whole_window(4)]) == (
        "1 of 2 texts has more than 8 tokens: 8 tokens from token 2 on are used",
    )
