"""Tokenizers of characters, bytes, words, byte-level BPE and byte-level unigram: encoding and decoding.

The ids of a tokenizer are 0 to size - 1. The document boundary is the id `size`, which no text can produce; models have
a vocabulary of `size + 1` ids. `char` and `word` tokenizers have an unknown token, with a spelling that no text can
produce; byte-level tokenizers need none.
"""

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers

from satchel.config import Settings, build
from satchel.errors import DataError, SettingsError
from satchel.text.display import SPECIAL, Role, Token
from satchel.text.reading import SURROGATE, split_pieces

Ids = npt.NDArray[np.int64]

# Spelling of the unknown token. No text produces it: `word` splits at the space, `char` has tokens of one character.
UNKNOWN = " <unk>"
LARGEST_VOCABULARY = 1 << 24
# The characters that represent the 256 bytes in the vocabulary of a byte-level tokenizer.
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())

Kind = Literal["char", "byte", "word", "bpe", "unigram"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# Kinds with a token for every byte: lossless, without unknown tokens.
BYTE_LEVEL = ("byte", "bpe", "unigram")


class TokenizerSettings(Settings):
    """Tokenizer to train on the training text."""

    kind: Kind = Field("bpe", description="type of tokens: char, byte, word, bpe or unigram")
    size: int | None = Field(None, ge=1, le=LARGEST_VOCABULARY, description="maximum vocabulary size")
    min_count: int = Field(1, ge=1, description="char and word: minimum frequency of a token in the training text")
    split: Literal["space", "punctuation"] = Field(
        "space", description="word: split at white space only, or also around punctuation"
    )
    joint: bool = Field(True, description="translate: one vocabulary for sources and targets")

    @model_validator(mode="after")
    def _large_enough(self) -> "TokenizerSettings":
        if self.kind in ("bpe", "unigram") and self.size is not None and self.size <= len(ALPHABET):
            raise ValueError(f"expected a size above {len(ALPHABET)}: the vocabulary contains every byte")
        if self.kind == "byte" and self.size is not None and self.size < len(ALPHABET):
            raise ValueError(f"expected {len(ALPHABET)} or no size: the vocabulary consists of all bytes")
        return self


@dataclass(frozen=True)
class Encoding:
    """The ids of a text, the number of unknown tokens, and whether decoding restores the text exactly."""

    ids: Ids
    unknown: int
    lossless: bool


class Tokenizer:
    """Encodes text as ids and decodes ids, as described by the content of a `tokenizer.json`."""

    def __init__(self, text: str) -> None:
        engine = Engine.from_str(text)
        engine.no_truncation()
        engine.no_padding()
        # Encode the spelling of special tokens as ordinary text.
        engine.encode_special_tokens = True
        if isinstance(engine.model, models.BPE):
            engine.model.dropout = None  # encoding is deterministic
        self._engine = engine
        self.json = text
        self.sha256 = hashlib.sha256(self.json.encode()).hexdigest()
        self.size: int = engine.get_vocab_size()
        self.boundary = self.size
        self.spellings = [engine.id_to_token(id_) or "" for id_ in range(self.size)]
        self.unknown: int | None = engine.token_to_id(UNKNOWN)
        self.kind = _kind(json.loads(text), self.unknown)
        self._lengths = np.array([len(spelling) for spelling in self.spellings])
        self._bytes = {character: index for index, character in byte_alphabet()}
        self._token_bytes: dict[int, bytes] = {}  # filled by bytes_of

    @functools.cached_property
    def byte_lengths(self) -> npt.NDArray[np.int64]:
        """Number of bytes of text per id; a word token includes the space after it."""
        if self.kind in BYTE_LEVEL:
            return np.array([len(self.bytes_of(id_)) for id_ in range(self.size)])
        space = 1 if self.kind == "word" else 0
        return np.array([len(spelling.encode()) + space for spelling in self.spellings])

    # --- text to ids

    def encode(self, text: str) -> Encoding:
        """Return the encoding of a text."""
        pieces = list(split_pieces([text]))
        encodings = list(self.encode_pieces(pieces, [number == 0 for number in range(len(pieces))]))
        return Encoding(
            np.concatenate([np.empty(0, np.int64), *(encoding.ids for encoding in encodings)]),
            sum(encoding.unknown for encoding in encodings),
            all(encoding.lossless for encoding in encodings),
        )

    def encode_pieces(self, pieces: Sequence[str], starts: Sequence[bool]) -> Iterator[Encoding]:
        """Yield the encoding of each piece (see `split_pieces`); `starts` marks the first piece of a document."""
        try:
            encodings = self._engine.encode_batch_fast(list(pieces), add_special_tokens=False)
        except TypeError:
            if not any(map(SURROGATE.search, pieces)):
                raise
            raise DataError("found an unpaired surrogate, expected text", "replace it by a valid character") from None
        for text, starts_document, encoded in zip(pieces, starts, encodings, strict=True):
            ids = np.array(encoded.ids, np.int64)
            unknown = 0 if self.unknown is None else int((ids == self.unknown).sum())
            yield Encoding(ids, unknown, self._is_lossless(text, ids, unknown, starts_document))

    def _is_lossless(self, text: str, ids: Ids, unknown: int, starts_document: bool) -> bool:
        if unknown or self.kind in (*BYTE_LEVEL, "char"):
            return not unknown
        if self.kind == "word":
            # Decoding inserts one space between words. Quick check: one space per gap, and no other white space.
            gaps = max(0, len(ids) - 1) if starts_document else len(ids)
            if not len(text) - int(self._lengths[ids].sum()) == gaps == text.count(" "):
                return False
            # If punctuation is split, a gap without a space and a gap with two spaces pass the quick check.
            words = " ".join(self.spellings[id_] for id_ in ids.tolist())
            return text == words if starts_document or not len(ids) else text == f" {words}"
        return self.decode(ids) == text

    def document(self, text: str) -> dict[str, Any]:
        """Return the keys of `tokenize --json`: the tokens of a text and their numbers."""
        encoding = self.encode(text)
        return {
            "kind": self.kind,
            "size": self.size,
            "tokens": [{"text": each, "id": each.id, "role": each.role} for each in self.tokens_of(encoding.ids)],
            "unknown": encoding.unknown,
            "lossless": encoding.lossless,
            "characters": len(text),
            "bytes": len(text.encode()),
        }

    # --- ids to text

    def decode(self, ids: Iterable[int] | Ids) -> str:
        """Return the text of ids; boundaries and ids outside of the vocabulary are omitted."""
        valid_ids = [int(id_) for id_ in ids if 0 <= id_ < self.size]
        if self.kind in BYTE_LEVEL:
            return b"".join(map(self.bytes_of, valid_ids)).decode("utf-8", "replace")
        if self.kind in ("char", "word"):
            spellings = (SPECIAL["unknown"] if id_ == self.unknown else self.spellings[id_] for id_ in valid_ids)
            return ("" if self.kind == "char" else " ").join(spellings)
        return str(self._engine.decode(valid_ids, skip_special_tokens=False))

    def decode_after(self, prompt: str, ids: Iterable[int] | Ids) -> str:
        """Return the text of ids that continue a prompt, including the space between the two.

        The tokens of a word tokenizer do not contain spaces; those of other tokenizers do.
        """
        text = self.decode(ids)
        return f" {text}" if self.kind == "word" and text and prompt and not prompt[-1].isspace() else text

    def tokens_of(self, ids: Iterable[int] | Ids, *, as_context: bool = False) -> tuple[Token, ...]:
        """Return each token of ids for display; see `text_of`."""
        return tuple(self.text_of(int(id_), as_context=as_context) for id_ in ids)

    def text_of(self, id_: int, *, as_context: bool = False) -> Token:
        """Return a single token for display; bytes that are not valid UTF-8 are escaped as \\xNN.

        The boundary is the start of a document in the context of a prediction, otherwise the end of a document.
        """
        role: Role | None = None
        if id_ == self.boundary:
            role = "start" if as_context else "end"
        elif id_ == self.unknown:
            role = "unknown"
        if role is not None:
            text = SPECIAL[role]
        elif self.kind in BYTE_LEVEL:
            text = self.bytes_of(id_).decode("utf-8", "backslashreplace")
        else:
            text = self.spellings[id_]
        return Token(text, id_, role, self.kind == "word")

    def id_of(self, text: bytes) -> int | None:
        """Return the id of the token with exactly this UTF-8 text, or with these bytes; None if there is none."""
        characters = dict(byte_alphabet())
        is_bytes = self.kind in BYTE_LEVEL
        try:
            spelling = "".join(characters[byte] for byte in text) if is_bytes else text.decode()
        except UnicodeDecodeError:
            return None
        id_: int | None = self._engine.token_to_id(spelling)
        return None if id_ == self.unknown else id_

    def bytes_of(self, id_: int) -> bytes:
        """Return the bytes of a byte-level token."""
        if id_ not in self._token_bytes:
            spelling = self.spellings[id_]
            try:
                self._token_bytes[id_] = bytes(self._bytes[character] for character in spelling)
            except KeyError:  # a special token of an imported tokenizer
                self._token_bytes[id_] = spelling.encode()
        return self._token_bytes[id_]


def _kind(tree: dict[str, Any], unknown: int | None) -> str:
    """Return the kind of a tokenizer, inferred from its components; `other` if it is none of KINDS."""
    model, pre_tokenizer = tree["model"], tree.get("pre_tokenizer")
    # Added tokens that are not special are matched in the text first and may absorb the space around them.
    added = [token for token in tree.get("added_tokens") or [] if not token.get("special")]
    modifiers = [model.get(name) for name in ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")]
    if tree.get("normalizer") is not None or added or any(modifiers):
        return "other"
    if pre_tokenizer is None and model["type"] == "BPE" and not model["merges"] and unknown is not None:
        return "other" if model.get("byte_fallback") or model.get("fuse_unk") else "char"
    if model["type"] == "WordLevel" and unknown is not None:
        return "word"
    if _is_byte_level(pre_tokenizer, model["vocab"]):
        if model["type"] == "Unigram":
            return "unigram"
        if model["type"] == "BPE":
            return "bpe" if model["merges"] else "byte"
    return "other"


def _is_byte_level(pre_tokenizer: dict[str, Any] | None, vocabulary: Any) -> bool:
    """Return whether a tokenizer encodes the bytes of a text, drops none of them, and has a token for each."""
    steps = pre_tokenizer.get("pretokenizers", [pre_tokenizer]) if pre_tokenizer else []
    if not steps or steps[-1]["type"] != "ByteLevel" or steps[-1]["add_prefix_space"]:
        return False
    if any(step["type"] not in ("Split", "Digits") or step.get("behavior") == "Removed" for step in steps[:-1]):
        return False
    spellings = vocabulary if isinstance(vocabulary, dict) else {entry[0] for entry in vocabulary}
    return all(character in spellings for character in ALPHABET)


def byte_alphabet() -> Iterator[tuple[int, str]]:
    """Yield (byte, character) as in GPT-2: printable Latin-1 characters are unchanged, others start at U+0100."""
    shifted = 0
    for byte in range(256):
        if 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte <= 255:
            yield byte, chr(byte)
        else:
            yield byte, chr(256 + shifted)
            shifted += 1


def parse_tokenizer(choice: str) -> TokenizerSettings | Path:
    """Return the value of `--tokenizer`: settings of a new tokenizer, or the path of an existing one."""
    kind, colon, size = choice.partition(":")
    if kind in KINDS:
        if colon and not (size.isdecimal() and len(size) < 20):
            raise SettingsError(
                f"--tokenizer {choice}: the vocabulary size is {size!r}, expected a number", "for example bpe:2000"
            )
        return build(TokenizerSettings, {"kind": kind, "size": int(size) if colon else None}, "--tokenizer")
    if os.path.exists(choice):
        return Path(choice)
    raise SettingsError(
        f"--tokenizer {choice}: is neither a kind of tokenizer nor an existing file or folder",
        "expected char, byte, word, bpe:N, unigram:N, a run folder or a tokenizer.json",
    )
