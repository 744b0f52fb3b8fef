"""Meaning of each tensor in the files of a run, by its name. docs/format.md gives the formulas.

A name is a path of components followed by a parameter: `encoder.blocks.0.attention.project.weight`. In the
descriptions, V is the size of the vocabulary, D the width and N the number of senses.
"""

import re

# Components at the beginning of a name, as patterns; \1 is the first group of a pattern.
COMPONENTS = {
    r"pair\.encoder\.": "decoder-only Transformer",
    r"pair\.": "",
    r"encoder\.": "encoder",
    r"contextualiser\.": "contextualiser",
    r"reader\.": "source encoder",
    r"writer\.": "target decoder",
    r"blocks\.(\d+)\.": r"block \1",
    r"attention\.": "self-attention",
    r"cross\.": "cross-attention",
    r"feedforward\.": "feed-forward network",
    r"layers\.(\d+)\.net\.": r"recurrent layer \1",
    r"layers\.(\d+)\.": r"feed-forward layer \1",
    r"score\.": "attention score",
    # Runs of earlier versions have the names make_senses, make_source_senses and weigh.
    r"(?:sense_network|make_senses)\.": "sense network",
    r"(?:source_sense_network|make_source_senses)\.": "sense network of the source",
    r"block\.": "residual block",
    r"background\.": "background model of all classes",
}
# Parameters at the end of a name. \1 is the first group; weights and biases of a layer have the same meaning.
PARAMETERS = {
    r"(\d+)\.keys": r"order \1: sorted keys, (row of the first n-1 tokens in order n-1) * V + last token",
    r"(\d+)\.probabilities": r"order \1: probability of the last token of each n-gram given the others",
    r"(\d+)\.weights": r"order \1: back-off weight of each n-gram as a context; empty at the highest order",
    r"classes\.(\d+)\.starts": r"order \1: index of the first class entry of each n-gram of the background model",
    r"classes\.(\d+)\.classes": r"order \1: label index of each class entry",
    r"classes\.(\d+)\.probabilities": r"order \1: probability of the n-gram in the class, for each class entry",
    r"classes\.(\d+)\.weights": r"order \1: back-off weight of the n-gram in the class, for each class entry",
    "floors": "probability of a token that does not occur in a class, for each class",
    "prior": "prior probability of each class",
    "temper": "scale and exponent of the length normalisation of the class scores",
    "weights": "interpolation weight of each part of the mixture",
    r"embedding\.weight": "token embeddings, one row for each token; also the output layer if there is no head",
    r"pairs\.weight": "embeddings of hashed bigrams, added to the token embeddings",
    r"positions\.embedding\.weight": "learned position embeddings, one row for each position",
    r"head\.(?:weight|bias)": "output layer, one row for each label or token",
    r"gate\.linear\.(?:weight|bias)": "logit of the network's weight in the interpolation with the n-gram model",
    r"norm\.(?:weight|bias)": "final norm",
    r"attention_norm\.(?:weight|bias)": "norm of the self-attention",
    r"cross_norm\.(?:weight|bias)": "norm of the cross-attention",
    r"feedforward_norm\.(?:weight|bias)": "norm of the feed-forward network",
    r"project\.(?:weight|bias)": "projection to the queries, keys and values of all heads, in this order",
    r"query_norm\.weight": "norm of the queries, shared by all heads",
    r"key_norm\.weight": "norm of the keys, shared by all heads",
    r"out\.(?:weight|bias)": "projection to the output",
    r"widen\.(?:weight|bias)": "hidden layer",
    r"narrow\.(?:weight|bias)": "output layer",
    r"(?:weight|bias)_ih_l0(_reverse)?": "map of the input to the gates",
    r"(?:weight|bias)_hh_l0(_reverse)?": "map of the previous state to the gates",
    r"begin\.(?:weight|bias)": "map of the source summary to the initial states of the decoder",
    r"query\.(?:weight|bias)": "projection of the query",
    r"key\.(?:weight|bias)": "projection of the key",
    r"(?:sense_network|make_senses)\.weight": "sense vectors, one row of N * D values for each token",
    r"(first|second|last)_norm\.(?:weight|bias)": r"\1 norm",
    r"spread\.(?:weight|bias)": "output layer, N sense vectors of width D",
    r"(?:sense_attention|weigh)\.project\.(?:weight|bias)": "projection to the queries, then the keys of all senses",
    r"source_keys\.(?:weight|bias)": "projection of the source to the keys of all senses",
    "weight|bias": "linear map",
}
CUSTOM = "parameter of a custom encoder"


def tensor_meaning(name: str) -> str:
    """Return a description of the tensor with this name: its components and the parameter."""
    components: list[str] = []
    rest = name
    while True:
        for pattern, meaning in PARAMETERS.items():
            if match := re.fullmatch(pattern, rest):
                parameter = match.expand(meaning) + (" (backward direction)" if rest.endswith("_reverse") else "")
                return f"{', '.join(filter(None, components))}: {parameter}" if any(components) else parameter
        for pattern, meaning in COMPONENTS.items():
            if match := re.match(pattern, rest):
                components.append(match.expand(meaning))
                rest = rest[match.end() :]
                break
        else:
            return CUSTOM
