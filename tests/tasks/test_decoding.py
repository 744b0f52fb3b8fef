"""Decoders: cached prediction of a changing batch of rows equals prediction from the whole text of each row."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from satchel.errors import NonFiniteError
from satchel.generation.mixing import Mix
from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.ngram.tables import Table
from satchel.predictor import Floats, Ids, Logits, Predictor, log_probabilities
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from tests.models.encoders import SETTINGS, VOCABULARY, make

END = VOCABULARY - 1


def table(order: int = 3) -> Table:
    ids = np.random.default_rng(1).integers(0, END, 400)
    ids[::37] = END
    return estimate(np.concatenate([[END], ids, [END]]), VOCABULARY, NgramSettings(order=order), ends=True).table


def network(name: str) -> NetworkPredictor:
    return NetworkPredictor(LanguageNetwork(make(name)).double().eval(), END)


def gated(name: str) -> NetworkPredictor:
    model = LanguageNetwork(make(name), ngram=table()).double().eval()
    assert model.gate is not None
    torch.nn.init.normal_(model.gate.linear.weight, generator=torch.Generator().manual_seed(3))
    return NetworkPredictor(model, END)


def mix() -> Mix:
    parts = table(2), network("learned"), gated("gru")
    return Mix(parts, np.array([0.2, 0.5, 0.3]), ("bigram", "transformer", "gated"))


PREDICTORS: dict[str, Callable[[], Predictor]] = {
    **{name: lambda name=name: network(name) for name in SETTINGS},  # type: ignore[misc]
    "unigram": lambda: table(1),
    "trigram": table,
    "gated lstm": lambda: gated("lstm"),
    "gated backpack": lambda: gated("backpack"),
    "mixture": mix,
}


@dataclass(frozen=True)
class Row:
    """The tokens of a row and, for a window of W tokens, the number of tokens in the current window."""

    ids: tuple[int, ...]
    lengths: dict[int, int]

    def append(self, id_: int) -> "Row":
        lengths = {window: max(1, window // 2) if n == window else n + 1 for window, n in self.lengths.items()}
        return Row((*self.ids, id_), lengths)


def uncached(predictor: Predictor, row: Row) -> Floats:
    """Return the log-probabilities after the tokens of a row, computed from all tokens of its current window."""
    match predictor:
        case Mix():
            parts = [uncached(part, row) for part in predictor.parts]
            return np.asarray(np.log(predictor.weights @ np.exp(np.stack(parts))))
        case Table():
            return np.asarray(
                np.log(predictor.distribution(predictor.advance(np.array([row.ids]), predictor.start(1)))[0])
            )
    assert isinstance(predictor, NetworkPredictor)
    model, length = predictor.network, row.lengths.get(predictor.window or 0, len(row.ids))
    with torch.no_grad():
        encoded_D = model.encoder.encode(torch.tensor([row.ids[-length:]]))[0, -1]
        probabilities = model.head(encoded_D).softmax(dim=-1).numpy()
        if model.ngram is not None and model.gate is not None:
            gate = float(model.gate(encoded_D).sigmoid())
            probabilities = gate * probabilities + (1 - gate) * np.exp(uncached(model.ngram, row))
    return np.asarray(np.log(probabilities))


@pytest.mark.parametrize("name", PREDICTORS)
def test_cached_equals_uncached_prediction_while_rows_join_leave_and_are_rewound(name: str) -> None:
    predictor = PREDICTORS[name]()
    for case in range(4):
        _compare_random_operations(predictor, np.random.default_rng(case))


def _compare_random_operations(predictor: Predictor, rng: np.random.Generator) -> None:
    decoder, rows = predictor.decoder(), list[Row]()

    def tokens(*shape: int) -> Ids:
        return rng.integers(0, END, shape)

    def compare(logits_BV: Logits, expected: list[Row]) -> None:
        logprobs_BV = log_probabilities(decoder, logits_BV)
        np.testing.assert_allclose(logprobs_BV, [uncached(predictor, row) for row in expected], rtol=1e-9, atol=1e-9)

    for _ in range(14):
        operation = rng.choice(["join", "step", "extend", "keep"]) if rows else "join"
        if operation == "join":
            prompts = [np.append(END, tokens(rng.choice([0, 2, 2, 5, 15, 24]))) for _ in range(rng.integers(1, 4))]
            logits_BV = decoder.join(prompts)
            new = [Row(tuple(prompt.tolist()), {16: min(16, len(prompt))}) for prompt in prompts]
            compare(logits_BV, new)
            rows += new
        elif operation == "step":
            ids_B = tokens(len(rows))
            logits_BV = decoder.step(ids_B)
            rows = [row.append(id_) for row, id_ in zip(rows, ids_B.tolist(), strict=True)]
            compare(logits_BV, rows)
        elif operation == "keep":
            kept = rng.integers(0, len(rows), rng.integers(1, 5))
            decoder.keep(kept)
            rows = [rows[number] for number in kept]
        else:
            ids_BT, history = tokens(len(rows), int(rng.integers(1, 12))), [rows]
            logits_BTV = decoder.extend(ids_BT)
            for position, ids_B in enumerate(ids_BT.T):
                history.append([row.append(id_) for row, id_ in zip(history[-1], ids_B.tolist(), strict=True)])
                compare(logits_BTV[:, position], history[-1])
            counts_B = rng.integers(0, ids_BT.shape[1] + 1, len(rows))
            if rng.random() < 0.7:
                decoder.rewind(counts_B)
                rows = [history[-1 - count][number] for number, count in enumerate(counts_B)]
            else:
                rows = history[-1]
        assert decoder.rows == len(rows)


def test_room_is_the_number_of_tokens_before_the_first_window_slides() -> None:
    decoder = network("learned").decoder()
    assert decoder.room == 16
    decoder.join([np.array([END, 1, 2]), np.array([END] * 9)])
    assert decoder.room == 7
    decoder.extend(np.zeros((2, 7), np.int64))
    assert decoder.room == 0
    decoder.step(np.array([1, 1]))
    assert decoder.room == 5, "the first row has 11 tokens, the second starts a new window with 8 tokens"
    decoder.keep(np.array([1]))
    assert decoder.room == 8
    assert table().decoder().room is None
    assert network("lstm").decoder().room is None
    assert mix().decoder().room == 16


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_network_with_values_that_are_not_finite_is_refused(value: float) -> None:
    predictor = network("lstm")
    with torch.no_grad():
        predictor.network.head.weight[3] = value
    with pytest.raises(NonFiniteError):
        predictor.decoder().join([np.array([END])])


@pytest.mark.parametrize("name", SETTINGS)
def test_cached_equals_uncached_decoding_in_single_precision(name: str) -> None:
    predictor = NetworkPredictor(LanguageNetwork(make(name)).float().eval(), END)
    for case in range(20):
        rng, decoder = np.random.default_rng(case), predictor.decoder()
        prompts = [np.append(END, rng.integers(0, END, rng.integers(0, 20))) for _ in range(rng.integers(1, 4))]
        logits_BTV = decoder.join(prompts)[:, None]
        history = [[Row(tuple(prompt.tolist()), {16: min(16, len(prompt))}) for prompt in prompts]]
        for count in rng.integers(1, 5, 3):
            ids_BT = rng.integers(0, END, (len(prompts), count))
            logits_BTV = decoder.step(ids_BT[:, 0])[:, None] if count == 1 else decoder.extend(ids_BT)
            for ids_B in ids_BT.T:
                history.append([row.append(id_) for row, id_ in zip(history[-1], ids_B.tolist(), strict=True)])
        for logits_BV, rows in zip(logits_BTV.swapaxes(0, 1), history[-logits_BTV.shape[1] :], strict=True):
            for logits_V, row in zip(logits_BV, rows, strict=True):
                length = row.lengths[16] if predictor.window else len(row.ids)
                with torch.no_grad():
                    expected_V = predictor.network(torch.tensor([row.ids[-length:]]))[0, -1].numpy()
                assert np.abs(logits_V - expected_V).max() <= 1e-5 * np.abs(expected_V).max()
                assert expected_V.max() - expected_V[logits_V.argmax()] <= 1e-5
