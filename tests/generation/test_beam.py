"""Beam search for translations: against trying everything, on models so small that one can."""

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

IDS = 5  # four words and the end
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
    made = TranslationNetwork(build_pair(SETTINGS[request.param], IDS, IDS)).double()
    spread(made, 0.8)  # so that some words are much likelier than others
    return made


def spread(network: TranslationNetwork, std: float) -> None:
    for parameter in network.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=std)


def sources(*lengths: int) -> list[Ids]:
    chance = np.random.default_rng(0)
    return [chance.integers(0, END, length) for length in lengths]


def scored(network: TranslationNetwork, source: Ids, target: tuple[int, ...]) -> Floats:
    (found,) = all_scored(network, source, [target])
    return found


def all_scored(network: TranslationNetwork, source: Ids, targets: list[tuple[int, ...]]) -> list[Floats]:
    ids = [np.array(target, np.int64) for target in targets]
    return NetworkTranslator(network, END, END).score([source] * len(ids), ids)


def searched(network: TranslationNetwork, texts: list[Ids], **options: Any) -> list[list[Hypothesis]]:
    return translate(network, texts, (END, END), BeamSettings(**options))


def test_a_wide_beam_finds_the_best_of_everything_that_can_be_written(network: TranslationNetwork) -> None:
    texts = sources(3, 1, 3)
    for penalty in (0.0, 1.0):
        found = searched(network, texts, beam=90, best=5, longest=3, length_penalty=penalty)
        for source, best in zip(texts, found, strict=True):
            targets = [target for length in range(4) for target in product(range(END), repeat=length)]
            logprobs = all_scored(network, source, targets)
            every = sorted(
                (
                    (float(each.sum()) / len(each) ** penalty, target)
                    for each, target in zip(logprobs, targets, strict=True)
                ),
                reverse=True,
            )
            assert [each.ids for each in best] == [target for _, target in every[:5]]
            np.testing.assert_allclose([each.score for each in best], [score for score, _ in every[:5]], rtol=1e-9)


def test_of_several_ways_to_write_a_text_the_likeliest_is_told(network: TranslationNetwork) -> None:
    """Words 0 and 1 are the same letter: what is told differs in more than that."""
    texts = sources(3, 2)

    def letters(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(max(1, id_) for id_ in ids)

    options = BeamSettings(beam=90, best=6, longest=3)
    every = translate(network, texts, (END, END), BeamSettings(beam=90, best=90, longest=3))
    for told, found in zip(translate(network, texts, (END, END), options, text_key=letters), every, strict=True):
        written = [letters(each.ids) for each in told]
        assert len(set(written)) == len(written) == 6
        for each in told:
            assert each == next(one for one in found if letters(one.ids) == letters(each.ids))


def test_a_beam_of_one_is_greedy(network: TranslationNetwork) -> None:
    for source, (found,) in zip(texts := sources(4, 2, 7, 4), searched(network, texts, beam=1), strict=True):
        written: tuple[int, ...] = ()
        limit = 2 * len(source) + 20
        with torch.no_grad():
            memory = network.eval().pair.read(torch.from_numpy(np.append(source, END))[None])
            while len(written) < limit:
                target = torch.tensor([[END, *written]])
                best = int(network.scores(network.pair.encode(target, memory))[0, -1].argmax())
                if best == END:
                    break
                written += (best,)
        assert found.ids == written
        assert found.logprob == pytest.approx(float(scored(network, source, written).sum()), rel=1e-9)


def test_who_else_is_translated_makes_no_difference(network: TranslationNetwork) -> None:
    texts = sources(5, 1, 9, 5, 2)
    together = searched(network, texts, beam=3, best=3)
    for source, found in zip(texts, together, strict=True):
        (alone,) = searched(network, [source], beam=3, best=3)
        assert [each.ids for each in found] == [each.ids for each in alone]
        np.testing.assert_allclose([each.logprob for each in found], [each.logprob for each in alone], rtol=1e-9)


def test_what_is_told_of_a_translation_is_what_it_costs(network: TranslationNetwork) -> None:
    texts = sources(6, 3)
    for source, found in zip(texts, searched(network, texts, beam=4, best=4), strict=True):
        assert found == sorted(found, key=lambda each: -each.score)
        for each in found:
            assert each.logprob == pytest.approx(float(scored(network, source, each.ids).sum()), rel=1e-9)


def test_what_is_unknown_is_never_written_and_nothing_is_too_long(network: TranslationNetwork) -> None:
    found = translate(network, sources(4, 2), (END, END), BeamSettings(beam=3, best=3, longest=2), unknown=1)
    assert all(len(each.ids) <= 2 and 1 not in each.ids for best in found for each in best)


def test_draws_depend_on_the_seed_and_are_as_likely_as_they_are_said_to_be(network: TranslationNetwork) -> None:
    (source,) = sources(3)
    spread(network, 0.2)  # so that none is nearly certain

    def drawn(seed: int, count: int) -> list[Hypothesis]:
        sampling = Sampling(seed=seed, samples=count)
        (found,) = translate(network, [source], (END, END), BeamSettings(longest=2), sampling=sampling)
        return found

    assert drawn(1, 3) == drawn(1, 3)
    assert drawn(1, 3) != drawn(2, 3)
    found = drawn(0, 1000)
    for each in found[:20]:
        assert each.logprob == pytest.approx(float(scored(network, source, each.ids).sum()), rel=1e-9)
    empty = sum(not each.ids for each in found) / len(found)
    chance = float(np.exp(scored(network, source, ())[0]))
    assert empty == pytest.approx(chance, abs=5 * (chance * (1 - chance) / len(found)) ** 0.5 + 1e-3)


def test_a_network_that_learns_goes_on_learning(network: TranslationNetwork) -> None:
    network.train()
    searched(network, sources(2))
    assert network.training


@pytest.mark.parametrize("kind", ["transformer", "decoder-only", "backpack"])
def test_nothing_is_written_that_the_writer_has_no_room_for(kind: str) -> None:
    settings = SETTINGS[kind].model_copy(update={"positions": "learned", "context": 6})
    torch.manual_seed(0)
    made = TranslationNetwork(build_pair(settings, IDS, IDS)).double()
    spread(made, 0.01)  # nothing ends soon
    texts = sources(5, 5)
    for options in ({"beam": 1}, {"beam": 3}, {"longest": 50}):
        for found in searched(made, texts, **options):
            assert all(len(each.ids) <= 5 for each in found)
    drawn = translate(made, texts, (END, END), BeamSettings(), sampling=Sampling(samples=4, temperature=1.0, tokens=50))
    assert all(len(each.ids) <= 5 for found in drawn for each in found)
