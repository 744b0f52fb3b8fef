"""Reading and validating `tokenizer.json` files of the Hugging Face tokenizers library.

The file is validated before the library parses it. Only components and regular expressions that Satchel saves and
those of GPT-2 are accepted: others can take exponential time, or expand a text without limit.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any

from satchel import durable
from satchel.errors import RunError
from satchel.text.reading import SURROGATE
from satchel.text.tokenizer import LARGEST_VOCABULARY, Tokenizer
from satchel.text.tokenizer_training import PRE_TOKEN_PATTERN

# Maximum size of a tokenizer.json in bytes.
LARGEST_FILE = 1 << 28

SPACES: dict[str, Any] = {"type": "WhitespaceSplit"}
PUNCTUATION: dict[str, Any] = {"type": "Punctuation", "behavior": "Isolated"}
PRE_TOKENS: dict[str, Any] = {
    "type": "Split", "pattern": {"Regex": PRE_TOKEN_PATTERN}, "behavior": "Isolated", "invert": False,
}  # fmt: skip
BYTES: dict[str, Any] = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
GPT2: dict[str, Any] = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
# The accepted pre-tokenizers of each model, as lists of steps. Options without effect on the tokens are not compared.
PRE_TOKENIZERS: dict[str, list[list[dict[str, Any]]]] = {
    "BPE": [[], [PRE_TOKENS, BYTES], [GPT2]],
    "Unigram": [[PRE_TOKENS, BYTES]],
    "WordLevel": [[SPACES], [SPACES, PUNCTUATION]],
}
# The accepted types of the other components.
COMPONENTS: dict[str, tuple[str, ...]] = {
    "normalizer": (), "post_processor": ("ByteLevel",), "decoder": ("ByteLevel", "Fuse"),
}  # fmt: skip
# Options of the models that must be absent or have one of these values.
MODEL_OPTIONS: dict[str, tuple[Any, ...]] = {
    "continuing_subword_prefix": (None, ""), "end_of_word_suffix": (None, ""), "ignore_merges": (False,),
}  # fmt: skip
# Largest absolute score of a Unigram token.
LARGEST_SCORE = 1e6


def read_tokenizer(data: bytes, where: str) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json`; raise RunError if it is not valid."""
    tree = durable.from_json(data, where)
    model = tree.get("model") if isinstance(tree, dict) else None
    if not isinstance(model, dict) or not isinstance(model.get("type"), str):
        raise RunError("is not a tokenizer.json of the Hugging Face tokenizers library", where=where)
    if fault := _component_fault(tree, model):
        raise RunError(
            f"{fault}, which satchel does not support",
            "supported are the tokenizers that satchel trains and the tokenizer of GPT-2; "
            "train one with --tokenizer bpe:8000",
            where=where,
        )
    vocabulary = model.get("vocab")
    added = tree.get("added_tokens") or []
    if not isinstance(added, list) or not all(_is_added_token(token) for token in added):
        raise RunError("added_tokens is not a list of tokens", where=where)
    if model["type"] == "Unigram":
        _check_tokens([entry[0] for entry in vocabulary or []] if _has_scores(vocabulary) else None, where)
        _check_tokens(["", *{token["content"] for token in added} - {""}], where)
    else:
        _check_ids(vocabulary, added, where)
    try:
        tokenizer = Tokenizer(data.decode("utf-8"))
    except BaseException as error:
        # The library raises Exceptions, or panics of its Rust runtime, which are BaseExceptions.
        if not isinstance(error, Exception) and type(error).__module__ != "pyo3_runtime":
            raise
        raise RunError(f"is not a valid tokenizer: {error}", where=where) from None
    # The library may assign other ids to added tokens than the file.
    if len(set(tokenizer.spellings)) < tokenizer.size:
        raise RunError(f"the ids are not distinct or not 0 to {tokenizer.size - 1}", where=where)
    if not _can_encode_all(model, tokenizer.kind):
        raise RunError("the vocabulary has no unknown token", where=where)
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json` or of a run folder."""
    if os.path.isdir(path):
        if not (path / "tokenizer.json").exists():
            raise RunError("is not a run folder: it has no tokenizer.json", where=str(path))
        path = path / "tokenizer.json"
    return read_tokenizer(durable.read_file(path, LARGEST_FILE), str(path))


def _component_fault(tree: dict[str, Any], model: dict[str, Any]) -> str:
    """Return the first component that is not supported, else an empty string."""
    if model["type"] not in PRE_TOKENIZERS:
        return f"model: found {model['type'][:40]!r}"
    for option, values in MODEL_OPTIONS.items():
        if model.get(option, values[0]) not in values:
            return f"model.{option}: found {model[option]!r:.40}"
    for name, types in COMPONENTS.items():
        component = tree.get(name)
        if component is not None and _type(component) not in types:
            return f"{name}: found {_type(component)!r}"
    steps = _steps(tree.get("pre_tokenizer"))
    # A model with merges needs short pre-tokens.
    accepted = [form for form in PRE_TOKENIZERS[model["type"]] if form or not model.get("merges")]
    if any(_are_same(steps, form) for form in accepted):
        return ""
    return f"pre_tokenizer: found {', '.join(map(_description, steps[:8])) or 'none'} for the model {model['type']}"


def _steps(component: Any) -> list[Any]:
    """Return the steps of a pre-tokenizer."""
    if component is None:
        return []
    steps = component.get("pretokenizers") if isinstance(component, dict) and _type(component) == "Sequence" else None
    return steps if isinstance(steps, list) else [component]


def _type(component: Any) -> str:
    name = component.get("type") if isinstance(component, dict) else component
    return name[:40] if isinstance(name, str) else f"{name!r:.40}"


def _description(step: Any) -> str:
    """Return the type of a step of a pre-tokenizer, and its pattern if it has one."""
    pattern = step.get("pattern") if isinstance(step, dict) else None
    return _type(step) if pattern is None else f"{_type(step)} with the pattern {pattern!r:.60}"


def _are_same(steps: list[Any], form: list[dict[str, Any]]) -> bool:
    """Return whether the steps of a pre-tokenizer have the options of an accepted form; GPT-2 omits `use_regex`."""
    defaults = {"use_regex": True}
    return len(steps) == len(form) and all(
        isinstance(step, dict) and {**defaults, **step}.items() >= expected.items()
        for step, expected in zip(steps, form, strict=True)
    )


def _is_added_token(token: Any) -> bool:
    return isinstance(token, dict) and isinstance(token.get("content"), str) and type(token.get("id")) is int


def _can_encode_all(model: dict[str, Any], kind: str) -> bool:
    """Return whether a tokenizer can encode text outside of its vocabulary; otherwise encoding raises an error."""
    if model["type"] == "Unigram":
        return kind == "unigram" or model.get("unk_id") is not None
    unknown = model.get("unk_token")
    if unknown is None and model["type"] == "BPE":
        return True  # it omits characters outside of the vocabulary
    return isinstance(unknown, str) and unknown in model["vocab"]


def _has_scores(vocabulary: Any) -> bool:
    """Return whether the vocabulary of a Unigram model is a list of tokens with scores."""
    return isinstance(vocabulary, list) and all(
        isinstance(entry, list)
        and len(entry) == 2
        and type(entry[1]) in (int, float)
        and abs(entry[1]) <= LARGEST_SCORE
        for entry in vocabulary
    )


def _check_tokens(tokens: list[Any] | None, where: str) -> None:
    if tokens is None or not all(isinstance(token, str) for token in tokens) or not tokens:
        raise RunError("the vocabulary is not a list of tokens", where=where)
    if len(tokens) > LARGEST_VOCABULARY:
        raise RunError(f"has {len(tokens)} tokens, expected at most {LARGEST_VOCABULARY}", where=where)
    for token in tokens:
        if SURROGATE.search(token):
            raise RunError(f"the token {token!r} contains an unpaired surrogate", where=where)
    if len(set(tokens)) < len(tokens):
        duplicate = Counter(tokens).most_common(1)[0][0]
        raise RunError(f"the vocabulary contains the token {duplicate!r} twice", where=where)


def _check_ids(vocabulary: Any, added: list[Any], where: str) -> None:
    if not isinstance(vocabulary, dict):
        raise RunError("the vocabulary is not a mapping of tokens to ids", where=where)
    ids = vocabulary | {token["content"]: token["id"] for token in added}
    _check_tokens(list(ids), where)
    if not all(type(id_) is int for id_ in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        raise RunError(f"the ids are not distinct or not 0 to {len(ids) - 1}", where=where)
