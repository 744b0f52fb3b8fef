"""Alignment: which words of a source a translation looks at, word by word; or, exactly, what they add to it.

Letters: S time of the source with its end, T time of the target with its end, N senses, D width, L layers, H heads.
"""

import numpy as np
import torch

from satchel.errors import SettingsError
from satchel.models.backpack_pair import BackpackPair
from satchel.models.pair import DecoderOnly
from satchel.models.recurrent_pair import RecurrentPair
from satchel.nn.attention import MultiHead
from satchel.nn.inference import inference
from satchel.nn.sites import recording, sites
from satchel.predictor import Floats, Ids
from satchel.tasks.translation import PairBatch, TranslationNetwork, pair_batch


def weights(
    network: TranslationNetwork,
    source: Ids,
    target: Ids,
    boundaries: tuple[int, int],
    layer: int | None = None,
    head: int | None = None,
) -> Floats:
    """Return how much each target token looked at each source token when it was predicted: (T, S), rows sum to one.

    Without a layer or a head it is their mean.
    """
    pattern = _pattern(network, layer, head)
    batch = _batch(network, source, target, boundaries)
    with inference(network), recording(network, pattern) as found:
        network.encoded(batch)
    parts = [torch.cat(values, dim=-2)[0] for values in found.values()]
    stacked = torch.stack([part if part.dim() == 3 else part[None] for part in parts])  # (L, H, T, S)
    if layer is not None:
        stacked = stacked[layer : layer + 1]
    if head is not None:
        stacked = stacked[:, head : head + 1]
    mean_TS = stacked.mean(dim=(0, 1))
    if isinstance(network.pair, DecoderOnly):
        # The rows of the target, and of what they look at the source; the rest of their weight is for the target.
        mean_TS = mean_TS[len(source) :, : len(source) + 1]
    return np.asarray(mean_TS.double().cpu().numpy())


def _pattern(network: TranslationNetwork, layer: int | None, head: int | None) -> str:
    pair = network.pair
    if isinstance(pair, RecurrentPair):
        if pair.score is None:
            raise SettingsError("has no attention: it looks at nothing, and gets a summary", "train one that has")
        if layer is not None or head is not None:
            raise SettingsError("--layer, --head: attention of a recurrent network has one of each", "leave them out")
        return "pair.alignment"
    pattern = "*blocks.*.attention.weights" if isinstance(pair, DecoderOnly) else "*blocks.*.cross.weights"
    layers = [name for name in sites(network) if name.endswith(pattern.rsplit("*", 1)[1]) and ".reader." not in name]
    heads = _heads(network)
    if layer is not None and not 0 <= layer < len(layers):
        raise SettingsError(f"--layer {layer}: found layers 0 to {len(layers) - 1}")
    if head is not None and not 0 <= head < heads:
        raise SettingsError(f"--head {head}: found heads 0 to {heads - 1}")
    return pattern


def _heads(network: TranslationNetwork) -> int:
    return next(part.heads for part in network.modules() if isinstance(part, MultiHead))


def _batch(network: TranslationNetwork, source: Ids, target: Ids, boundaries: tuple[int, int]) -> PairBatch:
    device = network.head.weight.device
    return PairBatch(*(part.to(device) for part in pair_batch([source], [target], *boundaries)))


def contributions(
    network: TranslationNetwork, source: Ids, target: Ids, boundaries: tuple[int, int], *, above_mean: bool = False
) -> Floats:
    """Return what each sense of each word adds to the score of each target token: (T, S + T, N).

    The words are those of the source with its end, then those of the target so far, its beginning first. They add up
    to the score; with `above_mean`, to how far it is above the mean of all words: what speaks for this one.
    """
    pair, batch = network.pair, _batch(network, source, target, boundaries)
    assert isinstance(pair, BackpackPair), "only a Backpack's scores are sums over senses"
    with inference(network), recording(pair, "source_senses", "senses", "sense_weights") as found:
        network.encoded(batch)
        by_source_position = [
            found[name][0][ids.unique(return_inverse=True)[1][0]]
            for name, ids in (("source_senses", batch.sources), ("senses", batch.inputs))
        ]
        outputs_VD = network.head.weight.double()
        directions_TD = outputs_VD[batch.targets[0]]
        if above_mean:
            directions_TD = directions_TD - outputs_VD.mean(dim=0)
        units_TXN = torch.einsum("xnd,td->txn", torch.cat(by_source_position).double(), directions_TD)
        values_TXN = pair.scale * found["sense_weights"][0][0].double().permute(1, 2, 0) * units_TXN
    return np.asarray(values_TXN.cpu().numpy())
