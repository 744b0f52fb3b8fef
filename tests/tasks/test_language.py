"""Language models: inputs and targets, the objective, and the predictor."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from satchel.data.batches import NO_TARGET
from satchel.data.tokens import TokenCounts
from satchel.evaluation.likelihood import likelihood
from satchel.models.build import build_encoder
from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.predictor import log_probabilities
from satchel.tasks.decoding import MAX_LENGTH
from satchel.tasks.language import LanguageHead, LanguageNetwork, NetworkPredictor, chunked, shifted
from tests.decoders import next_logprobs, stepwise_logprobs
from tests.models.encoders import SETTINGS, VOCABULARY, make, transformer

END = VOCABULARY - 1
STATEFUL = ["dan", "window", "rnn", "gru", "lstm"]


def network(name: str, *, tied: bool = True, causal: bool = True) -> LanguageNetwork:
    return LanguageNetwork(make(name, causal=causal), tied=tied).double().eval()


def text(length: int, seed: int = 0) -> list[int]:
    return [int(id_) for id_ in np.random.default_rng(seed).integers(0, END, length)]


# --- inputs and targets --------------------------------------------------------------------------------------


@pytest.mark.item(81)
def test_targets_are_the_inputs_shifted_by_one() -> None:
    words = "<s> I saw the dog running".split()
    inputs, targets = shifted(torch.arange(6))
    assert [words[i] for i in inputs] == "<s> I saw the dog".split()
    assert [words[i] for i in targets] == "I saw the dog running".split()


@pytest.mark.item(85)
def test_each_row_starts_with_the_boundary() -> None:
    words = ["<s>", *"I saw the dog running in the park and it looked very excited to be there".split()]
    inputs, targets = chunked(range(1, 17), 5, 0)
    rows = [" ".join(words[i] for i in row) for row in inputs.tolist()]
    assert rows[:3] == ["<s> I saw the dog", "<s> in the park and", "<s> looked very excited to"]
    assert [" ".join(words[i] for i in row) for row in targets[:3].tolist()] == [
        "I saw the dog running", "in the park and it", "looked very excited to be",
    ]  # fmt: skip
    assert targets[3].tolist() == [16, *[NO_TARGET] * 4]
    assert inputs[3].tolist() == [0] * 5


# --- head and objective --------------------------------------------------------------------------------------


@pytest.mark.item(80)
def test_logits_are_dot_products_with_the_output_embeddings() -> None:
    model = network("learned")
    ids = torch.tensor([[1, 2, 3]])
    hidden = model.encoder.encode(ids)[0, -1]
    exponentials = torch.stack([torch.exp(vector @ hidden) for vector in model.head.weight])
    torch.testing.assert_close(model(ids)[0, -1].softmax(dim=-1), exponentials / exponentials.sum())


def test_a_tied_head_shares_the_embedding() -> None:
    tied, untied = network("learned"), network("learned", tied=False)
    assert tied.head.weight is tied.encoder.embedding.weight
    assert untied.head.weight is not untied.encoder.embedding.weight
    count = sum(parameter.numel() for parameter in tied.parameters())
    assert sum(parameter.numel() for parameter in untied.parameters()) == count + VOCABULARY * 12
    assert isinstance(tied.head, LanguageHead)


@pytest.mark.item(82, 84)
@pytest.mark.parametrize("name", SETTINGS)
def test_the_loss_of_a_batch_is_the_sum_over_all_prefixes(name: str) -> None:
    model = network(name)
    inputs, targets = shifted(torch.tensor([text(10), text(10, 1)]))
    total = model.loss(inputs, targets, "sum")
    one_by_one = torch.zeros((), dtype=torch.float64)
    for row in range(2):
        for length in range(1, 10):
            logits = model(inputs[row : row + 1, :length])[0, -1]
            one_by_one -= logits.log_softmax(dim=-1)[targets[row, length - 1]]
    torch.testing.assert_close(total, one_by_one, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(model.loss(inputs, targets), total / 18)


@pytest.mark.item(75)
def test_a_model_without_causal_mask_copies_the_next_token() -> None:
    """On random text, the model without a mask predicts all positions but the last of a row."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    costs: dict[bool, Any] = {}
    for causal in (False, True):
        model = LanguageNetwork(make("learned", causal=causal), tied=False).float().train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(250):
            ids = torch.randint(0, END, (32, 9), generator=generator)
            optimizer.zero_grad()
            model.loss(ids[:, :-1], ids[:, 1:]).backward()
            optimizer.step()
        ids = torch.randint(0, END, (64, 9), generator=generator)
        logprobs = model(ids[:, :-1]).log_softmax(dim=-1)
        costs[causal] = -logprobs.gather(2, ids[:, 1:, None])[..., 0].mean(dim=0)
    assert costs[False][:-1].max() < 0.1
    assert costs[False][-1] > 2
    assert costs[True].min() > 2.2


@pytest.mark.item(87, 88, 89)
def test_the_average_cost_and_the_perplexity() -> None:
    class Given:
        vocabulary, context = 2, "none"

        def score(self, ids: Any) -> Any:
            from satchel.predictor import Scores

            return Scores(np.log([1 / 4, 1 / 3, 1 / 4, 1 / 3]))

    result = likelihood(Given(), np.zeros(5), TokenCounts(tokens=4))  # type: ignore[arg-type]
    assert result.nats_per_token == pytest.approx(1.242453, abs=1e-6)
    assert result.perplexity == pytest.approx(math.sqrt(12))
    assert result.perplexity == pytest.approx((4 * 3 * 4 * 3) ** (1 / 4))


# --- predictor -----------------------------------------------------------------------------------------------


@pytest.mark.item(1, 78)
@pytest.mark.parametrize("name", SETTINGS)
def test_scores_equal_those_of_incremental_decoding(name: str) -> None:
    predictor = NetworkPredictor(network(name), END)
    ids = [END, *text(15)]
    scores = predictor.score(np.array(ids))
    np.testing.assert_allclose(scores.logprobs, stepwise_logprobs(predictor, ids), rtol=1e-10)
    np.testing.assert_allclose(np.exp(next_logprobs(predictor, ids)).sum(axis=1), 1)


@pytest.mark.parametrize("name", STATEFUL)
def test_the_state_is_carried_through_a_long_document(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = NetworkPredictor(network(name), END)
    ids = [END, *text(200)]
    whole = predictor.score(np.array(ids)).logprobs
    monkeypatch.setattr("satchel.tasks.language.MAX_LENGTH", 16)
    np.testing.assert_allclose(predictor.score(np.array(ids)).logprobs, whole, rtol=1e-10)
    np.testing.assert_allclose(whole, stepwise_logprobs(predictor, ids), rtol=1e-10)


@pytest.mark.parametrize("name", ["dan", "lstm", "learned", "rotary"])
def test_documents_are_scored_independently(name: str) -> None:
    predictor = NetworkPredictor(network(name), END)
    documents = [text(5, 1), [], text(40, 2), text(3, 3)]
    ids = [END, *(id_ for document in documents for id_ in [*document, END])]
    apart = [predictor.score(np.array([END, *document, END])).logprobs for document in documents]
    np.testing.assert_allclose(predictor.score(np.array(ids)).logprobs, np.concatenate(apart), rtol=1e-10)


@pytest.mark.parametrize("length", [3, 15, 16, 17, 24, 25, 40, 61])
def test_windows_overlap_by_half(length: int) -> None:
    model = network("learned")
    predictor = NetworkPredictor(model, END)
    ids = [END, *text(length)]
    logprobs = predictor.score(np.array(ids)).logprobs
    assert len(logprobs) == length
    for place in range(length):
        # A token is predicted in the first window, or in the window whose last half contains it.
        start = 0 if place < 16 else 8 * ((place - 8) // 8)
        logits = model(torch.tensor([ids[start : place + 1]]))[0, -1]
        assert logprobs[place] == pytest.approx(logits.log_softmax(dim=-1)[ids[place + 1]].item(), rel=1e-10)
        assert place - start + 1 >= min(place + 1, 8)


def test_windows_of_odd_length_score_every_token_once() -> None:
    torch.manual_seed(0)
    model = LanguageNetwork(build_encoder(transformer(context=7), VOCABULARY, causal=True)).double().eval()
    predictor = NetworkPredictor(model, END)
    ids = [END, *text(20)]
    logprobs = predictor.score(np.array(ids)).logprobs
    for place in range(20):
        start = 0 if place < 7 else 3 * ((place - 4) // 3)
        logits = model(torch.tensor([ids[start : place + 1]]))[0, -1]
        assert logprobs[place] == pytest.approx(logits.log_softmax(dim=-1)[ids[place + 1]].item(), rel=1e-10)


def test_after_a_full_context_the_last_half_is_encoded_again() -> None:
    model = network("learned")
    predictor = NetworkPredictor(model, END)
    ids = [END, *text(30)]
    decoder = predictor.decoder()
    for number, id_ in enumerate(ids[:17]):
        logits = decoder.step(np.array([id_])) if number else decoder.join([np.array([id_])])
        logprobs = log_probabilities(decoder, logits)
        first = 0 if number < 16 else number - 7
        expected = model(torch.tensor([ids[first : number + 1]]))[0, -1].log_softmax(dim=-1)
        np.testing.assert_allclose(logprobs[0], expected.detach().numpy(), rtol=1e-10)


def test_a_long_prompt_is_truncated_to_the_last_tokens_of_the_context() -> None:
    model = network("learned")
    predictor = NetworkPredictor(model, END)
    ids = [END, *text(30)]
    decoder = predictor.decoder()
    expected = model(torch.tensor([ids[-16:]]))[0, -1].detach().numpy()
    np.testing.assert_allclose(decoder.join([np.array(ids)])[0], expected)
    expected = model(torch.tensor([[*ids[-7:], 5]]))[0, -1].detach().numpy()
    np.testing.assert_allclose(decoder.step(np.array([5]))[0], expected)


# --- interpolation with an n-gram model ----------------------------------------------------------------------


def on_ngram(name: str, *, ends: bool = True) -> LanguageNetwork:
    counted = np.array([END, *text(300, 7), END, *text(100, 8), END])
    table = estimate(counted, VOCABULARY, NgramSettings(order=3), ends=ends).table
    model = LanguageNetwork(make(name, causal=True), ngram=table).double().eval()
    assert model.gate is not None
    torch.nn.init.normal_(model.gate.linear.weight, generator=torch.Generator().manual_seed(3))
    return model


@pytest.mark.parametrize("name", SETTINGS)
def test_the_gate_interpolates_network_and_ngram_probabilities(name: str) -> None:
    model = on_ngram(name)
    predictor = NetworkPredictor(model, END)
    ids = [END, *text(15), END, *text(9, 4)]
    scores = predictor.score(np.array(ids))
    bare = LanguageNetwork(model.encoder).double().eval()
    network_logprobs = NetworkPredictor(bare, END).score(np.array(ids)).logprobs
    assert model.ngram is not None
    other = model.ngram.score(np.array(ids))
    gates = scores.notes["gate"]
    assert 0 < gates.min() < gates.max() < 1
    np.testing.assert_allclose(
        np.exp(scores.logprobs), gates * np.exp(network_logprobs) + (1 - gates) * np.exp(other.logprobs)
    )
    assert (scores.notes["order"] == other.notes["order"]).all()


@pytest.mark.parametrize("name", SETTINGS)
def test_interpolated_scores_equal_those_of_incremental_decoding(name: str) -> None:
    model = on_ngram(name)
    predictor = NetworkPredictor(model, END)
    ids = [END, *text(15)]
    scores = predictor.score(np.array(ids)).logprobs
    np.testing.assert_allclose(scores, stepwise_logprobs(predictor, ids), rtol=1e-10)
    np.testing.assert_allclose(np.exp(next_logprobs(predictor, ids, ids[::-1])).sum(axis=1), 1)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_loss_of_the_network_does_not_include_the_ngram_model(name: str) -> None:
    model = on_ngram(name).train()
    ids = torch.tensor([[END, *text(15)]])
    model.loss(ids[:, :-1], ids[:, 1:]).backward()
    learned = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    LanguageNetwork(model.encoder).double().loss(ids[:, :-1], ids[:, 1:]).backward()
    for name_, parameter in model.named_parameters():
        if name_.startswith("gate."):
            assert learned[name_] is None
        else:
            torch.testing.assert_close(learned[name_], parameter.grad, rtol=0, atol=0)


def test_scoring_and_stepping_restore_the_mode_and_leave_no_gradients() -> None:
    model = network("lstm").train()
    predictor = NetworkPredictor(model, END)
    before = torch.get_rng_state()
    predictor.score(np.array([END, *text(20)]))
    predictor.decoder().join([np.array([END])])
    assert model.training
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.item(27)
def test_the_number_of_attention_scores_is_the_square_of_the_length() -> None:
    from satchel.nn.sites import recording

    encoder = make("rotary")
    sizes = []
    for length in (10, 20, 40):
        with recording(encoder, "blocks.0.attention.weights") as records:
            encoder.encode(torch.zeros(1, length, dtype=torch.long))
        sizes.append(records["blocks.0.attention.weights"][0].numel())
    assert sizes == [3 * 100, 3 * 400, 3 * 1600]


@pytest.mark.parametrize("name", STATEFUL)
def test_a_long_prompt_is_encoded_in_parts_with_the_same_result(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(name)
    predictor, ids = NetworkPredictor(model, END), [END, *text(2 * MAX_LENGTH)]
    lengths: list[int] = []
    step = model.encoder.step

    def recorded(ids_BT: Any, state: Any) -> Any:
        lengths.append(ids_BT.shape[1])
        return step(ids_BT, state)

    monkeypatch.setattr(model.encoder, "step", recorded)
    logprobs = next_logprobs(predictor, ids)
    assert lengths == [MAX_LENGTH, MAX_LENGTH, 1]
    whole = model(torch.tensor([ids]))[0, -1].log_softmax(-1).detach().numpy()
    np.testing.assert_allclose(logprobs[0], whole, rtol=1e-10)


@pytest.mark.parametrize("shift", [-200.0, 0.0, 200.0])
def test_log_probabilities_of_large_logits_do_not_overflow(shift: float) -> None:
    model = network("learned").float()
    ids = np.array([END, *text(10)])
    logprobs = NetworkPredictor(model, END).score(ids).logprobs
    model.head.logits.register_forward_hook(lambda module, inputs, logits: logits + shift)
    np.testing.assert_allclose(NetworkPredictor(model, END).score(ids).logprobs, logprobs, atol=1e-4)
