"""Parameters and floating-point operations per token of a network, by component.

Modules can be counted on PyTorch's `meta` device, which allocates no memory. An operation is a multiplication or an
addition, so each element of a matrix costs two per token.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from satchel.nn.attention import MultiHead
from satchel.nn.blocks import FeedForward
from satchel.nn.positions import Learned
from satchel.nn.precision import AMX, AVX2, AVX512, AVX512_BF16, Precision, instruction_sets
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
# Floating point operations per second in training of a CPU core, by precision and the highest instruction set.
# Measured: float32 with AVX512 (5e10 to 1.4e11 for all kinds of networks), bfloat16 with AVX512_BF16 (twice the rate of
# float32) and emulated (a third of float32 with AVX512, a fifteenth with AVX2); the others are estimates.
CORE_RATES: dict[Precision, dict[str, float]] = {
    "float32": {AMX: 7e10, AVX512_BF16: 7e10, AVX512: 7e10, AVX2: 3.5e10},
    "bfloat16": {AMX: 1.4e11, AVX512_BF16: 1.4e11, AVX512: 2.3e10, AVX2: 2.3e9},
}
OTHER_CORE_RATES: dict[Precision, float] = {"float32": 2e10, "bfloat16": 1.3e9}
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


def training_rate(device: str, threads: int, precision: Precision) -> float:
    """Return the expected floating point operations per second of a training on a device."""
    if device in DEVICE_RATES:
        return DEVICE_RATES[device]
    return threads * core_rate(instruction_sets(device), precision)


def core_rate(names: tuple[str, ...], precision: Precision) -> float:
    """Return the expected floating point operations per second of a training on a core with these instruction sets."""
    rates = CORE_RATES[precision]
    return next((rate for name, rate in rates.items() if name in names), OTHER_CORE_RATES[precision])


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
