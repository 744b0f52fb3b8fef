"""What is forgotten on the way: strings are written backwards, with and without attention to what was read.

    python bench/seq2seq.py [--minutes 4] [--size 50000] [--threads 1] [--quick]

Four networks of about the same size get the same minutes on @reverse, one after another. Then, on strings that none
has seen:
- how many are written without a mistake, by their length: a vector of fixed size is a bottleneck;
- what a letter costs, by where it stood in the source: what was read last is known best;
- tokens per second of training: what recurrence costs.

Before that, how gradients fade: of what a network that reads in one direction makes of the last word of a text,
before it has learned anything, the norm of the gradient at words further and further back, against the word before.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import satchel
from satchel.models.recurrent import Recurrent, RecurrentSettings
from satchel.models.transformer import RESIDUAL_OUTPUTS, Transformer, TransformerSettings
from satchel.nn.attention import General, causal_mask, softmax

RECURRENT: dict[str, Any] = {"model.width": 192, "training.learning_rate": 3e-3}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn, a summary": ("rnn", {**RECURRENT, "model.attention": "none"}),
    "lstm, a summary": ("lstm", {**RECURRENT, "model.attention": "none"}),
    "lstm, attention": ("lstm", {**RECURRENT, "model.attention": "general"}),
    "transformer": ("transformer", {"model.width": 128, "model.layers": 2, "model.heads": 4}),
}
DISTANCES = (1, 2, 5, 10, 20, 40, 80)
WIDTH, TEXTS = 64, 200


class OverStates(nn.Module):
    """A recurrent network whose last state looks back at all of its states."""

    def __init__(self, encoder: Recurrent) -> None:
        super().__init__()
        self.encoder, self.score = encoder, General(WIDTH, WIDTH)

    def contextualise(self, x_BTD: Tensor) -> Tensor:
        """Return what each state found."""
        states_BTD = self.encoder.contextualise(x_BTD)
        before_TT = causal_mask(states_BTD.shape[1], states_BTD.shape[1])
        return softmax(self.score(states_BTD, states_BTD), before_TT) @ states_BTD


def beginners() -> Iterator[tuple[str, Any]]:
    """Return networks that have learned nothing yet."""

    def recurrent(kind: Any) -> Recurrent:
        return Recurrent(RecurrentSettings(kind=kind, width=WIDTH), 2, causal=True)

    plain = recurrent("rnn")
    for parameter in plain.layers.parameters():
        nn.init.uniform_(parameter, -(WIDTH**-0.5), WIDTH**-0.5)
    yield "rnn, as torch begins it", plain
    yield "rnn, as it begins here", recurrent("rnn")
    yield "lstm", recurrent("lstm")
    yield "lstm, attention", OverStates(recurrent("lstm"))
    transformer = Transformer(TransformerSettings(width=WIDTH, layers=2, heads=4), 2, causal=True)
    for name, parameter in transformer.named_parameters():
        if name.endswith(RESIDUAL_OUTPUTS):  # else its blocks begin by adding nothing
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    yield "transformer", transformer


def fading(network: Any) -> dict[int, float]:
    """Return how much the vector of the last word depends on words before it, by how far they are from it."""
    x_BTD = torch.randn(TEXTS, max(DISTANCES) + 1, WIDTH, requires_grad=True)
    (network.contextualise(x_BTD)[:, -1] * torch.randn(TEXTS, WIDTH)).sum().backward()
    assert x_BTD.grad is not None
    norms = x_BTD.grad.norm(dim=-1).mean(dim=0).flip(0)
    return {distance: float(norms[distance] / norms[1]) for distance in DISTANCES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--size", type=int, default=50_000)
    parser.add_argument("--threads", type=int, default=0, help="of each training; 0 is as many as there are")
    parser.add_argument("--quick", action="store_true", help="a few steps: it shows that all of it runs")
    options = parser.parse_args()
    size = 500 if options.quick else options.size
    budget: dict[str, Any] = {"steps": 3} if options.quick else {"minutes": options.minutes}
    torch.manual_seed(0)
    print(f"{'words between':<24}" + "".join(f"{distance - 1:>9}" for distance in DISTANCES))
    for name, network in beginners():
        print(f"{name:<24}" + "".join(f"{share:9.2g}" for share in fading(network).values()), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, (kind, settings) in KINDS.items():
            model = satchel.train(
                "@reverse",
                model=kind,
                settings={"data.size": size, **settings},
                threads=options.threads,
                out=Path(folder) / name,
                **budget,
            )
            report = model.report
            exact = model.evaluate("@reverse", beam=1).quality.exact_match
            print(f"\n{name}: {report.parameters:,} parameters, {report.tokens_per_second:,.0f} tokens/s, {exact:.1%}")
            for each in model.by_length("@reverse", beam=1):
                print(f"  {each.name:<26} {each.quality.exact_match:7.1%} without a mistake")
            for each in model.by_position("@reverse"):
                print(f"  {each.name:<26} {each.nats_per_token:7.3f} nats per letter", flush=True)


if __name__ == "__main__":
    main()
