"""Parameters and floating-point operations per token of a network, by component.

Modules can be counted on PyTorch's `meta` device, which allocates no memory. An operation is a multiplication or an
addition, so each element of a matrix costs two per token.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from satchel.nn.attention import MultiHead
from satchel.nn.blocks import FeedForward
from satchel.nn.positions import Learned
from satchel.nn.recurrence import RecurrentLayer
from satchel.nn.senses import SenseAttention, SenseNetwork

# Components of modules, by type.
COMPONENTS: dict[type[nn.Module], str] = {
    SenseNetwork: "senses",
    SenseAttention: "sense weights",
    nn.LayerNorm: "norms",
    nn.RMSNorm: "norms",
    Learned: "positions",
    nn.Embedding: "embeddings",
    MultiHead: "QKVO",
    FeedForward: "feed-forward",
    RecurrentLayer: "recurrence",
}
# Floating point operations per second in training: of a CPU core by its instruction set, and of other devices.
# Measured for all kinds of networks on AVX512 (5e10 to 1.4e11); the others are estimates.
CORE_RATES = {"AVX512": 7e10, "AVX2": 3.5e10}
OTHER_CORE_RATE = 2e10
DEVICE_RATES = {"cuda": 2e13, "mps": 1e12}
# Order of the components in results.
ORDER = ["embeddings", "positions", "QKVO", "attention", "feed-forward", "recurrence"]
ORDER += ["senses", "sense weights", "norms", "logits", "other"]


@dataclass(frozen=True)
class Cost:
    """Parameters of a component, and operations of its forward pass for one token."""

    component: str
    parameters: int
    operations: int


@dataclass(frozen=True)
class Costs:
    """Costs of all components."""

    components: tuple[Cost, ...]

    @property
    def parameters(self) -> int:
        return sum(cost.parameters for cost in self.components)

    @property
    def operations(self) -> int:
        return sum(cost.operations for cost in self.components)

    @property
    def training_operations(self) -> int:
        """Operations per token of training: the backward pass costs twice as much as the forward pass."""
        return 3 * self.operations


def training_rate(device: str, threads: int) -> float:
    """Return the expected floating point operations per second of a training on a device."""
    core_rate = CORE_RATES.get(torch.backends.cpu.get_cpu_capability(), OTHER_CORE_RATE)
    return DEVICE_RATES.get(device, core_rate * threads)


def count(network: nn.Module, length: int, tied_logits: nn.Embedding | None = None) -> Costs:
    """Return the costs of a network that encodes `length` tokens at once.

    Attention is counted as a product of full matrices; a kernel that skips masked keys needs half of the operations.
    Sense vectors are counted once per token, although equal tokens share them. `tied_logits` is the embedding that a
    tied head uses as output matrix.
    """
    parameters: Counter[str] = Counter()
    operations: Counter[str] = Counter()
    for component, parameter_count, operation_count in _parts(network, length):
        parameters[component] += parameter_count
        operations[component] += operation_count
    if tied_logits is not None:
        operations["logits"] += 2 * tied_logits.weight.numel()
    return Costs(tuple(Cost(name, parameters[name], operations[name]) for name in ORDER if name in operations))


def _parts(network: nn.Module, length: int) -> Iterator[tuple[str, int, int]]:
    """Yield component, parameters and operations of each module; shared parameters are counted once."""
    seen: set[int] = set()
    stack: list[tuple[nn.Module, str]] = [(network, "other")]
    while stack:
        module, component = stack.pop()
        component = _component(module, component)
        parameters = [parameter for parameter in module.parameters(recurse=False) if id(parameter) not in seen]
        seen.update(map(id, parameters))
        is_lookup = component in ("embeddings", "positions")
        matrices = 0 if is_lookup else sum(parameter.numel() for parameter in parameters if parameter.dim() > 1)
        if parameters:
            yield component, sum(parameter.numel() for parameter in parameters), 2 * matrices
        if isinstance(module, MultiHead):
            yield "attention", 0, 2 * length * module.heads * (module.key_width + module.value_width)
        if isinstance(module, SenseAttention):
            yield "sense weights", 0, 2 * length * module.senses * (module.key_width + module.width)
        stack += [(child, component) for child in module.children()]


def _component(module: nn.Module, inherited: str) -> str:
    """Return the component of a module: by its type, or else that of its parent."""
    if inherited in ("senses", "positions"):
        return inherited
    if isinstance(module, nn.Linear) and inherited == "other":
        return "feed-forward"
    return next((component for kind, component in COMPONENTS.items() if isinstance(module, kind)), inherited)
