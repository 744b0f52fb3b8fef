"""Mixed precision: training with bfloat16 matrix products gives nearly the losses of float32."""

from pathlib import Path
from typing import Any

import pytest
import torch

import satchel
from satchel.data.batches import NO_TARGET
from satchel.nn.attention import MultiHead
from satchel.tasks.objectives import cross_entropy

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


def test_attention_on_the_cpu_stays_in_float32() -> None:
    layer = MultiHead(16, 2)
    dtypes = []
    layer.outputs.register_forward_hook(lambda _module, inputs, _output: dtypes.append(inputs[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        layer(torch.randn(2, 5, 16), causal=True)
    assert dtypes == [torch.float32]
