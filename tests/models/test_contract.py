"""The contract of encoders: shapes, causality, incremental decoding, padding, sites."""

import io

import pytest
import safetensors.torch
import torch
from torch import nn

from satchel.nn.sites import hooked, recording, sites
from tests.models.encoders import OF_VECTORS, SETTINGS, VOCABULARY, make

every_encoder = pytest.mark.parametrize("name", SETTINGS)


def batch(rows: int = 3, length: int = 9, seed: int = 1) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.item(12)
@every_encoder
@pytest.mark.parametrize("causal", [True, False])
def test_an_encoder_returns_one_vector_per_token(name: str, causal: bool) -> None:
    encoder = make(name, causal=causal)
    for length in (1, 2, 9):
        encoded = encoder.encode(batch(2, length))
        assert encoded.shape == (2, length, encoder.width)
        assert torch.isfinite(encoded).all()
    assert torch.equal(encoder(batch()), encoder.encode(batch()))


@pytest.mark.item(12, 64)
@every_encoder
def test_encoders_stack(name: str) -> None:
    for other in ("lstm", "learned"):
        first, second = make(name), make(other, seed=1)
        stacked = second.contextualise(first.encode(batch()))
        assert stacked.shape == (3, 9, 12)
        changed = batch().clone()
        changed[:, -1] = (changed[:, -1] + 1) % VOCABULARY
        torch.testing.assert_close(
            second.contextualise(first.encode(changed))[:, :-1], stacked[:, :-1], rtol=1e-12, atol=1e-12
        )


@pytest.mark.item(76, 77)
@every_encoder
def test_a_later_token_never_changes_an_earlier_encoding(name: str) -> None:
    encoder, ids = make(name), batch()
    before = encoder.encode(ids)
    for place in range(1, 9):
        changed = ids.clone()
        changed[:, place:] = (changed[:, place:] + 1) % VOCABULARY
        torch.testing.assert_close(encoder.encode(changed)[:, :place], before[:, :place], rtol=1e-12, atol=1e-12)


@pytest.mark.item(77)
@pytest.mark.parametrize("name", OF_VECTORS)
def test_the_gradient_of_an_encoding_at_later_tokens_is_exactly_zero(name: str) -> None:
    encoder = make(name)
    x = encoder.embed(batch(1)).detach().requires_grad_()
    for place in (0, 4):
        (gradient,) = torch.autograd.grad(encoder.contextualise(x)[0, place].sum(), x)
        assert torch.equal(gradient[0, place + 1 :], torch.zeros_like(gradient[0, place + 1 :]))


@pytest.mark.parametrize("name", [name for name in OF_VECTORS if name != "no blocks"])
def test_an_encoder_that_is_not_causal_depends_on_both_sides(name: str) -> None:
    encoder = make(name, causal=False)
    x = encoder.embed(batch(1)).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(encoder.contextualise(x)[0, 4].square().sum(), x)
    assert gradient[0, 5].abs().max() > 0
    assert gradient[0, 3].abs().max() > 0


@pytest.mark.item(78)
@every_encoder
def test_incremental_decoding_equals_encoding_the_whole_sequence(name: str) -> None:
    encoder, ids = make(name), batch()
    whole = encoder.encode(ids)
    for pieces in ([1] * 9, [9], [4, 1, 4], [2, 7]):
        state, encodings, start = encoder.start(3), [], 0
        for length in pieces:
            encoded, state = encoder.step(ids[:, start : start + length], state)
            encodings.append(encoded)
            start += length
        torch.testing.assert_close(torch.cat(encodings, dim=1), whole, rtol=1e-12, atol=1e-12)


@every_encoder
def test_a_state_can_be_continued_twice_and_its_rows_selected(name: str) -> None:
    encoder, ids = make(name), batch()
    _, state = encoder.step(ids[:, :5], encoder.start(3))
    rows = torch.tensor([2, 0, 0, 1])
    first, _ = encoder.step(ids[rows][:, 5:], state.select(rows))
    second, _ = encoder.step(ids[:, 5:], state)
    torch.testing.assert_close(first, second[rows], rtol=1e-12, atol=1e-12)
    again, _ = encoder.step(ids[:, 5:], state)
    assert torch.equal(again, second)


@pytest.mark.item(92)
@every_encoder
@pytest.mark.parametrize("causal", [True, False])
def test_padding_changes_nothing(name: str, causal: bool) -> None:
    encoder, ids = make(name, causal=causal), batch()
    keep = torch.ones(3, 9, dtype=torch.bool)
    keep[0, 6:] = keep[2, 1:] = False
    encoded = encoder.encode(ids, keep)
    for row, length in ((0, 6), (1, 9), (2, 1)):
        alone = encoder.encode(ids[row : row + 1, :length])
        torch.testing.assert_close(encoded[row, :length], alone[0], rtol=1e-12, atol=1e-12)
    other = torch.where(keep, ids, (ids + 1) % VOCABULARY)
    torch.testing.assert_close(encoder.encode(other, keep)[keep], encoded[keep], rtol=1e-12, atol=1e-12)
    nothing = encoder.encode(ids[:1], torch.zeros(1, 9, dtype=torch.bool))
    assert torch.isfinite(nothing).all()


@pytest.mark.item(84)
@every_encoder
def test_a_batch_equals_its_rows_encoded_separately(name: str) -> None:
    encoder, ids = make(name), batch()
    whole = encoder.encode(ids)
    for row in range(3):
        torch.testing.assert_close(encoder.encode(ids[row : row + 1])[0], whole[row], rtol=1e-12, atol=1e-12)


@every_encoder
@pytest.mark.parametrize("causal", [True, False])
def test_saving_and_loading_gives_the_same_bits(name: str, causal: bool) -> None:
    encoder, other = make(name, causal=causal), make(name, causal=causal, seed=1)
    assert not torch.equal(encoder.encode(batch()), other.encode(batch()))
    saved = safetensors.torch.save(encoder.state_dict())
    other.load_state_dict(safetensors.torch.load(saved))
    assert torch.equal(encoder.encode(batch()), other.encode(batch()))
    assert io.BytesIO(saved).getbuffer().nbytes > 0


@every_encoder
@pytest.mark.parametrize("causal", [True, False])
def test_every_site_can_be_recorded_without_changing_the_output(name: str, causal: bool) -> None:
    encoder, ids = make(name, causal=causal), batch()
    with recording(encoder, "*") as records:
        seen = encoder.encode(ids)
    assert set(records) == set(sites(encoder))
    assert all(values for values in records.values()), "a site without a value"
    torch.testing.assert_close(seen, encoder.encode(ids), rtol=1e-12, atol=1e-12)
    assert torch.equal(records["encoded"][0], seen)
    with hooked(encoder, {}):
        assert torch.equal(encoder.encode(ids), encoder.encode(ids))


@every_encoder
def test_every_parameter_has_a_gradient(name: str) -> None:
    encoder = make(name).train()
    encoder.encode(torch.arange(VOCABULARY)[None]).square().sum().backward()
    without = [name for name, parameter in encoder.named_parameters() if parameter.grad is None]
    assert not without
    dead = [
        name
        for name, parameter in encoder.named_parameters()
        if parameter.grad is not None and not parameter.grad.abs().any()
    ]
    # Learned positions after the end of the text have no gradient.
    assert not [name for name in dead if "positions" not in name]


@pytest.mark.item(5)
def test_a_dan_does_not_depend_on_the_order_of_tokens() -> None:
    encoder = make("dan")
    ids = torch.tensor([[1, 2, 3, 4]])
    shuffled = torch.tensor([[3, 1, 4, 2]])
    torch.testing.assert_close(encoder.encode(ids)[:, -1], encoder.encode(shuffled)[:, -1], rtol=1e-12, atol=1e-12)
    means = encoder.embed(ids).cumsum(dim=1) / torch.arange(1, 5)[None, :, None]
    torch.testing.assert_close(encoder.encode(ids), encoder._feed_forward(means))  # type: ignore[operator]


@pytest.mark.item(6)
def test_a_window_depends_on_the_order_but_not_on_tokens_outside() -> None:
    encoder = make("window")
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    last = encoder.encode(ids)[:, -1]
    torch.testing.assert_close(encoder.encode(torch.tensor([[9, 8, 3, 4, 5]]))[:, -1], last)
    assert not torch.allclose(encoder.encode(torch.tensor([[1, 2, 4, 3, 5]]))[:, -1], last)


@pytest.mark.item(30, 93)
@pytest.mark.parametrize(
    ("name", "knows"), [("no positions", False), ("learned", True), ("rotary", True), ("dan", False)]
)
def test_only_position_encodings_distinguish_a_shuffled_text(name: str, knows: bool) -> None:
    encoder, ids = make(name, causal=False), batch(1)
    order = torch.tensor([4, 2, 7, 0, 8, 1, 5, 3, 6])
    plain, shuffled = encoder.encode(ids).mean(dim=1), encoder.encode(ids[:, order]).mean(dim=1)
    assert torch.allclose(plain, shuffled, rtol=1e-9, atol=1e-12) != knows


def test_learned_positions_are_limited_to_the_context() -> None:
    with pytest.raises(AssertionError, match="found 17 positions, expected 16"):
        make("learned").encode(batch(1, 17))
    assert make("rotary").encode(batch(1, 40)).shape == (1, 40, 12)


def test_a_custom_encoder_defines_contextualise_only() -> None:
    from satchel.models.encoder import Encoder

    class Mine(Encoder):
        def __init__(self) -> None:
            super().__init__(VOCABULARY, 4, causal=True)
            self.map = nn.Linear(4, 4)

        def contextualise(self, x_BTD: torch.Tensor, keep_BT: torch.Tensor | None = None) -> torch.Tensor:
            mapped: torch.Tensor = self.map(x_BTD)
            return mapped

    assert Mine().encode(batch()).shape == (3, 9, 4)
    assert Mine().context is None


def test_a_backpack_has_no_step_for_vectors() -> None:
    encoder = make("backpack")
    with pytest.raises(NotImplementedError, match="Backpack does not support incremental decoding from vectors"):
        encoder.step_vectors(encoder.embed(batch()), encoder.start(3))
