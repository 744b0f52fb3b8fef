"""Mixed precision: training with bfloat16 matrix products gives nearly the losses of float32."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import satchel
from satchel.data.batches import NO_TARGET
from satchel.errors import RunError
from satchel.nn.precision import instruction_sets, resolve
from satchel.nn.senses import gather_senses
from satchel.tasks.objectives import cross_entropy
from tests.faults.test_untrusted_runs import change_json, command
from tests.training import test_resume

TINY: dict[str, Any] = {"model.width": 32, "training.batch_tokens": 256, "training.learning_rate": 0.01}
WIDTHS = {"transformer": {"model.heads": 2, "model.layers": 1}, "backpack": {"model.heads": 2, "model.layers": 1}}
ROWS = [(a, b) for a in ("red", "blue", "green", "grey") for b in ("cat", "dog", "bird", "fish")] * 10
TABLES = {
    "lm": "\n".join(f"the {a} {b} sat by the {b}" for a, b in ROWS),
    "classify": "\n".join(["label\ttext", *(f"{'warm' if a == 'red' else 'cold'}\tthe {a} {b}" for a, b in ROWS)]),
    "translate": "\n".join(["source\ttarget", *(f"the {a} {b}\tle {b} {a}" for a, b in ROWS)]),
}


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        *(("lm", kind) for kind in ("dan", "window", "rnn", "lstm", "transformer", "backpack")),
        *(("classify", kind) for kind in ("dan", "lstm", "transformer", "backpack")),
        *(("translate", kind) for kind in ("gru", "transformer", "backpack")),
    ],
)
def test_every_network_has_nearly_the_same_loss_in_bfloat16_as_in_float32(task: str, kind: str, tmp_path: Path) -> None:
    data = tmp_path / ("text.txt" if task == "lm" else "table.tsv")
    data.write_text(TABLES[task] + "\n")
    losses = {}
    for precision in ("float32", "bfloat16"):
        settings = {**TINY, **WIDTHS.get(kind, {}), "training.precision": precision}
        run = tmp_path / precision
        model = satchel.train(data, model=kind, tokenizer="word", steps=30, settings=settings, out=run)
        assert model.report is not None
        losses[precision] = model.report.train_loss
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.1, abs=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cross_entropy_multiplies_in_bfloat16_and_sums_in_float32(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    hidden, weight, bias = (
        torch.randn(*shape, generator=generator, requires_grad=True) for shape in ((3000, 16), (50, 16), (50,))
    )
    targets = torch.randint(0, 50, (3000,), generator=generator)
    targets[5] = NO_TARGET
    expected = cross_entropy(hidden, weight, targets, bias, smoothing=0.1, at_once=5000)
    expected_gradients = torch.autograd.grad(expected, [hidden, weight, bias])
    with torch.autocast("cpu", torch.bfloat16):
        result = cross_entropy(hidden.to(dtype), weight, targets, bias, smoothing=0.1, at_once=5000)
    assert result.dtype == torch.float32
    # Each logit has a relative error of up to 1/256; a sum of 3,000 losses in bfloat16 would have a larger one.
    torch.testing.assert_close(result, expected, rtol=1e-3, atol=0)
    gradients = torch.autograd.grad(result, [hidden, weight, bias])
    for gradient, reference in zip(gradients, expected_gradients, strict=True):
        assert gradient.dtype == torch.float32
        assert float((gradient - reference).norm() / reference.norm()) < 0.02


@pytest.fixture(scope="module")
def bfloat16_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, str]:
    """Return a run trained in bfloat16, the JSON of `train`, and its messages."""
    folder = tmp_path_factory.mktemp("bfloat16")
    (folder / "text.txt").write_text(TABLES["lm"])
    settings = {**TINY, **WIDTHS["transformer"], "training.precision": "bfloat16"}
    changes = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    arguments = ["--model", "transformer", "--tokenizer", "word", "--steps", 2, "-o", folder / "run", *changes]
    code, printed, messages = command("train", folder / "text.txt", *arguments, "--json")
    assert code == 0, messages
    return folder / "run", json.loads(printed), messages


def test_the_precision_is_recorded_and_reported(bfloat16_run: tuple[Path, Any, str]) -> None:
    run, document, messages = bfloat16_run
    is_native = resolve("auto", instruction_sets("cpu")) == "bfloat16"
    assert document["precision"] == "bfloat16"
    assert "training.precision=bfloat16: " in messages
    assert ("slow" in messages) != is_native
    arithmetic = json.loads(command("info", run, "--json")[1])["facts"]["arithmetic"]
    assert arithmetic["precision"] == "bfloat16"
    assert arithmetic["bfloat16"] == ("native" if is_native else "emulated")


def test_auto_is_resolved_and_reported_before_the_first_step(tmp_path: Path) -> None:
    chosen = resolve("auto", instruction_sets("cpu"))
    (tmp_path / "text.txt").write_text(TABLES["lm"])
    arguments = ("--model", "lstm", "--tokenizer", "word", "--steps", 1, "--device", "cpu", "--json")
    plan = json.loads(command("train", tmp_path / "text.txt", *arguments, "--dry-run")[1])
    assert plan["settings"]["training"]["precision"] == "auto"
    assert any(reason.startswith(f"training.precision={chosen}: ") for reason in plan["reasons"])
    document = json.loads(command("train", tmp_path / "text.txt", *arguments, "-o", tmp_path / "run")[1])
    assert document["precision"] == chosen
    assert json.loads((tmp_path / "run" / "config.json").read_bytes())["facts"]["arithmetic"]["precision"] == chosen
    installation = json.loads(command("info", "--json")[1])
    assert installation["precision"] == chosen
    assert installation["instruction_sets"] == list(instruction_sets("cpu"))


def test_a_run_is_resumed_in_its_recorded_precision(tmp_path: Path) -> None:
    # A run of `auto` on a processor with other instruction sets.
    chosen = resolve("auto", instruction_sets("cpu"))
    recorded = "float32" if chosen == "bfloat16" else "bfloat16"
    (tmp_path / "text.txt").write_text(TABLES["lm"])
    changes = {**TINY, "training.precision": recorded, "training.checkpoint_every": 2}
    plan = satchel.api.plan(tmp_path / "text.txt", model="lstm", tokenizer="word", steps=4, settings=changes)
    satchel.api.run_plan(plan, out=tmp_path / "uninterrupted")
    steps = iter(range(1, 5))
    satchel.api.run_plan(plan, out=tmp_path / "resumed", should_stop=lambda: next(steps) == 2)
    change_json(tmp_path / "resumed", "config.json", "settings.training.precision", "auto")
    satchel.api.resume(tmp_path / "resumed")
    for name in ("model.safetensors", "checkpoints/step-0000000004/optimizer.safetensors"):
        assert (tmp_path / "resumed" / name).read_bytes() == (tmp_path / "uninterrupted" / name).read_bytes()


def test_a_run_is_not_resumed_with_other_bfloat16_instructions(bfloat16_run: tuple[Path, Any, str]) -> None:
    run = bfloat16_run[0]
    recorded = json.loads((run / "config.json").read_bytes())["facts"]["arithmetic"]["bfloat16"]
    assert command("train", "--resume", run)[0] == 0
    change_json(run, "config.json", "facts.arithmetic.bfloat16", "native" if recorded == "emulated" else "emulated")
    try:
        code, _, message = command("train", "--resume", run)
        assert code == 2
        assert f"--from {run} --set training.precision=float32" in message
        with pytest.raises(RunError, match="bit-identical"):
            satchel.api.resume(run)
    finally:
        change_json(run, "config.json", "facts.arithmetic.bfloat16", recorded)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_parameters_gradients_and_optimizer_state_stay_float32(optimizer: str) -> None:
    trainer = test_resume.trainer("modern", steps=3, optimizer=optimizer, precision="bfloat16")
    gradients: set[torch.dtype] = set()
    for parameter in trainer.job.network.parameters():
        parameter.register_post_accumulate_grad_hook(lambda each: gradients.add(each.grad.dtype))
    trainer.run()
    assert gradients == {torch.float32}
    assert {parameter.dtype for parameter in trainer.job.network.parameters()} == {torch.float32}
    assert {value.dtype for value in trainer.optimizer.state().values()} == {torch.float32}


def test_gradients_of_the_senses_of_a_frequent_token_are_summed_in_float32() -> None:
    senses = torch.ones(2, 1, 4, dtype=torch.bfloat16, requires_grad=True)
    # In bfloat16, 256 + 1 is 256.
    gather_senses(senses, torch.zeros(1, 1000, dtype=torch.long)).sum().backward()
    assert senses.grad is not None
    assert senses.grad[0].unique().tolist() == [1000.0]


def test_a_bfloat16_loss_is_precise_for_certain_and_finite_for_impossible_targets() -> None:
    hidden = torch.ones(2, 1, requires_grad=True)
    weight = torch.tensor([[8.0], [0.0], [-120.0]], requires_grad=True)
    expected = torch.nn.functional.cross_entropy(weight.T, torch.tensor([0])).detach()
    with torch.autocast("cpu", torch.bfloat16):
        certain = cross_entropy(hidden, weight, torch.tensor([0, NO_TARGET]), reduction="sum")
        impossible = cross_entropy(hidden, weight, torch.tensor([2, NO_TARGET]), reduction="sum")
    torch.testing.assert_close(certain.detach(), expected)
    assert 80 < impossible < 100
    certain.backward()
    # p - 1, which would be 0 if p were rounded to bfloat16 first.
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad[0], torch.expm1(-expected)[None], rtol=0.01, atol=0)
