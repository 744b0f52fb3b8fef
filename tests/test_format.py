"""docs/format.md suffices to compute a model's output: NumPy versions of three kinds, from the files of a run alone."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import satchel

Array = npt.NDArray[Any]


class Run:
    """The files of a run: settings of the model, tensors, tokenizer."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.settings: dict[str, Any] = config["settings"]["model"]
        self.tensors = load_file(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.boundary: int = config["tokenizer"]["size"]

    def ids(self, text: str) -> Array:
        return np.array([self.boundary, *self.tokenizer.encode(text, add_special_tokens=False).ids])

    def linear(self, x: Array, name: str) -> Array:
        outputs: Array = x @ self.tensors[f"{name}.weight"].T
        return outputs + self.tensors.get(f"{name}.bias", 0)

    def norm(self, x: Array, name: str, kind: str = "layer") -> Array:
        weight, bias = self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias", 0)
        if kind == "rms":
            return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight)
        centred = x - x.mean(-1, keepdims=True)
        return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias)


def softmax(x: Array) -> Array:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def activate(x: Array, kind: str) -> Array:
    if kind == "swiglu":
        gate, value = np.split(x, 2, axis=-1)
        return np.asarray(gate * sigmoid(gate) * value)
    if kind == "gelu":
        return np.asarray(0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))
    return {"relu": np.maximum(x, 0), "squared-relu": np.maximum(x, 0) ** 2, "gelu-tanh": gelu_tanh(x)}[kind]


def rotate(x: Array) -> Array:
    length, width = x.shape
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate(
        [first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)], axis=-1
    )


def causal(scores: Array) -> Array:
    return softmax(np.where(np.tril(np.ones(scores.shape, bool)), scores, -np.inf))


def slopes(heads: int) -> list[float]:
    power = 2 ** int(math.log2(heads))
    return [2 ** (-8 * (h + 1) / power) for h in range(power)] + [
        2 ** (-4 * (2 * h + 1) / power) for h in range(heads - power)
    ]


def attention(run: Run, x: Array, name: str, layer: int) -> Array:
    settings = run.settings
    heads, width = settings["heads"], settings["width"]
    key_width = settings["key_width"] or (width if settings["attention"] == "wide" else width // heads)
    projected = run.linear(x, f"{name}.project")
    queries, keys, values = np.split(projected, [heads * key_width, 2 * heads * key_width], axis=-1)
    distances = np.abs(np.arange(len(x))[:, None] - np.arange(len(x)))
    outputs = []
    for head, (q, k, v) in enumerate(
        zip(*(np.split(part, heads, -1) for part in (queries, keys, values)), strict=True)
    ):
        if settings["normalise"]:
            q = run.norm(q, f"{name}.query_norm", settings["norm_kind"])
            k = run.norm(k, f"{name}.key_norm", settings["norm_kind"])
        if settings["positions"] == "rotary":
            q, k = rotate(q), rotate(k)
        scale = {"head": math.sqrt(key_width), "width": math.sqrt(width), "none": 1.0}[settings["scale"]]
        scores = q @ k.T / scale / (layer + 1 if settings["layer_scale"] else 1)
        if settings["positions"] == "alibi":
            scores = scores - slopes(heads)[head] * distances
        outputs.append(causal(scores) @ v)
    return run.linear(np.concatenate(outputs, axis=-1), f"{name}.out")


def transformer(run: Run, x: Array, prefix: str) -> Array:
    settings = run.settings
    kind, length, width = settings["norm_kind"], *x.shape
    if settings["positions"] == "learned":
        x = x + run.tensors[f"{prefix}positions.embedding.weight"][:length]
    elif settings["positions"] == "sinusoidal":
        angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
        x = x + np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width)
    for layer in range(settings["layers"]):
        block = f"{prefix}blocks.{layer}"

        def feedforward(x: Array, block: str = block) -> Array:
            hidden = activate(run.linear(x, f"{block}.feedforward.widen"), settings["feedforward"])
            return run.linear(hidden, f"{block}.feedforward.narrow")

        if settings["norm"] == "pre":
            x = x + attention(run, run.norm(x, f"{block}.attention_norm", kind), f"{block}.attention", layer)
            x = x + feedforward(run.norm(x, f"{block}.feedforward_norm", kind))
        else:
            x = run.norm(x + attention(run, x, f"{block}.attention", layer), f"{block}.attention_norm", kind)
            x = run.norm(x + feedforward(x), f"{block}.feedforward_norm", kind)
    return run.norm(x, f"{prefix}norm", kind) if settings["norm"] == "pre" else x


def lstm(run: Run, x: Array, prefix: str) -> Array:
    for layer in range(run.settings["layers"]):
        weights = {name: run.tensors[f"{prefix}layers.{layer}.net.{name}_l0"] for name in ("weight_ih", "weight_hh")}
        bias = sum(run.tensors[f"{prefix}layers.{layer}.net.{name}_l0"] for name in ("bias_ih", "bias_hh"))
        hidden = cell = np.zeros(run.settings["width"])
        states = []
        for vector in x:
            gates = weights["weight_ih"] @ vector + weights["weight_hh"] @ hidden + bias
            taken, kept, new, shown = np.split(gates, 4)
            cell = sigmoid(kept) * cell + sigmoid(taken) * np.tanh(new)
            hidden = sigmoid(shown) * np.tanh(cell)
            states.append(hidden)
        x = np.array(states)
    return x


def backpack(run: Run, ids: Array) -> Array:
    settings, embedding = run.settings, run.tensors["encoder.embedding.weight"]
    senses, width = settings["senses"], settings["width"]
    x = embedding[ids]
    name = "encoder.sense_network"
    if settings["sense_source"] == "table":
        vectors = run.tensors[f"{name}.weight"][ids]
    else:
        e = x + run.norm(x, f"{name}.first_norm")
        hidden = gelu_tanh(run.linear(run.norm(e, f"{name}.second_norm"), f"{name}.block.widen"))
        e = e + run.linear(hidden, f"{name}.block.narrow")
        vectors = run.linear(gelu_tanh(run.linear(run.norm(e, f"{name}.last_norm"), f"{name}.widen")), f"{name}.spread")
    vectors = vectors.reshape(len(ids), senses, width)
    contextualise = transformer if settings["contextualiser"] == "transformer" else lstm
    context = contextualise(run, x, "encoder.contextualiser.")
    key_width = max(1, width // senses)
    projected = run.linear(context, "encoder.sense_attention.project").reshape(len(ids), 2, senses, key_width)
    distances = np.abs(np.arange(len(ids))[:, None] - np.arange(len(ids)))
    output = np.zeros((len(ids), width))
    for sense in range(senses):
        scores = projected[:, 0, sense] @ projected[:, 1, sense].T / math.sqrt(key_width)
        output += causal(scores - settings["nearness"] * distances) @ vectors[:, sense]
    return output / (1 if settings["output"] == "sum" else senses)


def logprobs(run: Run, text: str) -> Array:
    """Return the log-probability of each token of a text."""
    ids = run.ids(text)
    embedding = run.tensors["encoder.embedding.weight"].astype(np.float64)
    inputs = ids[:-1]
    if run.settings["kind"] == "backpack":
        encoded = backpack(run, inputs)
    else:
        encode = transformer if run.settings["kind"] == "transformer" else lstm
        encoded = encode(run, embedding[inputs], "encoder.")
    scores = encoded @ embedding.T
    scores -= scores.max(axis=1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return np.asarray(scores[np.arange(len(inputs)), ids[1:]])


SMALL = {"model.width": 24, "model.layers": 2, "training.batch_tokens": 256, "model.ngram": 0}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("transformer", {"model.heads": 2, "model.context": 64}),
    "gpt-2": (
        "transformer",
        {
            "model.heads": 3,
            "model.context": 64,
            "model.positions": "learned",
            "model.normalise": False,
            "model.feedforward": "gelu",
            "model.bias": True,
            "model.scale": "width",
        },
    ),
    "post-norm, sinusoidal": (
        "transformer",
        {
            "model.heads": 2,
            "model.context": 64,
            "model.positions": "sinusoidal",
            "model.norm": "post",
            "model.feedforward": "relu",
            "model.attention": "wide",
        },
    ),
    "rms, alibi, swiglu": (
        "transformer",
        {
            "model.heads": 3,
            "model.context": 64,
            "model.positions": "alibi",
            "model.norm_kind": "rms",
            "model.feedforward": "swiglu",
            "model.layer_scale": True,
        },
    ),
    "lstm": ("lstm", {}),
    "backpack": ("backpack", {"model.heads": 2, "model.context": 64, "model.senses": 5}),
    "backpack of an lstm": (
        "backpack",
        {
            "model.heads": 2,
            "model.context": 64,
            "model.senses": 3,
            "model.contextualiser": "lstm",
            "model.sense_source": "table",
            "model.nearness": 0.2,
            "model.output": "mean",
        },
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_documented_format_suffices_to_compute_log_probabilities(name: str, verse: Path, tmp_path: Path) -> None:
    kind, settings = MODELS[name]
    model = satchel.train(
        verse,
        model=kind,
        tokenizer="bpe:300",
        steps=30,
        settings={**SMALL, **settings},
        out=tmp_path / "run",
        task="lm",
    )
    text = "The dog saw the mat, and the cat saw the log."
    expected = model.score(text).logprobs
    np.testing.assert_allclose(logprobs(Run(tmp_path / "run"), text), expected, rtol=2e-5, atol=2e-5)
