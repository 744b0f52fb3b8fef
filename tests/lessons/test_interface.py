"""The encoders' interface, as the lesson shows it: with the real encoders."""

from typing import Any

import pytest
import torch

from satchel.errors import SettingsError
from satchel.lessons.interface import KINDS, WIDTH, interface
from satchel.lessons.steps import Cell, Lesson, Step, is_right
from satchel.models.build import build_encoder
from satchel.models.recurrent import RecurrentSettings
from satchel.models.transformer import TransformerSettings


def step(title: str, **dials: Any) -> Step:
    """Return the one step whose title begins so."""
    (found,) = (each for each in interface(**dials) if each.title.startswith(title))
    return found


def values(title: str, **dials: Any) -> tuple[tuple[Cell, ...], ...]:
    return step(title, **dials).matrices[0].values


@pytest.mark.item(12)
@pytest.mark.parametrize("kind", KINDS)
def test_as_many_vectors_come_out_as_words_go_in(kind: str) -> None:
    for words in ("the cat", "the cat sat on the mat"):
        count = len(words.split())
        encoded = step(f"h_{count} =", words=words, kind=kind)
        assert encoded.answer == (count,)
        assert [len(row) for row in encoded.matrices[0].values] == [WIDTH] * count


@pytest.mark.item(12)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_encoding_depends_on_its_word_and_those_before(kind: str, seed: int) -> None:
    before, last = values("Who depends", kind=kind, seed=seed)
    assert before[0] == last[0] == last[1] == 0
    assert float(before[2]) > 1e-3
    assert float(last[2]) > 1e-3


@pytest.mark.item(7, 12)
@pytest.mark.parametrize("kind", KINDS)
def test_going_on_word_by_word_gives_the_same_vectors(kind: str) -> None:
    torch.testing.assert_close(
        torch.tensor(values("Going on", kind=kind)), torch.tensor(values("h_3 =", kind=kind)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.item(7)
def test_only_a_table_of_positions_grows_with_the_length() -> None:
    table = step("Any of them").matrices[0]
    rows = dict(zip(table.rows, table.values, strict=True))
    assert set(rows) == set(KINDS)
    assert all(row[0] == f"3 x {WIDTH}" for row in rows.values())
    assert [kind for kind, row in rows.items() if row[1] != row[2]] == ["transformer"]
    assert int(rows["transformer"][2]) - int(rows["transformer"][1]) == 3 * WIDTH
    encoder = build_encoder(RecurrentSettings(kind="gru", width=WIDTH), 4, causal=True)
    assert rows["gru"][1] == sum(parameter.numel() for parameter in encoder.parameters())


@pytest.mark.item(12)
@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_out_of_one_encoder_goes_into_another(kind: str) -> None:
    stacked = step("Layers stack", kind=kind).matrices[0]
    assert stacked.name == ("lstm above transformer" if kind == "transformer" else f"transformer above {kind}")
    assert [len(row) for row in stacked.values] == [WIDTH] * 3
    assert stacked.values != values("h_3 =", kind=kind)


@pytest.mark.item(67)
def test_another_layer_makes_probabilities_of_the_last_vector() -> None:
    found = step("Another layer").matrices[0]
    assert found.columns == ("the", "cat", "sat", "<other>")
    embeddings = torch.tensor(values("Words become"))
    scores = embeddings @ torch.tensor(values("h_3 ="))[-1]
    chances = torch.tensor(found.values[0])
    assert float(chances.sum()) == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close((chances[1] / chances[0]).log(), scores[1] - scores[0])


def test_the_lesson_leaves_the_random_numbers_of_others_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    interface()
    assert torch.equal(torch.rand(3), expected)


def test_seeds_and_kinds_are_dials() -> None:
    lesson = Lesson("api", "One interface", "notes", (12,), interface)
    assert lesson.run(seed=3) == lesson.run(seed=3)
    assert lesson.run(seed=3) != lesson.run(seed=4)
    assert lesson.run(kind="rnn")[1].matrices != lesson.run(kind="gru")[1].matrices
    assert TransformerSettings().kind in KINDS


@pytest.mark.item(104)
def test_the_question_of_the_exchange_can_be_answered() -> None:
    assert is_right("Nothing at all", step("Any of them").answer)
    assert not is_right("everything", step("Any of them").answer)


@pytest.mark.parametrize(
    ("dials", "cause"),
    [
        ({"words": "alone"}, "words: found 1 of them, expected 2 to 12"),
        ({"words": "a " * 13}, "words: found 13"),
        ({"kind": "perceptron"}, "kind: found 'perceptron', expected one of dan, window"),
        ({"seed": -1}, "seed: found -1"),
        ({"seed": 1 << 32}, "seed: found"),
    ],
)
def test_bad_dials_are_told(dials: dict[str, Any], cause: str) -> None:
    with pytest.raises(SettingsError, match=cause) as caught:
        interface(**dials)
    assert caught.value.remedy
