"""Sequence-to-sequence models with and without attention on @reverse (reversing strings), and gradients by distance.

    python bench/seq2seq.py [--minutes 4] [--size 50000] [--threads 1] [--quick]

Trains four models of similar size for the same time and evaluates them on held-out strings:
- exact match by length of the string: a summary vector of fixed size is a bottleneck;
- loss by source position: without attention, letters at the start of the source are predicted worst;
- training speed in tokens per second.

Before that, for untrained causal networks: norm of the gradient of the last position's encoding with respect to an
earlier embedding, relative to the preceding position.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import satchel
from measure import parser
from satchel.models.recurrent import Recurrent, RecurrentSettings
from satchel.models.transformer import RESIDUAL_OUTPUTS, Transformer, TransformerSettings
from satchel.nn.attention import General, causal_mask, softmax

RECURRENT: dict[str, Any] = {"model.width": 192, "training.learning_rate": 3e-3}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn, summary": ("rnn", {**RECURRENT, "model.attention": "none"}),
    "lstm, summary": ("lstm", {**RECURRENT, "model.attention": "none"}),
    "lstm, attention": ("lstm", {**RECURRENT, "model.attention": "general"}),
    "transformer": ("transformer", {"model.width": 128, "model.layers": 2, "model.heads": 4}),
}
# Distances to the last position, in tokens.
DISTANCES = (1, 2, 5, 10, 20, 40, 80)
# Width of the untrained networks, and number of random sequences.
WIDTH, SEQUENCES = 64, 200


class WithAttention(nn.Module):
    """Recurrent network followed by causal attention over its states."""

    def __init__(self, encoder: Recurrent) -> None:
        super().__init__()
        self.encoder, self.score = encoder, General(WIDTH, WIDTH)

    def contextualise(self, x_BTD: Tensor) -> Tensor:
        """Return the attention output of each position."""
        states_BTD = self.encoder.contextualise(x_BTD)
        mask_TT = causal_mask(states_BTD.shape[1], states_BTD.shape[1])
        return softmax(self.score(states_BTD, states_BTD), mask_TT) @ states_BTD


def untrained_networks() -> Iterator[tuple[str, Any]]:
    """Yield (name, network) of each kind."""

    def recurrent(kind: Any) -> Recurrent:
        return Recurrent(RecurrentSettings(kind=kind, width=WIDTH), 2, causal=True)

    plain = recurrent("rnn")
    for parameter in plain.layers.parameters():
        nn.init.uniform_(parameter, -(WIDTH**-0.5), WIDTH**-0.5)
    yield "rnn, torch init", plain
    yield "rnn, orthogonal init", recurrent("rnn")
    yield "lstm", recurrent("lstm")
    yield "lstm, attention", WithAttention(recurrent("lstm"))
    transformer = Transformer(TransformerSettings(width=WIDTH, layers=2, heads=4), 2, causal=True)
    for name, parameter in transformer.named_parameters():
        if name.endswith(RESIDUAL_OUTPUTS):  # zero-initialised by default: the blocks would be identities
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    yield "transformer", transformer


def relative_gradients(network: Any) -> list[float]:
    """Return the gradient norms of the last encoding at DISTANCES, relative to distance 1."""
    x_BTD = torch.randn(SEQUENCES, max(DISTANCES) + 1, WIDTH, requires_grad=True)
    (network.contextualise(x_BTD)[:, -1] * torch.randn(SEQUENCES, WIDTH)).sum().backward()
    assert x_BTD.grad is not None
    norms = x_BTD.grad.norm(dim=-1).mean(dim=0).flip(0)
    return [float(norms[distance] / norms[1]) for distance in DISTANCES]


def main() -> None:
    arguments = parser(__doc__, "--threads", "--quick")
    arguments.add_argument("--minutes", type=float, default=4.0, help="training time of each model")
    arguments.add_argument("--size", type=int, default=50_000, help="number of training strings")
    options = arguments.parse_args()
    size = 500 if options.quick else options.size
    budget: dict[str, Any] = {"steps": 3} if options.quick else {"minutes": options.minutes}
    torch.manual_seed(0)
    print(f"{'tokens in between':<24}" + "".join(f"{distance - 1:>9}" for distance in DISTANCES))
    for name, network in untrained_networks():
        print(f"{name:<24}" + "".join(f"{norm:9.2g}" for norm in relative_gradients(network)), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, (kind, settings) in MODELS.items():
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
            print(
                f"\n{name}: {report.parameters:,} parameters, {report.tokens_per_second:,.0f} tokens/s, "
                f"{exact:.1%} exact match"
            )
            for group in model.by_length("@reverse", beam=1):
                print(f"  {group.name:<26} {group.quality.exact_match:7.1%} exact match")
            for group in model.by_position("@reverse"):
                print(f"  {group.name:<26} {group.nats_per_token:7.3f} nats per letter", flush=True)


if __name__ == "__main__":
    main()
