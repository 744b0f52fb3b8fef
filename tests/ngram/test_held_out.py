"""What n-grams say of their own text comes from n-grams that have not seen it."""

import numpy as np
import pytest

from satchel.ngram import held_out
from satchel.ngram.held_out import held_out_logprobs
from satchel.ngram.smoothing import NgramSettings, estimate

END = 5


def text(size: int, ends: bool) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    ids = np.random.default_rng(0).integers(0, END + ends, size)
    return np.concatenate([[END], ids, [END] * ends])


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_every_token_is_scored_by_ngrams_of_the_other_folds(order: int, ends: bool) -> None:
    ids = text(97, ends)
    settings = NgramSettings(order=order)
    found = held_out_logprobs(ids, END + 1, settings, ends=ends)
    cuts = np.linspace(1, len(ids), held_out.MOST_FOLDS + 1).astype(int)
    for place in range(1, len(ids)):
        fold = int(np.searchsorted(cuts, place, side="right")) - 1
        rest = np.concatenate([ids[: cuts[fold]], ids[cuts[fold + 1] :]])
        table = estimate(rest, END + 1, settings, ends=ends).table
        assert found[place - 1] == pytest.approx(table.score(ids[: place + 1]).logprobs[-1], rel=1e-12)


def test_what_occurs_once_is_no_news_to_the_whole_and_news_to_the_folds() -> None:
    ids = np.concatenate([[END], np.random.default_rng(0).integers(0, END, 20_000)])
    settings = NgramSettings(order=7)
    seen = estimate(ids, END + 1, settings, ends=False).table.score(ids).logprobs.mean()
    unseen = held_out_logprobs(ids, END + 1, settings, ends=False).mean()
    # The text is drawn at random: nobody can do better than guess.
    assert seen > -1.3
    assert unseen < -np.log(END)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 12])
def test_texts_of_a_few_tokens_are_scored_too(size: int) -> None:
    ids = text(size, ends=False)
    found = held_out_logprobs(ids, END + 1, NgramSettings(order=3), ends=False)
    assert len(found) == size
    assert np.isfinite(found).all()


def test_of_much_text_few_folds_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "TOKENS_AGAIN", 400)
    told: list[float] = []
    held_out_logprobs(text(99, ends=False), END + 1, NgramSettings(order=2), ends=False, progress=told.append)
    assert told == pytest.approx([0, 0.25, 0.5, 0.75], abs=0.02)
