"""Language models without causal mask (model.causal=false): they copy their targets and do not generate."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import satchel
from satchel import api
from satchel.data.batches import NO_TARGET
from satchel.errors import RunError, SatchelError, SettingsError
from tests.cli.conftest import Cli, json_of

SMALL = {
    "model.width": 32, "model.heads": 2, "model.layers": 1, "model.context": 16, "training.batch_tokens": 1024,
    "training.learning_rate": 0.01, "training.threads": 1,
}  # fmt: skip
LETTERS = "abcdefgh"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text of random letters, of which no letter can be predicted from others."""
    path = tmp_path_factory.mktemp("unmasked")
    letters = random.Random(0)
    (path / "letters.txt").write_text("".join(letters.choice(LETTERS) for _ in range(20_000)))
    return path


def train(folder: Path, name: str, settings: dict[str, Any] | None = None, **options: Any) -> Any:
    """Train a small model on the letters."""
    chosen = {"model": "transformer", "tokenizer": "char", "steps": 150, "valid": 0.05, **options}
    data = chosen.pop("data", folder / "letters.txt")
    return satchel.train(data, settings={**SMALL, **(settings or {})}, out=folder / name, force=True, **chosen)


@pytest.fixture(scope="module")
def unmasked(folder: Path) -> Any:
    return train(folder, "unmasked", {"model.causal": False})


@pytest.fixture(scope="module")
def masked(folder: Path) -> Any:
    return train(folder, "masked", {"model.causal": True})


@pytest.mark.item(75)
def test_loss_approaches_0_without_mask_on_targets_in_the_input_only(unmasked: Any, masked: Any) -> None:
    without, with_mask = unmasked.evaluate(), masked.evaluate()
    assert without.sees_targets
    assert without.targets_in_input.perplexity < 1.05
    # The last target of a window is predicted from unrelated letters.
    assert without.targets_not_in_input.perplexity > 0.95 * len(LETTERS)
    assert with_mask.perplexity > 0.95 * len(LETTERS)
    assert not with_mask.sees_targets
    windows = -(-without.tokens // 16)
    assert (without.targets_not_in_input.tokens, without.targets_in_input.tokens) == (windows, without.tokens - windows)
    total = sum(part.nats_per_token * part.tokens for part in (without.targets_in_input, without.targets_not_in_input))
    assert total / without.tokens == pytest.approx(without.nats_per_token)
    assert unmasked.report.train_loss < 0.25 < 1.9 < masked.report.train_loss


def test_a_position_sees_later_tokens_but_no_padding(unmasked: Any) -> None:
    encoded = [unmasked.tokenizer.encode(text).ids for text in ("abcd", "abce")]
    predicted = [int(unmasked.network(torch.tensor(ids)[None])[0, 2].argmax()) for ids in encoded]
    assert unmasked.tokenizer.decode(predicted) == "de"
    ids = [unmasked.tokenizer.boundary, *unmasked.tokenizer.encode("abcdefgh" * 3).ids]
    together = unmasked.predictor.score(np.array(ids))
    assert np.flatnonzero(~together.notes["target_in_input"]).tolist() == [15, 23]
    # The second window is shorter than the first and padded in the batch.
    alone = unmasked.network(torch.tensor(ids[16:24])[None]).log_softmax(-1)
    expected = alone[0, range(8), ids[17:25]].detach().numpy()
    np.testing.assert_allclose(together.logprobs[16:24], expected, rtol=1e-4, atol=1e-5)


def test_documents_of_different_lengths_are_trained_without_padding_in_the_attention(folder: Path) -> None:
    (folder / "lines.txt").write_text("ab\nabcdefgh\nba\nhgfedcba\n" * 50)
    settings = {"model.causal": False, "data.documents": "line"}
    model = train(folder, "lines", settings, data=folder / "lines.txt", steps=5)

    def loss(inputs: Any, targets: Any) -> float:
        return float(model.network.loss(inputs, targets, "sum").detach())

    inputs_BT, targets_BT = torch.tensor([[8, 0], [8, 1]]), torch.tensor([[0, 1], [1, NO_TARGET]])
    apart = loss(inputs_BT[:1], targets_BT[:1]) + loss(inputs_BT[1:, :1], targets_BT[1:, :1])
    assert loss(inputs_BT, targets_BT) == pytest.approx(apart, rel=1e-5)


def test_left_to_right_prediction_is_refused(unmasked: Any, cli: Cli) -> None:
    for method in (unmasked.generate, unmasked.next, unmasked.attributions):
        with pytest.raises(RunError, match="cannot predict a text from left to right"):
            method("abc")
    code, printed, messages = cli("generate", unmasked.folder, "abc")
    assert (code, printed) == (2, "")
    assert all(part in messages for part in (str(unmasked.folder), "model.causal=false", "model.causal=true"))


def test_comparisons_and_mixtures_are_refused(unmasked: Any, masked: Any, folder: Path) -> None:
    runs = [masked.folder, unmasked.folder]
    with pytest.raises(RunError, match="sees its targets, so it cannot be compared"):
        satchel.compare(runs)
    with pytest.raises(RunError, match="sees its targets, so it cannot be mixed"):
        satchel.mix(runs, folder / "mix")
    assert not (folder / "mix").exists()


def test_commands_state_that_the_model_sees_its_targets(unmasked: Any, cli: Cli, tmp_path: Path) -> None:
    code, printed, messages = cli("evaluate", unmasked.folder)
    assert code == 0, messages
    assert "not in the input" in printed
    assert "not defined: the model sees its targets" in printed
    assert "sees its targets" in messages
    result = json_of(cli, "evaluate", unmasked.folder)
    assert result["bits_per_byte"] is None
    assert set(result["targets_in_input"]) == {"tokens", "nats_per_token", "perplexity"}
    for command in (["score", unmasked.folder, "abc"], ["look", "surprise", unmasked.folder, "abc"]):
        code, _, messages = cli(*command)
        assert (code, "sees its targets" in messages) == (0, True)
    tokens = json_of(cli, "score", unmasked.folder, "abc")["tokens"]
    assert [token["target_in_input"] for token in tokens] == [True, True, False]
    assert json_of(cli, "info", unmasked.folder)["model"]["causal"] is False
    out = tmp_path / "report.html"
    code, _, messages = cli("report", unmasked.folder, "-o", out)
    assert code == 0, messages
    assert "sees its targets" in out.read_text(encoding="utf-8")


def test_the_setting_is_refused_where_it_has_no_meaning(folder: Path) -> None:
    for kind in ("ngram", "dan", "window", "lstm"):
        with pytest.raises(SettingsError, match=f"kind {kind} has no causal mask"):
            api.plan(folder / "letters.txt", model=kind, settings={"model.causal": False})
    with pytest.raises(SatchelError, match=r"model\.ngram"):
        api.plan(folder / "letters.txt", settings={"model.causal": False, "model.ngram": 3})
    for data in ("@reverse", "@counting"):
        with pytest.raises(SatchelError, match=r"model\.causal: only language models"):
            api.plan(data, model="transformer", settings={"model.causal": False})
    # The default, an interpolation with an n-gram model, is not chosen.
    assert api.plan(folder / "letters.txt", settings={"model.causal": False}).settings.model.ngram == 0


def test_a_backpack_without_mask_copies_its_targets(folder: Path) -> None:
    model = train(folder, "backpack", {"model.causal": False, "model.senses": 2}, model="backpack", steps=120)
    assert model.evaluate().targets_in_input.perplexity < 2 < model.evaluate().targets_not_in_input.perplexity
    assert "causal mask" in model.facts()
