"""Beam search: equality with exhaustive search on small models, greedy decoding, batching and sampling."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from satchel.generation.beam import BeamSettings, Hypothesis, translate
from satchel.generation.sampling import Sampling
from satchel.models.backpack_pair import BackpackPairSettings
from satchel.models.build import PairSettings, build_pair
from satchel.models.recurrent_pair import RecurrentPairSettings
from satchel.models.transformer_pair import TransformerPairSettings
from satchel.predictor import Floats, Ids
from satchel.tasks.translation import NetworkTranslator, TranslationNetwork

IDS = 5  # four tokens and the end token
END = IDS - 1
SMALL: dict[str, Any] = {"width": 8, "layers": 1, "heads": 2}
SETTINGS: dict[str, PairSettings] = {
    "lstm": RecurrentPairSettings(width=8),
    "gru previous": RecurrentPairSettings(kind="gru", width=8, query="previous", attention="additive"),
    "transformer": TransformerPairSettings(**SMALL),
    "decoder-only": TransformerPairSettings(**SMALL, form="decoder-only"),
    "backpack": BackpackPairSettings(**SMALL, senses=2),
}


@pytest.fixture(params=SETTINGS)
def network(request: pytest.FixtureRequest) -> TranslationNetwork:
    torch.manual_seed(3)
    network = TranslationNetwork(build_pair(SETTINGS[request.param], IDS, IDS)).double()
    initialise(network, 0.8)  # large enough for clearly non-uniform distributions
    return network


def initialise(network: TranslationNetwork, std: float) -> None:
    """Draw all weight matrices from a normal distribution."""
    for parameter in network.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=std)


def random_sources(*lengths: int) -> list[Ids]:
    """Return random source texts."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, END, length) for length in lengths]


def target_logprobs(network: TranslationNetwork, source: Ids, target: tuple[int, ...]) -> Floats:
    """Return the log-probability of each token of a target, the end included."""
    (logprobs,) = all_logprobs(network, source, [target])
    return logprobs


def all_logprobs(network: TranslationNetwork, source: Ids, targets: list[tuple[int, ...]]) -> list[Floats]:
    """Return the log-probabilities of several targets of one source."""
    ids = [np.array(target, np.int64) for target in targets]
    return NetworkTranslator(network, END, END).score([source] * len(ids), ids)


def search(network: TranslationNetwork, texts: list[Ids], **options: Any) -> list[list[Hypothesis]]:
    """Return the hypotheses of beam search for each text."""
    return translate(network, texts, (END, END), BeamSettings(**options))


def test_a_wide_beam_finds_the_best_of_all_possible_translations(network: TranslationNetwork) -> None:
    texts = random_sources(3, 1, 3)
    for penalty in (0.0, 1.0):
        results = search(network, texts, beam=90, best=5, longest=3, length_penalty=penalty)
        for source, best in zip(texts, results, strict=True):
            targets = [target for length in range(4) for target in product(range(END), repeat=length)]
            logprobs = all_logprobs(network, source, targets)
            ranked = sorted(
                (
                    (float(values.sum()) / len(values) ** penalty, target)
                    for values, target in zip(logprobs, targets, strict=True)
                ),
                reverse=True,
            )
            assert [hypothesis.ids for hypothesis in best] == [target for _, target in ranked[:5]]
            scores = [hypothesis.score for hypothesis in best]
            np.testing.assert_allclose(scores, [score for score, _ in ranked[:5]], rtol=1e-9)


def test_of_hypotheses_with_the_same_text_only_the_most_likely_is_returned(network: TranslationNetwork) -> None:
    """The text key maps tokens 0 and 1 to the same letter."""
    texts = random_sources(3, 2)

    def letters(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(max(1, id_) for id_ in ids)

    options = BeamSettings(beam=90, best=6, longest=3)
    with_duplicates = translate(network, texts, (END, END), BeamSettings(beam=90, best=90, longest=3))
    distinct = translate(network, texts, (END, END), options, text_key=letters)
    for hypotheses, candidates in zip(distinct, with_duplicates, strict=True):
        spellings = [letters(hypothesis.ids) for hypothesis in hypotheses]
        assert len(set(spellings)) == len(spellings) == 6
        for hypothesis, spelling in zip(hypotheses, spellings, strict=True):
            assert hypothesis == next(candidate for candidate in candidates if letters(candidate.ids) == spelling)


def test_a_beam_of_one_is_greedy_decoding(network: TranslationNetwork) -> None:
    for source, (hypothesis,) in zip(texts := random_sources(4, 2, 7, 4), search(network, texts, beam=1), strict=True):
        decoded: tuple[int, ...] = ()
        limit = 2 * len(source) + 20
        with torch.no_grad():
            memory = network.eval().pair.read(torch.from_numpy(np.append(source, END))[None])
            while len(decoded) < limit:
                target = torch.tensor([[END, *decoded]])
                best = int(network.scores(network.pair.encode(target, memory))[0, -1].argmax())
                if best == END:
                    break
                decoded += (best,)
        assert hypothesis.ids == decoded
        assert hypothesis.logprob == pytest.approx(float(target_logprobs(network, source, decoded).sum()), rel=1e-9)


def test_a_translation_does_not_depend_on_the_other_texts_of_the_batch(network: TranslationNetwork) -> None:
    texts = random_sources(5, 1, 9, 5, 2)
    for source, batched in zip(texts, search(network, texts, beam=3, best=3), strict=True):
        (single,) = search(network, [source], beam=3, best=3)
        assert [hypothesis.ids for hypothesis in batched] == [hypothesis.ids for hypothesis in single]
        batched_logprobs, single_logprobs = ([item.logprob for item in items] for items in (batched, single))
        np.testing.assert_allclose(batched_logprobs, single_logprobs, rtol=1e-9)


def test_hypotheses_are_sorted_and_have_the_log_probability_of_their_tokens(network: TranslationNetwork) -> None:
    texts = random_sources(6, 3)
    for source, hypotheses in zip(texts, search(network, texts, beam=4, best=4), strict=True):
        assert hypotheses == sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
        for hypothesis in hypotheses:
            expected = float(target_logprobs(network, source, hypothesis.ids).sum())
            assert hypothesis.logprob == pytest.approx(expected, rel=1e-9)


def test_the_unknown_token_is_never_generated_and_the_maximum_length_is_respected(network: TranslationNetwork) -> None:
    results = translate(network, random_sources(4, 2), (END, END), BeamSettings(beam=3, best=3, longest=2), unknown=1)
    assert all(len(item.ids) <= 2 and 1 not in item.ids for hypotheses in results for item in hypotheses)


def test_samples_depend_on_the_seed_and_follow_their_probabilities(network: TranslationNetwork) -> None:
    (source,) = random_sources(3)
    initialise(network, 0.2)  # small enough that no translation is nearly certain

    def sample(seed: int, count: int) -> list[Hypothesis]:
        sampling = Sampling(seed=seed, samples=count)
        (hypotheses,) = translate(network, [source], (END, END), BeamSettings(longest=2), sampling=sampling)
        return hypotheses

    assert sample(1, 3) == sample(1, 3)
    assert sample(1, 3) != sample(2, 3)
    samples = sample(0, 1000)
    for item in samples[:20]:
        assert item.logprob == pytest.approx(float(target_logprobs(network, source, item.ids).sum()), rel=1e-9)
    empty = sum(not item.ids for item in samples) / len(samples)
    probability = float(np.exp(target_logprobs(network, source, ())[0]))
    error = (probability * (1 - probability) / len(samples)) ** 0.5
    assert empty == pytest.approx(probability, abs=5 * error + 1e-3)


def test_translating_restores_training_mode(network: TranslationNetwork) -> None:
    network.train()
    search(network, random_sources(2))
    assert network.training


@pytest.mark.parametrize("kind", ["transformer", "decoder-only", "backpack"])
def test_translations_fit_into_the_context_window_of_the_decoder(kind: str) -> None:
    settings = SETTINGS[kind].model_copy(update={"positions": "learned", "context": 6})
    torch.manual_seed(0)
    network = TranslationNetwork(build_pair(settings, IDS, IDS)).double()
    initialise(network, 0.01)  # nearly uniform, so that the end token comes late
    texts = random_sources(5, 5)
    for options in ({"beam": 1}, {"beam": 3}, {"longest": 50}):
        for hypotheses in search(network, texts, **options):
            assert all(len(item.ids) <= 5 for item in hypotheses)
    sampling = Sampling(samples=4, temperature=1.0, tokens=50)
    for hypotheses in translate(network, texts, (END, END), BeamSettings(), sampling=sampling):
        assert all(len(item.ids) <= 5 for item in hypotheses)
