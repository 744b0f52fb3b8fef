"""Roles of the matrices of lessons in attention, and their formulas."""

from typing import Literal

Role = Literal["input", "score", "weight", "output"]

# Roles by name of the matrix: the same in all lessons.
ROLES: dict[str, Role] = {
    **dict.fromkeys(
        ("E", "X", "x", "x, changed", "h", "q", "Q", "K", "V", "W", "W^O", "W^Q", "W_q", "W_k", "W_v", "probabilities"),
        "input",
    ),
    **dict.fromkeys(
        ("embeddings", "word embeddings", "position embeddings", "words + positions", "words + PE"), "input"
    ),
    **dict.fromkeys(("scores", "masked scores", "S", "a_i", "logits", "Q K^T", "Q K^T / 2"), "score"),
    **dict.fromkeys(("attention weights", "A", "alpha_i", "sense weights"), "weight"),
    **dict.fromkeys(
        ("output", "outputs", "outputs, reversed words", "E'", "y", "c", "c_i", "encodings", "P"), "output"
    ),
    **dict.fromkeys(("output at the verb", "concatenated outputs", "projected outputs", "attention output"), "output"),
    **dict.fromkeys(("times V, summed", "A V", "A V, summed", "sense weights times V", "P(next)"), "output"),
}

# Formulas by lesson and name of the matrix, in the notation of `formulas.py`.
FORMULAS: dict[str, dict[str, str]] = {
    "attention": {"attention weights": "alpha = softmax(scores)", "output": "sum_i alpha_i E_i"},
    "self-attention": {"attention weights": "softmax(scores)"},
    "encoder-decoder": {
        "alpha_i": "alpha_i = softmax(a_i)",
        "c_i": "c_i = sum_j alpha_(ij) h_j",
        "P": "softmax(logits)",
    },
    "scaling": {"Q K^T / 2": "Q K^T / sqrt(d_k)", "output": "softmax(Q K^T / sqrt(d_k)) V"},
    "masking": {"attention weights": "softmax(masked scores)"},
    "dan": {"mean": "(sum_i E_i) / n"},
    "block": {"A": "A = softmax(Q K^T / sqrt(d_k))"},
    "perplexity": {"perplexity": "exp(-average)"},
    "sense-selection": {"A V": "A V", "Q K^T": "Q K^T"},
}


def describe_matrix(lesson: str, name: str) -> dict[str, str | None]:
    """Return the keys `role` and `formula` of a matrix; None where a lesson defines none."""
    return {"role": ROLES.get(name), "formula": FORMULAS.get(lesson, {}).get(name)}
