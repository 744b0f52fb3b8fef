"""Reading and validating `tokenizer.json` files of the Hugging Face tokenizers library."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

from satchel import durable
from satchel.errors import RunError
from satchel.text.reading import SURROGATE
from satchel.text.tokenizer import LARGEST_VOCABULARY, Tokenizer

# Maximum size of a tokenizer.json in bytes.
LARGEST_FILE = 1 << 28


def read_tokenizer(data: bytes, where: str) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json`; raise RunError if it is not valid."""
    tree = durable.from_json(data, where)
    model = tree.get("model") if isinstance(tree, dict) else None
    if not isinstance(model, dict) or model.get("type") not in ("BPE", "Unigram", "WordLevel", "WordPiece"):
        raise RunError("is not a tokenizer.json of the Hugging Face tokenizers library", where=where)
    vocabulary = model.get("vocab")
    added = tree.get("added_tokens") or []
    if not isinstance(added, list) or not all(_is_added_token(token) for token in added):
        raise RunError("added_tokens is not a list of tokens", where=where)
    if model["type"] == "Unigram":
        _check_tokens([entry[0] for entry in vocabulary or []] if _is_list_of_pairs(vocabulary) else None, where)
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


def _is_list_of_pairs(vocabulary: Any) -> bool:
    return isinstance(vocabulary, list) and all(isinstance(entry, list) and len(entry) == 2 for entry in vocabulary)


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
