"""Logit lens: the predictions that the head would make from the hidden states of each layer.

Shapes: L layers, T time, D width, V tokens or tags.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from satchel import charts
from satchel.errors import SettingsError
from satchel.inspection.subject import Subject, class_name, json_fields
from satchel.inspection.trace import Array, Trace
from satchel.models.recurrent import Recurrent
from satchel.models.transformer import Transformer
from satchel.nn.inference import inference
from satchel.predictor import Floats
from satchel.text.display import with_roles
from satchel.text.windows import Window

# Site of the hidden states of a layer: blocks.0.output or layers.0.states.
SITE = r"^(?:blocks|layers)\.(\d+)\.(?:output|states)$"


@dataclass(frozen=True)
class Lens:
    """Predictions from the hidden states of each layer at each position of a text.

    `layers` are site names; `predictions` (L, T) are the most probable tokens or tags, with their `probabilities`.
    `ranks` (from 1) and `nats` (surprisal) belong to the `targets`: the next tokens, or the tags that the model
    predicts. Positions without a target have rank 0 and nan. `window` are the tokens of the text that are used.
    """

    tokens: tuple[str, ...]
    targets: tuple[str, ...]
    layers: tuple[str, ...]
    predictions: tuple[tuple[str, ...], ...]
    probabilities: Floats
    ranks: Array
    nats: Floats
    window: Window
    target: str = "next token"  # or "tag"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the layers in tables and figures: embedding, layer 0, ..., layer N (output)."""
        names = [re.sub(r"^embedded$", "embedding", re.sub(SITE, r"layer \1", site)) for site in self.layers]
        return (*names[:-1], f"{names[-1]} (output)") if len(names) > 1 else tuple(names)

    def document(self) -> dict[str, Any]:
        """Return the keys of `look lens --json`."""
        fields = json_fields(self, "tokens", "targets", "layers", "names", "probabilities", "ranks", "nats", "window")
        return {**fields, **with_roles({"said": [list(row) for row in self.predictions]})}

    def picture(self) -> "charts.Figure":
        """Return a heat map: the most probable token of each layer, coloured by the probability of the target."""
        return charts.logit_lens(
            self.tokens, self.names, self.predictions, self.nats, self.ranks, targets=self.targets, target=self.target
        ).with_notes(self.window.notes)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.picture()._repr_mimebundle_(include, exclude)


def logit_lens(subject: Subject, trace: Trace) -> Lens:
    """Return the logit lens of a trace: the final norm and the head applied to the hidden states of each layer."""
    if subject.task not in ("lm", "tag"):
        raise SettingsError(
            f"the logit lens is for language models and taggers, not for task={subject.task}",
            "see `satchel look attribution` or `satchel look alignment`",
        )
    network = subject.network
    encoder = getattr(network, "encoder", None)
    if not isinstance(encoder, (Transformer, Recurrent)):
        raise SettingsError(
            "the logit lens needs a transformer or a recurrent network, whose layers share the space of the head",
            "for a Backpack see `satchel look contributions`",
        )
    layers = [name for name in trace.hidden if name != "encoded"]
    norm = encoder.norm if isinstance(encoder, Transformer) else nn.Identity()
    predictions, probabilities, ranks, nats = [], [], [], []
    targets_N = torch.as_tensor(trace.targets.ids, dtype=torch.long)
    with inference(network):
        for layer in layers:
            logprobs_TV: Tensor = network.head(norm(trace.tensor(layer))).cpu().double().log_softmax(dim=-1)
            predictions.append(tuple(class_name(subject, number) for number in logprobs_TV.argmax(dim=-1).tolist()))
            probabilities.append(logprobs_TV.amax(dim=-1).exp().numpy())
            logprobs_N1 = logprobs_TV[: len(targets_N)].gather(1, targets_N[:, None])
            # A stream has no target after the last token.
            missing = (0, len(logprobs_TV) - len(targets_N))
            ranks_N = 1 + (logprobs_TV[: len(targets_N)] > logprobs_N1).sum(dim=1)
            ranks.append(np.pad(ranks_N.numpy(), missing))
            nats.append(np.pad(-logprobs_N1[:, 0].numpy(), missing, constant_values=np.nan))
    return Lens(
        trace.tokens,
        trace.targets.tokens,
        tuple(layers),
        tuple(predictions),
        np.array(probabilities),
        np.array(ranks),
        np.array(nats),
        trace.window,
        "tag" if subject.task == "tag" else "next token",
    )
