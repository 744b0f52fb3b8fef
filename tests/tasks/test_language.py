"""Language networks: what goes in and comes out, the objective, and the network as a predictor."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from satchel.data.batches import NO_TARGET
from satchel.data.tokens import TokenCounts
from satchel.evaluation.likelihood import likelihood
from satchel.models.build import build_encoder
from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.tasks.language import LanguageHead, LanguageNetwork, NetworkPredictor, chunked, shifted
from tests.models.encoders import SETTINGS, VOCABULARY, make, transformer

END = VOCABULARY - 1
STATEFUL = ["dan", "window", "rnn", "gru", "lstm"]


def network(name: str, *, tied: bool = True, causal: bool = True) -> LanguageNetwork:
    return LanguageNetwork(make(name, causal=causal), tied=tied).double().eval()


def text(length: int, seed: int = 0) -> list[int]:
    return [int(id_) for id_ in np.random.default_rng(seed).integers(0, END, length)]


# --- pairs ---------------------------------------------------------------------------------------------------


@pytest.mark.item(81)
def test_what_comes_out_is_what_goes_in_one_place_on() -> None:
    words = "<s> I saw the dog running".split()
    inputs, targets = shifted(torch.arange(6))
    assert [words[i] for i in inputs] == "<s> I saw the dog".split()
    assert [words[i] for i in targets] == "I saw the dog running".split()


@pytest.mark.item(85)
def test_each_row_of_a_batch_begins_again() -> None:
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
def test_the_two_forms_of_the_softmax_are_one() -> None:
    made = network("learned")
    ids = torch.tensor([[1, 2, 3]])
    hidden = made.encoder.encode(ids)[0, -1]
    by_words = torch.stack([torch.exp(vector @ hidden) for vector in made.head.weight])
    torch.testing.assert_close(made(ids)[0, -1].softmax(dim=-1), by_words / by_words.sum())


def test_a_tied_head_has_the_words_own_vectors_and_another_its_own() -> None:
    tied, untied = network("learned"), network("learned", tied=False)
    assert tied.head.weight is tied.encoder.embedding.weight
    assert untied.head.weight is not untied.encoder.embedding.weight
    count = sum(parameter.numel() for parameter in tied.parameters())
    assert sum(parameter.numel() for parameter in untied.parameters()) == count + VOCABULARY * 12
    assert isinstance(tied.head, LanguageHead)


@pytest.mark.item(82, 84)
@pytest.mark.parametrize("name", SETTINGS)
def test_the_loss_of_a_batch_is_the_sum_over_prefixes_fed_one_at_a_time(name: str) -> None:
    made = network(name)
    inputs, targets = shifted(torch.tensor([text(10), text(10, 1)]))
    total = made.loss(inputs, targets, "sum")
    one_by_one = torch.zeros((), dtype=torch.float64)
    for row in range(2):
        for length in range(1, 10):
            logits = made(inputs[row : row + 1, :length])[0, -1]
            one_by_one -= logits.log_softmax(dim=-1)[targets[row, length - 1]]
    torch.testing.assert_close(total, one_by_one, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(made.loss(inputs, targets), total / 18)


@pytest.mark.item(75)
def test_a_model_that_sees_what_comes_copies_it_and_one_that_does_not_cannot() -> None:
    """On text that nobody can predict, the unmasked model learns all but the last position of a row."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    costs: dict[bool, Any] = {}
    for causal in (False, True):
        made = LanguageNetwork(make("learned", causal=causal), tied=False).float().train()
        optimizer = torch.optim.AdamW(made.parameters(), lr=0.01)
        for _ in range(250):
            ids = torch.randint(0, END, (32, 9), generator=generator)
            optimizer.zero_grad()
            made.loss(ids[:, :-1], ids[:, 1:]).backward()
            optimizer.step()
        ids = torch.randint(0, END, (64, 9), generator=generator)
        logprobs = made(ids[:, :-1]).log_softmax(dim=-1)
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

    found = likelihood(Given(), np.zeros(5), TokenCounts(tokens=4))  # type: ignore[arg-type]
    assert found.nats_per_token == pytest.approx(1.242453, abs=1e-6)
    assert found.perplexity == pytest.approx(math.sqrt(12))
    assert found.perplexity == pytest.approx((4 * 3 * 4 * 3) ** (1 / 4))


# --- as a predictor ------------------------------------------------------------------------------------------


def stepped(predictor: NetworkPredictor, ids: list[int]) -> Any:
    """Return the log-probability of each token of one document, going on token by token."""
    state, found = predictor.start(1), []
    for current, following in pairwise(ids):
        logprobs, state = predictor.step(np.array([[current]]), state)
        found.append(logprobs[0, following])
    return np.array(found)


@pytest.mark.item(1, 78)
@pytest.mark.parametrize("name", SETTINGS)
def test_a_text_costs_the_sum_of_its_steps(name: str) -> None:
    predictor = NetworkPredictor(network(name), END)
    ids = [END, *text(15)]
    scores = predictor.score(np.array(ids))
    np.testing.assert_allclose(scores.logprobs, stepped(predictor, ids), rtol=1e-10)
    logprobs, _ = predictor.step(np.array([ids]), predictor.start(1))
    np.testing.assert_allclose(np.exp(logprobs).sum(axis=1), 1)


@pytest.mark.parametrize("name", STATEFUL)
def test_a_state_is_carried_through_a_document_however_long(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = NetworkPredictor(network(name), END)
    ids = [END, *text(200)]
    whole = predictor.score(np.array(ids)).logprobs
    monkeypatch.setattr("satchel.tasks.language.MAX_LENGTH", 16)
    np.testing.assert_allclose(predictor.score(np.array(ids)).logprobs, whole, rtol=1e-10)
    np.testing.assert_allclose(whole, stepped(predictor, ids), rtol=1e-10)


@pytest.mark.parametrize("name", ["dan", "lstm", "learned", "rotary"])
def test_documents_know_nothing_of_each_other(name: str) -> None:
    predictor = NetworkPredictor(network(name), END)
    documents = [text(5, 1), [], text(40, 2), text(3, 3)]
    ids = [END, *(id_ for document in documents for id_ in [*document, END])]
    apart = [predictor.score(np.array([END, *document, END])).logprobs for document in documents]
    np.testing.assert_allclose(predictor.score(np.array(ids)).logprobs, np.concatenate(apart), rtol=1e-10)


@pytest.mark.parametrize("length", [3, 15, 16, 17, 24, 25, 40, 61])
def test_windows_move_on_by_half_and_every_token_sees_at_least_half_of_one(length: int) -> None:
    made = network("learned")
    predictor = NetworkPredictor(made, END)
    ids = [END, *text(length)]
    found = predictor.score(np.array(ids)).logprobs
    assert len(found) == length
    for place in range(length):
        # The window that a token's prediction comes from: the first, or the one whose last half it is in.
        start = 0 if place < 16 else 8 * ((place - 8) // 8)
        logits = made(torch.tensor([ids[start : place + 1]]))[0, -1]
        assert found[place] == pytest.approx(logits.log_softmax(dim=-1)[ids[place + 1]].item(), rel=1e-10)
        assert place - start + 1 >= min(place + 1, 8)


def test_a_window_of_odd_length_is_scored_from_where_the_one_before_ended() -> None:
    torch.manual_seed(0)
    made = LanguageNetwork(build_encoder(transformer(context=7), VOCABULARY, causal=True)).double().eval()
    predictor = NetworkPredictor(made, END)
    ids = [END, *text(20)]
    found = predictor.score(np.array(ids)).logprobs
    for place in range(20):
        start = 0 if place < 7 else 3 * ((place - 4) // 3)
        logits = made(torch.tensor([ids[start : place + 1]]))[0, -1]
        assert found[place] == pytest.approx(logits.log_softmax(dim=-1)[ids[place + 1]].item(), rel=1e-10)


def test_past_the_context_the_last_half_is_read_again() -> None:
    made = network("learned")
    predictor = NetworkPredictor(made, END)
    ids = [END, *text(30)]
    state = predictor.start(1)
    for number, id_ in enumerate(ids[:17]):
        logprobs, state = predictor.step(np.array([[id_]]), state)
        first = 0 if number < 16 else number - 7
        expected = made(torch.tensor([ids[first : number + 1]]))[0, -1].log_softmax(dim=-1)
        np.testing.assert_allclose(logprobs[0], expected.detach().numpy(), rtol=1e-10)
    long, _ = predictor.step(np.array([ids]), predictor.start(1))
    np.testing.assert_allclose(long[0], made(torch.tensor([ids[-8:]]))[0, -1].log_softmax(dim=-1).detach().numpy())


# --- standing on an n-gram -----------------------------------------------------------------------------------


def on_ngram(name: str, *, ends: bool = True) -> LanguageNetwork:
    counted = np.array([END, *text(300, 7), END, *text(100, 8), END])
    table = estimate(counted, VOCABULARY, NgramSettings(order=3), ends=ends).table
    made = LanguageNetwork(make(name, causal=True), ngram=table).double().eval()
    assert made.gate is not None
    torch.nn.init.normal_(made.gate.linear.weight, generator=torch.Generator().manual_seed(3))
    return made


@pytest.mark.parametrize("name", SETTINGS)
def test_what_stands_on_an_ngram_adds_its_probabilities_by_the_gate(name: str) -> None:
    made = on_ngram(name)
    predictor = NetworkPredictor(made, END)
    ids = [END, *text(15), END, *text(9, 4)]
    scores = predictor.score(np.array(ids))
    bare = LanguageNetwork(made.encoder).double().eval()
    own = NetworkPredictor(bare, END).score(np.array(ids)).logprobs
    assert made.ngram is not None
    other = made.ngram.score(np.array(ids))
    gates = scores.notes["gate"]
    assert 0 < gates.min() < gates.max() < 1
    np.testing.assert_allclose(np.exp(scores.logprobs), gates * np.exp(own) + (1 - gates) * np.exp(other.logprobs))
    assert (scores.notes["order"] == other.notes["order"]).all()


@pytest.mark.parametrize("name", SETTINGS)
def test_also_what_stands_on_an_ngram_costs_the_sum_of_its_steps(name: str) -> None:
    made = on_ngram(name)
    predictor = NetworkPredictor(made, END)
    ids = [END, *text(15)]
    scores = predictor.score(np.array(ids)).logprobs
    np.testing.assert_allclose(scores, stepped(predictor, ids), rtol=1e-10)
    logprobs, _ = predictor.step(np.array([ids, ids[::-1]]), predictor.start(2))
    np.testing.assert_allclose(np.exp(logprobs).sum(axis=1), 1)


@pytest.mark.parametrize("name", SETTINGS)
def test_what_stands_on_an_ngram_learns_as_if_it_stood_alone(name: str) -> None:
    made = on_ngram(name).train()
    ids = torch.tensor([[END, *text(15)]])
    made.loss(ids[:, :-1], ids[:, 1:]).backward()
    learned = {name: parameter.grad for name, parameter in made.named_parameters()}
    made.zero_grad()
    LanguageNetwork(made.encoder).double().loss(ids[:, :-1], ids[:, 1:]).backward()
    for name_, parameter in made.named_parameters():
        if name_.startswith("gate."):
            assert learned[name_] is None
        else:
            torch.testing.assert_close(learned[name_], parameter.grad, rtol=0, atol=0)


def test_scoring_and_stepping_leave_no_trace() -> None:
    made = network("lstm").train()
    predictor = NetworkPredictor(made, END)
    before = torch.get_rng_state()
    predictor.score(np.array([END, *text(20)]))
    predictor.step(np.array([[END]]), predictor.start(1))
    assert made.training
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in made.parameters())


@pytest.mark.item(27)
def test_the_scores_of_attention_grow_with_the_square_of_the_length() -> None:
    from satchel.nn.sites import recording

    made = make("rotary")
    sizes = []
    for length in (10, 20, 40):
        with recording(made, "blocks.0.attention.weights") as found:
            made.encode(torch.zeros(1, length, dtype=torch.long))
        sizes.append(found["blocks.0.attention.weights"][0].numel())
    assert sizes == [3 * 100, 3 * 400, 3 * 1600]
