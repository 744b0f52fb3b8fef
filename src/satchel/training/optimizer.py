"""The optimizer of a network, with its state as named tensors."""

import torch
from torch import Tensor, nn

from satchel.errors import RunError
from satchel.training.muon import Muon
from satchel.training.settings import TrainingSettings

BETAS = (0.9, 0.99)
# Ratio of the learning rates of Muon and AdamW; the norm of a Muon update does not depend on the gradient.
MUON_RATE = 10.0
# Parts of the names of parameters that AdamW updates even with Muon: embeddings, output layers and sense vectors.
OUTER = ("embedding", "head.", "sense_network.spread.", "sense_network.weight")


class Optimizer:
    """AdamW for all parameters; with `muon`, Muon for the matrices between embedding and head.

    Matrices have weight decay, vectors (biases and norms) have none. Parameters and states are float32; `muon_dtype` is
    the dtype of Muon's matrix products.
    """

    def __init__(self, network: nn.Module, settings: TrainingSettings, muon_dtype: torch.dtype = torch.float32) -> None:
        self._named = {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}
        self.parameters = list(self._named.values())
        inner = [
            parameter
            for name, parameter in self._named.items()
            if settings.optimizer == "muon" and parameter.dim() == 2 and not any(part in name for part in OUTER)
        ]
        is_inner = set(map(id, inner))
        outer = [parameter for parameter in self.parameters if id(parameter) not in is_inner]
        groups = [
            {"params": [each for each in outer if each.dim() > 1], "weight_decay": settings.weight_decay},
            {"params": [each for each in outer if each.dim() <= 1], "weight_decay": 0.0},
        ]
        rate = settings.learning_rate
        adamw = torch.optim.AdamW([group for group in groups if group["params"]], lr=rate, betas=BETAS, fused=True)
        self._optimizers: list[tuple[torch.optim.Optimizer, float]] = [(adamw, rate)]
        if inner:
            muon = Muon(inner, MUON_RATE * rate, settings.weight_decay, muon_dtype)
            self._optimizers.append((muon, MUON_RATE * rate))

    def step(self, fraction: float) -> None:
        """Update the parameters with this fraction of the peak learning rate."""
        for optimizer, rate in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = fraction * rate
            optimizer.step()

    def zero_grad(self) -> None:
        """Delete the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """Return the state of the optimizer by parameter and name."""
        names = {id(parameter): name for name, parameter in self._named.items()}
        return {
            f"{names[id(parameter)]}.{key}": value if isinstance(value, Tensor) else torch.tensor(float(value))
            for optimizer, _ in self._optimizers
            for parameter, state in optimizer.state.items()
            for key, value in state.items()
        }

    def load(self, state: dict[str, Tensor], where: str) -> None:
        """Restore the state of the optimizer; `where` is its file, for error messages."""
        self._check(state, where)
        owners = {
            id(parameter): optimizer
            for optimizer, _ in self._optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        for key, value in state.items():
            name, _, item = key.rpartition(".")
            parameter = self._named[name]
            owners[id(parameter)].state[parameter][item] = value.to(parameter.device, copy=True)

    def _check(self, state: dict[str, Tensor], where: str) -> None:
        """Raise RunError if a state does not belong to the parameters and optimizers.

        Parameters that no step has updated have no state.
        """
        states: dict[str, set[str]] = {}
        for key, value in state.items():
            name, _, item = key.rpartition(".")
            states.setdefault(name, set()).add(item)
            if name not in self._named or value.dtype != torch.float32:
                raise RunError(f"{key} is not a float32 state of a parameter of the network", where=where)
            shape = [] if item == "step" else list(self._named[name].shape)
            if list(value.shape) != shape:
                raise RunError(f"{key} has shape {list(value.shape)}, expected {shape}", where=where)
        inner = {id(parameter) for parameter in self._optimizers[-1][0].param_groups[0]["params"]}
        is_muon = isinstance(self._optimizers[-1][0], Muon)
        for name, names in states.items():
            expected = {"momentum"} if is_muon and id(self._named[name]) in inner else {"step", "exp_avg", "exp_avg_sq"}
            if names != expected:
                raise RunError(
                    f"{name} has the states {', '.join(sorted(names))}, expected {', '.join(sorted(expected))}",
                    where=where,
                )
