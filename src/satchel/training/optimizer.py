"""The optimizer, with its state as plain tensors by name."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from satchel.training.muon import Muon
from satchel.training.settings import TrainingSettings

BETAS = (0.9, 0.99)
MUON_RATE = 10.0  # its steps have the size of the matrix, not of the gradient


class Optimizer:
    """AdamW for everything; with `muon`, Muon for the matrices between the embedding and the head.

    Matrices decay, vectors (biases, norms) do not.
    """

    def __init__(self, network: nn.Module, settings: TrainingSettings) -> None:
        named = {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}
        self._names = {id(parameter): name for name, parameter in named.items()}
        inner = {
            name: parameter
            for name, parameter in named.items()
            if settings.optimizer == "muon" and parameter.dim() == 2 and not _is_outer(name)
        }
        others = {name: parameter for name, parameter in named.items() if name not in inner}
        matrices = [parameter for parameter in others.values() if parameter.dim() > 1]
        vectors = [parameter for parameter in others.values() if parameter.dim() <= 1]
        groups = [
            {"params": matrices, "weight_decay": settings.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        rate = settings.learning_rate
        self._parts: list[tuple[torch.optim.Optimizer, float]] = [
            (torch.optim.AdamW([group for group in groups if group["params"]], lr=rate, betas=BETAS, fused=True), rate)
        ]
        if inner:
            fast = MUON_RATE * rate
            muon = Muon(inner.values(), fast, settings.weight_decay)
            self._parts.append((muon, fast))
        self.parameters = list(named.values())

    def step(self, share: float) -> None:
        """Update the parameters with this share of the highest learning rate."""
        for part, rate in self._parts:
            for group in part.param_groups:
                group["lr"] = share * rate
            part.step()

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """Return everything it remembers, by parameter and name."""
        return {
            f"{self._names[id(parameter)]}.{key}": value if isinstance(value, Tensor) else torch.tensor(float(value))
            for part, _ in self._parts
            for parameter, remembered in part.state.items()
            for key, value in remembered.items()
        }

    def load(self, state: dict[str, Tensor]) -> None:
        """Remember what was remembered."""
        by_name = {name: parameter for parameter in self.parameters for name in [self._names[id(parameter)]]}
        owners = {id(parameter): part for part, _ in self._parts for parameter in _held(part)}
        for key, value in state.items():
            name, _, item = key.rpartition(".")
            parameter = by_name[name]
            owners[id(parameter)].state[parameter][item] = value.to(parameter.device, copy=True)


def _held(part: torch.optim.Optimizer) -> Iterable[Tensor]:
    return (parameter for group in part.param_groups for parameter in group["params"])


def _is_outer(name: str) -> bool:
    """Return whether a parameter belongs to words, their senses or classes, not to what is between them."""
    return any(part in name for part in ("embedding", "head.", "sense_network.spread.", "sense_network.weight"))
