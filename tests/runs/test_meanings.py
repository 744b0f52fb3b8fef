"""Every tensor of every kind of run has a description."""

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from satchel.models.build import EncoderSettings, PairSettings, build_encoder, build_pair
from satchel.runs.meanings import CUSTOM, tensor_meaning
from satchel.tensors import read_header

RUNS = Path(__file__).parents[1] / "compatibility" / "runs"
SMALL = {"width": 16, "layers": 1}
ENCODERS: list[dict[str, Any]] = [
    {"kind": "dan", "bigrams": 8},
    {"kind": "window"},
    *({"kind": kind} for kind in ("rnn", "gru", "lstm")),
    *({"kind": "transformer", "positions": positions, "bias": True, "norm_kind": "layer", "heads": 2}
      for positions in ("learned", "sinusoidal", "rotary", "alibi")),
    *({"kind": "transformer", "norm": norm, "feedforward": "swiglu", "heads": 2} for norm in ("pre", "post", "none")),
    *({"kind": "backpack", "contextualiser": kind, "heads": 2} for kind in ("transformer", "lstm", "uniform")),
    {"kind": "backpack", "sense_source": "table", "heads": 2},
]  # fmt: skip
PAIRS: list[dict[str, Any]] = [
    *({"kind": "lstm", "attention": attention} for attention in ("none", "dot", "general", "additive")),
    *({"kind": "transformer", "form": form, "heads": 2} for form in ("encoder-decoder", "decoder-only")),
    {"kind": "transformer", "positions": "learned", "shared": False, "heads": 2},
    {"kind": "backpack", "heads": 2},
]


def undescribed(names: list[str]) -> list[str]:
    """Return the names without a description."""
    return [name for name in names if tensor_meaning(name) == CUSTOM]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("settings", ENCODERS, ids=str)
def test_tensors_of_encoders_have_a_meaning(settings: dict[str, Any], causal: bool) -> None:
    built: Any = TypeAdapter(EncoderSettings).validate_python({**SMALL, **settings})
    with torch.device("meta"):
        encoder = build_encoder(built, 20, causal=causal)
    assert undescribed([f"encoder.{name}" for name in encoder.state_dict()]) == []


@pytest.mark.parametrize("settings", PAIRS, ids=str)
def test_tensors_of_pair_models_have_a_meaning(settings: dict[str, Any]) -> None:
    built: Any = TypeAdapter(PairSettings).validate_python({**SMALL, **settings})
    with torch.device("meta"):
        pair = build_pair(built, 20, 20)
    assert undescribed([f"pair.{name}" for name in pair.state_dict()]) == []


@pytest.mark.parametrize("run", sorted(RUNS.iterdir()), ids=lambda path: path.name)
def test_tensors_in_the_files_of_runs_have_a_meaning(run: Path) -> None:
    files = [path for path in run.rglob("*.safetensors") if path.name in ("model.safetensors", "ngram.safetensors")]
    names = [name for path in files for name in read_header(path)[0] if "checkpoints" not in path.parts]
    assert names
    assert undescribed(names) == []


def test_a_meaning_names_the_components_and_the_parameter() -> None:
    assert tensor_meaning("pair.writer.blocks.2.cross.key_norm.weight") == (
        "target decoder, block 2, cross-attention: norm of the keys, shared by all heads"
    )
    assert tensor_meaning("encoder.layers.0.net.bias_hh_l0_reverse") == (
        "encoder, recurrent layer 0: map of the previous state to the gates (backward direction)"
    )
    assert tensor_meaning("2.weights").startswith("order 2: back-off weight")
    assert tensor_meaning("encoder.mine") == CUSTOM
