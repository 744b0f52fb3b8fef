"""One interface for all encoders: words in, one context-dependent vector per word out (items 7, 12, 67, 80 and 86).

Shapes: B batch, T time, D width.
"""

import math
from functools import partial
from typing import TYPE_CHECKING

from satchel.lessons.checks import check, check_range, split_words
from satchel.lessons.steps import Step, build_step, matrix, vector

if TYPE_CHECKING:
    from torch import Tensor

    from satchel.models.encoder import CausalEncoder

KINDS = ("dan", "window", "rnn", "gru", "lstm", "transformer")
WIDTH = 8
MOST_WORDS = 12
# A word that does not occur in the text; it replaces a word to measure the effect on the encodings.
OTHER = "<other>"

# Names of the parameters of nn.TransformerEncoderLayer by their names in a block of this package.
PARITY = {
    "attention.project.weight": "self_attn.in_proj_weight",
    "attention.project.bias": "self_attn.in_proj_bias",
    "attention.out.weight": "self_attn.out_proj.weight",
    "attention.out.bias": "self_attn.out_proj.bias",
    "feedforward.widen.weight": "linear1.weight",
    "feedforward.widen.bias": "linear1.bias",
    "feedforward.narrow.weight": "linear2.weight",
    "feedforward.narrow.bias": "linear2.bias",
    "attention_norm.weight": "norm1.weight",
    "attention_norm.bias": "norm1.bias",
    "feedforward_norm.weight": "norm2.weight",
    "feedforward_norm.bias": "norm2.bias",
}

step = partial(build_step, "api", other=OTHER)


def interface(words: str = "the cat sat", kind: str = "lstm", seed: int = 0) -> list[Step]:
    """Return the inputs and outputs of a randomly initialised encoder of any kind."""
    import torch

    sentence = split_words("words", words, 2, MOST_WORDS, "the cat sat")
    check(kind in KINDS, "kind", repr(kind), f"one of {', '.join(KINDS)}", "gru")
    check_range("seed", seed, 0, (1 << 32) - 1, example=1)
    vocabulary = (*dict.fromkeys(sentence), OTHER)
    ids_BT = torch.tensor([[vocabulary.index(word) for word in sentence]])
    encoders = {name: _build(name, len(vocabulary), len(sentence), seed) for name in KINDS}
    with torch.no_grad():
        return [
            *_encoding(encoders[kind], ids_BT, sentence),
            *_layers_above(encoders, kind, ids_BT, vocabulary),
            _comparison(encoders, ids_BT, seed),
            _parity(len(vocabulary), ids_BT, seed),
        ]


def _encoding(encoder: "CausalEncoder", ids_BT: "Tensor", sentence: tuple[str, ...]) -> list[Step]:
    count = len(sentence)
    state, incremental = encoder.start(1), []
    for id_B1 in ids_BT.split(1, dim=1):
        encoding_B1D, state = encoder.step(id_B1, state)
        incremental.append(encoding_B1D[0, 0].tolist())
    return [
        step("Word embeddings", matrix("embeddings", encoder.embed(ids_BT)[0].tolist(), sentence)),
        step(
            "h_{count} = encode({inputs})",
            matrix("encodings", encoder.encode(ids_BT)[0].tolist(), sentence),
            answer=count,
            count=count,
            inputs=", ".join(_numbered("w", count)),
            last=sentence[-1],
        ),
        step(
            "Encodings depend on the left context",
            matrix(
                "largest change",
                (_change(encoder, ids_BT, position) for position in (count - 2, count - 1)),
                (f"{word} replaced" for word in _numbered("w", count)[-2:]),
                _numbered("h", count),
            ),
            previous=count - 1,
        ),
        step("Incremental encoding", matrix("encodings, one word at a time", incremental, sentence)),
    ]


def _layers_above(
    encoders: dict[str, "CausalEncoder"], kind: str, ids_BT: "Tensor", vocabulary: tuple[str, ...]
) -> list[Step]:
    from satchel.tasks.language import LanguageHead

    encodings_BTD = encoders[kind].encode(ids_BT)
    head = LanguageHead(encoders[kind])
    chances_V = head(encodings_BTD)[0, -1].softmax(dim=-1)
    # The same probabilities word by word: each row of W is the embedding of a word.
    powers = [math.exp(float(row_D @ encodings_BTD[0, -1])) for row_D in head.weight]
    by_word = [power / sum(powers) for power in powers]
    upper = "transformer" if kind != "transformer" else "lstm"
    stacked = encoders[upper].contextualise(encodings_BTD)[0].tolist()
    count = len(stacked)
    return [
        step(
            "Prediction",
            matrix(
                f"P(w_{count + 1})",
                (chances_V.tolist(), by_word),
                ("softmax(W h)", "exp(w . h) / sum"),
                vocabulary,
            ),
            number=count,
            next=count + 1,
            rows=len(vocabulary),
            width=WIDTH,
        ),
        step(
            "Encoders can be stacked",
            matrix(f"{upper} on top of {kind}", stacked, _numbered("h", count)),
            kind=kind,
            upper=upper,
        ),
    ]


def _comparison(encoders: dict[str, "CausalEncoder"], ids_BT: "Tensor", seed: int) -> Step:
    length = ids_BT.shape[1]
    rows = []
    for kind, encoder in encoders.items():
        time, width = encoder.encode(ids_BT).shape[1:]
        for_longer = _build(kind, encoder.embedding.num_embeddings, 2 * length, seed)
        rows.append((f"{time} x {width}", _parameters(encoder), _parameters(for_longer)))
    return step(
        "Encoders are interchangeable",
        matrix("encoders", rows, encoders, ("output shape", "parameters", f"for {2 * length} words")),
    )


def _parity(vocabulary: int, ids_BT: "Tensor", seed: int) -> Step:
    """Return the difference between the Transformer of this package and the encoder layers of PyTorch."""
    import torch
    from torch import nn

    from satchel.models.transformer import Transformer, gpt2

    length = ids_BT.shape[1]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        settings = gpt2(
            width=WIDTH, layers=2, heads=2, context=length, norm="post", feedforward="relu", hidden=4 * WIDTH
        )
        ours = Transformer(settings, vocabulary, causal=True).double().eval()
        _randomise(ours)
        layers = nn.TransformerEncoderLayer(WIDTH, 2, 4 * WIDTH, dropout=0.0, batch_first=True, dtype=torch.float64)
        encoder = nn.TransformerEncoder(layers, num_layers=2, enable_nested_tensor=False)
    for block, layer in zip(ours.blocks, encoder.layers, strict=True):
        state = {PARITY[name]: tensor for name, tensor in block.state_dict().items()}
        layer.load_state_dict(state)
    mask_TT = torch.triu(torch.full((length, length), -torch.inf, dtype=torch.float64), diagonal=1)
    inputs_BTD = ours._add_positions(ours.embed(ids_BT), 0)
    expected_BTD, encodings_BTD = encoder(inputs_BTD, mask=mask_TT), ours.encode(ids_BT)
    unmasked_BTD = encoder(inputs_BTD)
    return step(
        "Parity with the layers of PyTorch",
        vector(
            "largest difference",
            (_difference(expected_BTD, encodings_BTD), _difference(unmasked_BTD, encodings_BTD)),
            ("with the mask", "without the mask"),
        ),
    )


def _difference(first: "Tensor", second: "Tensor") -> float:
    return float((first - second).abs().max())


def _build(kind: str, vocabulary: int, length: int, seed: int) -> "CausalEncoder":
    """Return a small encoder with random parameters, large enough for visible differences between words."""
    import torch
    from pydantic import TypeAdapter

    from satchel.models.build import EncoderSettings, build_encoder

    tree: dict[str, object] = {"kind": kind, "width": WIDTH}
    if kind == "transformer":
        tree |= {"layers": 1, "heads": 2, "context": length, "positions": "learned"}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = build_encoder(TypeAdapter(EncoderSettings).validate_python(tree), vocabulary, causal=True)
        _randomise(encoder)
    return encoder.eval()


def _randomise(encoder: "CausalEncoder") -> None:
    """Draw the matrices from a distribution wide enough for visible effects of every layer."""
    import torch

    for parameter in encoder.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)


def _change(encoder: "CausalEncoder", ids_BT: "Tensor", position: int) -> list[float]:
    """Return the largest change of each encoding if the word at one position is replaced."""
    replaced_BT = ids_BT.clone()
    replaced_BT[0, position] = encoder.embedding.num_embeddings - 1
    changes: list[float] = (encoder.encode(replaced_BT) - encoder.encode(ids_BT)).abs().amax(dim=-1)[0].tolist()
    return changes


def _numbered(letter: str, count: int) -> list[str]:
    """Return the labels letter_1 to letter_count."""
    return [f"{letter}_{number}" for number in range(1, count + 1)]


def _parameters(encoder: "CausalEncoder") -> int:
    return sum(parameter.numel() for parameter in encoder.parameters())
