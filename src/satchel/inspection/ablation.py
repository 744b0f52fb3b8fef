"""Heads left out: what a network says when some of its heads find nothing.

Letters: B batch, H heads, T time, V width of what a head finds.
"""

from collections import defaultdict
from collections.abc import Iterable

from torch import Tensor, nn

from satchel.errors import SettingsError
from satchel.inspection.patched import Change
from satchel.nn.attention import MultiHead
from satchel.nn.sites import sites

Head = tuple[int, int]  # the number of its layer, and its own


def heads_of(network: nn.Module) -> list[Head]:
    """Return all heads, by layer and number: those whose maps are `trace.attention`."""
    return [(layer, head) for layer, part in enumerate(_layers(network).values()) for head in range(part.heads)]


def zeroing(network: nn.Module, heads: Iterable[Head]) -> dict[str, Change]:
    """Return the changes, by site, under which some heads find nothing."""
    layers, known = _layers(network), set(heads_of(network))
    by_layer: defaultdict[int, list[int]] = defaultdict(list)
    for layer, head in heads:
        if (layer, head) not in known:
            raise SettingsError(f"there is no head {head} of layer {layer}", _told(network))
        by_layer[layer].append(head)
    names = list(layers)
    return {f"{names[layer]}.outputs": _zero(numbers) for layer, numbers in by_layer.items()}


def _zero(heads: list[int]) -> Change:
    def change(outputs_BHTV: Tensor) -> Tensor:
        return outputs_BHTV.index_fill(1, outputs_BHTV.new_tensor(heads).long(), 0)

    return change


def _layers(network: nn.Module) -> dict[str, MultiHead]:
    """Return the layers of attention by name. Of a translator they are those that look at what was written so far."""
    named = (name.removesuffix(".outputs") for name in sites(network) if name.endswith("attention.outputs"))
    parts = ((name, network.get_submodule(name)) for name in named if "reader." not in name)
    return {name: part for name, part in parts if isinstance(part, MultiHead)}


def _told(network: nn.Module) -> str:
    layers = list(_layers(network).values())
    if not layers:
        return "this model has none: it looks at nothing"
    return f"there are layers 0 to {len(layers) - 1} with heads 0 to {layers[0].heads - 1}"
