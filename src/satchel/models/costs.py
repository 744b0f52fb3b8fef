"""What a network costs: parameters, and floating-point operations per token, by component.

The parameters are those of the modules themselves, made without memory (torch's `meta` device), so that a model of
any size can be counted. An operation is a multiplication or an addition: each weight of a matrix does two per token.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from satchel.nn.attention import MultiHead
from satchel.nn.blocks import FeedForward
from satchel.nn.positions import Learned
from satchel.nn.recurrence import RecurrentLayer
from satchel.nn.senses import SenseAttention, SenseNetwork

ORDER = (
    "embeddings",
    "positions",
    "QKVO",
    "attention",
    "feed-forward",
    "recurrence",
    "senses",
    "sense weights",
    "norms",
    "logits",
    "other",
)


@dataclass(frozen=True)
class Cost:
    """What one component takes: parameters, and operations to read one token."""

    component: str
    parameters: int
    operations: int


@dataclass(frozen=True)
class Costs:
    """What all components take."""

    components: tuple[Cost, ...]

    @property
    def parameters(self) -> int:
        return sum(cost.parameters for cost in self.components)

    @property
    def operations(self) -> int:
        return sum(cost.operations for cost in self.components)

    @property
    def training_operations(self) -> int:
        """To learn from one token: once forward, and twice as much backward."""
        return 3 * self.operations


def count(network: nn.Module, length: int, tied_logits: nn.Embedding | None = None) -> Costs:
    """Return the costs of a network that reads `length` tokens at once.

    Attention is counted over all of them for each token, as a product of whole matrices does it; a kernel that skips
    what is masked does half of that. Senses are counted as if they were made anew for every token; those of a distinct
    word are made once. `tied_logits` are scores made with the vectors of the words themselves.
    """
    parameters: dict[str, int] = {}
    operations: dict[str, int] = {}
    for component, weights, used in _parts(network, length):
        parameters[component] = parameters.get(component, 0) + weights
        operations[component] = operations.get(component, 0) + used
    if tied_logits is not None:
        operations["logits"] = operations.get("logits", 0) + 2 * tied_logits.weight.numel()
        parameters.setdefault("logits", 0)
    found = [
        Cost(name, parameters[name], operations[name]) for name in ORDER if name in parameters or name in operations
    ]
    return Costs(tuple(found))


def _parts(network: nn.Module, length: int) -> Iterator[tuple[str, int, int]]:
    """Return component, parameters and operations of each module that has any; nothing is counted twice."""
    seen: set[int] = set()
    stack: list[tuple[nn.Module, str]] = [(network, "other")]
    while stack:
        module, component = stack.pop()
        component = _component(module, component)
        own = [parameter for parameter in module.parameters(recurse=False) if id(parameter) not in seen]
        seen.update(map(id, own))
        matrices = 0 if component in ("embeddings", "positions") else sum(p.numel() for p in own if p.dim() > 1)
        if own:
            yield component, sum(parameter.numel() for parameter in own), 2 * matrices
        if isinstance(module, MultiHead):
            yield "attention", 0, 2 * length * module.heads * (module.key_width + module.value_width)
        if isinstance(module, SenseAttention):
            yield "sense weights", 0, 2 * length * module.senses * (module.key_width + module.width)
        stack += [(child, component) for child in module.children()]


def _component(module: nn.Module, inherited: str) -> str:
    """Return what a module is part of: what it is itself, or else what it stands in."""
    match module:
        case SenseNetwork():
            return "senses"
        case _ if inherited == "senses":
            return inherited
        case SenseAttention():
            return "sense weights"
        case nn.LayerNorm() | nn.RMSNorm():
            return "norms"
        case Learned():
            return "positions"
        case nn.Embedding() if inherited != "positions":
            return "embeddings"
        case MultiHead():
            return "QKVO"
        case FeedForward():
            return "feed-forward"
        case RecurrentLayer():
            return "recurrence"
        case nn.Linear() if inherited == "other":
            return "feed-forward"
    return inherited


def weightless() -> torch.device:
    """Return the device on which modules have shapes and no numbers."""
    return torch.device("meta")
