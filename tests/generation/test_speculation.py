"""Speculative decoding: the text is that of plain decoding, and its distribution is that of the model."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from satchel.config import build
from satchel.generation.batch import DecodingBatch, Request
from satchel.generation.decoding import Sample, continue_text
from satchel.generation.sampling import Sampling
from satchel.generation.speculation import MAX_PROPOSALS, SPECULATIVE_ROWS, Drafter, is_speculative
from satchel.predictor import Decoder, Ids, Logits
from satchel.tasks.language import NetworkPredictor
from satchel.text.tokenizer import Tokenizer
from tests.decoders import next_logprobs
from tests.generation.test_batch import tokenizer as tokenizer
from tests.tasks.test_decoding import END, gated, table

NAMES = ["learned", "rotary", "backpack", "lstm"]


def samples_of(predictor: NetworkPredictor, tokenizer: Tokenizer, prompt: Ids, **options: Any) -> list[Sample]:
    return continue_text(predictor, tokenizer, "", build(Sampling, options), prompt_ids=prompt)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options", [{"greedy": True}, {"temperature": 1e-300}, {"temperature": 0.6}, {"temperature": 1.5, "top_p": 0.9}]
)
def test_speculative_decoding_equals_plain_decoding_in_float64(
    name: str, options: dict[str, Any], tokenizer: Tokenizer
) -> None:
    predictor = gated(name)
    for seed, length in enumerate([0, 3, 14, 16, 30]):
        prompt = np.random.default_rng(seed).integers(1, END, length)
        both = [
            samples_of(predictor, tokenizer, prompt, tokens=40, samples=3, seed=seed, speculative=mode, **options)
            for mode in ("on", "off")
        ]
        assert both[0] == both[1]
        assert not any(sample.speculative for sample in both[1])


def test_samples_state_whether_proposals_were_verified(tokenizer: Tokenizer) -> None:
    for samples, mode, expected in ((SPECULATIVE_ROWS, "auto", True), (SPECULATIVE_ROWS + 1, "off", False)):
        options = {"tokens": 5, "samples": samples, "speculative": mode, "greedy": True}
        assert all(s.speculative == expected for s in samples_of(gated("lstm"), tokenizer, np.array([1]), **options))


def test_a_verification_accepts_several_proposals(tokenizer: Tokenizer) -> None:
    predictor, count = RecordingPredictor(gated("lstm").network, END), 0
    for seed in range(5):
        options = {"tokens": 30, "temperature": 0.3, "seed": seed, "logit_bias": {END: -1000.0}}
        (sample,) = samples_of(predictor, tokenizer, np.array([1]), **options)
        count += len(sample.ids) - len(predictor.calls)
    assert count > 20


def test_proposals_follow_the_whole_text_also_after_steps_without_proposals(tokenizer: Tokenizer) -> None:
    predictor = gated("learned")
    batch, drafter, count = DecodingBatch(predictor, tokenizer), Drafter(table()), 0
    sampling = Sampling(tokens=60, temperature=0.5, logit_bias={END: -1000.0})
    (row,) = batch.add([Request("", np.array([1, 2]), sampling)])
    while batch.continuations:
        batch.step()
        if row.draft_state is not None:
            assert row.draft_state == drafter.advance(drafter.start, [1, 2, *row.ids[:-1]])
            count += 1
    assert count > 5


def test_the_rule_depends_on_modes_and_number_of_rows() -> None:
    assert is_speculative(["auto"] * SPECULATIVE_ROWS)
    assert not is_speculative(["auto"] * (SPECULATIVE_ROWS + 1))
    assert is_speculative(["on"] * (SPECULATIVE_ROWS + 1))
    assert is_speculative(["on", "auto"])
    assert not is_speculative(["on", "off"])
    assert not is_speculative([])


@dataclass
class RecordingDecoder:
    """A decoder that records the number of appended tokens and the room before."""

    decoder: Any
    calls: list[tuple[int, int | None]]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.decoder, name)

    def extend(self, ids_BT: Ids) -> Logits:
        self.calls.append((ids_BT.shape[1], self.decoder.room))
        logits_BTV: Logits = self.decoder.extend(ids_BT)
        return logits_BTV


class RecordingPredictor(NetworkPredictor):
    """A predictor whose decoders record their calls."""

    calls: list[tuple[int, int | None]]

    def decoder(self) -> Decoder:
        self.calls = []
        return RecordingDecoder(super().decoder(), self.calls)


def test_proposals_do_not_exceed_the_window_or_the_number_of_tokens(tokenizer: Tokenizer) -> None:
    predictor = RecordingPredictor(gated("learned").network, END)
    for tokens in (1, 2, 3, 40):
        for length in (0, 9, 15, 16, 30):
            prompt = np.random.default_rng(length).integers(1, END, length)
            (sample,) = samples_of(predictor, tokenizer, prompt, tokens=tokens, greedy=True, logit_bias={END: -1000.0})
            assert len(sample.ids) == tokens
            for count, room in predictor.calls:
                assert room is not None
                assert 2 <= count <= min(room, MAX_PROPOSALS + 1, tokens)


def test_proposals_are_the_most_probable_tokens_of_the_n_gram_model() -> None:
    drafter, ids = Drafter(table()), [1, 2, 3]
    for state_ids in ([END], [4], [4, 7], [9, 9, 9, 9]):
        state = drafter.advance(drafter.start, state_ids)
        text = list(state_ids)
        for proposal in drafter.propose(state, 6):
            followers_V = np.exp(next_logprobs(table(), text)[0])
            seen = table_followers(text)
            assert proposal == max(sorted(set(seen)), key=lambda id_: followers_V[id_])
            text.append(proposal)
    assert drafter.advance(drafter.start, ids) == drafter.advance(drafter.advance(drafter.start, ids[:1]), ids[1:])


def table_followers(text: list[int]) -> list[int]:
    """Return the tokens that follow the longest n-gram at the end of a text in the training text of `table`."""
    ids = np.random.default_rng(1).integers(0, END, 400)
    ids[::37] = END
    corpus = [END, *ids.tolist(), END]
    for length in (2, 1):
        context = text[-length:]
        followers = [
            corpus[start + length]
            for start in range(len(corpus) - length)
            if len(context) == length and corpus[start : start + length] == context and END not in context[1:]
        ]
        if followers:
            return followers
    return list(range(END + 1))


def test_the_number_of_proposals_follows_the_accepted_ones() -> None:
    drafter = Drafter(table())
    for _ in range(20):
        drafter.adapt(drafter.count, drafter.count)
    assert drafter.count == MAX_PROPOSALS
    for _ in range(20):
        drafter.adapt(0, drafter.count)
    assert drafter.count == 1


EXACT: dict[str, Callable[[], NetworkPredictor]] = {name: lambda name=name: gated(name) for name in ("learned", "lstm")}  # type: ignore[misc]


@pytest.mark.parametrize("name", EXACT)
def test_short_samples_follow_the_distribution_of_the_model(name: str, tokenizer: Tokenizer) -> None:
    predictor, unknown = EXACT[name](), tokenizer.unknown
    sharpness = 1 / 0.7

    def following(texts: list[tuple[int, ...]]) -> Any:
        probabilities_BV = np.exp(next_logprobs(predictor, *([END, *text] for text in texts)) * sharpness)
        probabilities_BV[:, unknown] = 0
        return probabilities_BV / probabilities_BV.sum(axis=1, keepdims=True)

    # Exact probabilities of the last two tokens of continuations of three tokens.
    exact: dict[tuple[int, ...], float] = defaultdict(float)
    texts: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(3):
        longer: dict[tuple[int, ...], float] = {}
        for (text, probability), row_V in zip(texts.items(), following(list(texts)), strict=True):
            exact[text[-2:]] += probability * row_V[END]
            longer |= {(*text, id_): probability * row_V[id_] for id_ in range(END) if id_ != unknown}
        texts = longer
    for text, probability in texts.items():
        exact[text[-2:]] += probability
    assert sum(exact.values()) == pytest.approx(1)
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(4):
        options = {"tokens": 3, "samples": 1000, "seed": seed, "temperature": 0.7, "speculative": "on"}
        counts.update(sample.ids[-2:] for sample in samples_of(predictor, tokenizer, np.array([], np.int64), **options))
    total = counts.total()
    frequent = [key for key, probability in exact.items() if probability * total >= 5]
    observed = [counts[key] for key in frequent]
    expected = [exact[key] * total for key in frequent]
    rest = total - sum(expected)
    if rest > 1e-6:
        observed, expected = [*observed, total - sum(observed)], [*expected, rest]
    assert stats.chisquare(observed, expected, sum_check=False).pvalue > 1e-3
