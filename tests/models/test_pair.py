"""The contract of pair models."""

from typing import Any

import pytest
import torch
from torch import Tensor

from satchel.models import PairModel, build_pair
from satchel.models.backpack_pair import BackpackPairSettings
from satchel.models.build import PairSettings
from satchel.models.recurrent_pair import RecurrentPairSettings
from satchel.models.transformer_pair import TransformerPairSettings
from satchel.nn.sites import recording, sites

SOURCE_IDS, IDS = 13, 11
SMALL: dict[str, Any] = {"width": 16, "layers": 2, "heads": 2}
SETTINGS: dict[str, PairSettings] = {
    **{
        f"{kind} {attention} {query}": RecurrentPairSettings.model_validate(
            {"kind": kind, "width": 16, "layers": 2, "attention": attention, "query": query, "shared": False}
        )
        for kind, attention, query in (
            ("lstm", "general", "current"),
            ("lstm", "additive", "previous"),
            ("gru", "dot", "current"),
            ("rnn", "dot", "previous"),
            ("lstm", "none", "current"),
            ("gru", "none", "previous"),
        )
    },
    **{
        f"lstm {summary}": RecurrentPairSettings.model_validate(
            {"width": 16, "attention": "none", "summary": summary, "shared": False}
        )
        for summary in ("mean", "max")
    },
    "transformer": TransformerPairSettings(**SMALL, shared=False),
    "transformer post, sinusoidal": TransformerPairSettings(
        **SMALL, shared=False, norm="post", positions="sinusoidal", bias=True, decoder_layers=1
    ),
    "decoder-only": TransformerPairSettings(**SMALL, form="decoder-only"),
    "backpack": BackpackPairSettings(**SMALL, senses=4, shared=False),
}


@pytest.fixture(params=SETTINGS)
def pair(request: pytest.FixtureRequest) -> PairModel:
    return make_pair(SETTINGS[request.param])


def make_pair(settings: PairSettings, seed: int = 0) -> PairModel:
    torch.manual_seed(seed)
    pair = build_pair(settings, SOURCE_IDS, IDS).double().eval()
    for parameter in pair.parameters():  # zeros would hide errors
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return pair


def ids(rows: int, length: int, most: int, seed: int = 1) -> Tensor:
    return torch.randint(0, most, (rows, length), generator=torch.Generator().manual_seed(seed))


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_incremental_decoding_equals_encoding_the_whole_target(pair: PairModel) -> None:
    source, target = ids(3, 5, IDS), ids(3, 6, IDS)
    memory = pair.read(source)
    whole = pair.encode(target, memory)
    assert whole.shape == (3, 6, pair.output_width)
    state, parts = pair.start(memory), []
    for part in target.split([1, 2, 1, 2], dim=1):
        encoded, state = pair.step(part, state)
        parts.append(encoded)
    close(torch.cat(parts, dim=1), whole)


@torch.no_grad()
def test_padding_changes_nothing(pair: PairModel) -> None:
    source, target = ids(3, 7, IDS), ids(3, 4, IDS)
    lengths = (3, 7, 1)
    keep = torch.arange(7) < torch.tensor(lengths)[:, None]
    together = pair.encode(target, pair.read(source, keep))
    for row, length in enumerate(lengths):
        alone = pair.encode(target[row : row + 1], pair.read(source[row : row + 1, :length]))
        close(together[row : row + 1], alone)


def test_encodings_depend_on_the_whole_source_and_on_no_later_target_token(pair: PairModel) -> None:
    source, target = ids(2, 5, IDS), ids(2, 6, IDS)
    if not pair.takes_padding:  # the last source token is the first target token
        source[:, -1] = target[:, 0]
    for place in range(6):
        other = target.clone()
        other[:, place:] = (other[:, place:] + 1) % IDS
        with torch.no_grad():
            before, after = (pair.encode(each, pair.read(source)) for each in (target, other))
        close(after[:, :place], before[:, :place])
        assert not torch.allclose(after[:, place], before[:, place])
    for place in range(5 - (not pair.takes_padding)):
        other = source.clone()
        other[:, place] = (other[:, place] + 1) % IDS
        with torch.no_grad():
            before, after = (pair.encode(target, pair.read(each)) for each in (source, other))
        assert (after - before).abs().amax() > 1e-6


@torch.no_grad()
def test_rows_of_one_source_share_its_memory(pair: PairModel) -> None:
    source = ids(3, 5, IDS)
    memory = pair.read(source)
    state = pair.start(memory, rows=2)
    first = ids(6, 1, IDS)
    _, state = pair.step(first, state)
    # Swap the two rows of each source, then drop the second source.
    state = state.select(torch.tensor([1, 0, 3, 2, 5, 4]))
    state = state.select(torch.tensor([0, 1, 4, 5]), torch.tensor([0, 2]))
    second = ids(4, 1, IDS, seed=2)
    encoded, _ = pair.step(second, state)
    expected_first = first[torch.tensor([1, 0, 5, 4])]
    for row, text in enumerate((0, 0, 2, 2)):
        target = torch.cat([expected_first[row : row + 1], second[row : row + 1]], dim=1)
        alone = pair.encode(target, pair.read(source[text : text + 1]))
        close(encoded[row : row + 1], alone[:, 1:])


@torch.no_grad()
def test_recording_every_site_changes_nothing(pair: PairModel) -> None:
    source, target = ids(2, 5, IDS), ids(2, 4, IDS)
    keep = torch.arange(5) < torch.tensor([5, 2])[:, None]
    plain = pair.encode(target, pair.read(source, keep))
    with recording(pair, "*") as records:
        watched = pair.encode(target, pair.read(source, keep))
    close(watched, plain)
    assert set(records) == set(sites(pair))


@torch.no_grad()
@pytest.mark.parametrize("kind", ["lstm general current", "lstm additive previous", "transformer", "backpack"])
def test_weights_sum_to_one_and_are_zero_on_padding(kind: str) -> None:
    pair = make_pair(SETTINGS[kind])
    source, target = ids(2, 5, IDS), ids(2, 4, IDS)
    keep = torch.arange(5) < torch.tensor([5, 2])[:, None]
    with recording(pair, "alignment", "*.cross.weights", "sense_weights") as records:
        pair.encode(target, pair.read(source, keep))
    assert records
    for values in records.values():
        weights = torch.cat(values, dim=-2)
        assert weights.shape[-2] == 4
        close(weights.sum(dim=-1), torch.ones(weights.shape[:-1], dtype=weights.dtype))
        assert not weights[1, ..., 2:5].any()


@torch.no_grad()
def test_a_backpack_is_a_sum_over_senses_of_source_and_target() -> None:
    pair = make_pair(SETTINGS["backpack"])
    source, target = ids(1, 5, IDS), ids(1, 4, IDS)
    with recording(pair, "source_senses", "senses", "sense_weights") as records:
        encoded = pair.encode(target, pair.read(source))
    by_source_position = [
        records[name][0][each.unique(return_inverse=True)[1][0]]
        for name, each in (("source_senses", source), ("senses", target))
    ]
    expected = torch.einsum("nts,snd->td", records["sense_weights"][0][0], torch.cat(by_source_position))
    close(encoded[0], expected)
    # Cached sense vectors give the same output.
    close(pair.encode(target, pair.read(source)), encoded)


@torch.no_grad()
def test_source_and_target_share_an_embedding_if_configured() -> None:
    for settings in (
        TransformerPairSettings(**SMALL),
        RecurrentPairSettings(width=16),
        BackpackPairSettings(**SMALL, senses=4),
    ):
        shared = build_pair(settings, IDS, IDS)
        apart = build_pair(settings.model_copy(update={"shared": False}), IDS, IDS)
        counts = [sum(parameter.numel() for parameter in each.parameters()) for each in (shared, apart)]
        assert counts[1] - counts[0] == IDS * 16
        assert shared.words.weight.shape == apart.words.weight.shape == (IDS, 16)


@torch.no_grad()
def test_a_decoder_only_model_is_a_language_model_of_source_and_target() -> None:
    pair = make_pair(SETTINGS["decoder-only"])
    end = IDS - 1
    source, target = torch.tensor([[3, 1, 4, end]]), torch.tensor([[end, 5, 9]])
    encoded = pair.encode(target, pair.read(source))
    joined = pair.encoder.encode(torch.tensor([[3, 1, 4, end, 5, 9]]))  # type: ignore[operator, union-attr]
    close(encoded, joined[:, 3:])
