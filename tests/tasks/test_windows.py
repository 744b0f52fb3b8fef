"""Windows of texts longer than the context: every position is predicted once, with context on both sides."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from satchel.tasks.tagging import NetworkTagger, TaggingNetwork
from satchel.tasks.windows import overlapping_windows
from tests.models.encoders import VOCABULARY, make

END = VOCABULARY - 1


@given(st.integers(0, 60), st.one_of(st.none(), st.integers(1, 20)), st.booleans())
def test_every_position_is_predicted_in_the_window_with_the_most_context(
    length: int, context: int | None, causal: bool
) -> None:
    windows = overlapping_windows(length, context, causal=causal)
    predicted = [position for _, part in windows for position in range(length)[part]]
    assert predicted == list(range(length))
    for window, part in windows:
        assert window.stop - window.start <= (context or length)
        for position in range(length)[part]:
            others = [
                min(position - other.start, length if causal else other.stop - 1 - position)
                for other, _ in windows
                if other.start <= position < other.stop
            ]
            # Nothing is missing before the first window and after the last one.
            sides = [
                position - window.start if window.start else length,
                length if causal or window.stop == length else window.stop - 1 - position,
            ]
            assert min(sides) >= max(others) - 1


@pytest.mark.parametrize("causal", [True, False])
def test_tags_of_a_long_text_are_those_of_its_overlapping_windows(causal: bool) -> None:
    network = TaggingNetwork(make("learned", causal=causal), 3).double().eval()
    torch.nn.init.normal_(network.head.weight, generator=torch.Generator().manual_seed(1))
    tagger, context = NetworkTagger(network, END), network.encoder.context
    assert context == 16
    ids = np.random.default_rng(2).integers(0, END, 50)
    logprobs = tagger.label(np.array([END, *ids, END, *ids[:9], END]))
    for window, part in overlapping_windows(50, context, causal=causal):
        expected = network(torch.from_numpy(ids[window])[None])[0].log_softmax(dim=-1).detach().numpy()
        positions = range(50)[part]
        np.testing.assert_allclose(
            logprobs[1 + positions.start : 1 + positions.stop],
            expected[positions.start - window.start : positions.stop - window.start],
            rtol=1e-9,
        )
    short = network(torch.from_numpy(ids[:9])[None])[0].log_softmax(dim=-1).detach().numpy()
    np.testing.assert_allclose(logprobs[52:61], short, rtol=1e-9)
    assert (tagger.reading(50).windows, tagger.reading(16).windows, tagger.reading(0).windows) == (6, 1, 1)
