"""Lecture items on translation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import satchel
from satchel.models import DecoderOnly, Recurrent, RecurrentPair, Transformer, TransformerPair, build_pair
from satchel.models.recurrent import RecurrentSettings
from satchel.models.recurrent_pair import RecurrentMemory, RecurrentPairSettings
from satchel.models.transformer_pair import TransformerPairSettings
from satchel.nn.recurrence import RecurrentLayer
from satchel.nn.sites import recording

SWEDISH, ENGLISH = "Så varför minskar inte vi våra utsläpp?", "So why are we not reducing our emissions?"
QUICK: dict[str, Any] = {
    "model.width": 32,
    "training.learning_rate": 0.02,
    "training.weight_decay": 0.0,
    "training.threads": 1,
    "training.merge_dropout": 0.0,
    "training.label_smoothing": 0.0,
    "model.dropout": 0.0,
}


def learned(tmp_path: Path, rows: list[tuple[str, str]], tokenizer: str = "word", steps: int = 60) -> Any:
    path = tmp_path / "pairs.tsv"
    path.write_text("source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in rows * 4), encoding="utf-8")
    return satchel.train(
        path, model="lstm", tokenizer=tokenizer, steps=steps, valid=0.0, settings=QUICK, out=tmp_path / "run"
    )


@pytest.mark.item(43, 49)
def test_the_lectures_sentence_is_translated_and_aligned(tmp_path: Path) -> None:
    model = learned(tmp_path, [(SWEDISH, ENGLISH)], steps=150)
    assert model.translate(SWEDISH).target == ENGLISH
    alignment = model.align(SWEDISH)
    assert alignment.source == (*SWEDISH.split(), "<end>")
    assert alignment.target == (*ENGLISH.split(), "<end>")
    np.testing.assert_allclose(alignment.values.sum(axis=1), 1, atol=1e-5)


@pytest.mark.item(44)
def test_other_string_transductions_are_trained_as_pairs(tmp_path: Path) -> None:
    rows = [
        ("the dog chased a cat", "( S ( NP the dog ) ( VP chased ( NP a cat ) ) )"),
        ("dogs sleep", "( S ( NP dogs ) ( VP sleep ) )"),
        ("name = Anna | town = Uppsala | born = 1987", "Anna, born in 1987, lives in Uppsala."),
        ("name = Omar | town = Lund", "Omar lives in Lund."),
    ]
    model = learned(tmp_path, rows, steps=250)
    assert [model.translate(source).target for source, _ in rows] == [target for _, target in rows]


@pytest.mark.item(45)
@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_recurrent_networks_translate(kind: Any) -> None:
    pair = build_pair(RecurrentPairSettings(kind=kind, width=8), 5, 5)
    assert isinstance(pair, RecurrentPair)
    assert isinstance(pair.reader, Recurrent)
    assert {layer.cell for layer in pair.modules() if isinstance(layer, RecurrentLayer)} == {kind}


@pytest.mark.item(46)
@torch.no_grad()
def test_without_attention_the_decoder_knows_the_source_by_its_summary_only() -> None:
    pair = build_pair(RecurrentPairSettings(width=8, attention="none"), 20, 20)
    assert isinstance(pair, RecurrentPair)
    target = torch.tensor([[19, 1, 2]])
    for length in (2, 40):
        read = pair.read(torch.randint(0, 19, (1, length)))
        assert read.summary_BD.shape == (1, 8)
        # Sources with the same summary have the same translation, whatever their states.
        other = RecurrentMemory(torch.randn(1, 3, 8), torch.ones(1, 3, dtype=torch.bool), read.summary_BD)
        torch.testing.assert_close(pair.encode(target, other), pair.encode(target, read))
    looks = build_pair(RecurrentPairSettings(width=8), 20, 20)
    assert isinstance(looks, RecurrentPair)
    read = looks.read(torch.randint(0, 19, (1, 5)))
    other = RecurrentMemory(torch.randn(1, 3, 8), torch.ones(1, 3, dtype=torch.bool), read.summary_BD)
    assert not torch.allclose(looks.encode(target, other), looks.encode(target, read))


def norms(encoder: Any, length: int) -> list[float]:
    """Return the gradient norm of the last encoding at each token."""
    x = torch.randn(1, length, encoder.width, requires_grad=True)
    encoder.contextualise(x)[0, -1].sum().backward()
    assert x.grad is not None
    return [float(row.norm()) for row in x.grad[0]]


@pytest.mark.item(47, 48)
def test_the_influence_of_early_tokens_decreases_in_an_rnn() -> None:
    """The gradient of an untrained RNN vanishes at early tokens."""
    torch.manual_seed(0)
    norms_T = norms(Recurrent(RecurrentSettings(kind="rnn", width=32), 3, causal=True), 40)
    assert norms_T[0] < 1e-3 * norms_T[-1]
    assert np.mean(norms_T[30:]) > 10 * np.mean(norms_T[20:30]) > 10 * np.mean(norms_T[10:20])


@pytest.mark.item(47)
def test_attention_has_the_same_path_length_to_every_token() -> None:
    torch.manual_seed(0)
    pairs = {
        name: build_pair(RecurrentPairSettings(kind="rnn", width=32, attention=name), 50, 50)
        for name in ("none", "dot")
    }
    relative = {}
    for name, pair in pairs.items():
        assert isinstance(pair, RecurrentPair)
        # A unidirectional encoder, so that the first token is far from the last state.
        states = torch.randn(1, 40, 32, requires_grad=True)
        keep = torch.ones(1, 40, dtype=torch.bool)
        pair.encode(torch.tensor([[1]]), RecurrentMemory(states, keep, pair._summary(states, keep))).sum().backward()
        assert states.grad is not None
        relative[name] = float(states.grad[0, 5].norm())
    assert relative["none"] == 0
    assert relative["dot"] > 0


@pytest.mark.item(50)
def test_without_recurrence_all_positions_are_computed_in_parallel() -> None:
    """An attention layer computes all positions in one product; a recurrent layer takes one step per token."""
    source = torch.randint(0, 9, (1, 30))
    attends = build_pair(TransformerPairSettings(width=16, layers=1, heads=2), 10, 10)
    recurs = build_pair(RecurrentPairSettings(width=16), 10, 10)
    with torch.no_grad(), recording(attends, "reader.blocks.0.attention.weights") as records:
        attends.read(source)
    assert [tuple(each.shape) for each in records["reader.blocks.0.attention.weights"]] == [(1, 2, 30, 30)]
    with torch.no_grad(), recording(recurs, "reader.layers.0.gates") as gates:
        recurs.read(source)
    assert gates["reader.layers.0.gates"][0].shape[1] == 30


@pytest.mark.item(79, 103)
@torch.no_grad()
def test_a_triangular_mask_makes_an_encoder_a_decoder() -> None:
    """Decoder-only: source and target are one sequence, and no position attends to a later one."""
    torch.manual_seed(0)
    pair = build_pair(TransformerPairSettings(width=16, layers=2, heads=2, form="decoder-only"), 10, 10)
    assert isinstance(pair, DecoderOnly)
    assert isinstance(pair.encoder, Transformer)
    assert pair.encoder.causal
    for name, parameter in pair.named_parameters():
        if name.endswith(("out.weight", "narrow.weight")):
            torch.nn.init.normal_(parameter)
    source, target = torch.tensor([[3, 4, 9]]), torch.tensor([[9, 1, 2]])
    with recording(pair, "encoder.blocks.*.attention.weights") as records:
        pair.encode(target, pair.read(source))
    for weights in records.values():
        assert not weights[0].triu(1).any()
    full = build_pair(TransformerPairSettings(width=16, layers=2, heads=2), 10, 10)
    assert isinstance(full, TransformerPair)
    assert not full.reader.causal
    assert full.writer.causal


@pytest.mark.item(90)
@torch.no_grad()
def test_a_translator_is_a_conditional_language_model() -> None:
    """Given a source, the probabilities of all targets of a length and of all shorter ones sum to one."""
    from satchel.tasks.translation import NetworkTranslator, TranslationNetwork

    torch.manual_seed(0)
    network = TranslationNetwork(build_pair(RecurrentPairSettings(width=8), 4, 4)).double()
    for parameter in network.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter)
    translator = NetworkTranslator(network, 3, 3)
    for source in (np.array([0, 1, 2]), np.array([2])):
        ended = [np.array(t, np.int64) for t in ([], *([a] for a in range(3)))]
        longer = [np.array([a, b], np.int64) for a in range(3) for b in range(3)]
        total = sum(np.exp(each.sum()) for each in translator.score([source] * 4, ended))
        total += sum(np.exp(each[:-1].sum()) for each in translator.score([source] * 9, longer))
        assert total == pytest.approx(1)
