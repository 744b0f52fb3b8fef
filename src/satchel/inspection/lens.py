"""The lens: what each layer of a network would have said, had it been the last one.

Letters: L layers, T time, D width, V words or labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from satchel.errors import SettingsError
from satchel.inspection.trace import Array, Trace
from satchel.models.recurrent import Recurrent
from satchel.models.transformer import Transformer
from satchel.nn.inference import inference
from satchel.predictor import Floats

if TYPE_CHECKING:
    from satchel.charts.figures import Figure


@dataclass(frozen=True)
class Lens:
    """What each layer would have said at each position of a text, and what it thought of what was said.

    `layers` are names of sites; `said` (L, T) the likeliest, `chances` its probability; `ranks` (from 1) and `nats`
    those of the next token, or of the tag that was given. Where there is none, 0 and nan.
    """

    tokens: tuple[str, ...]
    targets: tuple[str, ...]
    layers: tuple[str, ...]
    said: tuple[tuple[str, ...], ...]
    chances: Floats
    ranks: Array
    nats: Floats

    def picture(self) -> "Figure":
        """Return what each layer would have said as words, and the probability it gave to what came as a colour."""
        from satchel import charts

        return charts.logit_lens(self.tokens, self.layers, self.said, self.nats, self.ranks, targets=self.targets)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.picture()._repr_mimebundle_(include, exclude)


def of_trace(network: nn.Module, trace: Trace, names: Sequence[str]) -> Lens:
    """Return the lens of a trace: each layer's hidden states, through the last norm and the head."""
    encoder, head = getattr(network, "encoder", None), getattr(network, "head", None)
    if not isinstance(encoder, (Transformer, Recurrent)) or head is None:
        raise SettingsError(
            "its layers do not end in words: only those of transformers and recurrent networks do",
            "of a Backpack look at contributions",
        )
    sites = [name for name in trace.hidden if name != "encoded"]
    norm = encoder.norm if isinstance(encoder, Transformer) else nn.Identity()
    said, chances, ranks, nats = [], [], [], []
    with inference(network):
        for site in sites:
            logprobs_TV: Tensor = head(norm(trace.tensor(site))).double().log_softmax(dim=-1)
            best_T = logprobs_TV.argmax(dim=-1)
            said.append(tuple(names[int(place)] for place in best_T))
            chances.append(logprobs_TV.amax(dim=-1).exp().cpu().numpy())
            # What follows the last word of a text was not asked for.
            found = [_asked(logprobs_V, id_) for logprobs_V, id_ in zip(logprobs_TV, trace.told.ids, strict=False)]
            found += [(0, float("nan"))] * (len(logprobs_TV) - len(found))
            ranks.append([rank for rank, _ in found])
            nats.append([cost for _, cost in found])
    return Lens(
        trace.tokens, trace.told.tokens, tuple(sites), tuple(said), np.array(chances), np.array(ranks), np.array(nats)
    )


def _asked(logprobs_V: Tensor, id_: int) -> tuple[int, float]:
    """Return the rank of a word, and how surprising it would have been."""
    return 1 + int((logprobs_V > logprobs_V[id_]).sum()), -float(logprobs_V[id_])
