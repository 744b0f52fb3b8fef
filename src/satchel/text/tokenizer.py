"""Tokenizers: char, byte, word, byte-level BPE and unigram, all kept in one `tokenizer.json`.

The ids of a tokenizer are 0 .. size-1. The document boundary is the id one past them, so that no
text can ever produce it; models see `size + 1` ids. `char` and `word` have an id for what they do
not know, spelled so that no text spells it; nothing is unknown to the others.
"""

import functools
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from satchel import durable
from satchel.config import Settings
from satchel.errors import DataError, RunError, SettingsError
from satchel.text.reading import HALF_PAIR, cut

Ids = npt.NDArray[np.int64]

# A space inside: `word` splits there, `char` sees seven characters, byte-level alphabets have no space.
UNKNOWN = " <unk>"
LARGEST_FILE = 1 << 28
LARGEST_VOCABULARY = 1 << 24
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
# Words with the space before them, numbers, punctuation, newlines, other white space. White space never
# follows anything else in a piece, and no rule looks back: that is what makes reading.cut safe.
# Learning takes time that grows with the square of a piece's length, so pieces have a longest one.
PIECES = Regex(r" ?\p{L}{1,256}| ?\p{N}{1,256}| ?[^\s\p{L}\p{N}]{1,256}|\n{1,256}|[^\S\n]{1,256}(?!\S)|[^\S\n]{1,256}")

Kind = Literal["char", "byte", "word", "bpe", "unigram"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class TokenizerSettings(Settings):
    """Which tokenizer to make from the training text."""

    kind: Kind = Field("bpe", description="char, byte, word, bpe or unigram")
    size: int | None = Field(None, ge=1, le=LARGEST_VOCABULARY, description="the most tokens there may be")
    min_count: int = Field(1, ge=1, description="char and word: drop what occurs less often")
    split: Literal["space", "punctuation"] = Field("space", description="word: also split punctuation off")
    joint: bool = Field(True, description="translate: sources and targets have the same tokens")

    @model_validator(mode="after")
    def _large_enough(self) -> "TokenizerSettings":
        if self.kind in ("bpe", "unigram") and self.size is not None and self.size <= len(ALPHABET):
            raise ValueError(f"expected a size above {len(ALPHABET)}: each byte is a token")
        if self.kind == "byte" and self.size is not None and self.size < len(ALPHABET):
            raise ValueError(f"expected a size of {len(ALPHABET)}, or none: each byte is a token")
        return self


@dataclass(frozen=True)
class Encoding:
    """The ids of a text, how many of them are unknown, and whether the text can be restored from them."""

    ids: Ids
    unknown: int
    lossless: bool


class Tokenizer:
    """Turns text into ids and back. It is made from the text of its `tokenizer.json`, so a saved one is the same."""

    def __init__(self, text: str) -> None:
        engine = Engine.from_str(text)
        engine.no_truncation()
        engine.no_padding()
        # A tokenizer made elsewhere may have special tokens: as text they are text.
        engine.encode_special_tokens = True
        if isinstance(engine.model, models.BPE):
            engine.model.dropout = None  # which would choose the merges by chance
        self._engine = engine
        self.json = text
        self.sha256 = hashlib.sha256(self.json.encode()).hexdigest()
        self.size: int = engine.get_vocab_size()
        self.boundary = self.size
        self.spellings = _by_id(engine)
        self.unknown: int | None = engine.token_to_id(UNKNOWN)
        self.kind = _kind(json.loads(text), self.unknown)
        self._lengths = np.array([len(spelling) for spelling in self.spellings])
        self._bytes = {character: index for index, character in _byte_alphabet()}

    @functools.cached_property
    def byte_lengths(self) -> npt.NDArray[np.int64]:
        """How many bytes of text each id stands for; a word counts the space after it."""
        if self.kind in ("byte", "bpe", "unigram"):
            return np.array([len(self.bytes_of(id_)) for id_ in range(self.size)])
        space = 1 if self.kind == "word" else 0
        return np.array([len(spelling.encode()) + space for spelling in self.spellings])

    # --- text to ids

    def encode(self, text: str) -> Encoding:
        """Return the ids of a text."""
        pieces = list(cut([text]))
        parts = list(self.encode_pieces(pieces, [number == 0 for number in range(len(pieces))]))
        if not parts:
            return Encoding(np.empty(0, np.int64), 0, True)
        return Encoding(
            np.concatenate([part.ids for part in parts]),
            sum(part.unknown for part in parts),
            all(part.lossless for part in parts),
        )

    def encode_pieces(self, pieces: Sequence[str], begins: Sequence[bool]) -> Iterator[Encoding]:
        """Return the encoding of each piece (see reading.cut); `begins` says which begin a document."""
        try:
            encodings = self._engine.encode_batch_fast(list(pieces), add_special_tokens=False)
        except TypeError:
            if not any(map(HALF_PAIR.search, pieces)):
                raise
            raise DataError(
                "found half of a surrogate pair, expected text", "replace it by the character that was meant"
            ) from None
        for text, begin, encoded in zip(pieces, begins, encodings, strict=True):
            ids = np.array(encoded.ids, np.int64)
            unknown = 0 if self.unknown is None else int((ids == self.unknown).sum())
            yield Encoding(ids, unknown, self._is_lossless(text, ids, unknown, begin))

    def _is_lossless(self, text: str, ids: Ids, unknown: int, begin: bool) -> bool:
        if self.kind in ("byte", "bpe", "unigram"):
            return True
        if unknown:
            return False
        if self.kind == "char":
            return True
        if self.kind == "word":
            # Decoding puts one space between words: right if there are as many spaces as gaps, and nothing else.
            gaps = max(0, len(ids) - 1) if begin else len(ids)
            if not len(text) - int(self._lengths[ids].sum()) == gaps == text.count(" "):
                return False
            # Where punctuation is split off, one gap without a space may hide one with two.
            return " ".join([*([] if begin else [""]), *(self.spellings[id_] for id_ in ids.tolist())]) == text
        return self.decode(ids) == text

    # --- ids to text

    def decode(self, ids: Iterable[int] | Ids) -> str:
        """Return the text of some ids; the document boundary is no text."""
        inside = [int(id_) for id_ in ids if 0 <= id_ < self.size]
        if self.kind in ("byte", "bpe", "unigram"):
            return b"".join(map(self.bytes_of, inside)).decode("utf-8", "replace")
        if self.kind in ("char", "word"):
            return ("" if self.kind == "char" else " ").join(map(self.text_of, inside))
        return str(self._engine.decode(inside, skip_special_tokens=False))

    def text_of(self, id_: int) -> str:
        """Return what a token looks like by itself; bytes that are no character are written \\xNN."""
        if id_ == self.boundary:
            return "<end>"
        if id_ == self.unknown:
            return "<unk>"
        if self.kind in ("byte", "bpe", "unigram"):
            return self.bytes_of(id_).decode("utf-8", "backslashreplace")
        return self.spellings[id_]

    def bytes_of(self, id_: int) -> bytes:
        """Return the bytes that a byte-level token stands for."""
        spelling = self.spellings[id_]
        try:
            return bytes(self._bytes[character] for character in spelling)
        except KeyError:  # a special token of a tokenizer made elsewhere
            return spelling.encode()


def read_tokenizer(data: bytes, where: str) -> Tokenizer:
    """Return the tokenizer that a `tokenizer.json` holds, once it is known to be sound."""
    tree = durable.from_json(data, where)
    model = tree.get("model") if isinstance(tree, dict) else None
    if not isinstance(model, dict) or model.get("type") not in ("BPE", "Unigram", "WordLevel", "WordPiece"):
        raise RunError("is not a tokenizer.json of the tokenizers library", where=where)
    vocabulary = model.get("vocab")
    added = tree.get("added_tokens") or []
    if not isinstance(added, list) or not all(_is_added(token) for token in added):
        raise RunError("its added tokens are not a list of tokens", where=where)
    if model["type"] == "Unigram":
        _check_words([entry[0] for entry in vocabulary or []] if _is_pairs(vocabulary) else None, where)
        _check_words(["", *{token["content"] for token in added} - {""}], where)
    else:
        _check_ids(vocabulary, added, where)
    try:
        tokenizer = Tokenizer(data.decode("utf-8"))
    except BaseException as error:
        # The library's own failures are Exceptions, or panics of the runtime it is built with.
        if not isinstance(error, Exception) and type(error).__module__ != "pyo3_runtime":
            raise
        raise RunError(f"is not a tokenizer that can be read: {error}", where=where) from None
    # The library has its own ideas of which ids added tokens get.
    if len(set(tokenizer.spellings)) < tokenizer.size:
        raise RunError(f"its ids are not 0 to {tokenizer.size - 1}, each once", where=where)
    if not _knows_all(model, tokenizer.kind):
        raise RunError("it has no token for what it does not know", where=where)
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer in a file, or that of a run folder."""
    if os.path.isdir(path):
        if not (path / "tokenizer.json").exists():
            raise RunError("is not a run: it has no tokenizer.json", where=str(path))
        path = path / "tokenizer.json"
    return read_tokenizer(durable.read_file(path, LARGEST_FILE), str(path))


def _is_added(token: Any) -> bool:
    return isinstance(token, dict) and isinstance(token.get("content"), str) and type(token.get("id")) is int


def _knows_all(model: dict[str, Any], kind: str) -> bool:
    """Return whether a tokenizer has an answer to what is not in its vocabulary; without one it would stop there."""
    if model["type"] == "Unigram":
        return kind == "unigram" or model.get("unk_id") is not None
    unknown = model.get("unk_token")
    if unknown is None and model["type"] == "BPE":
        return True  # it leaves out what it does not know
    return isinstance(unknown, str) and unknown in model["vocab"]


def _is_pairs(vocabulary: Any) -> bool:
    return isinstance(vocabulary, list) and all(isinstance(entry, list) and len(entry) == 2 for entry in vocabulary)


def _check_words(words: list[Any] | None, where: str) -> None:
    if words is None or not all(isinstance(word, str) for word in words) or not words:
        raise RunError("its vocabulary is not a list of tokens", where=where)
    if len(words) > LARGEST_VOCABULARY:
        raise RunError(f"found {len(words)} tokens, expected at most {LARGEST_VOCABULARY}", where=where)
    for word in words:
        if HALF_PAIR.search(word):
            raise RunError(f"the token {word!r} is not text", where=where)
    if len(set(words)) < len(words):
        twice = Counter(words).most_common(1)[0][0]
        raise RunError(f"found the token {twice!r} twice", where=where)


def _check_ids(vocabulary: Any, added: list[Any], where: str) -> None:
    if not isinstance(vocabulary, dict):
        raise RunError("its vocabulary is not a table of tokens", where=where)
    extra = {token["content"]: token["id"] for token in added}
    ids = {**vocabulary, **extra}
    _check_words(list(ids), where)
    if not all(type(id_) is int for id_ in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        raise RunError(f"its ids are not 0 to {len(ids) - 1}, each once", where=where)


def _kind(tree: dict[str, Any], unknown: int | None) -> str:
    """Return which of the kinds a tokenizer is, from how it is built; `other` if none."""
    model, splitter = tree["model"], tree.get("pre_tokenizer")
    # What is added without being special is found in the text before anything else, with the space around it.
    added = [token for token in tree.get("added_tokens") or [] if not token.get("special")]
    changed = [model.get(name) for name in ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")]
    if tree.get("normalizer") is not None or added or any(changed):
        return "other"
    if splitter is None and model["type"] == "BPE" and not model["merges"] and unknown is not None:
        return "other" if model.get("byte_fallback") or model.get("fuse_unk") else "char"
    if model["type"] == "WordLevel" and unknown is not None:
        return "word"
    if _keeps_bytes(splitter, model["vocab"]):
        if model["type"] == "Unigram":
            return "unigram"
        if model["type"] == "BPE":
            return "bpe" if model["merges"] else "byte"
    return "other"


def _keeps_bytes(splitter: dict[str, Any] | None, vocabulary: Any) -> bool:
    """Return whether a tokenizer turns a text into its bytes, drops none of them, and has a token for each."""
    steps = splitter.get("pretokenizers", [splitter]) if splitter else []
    if not steps or steps[-1]["type"] != "ByteLevel" or steps[-1]["add_prefix_space"]:
        return False
    if any(step["type"] not in ("Split", "Digits") or step.get("behavior") == "Removed" for step in steps[:-1]):
        return False
    spellings = vocabulary if isinstance(vocabulary, dict) else {entry[0] for entry in vocabulary}
    return all(character in spellings for character in ALPHABET)


def _byte_alphabet() -> Iterator[tuple[int, str]]:
    """Return (byte, character): printable Latin-1 stands for itself, the others for U+0100 and on, in order."""
    moved = 0
    for byte in range(256):
        if 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte <= 255:
            yield byte, chr(byte)
        else:
            yield byte, chr(256 + moved)
            moved += 1


# --- making one ----------------------------------------------------------------------------------


def train_tokenizer(settings: TokenizerSettings, pieces: Iterable[str], size: int) -> Tokenizer:
    """Return a tokenizer made from a text of about `size` characters."""
    if settings.kind == "byte":
        return Tokenizer(
            _byte_level(models.BPE({character: byte for byte, character in _byte_alphabet()}, [])).to_str()
        )
    if settings.kind == "char":
        return char_tokenizer(_kept(_count(pieces), settings))
    if settings.kind == "word":
        engine = _word(models.WordLevel({UNKNOWN: 0}, unk_token=UNKNOWN), settings.split)
        # One token is the unknown one.
        limit = (settings.size or LARGEST_VOCABULARY) - 1
        counting = trainers.WordLevelTrainer(
            vocab_size=limit, min_frequency=settings.min_count, show_progress=False, special_tokens=[]
        )
        engine.train_from_iterator(_batches(pieces), counting)
        return word_tokenizer(_by_id(engine), settings.split)
    limit = settings.size or default_size(size)
    trainer: trainers.Trainer
    if settings.kind == "bpe":
        engine = _byte_level(models.BPE())
        trainer = trainers.BpeTrainer(vocab_size=limit, initial_alphabet=ALPHABET, show_progress=False)
    else:
        engine = _byte_level(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=limit, initial_alphabet=ALPHABET, show_progress=False)
    engine.train_from_iterator(_batches(pieces), trainer)
    return Tokenizer((_settled(engine) if settings.kind == "unigram" else engine).to_str())


def _settled(engine: Engine) -> Engine:
    """Return a unigram engine that is the same for the same text.

    The trainer adds up in an order that differs each time, which shows in the last digits, and gives what it
    did not keep of the alphabet scores 0.0001 apart, from the lowest one down, in an order that differs too.
    """
    found = dict(json.loads(engine.to_str())["model"]["vocab"])
    # There is no score at all where the text had nothing to tell.
    lowest = min((score for score in found.values() if score is not None), default=0.0)
    ladder = lowest + 0.0001 * len(ALPHABET)
    scores = {
        spelling: round(lowest if score is None or (len(spelling) == 1 and score <= ladder) else score, 6)
        for spelling, score in found.items()
    }
    return _byte_level(models.Unigram(sorted(scores.items(), key=lambda entry: (-entry[1], entry[0])), None, False))


def default_size(characters: int) -> int:
    """Return how many tokens suit a text: about one per 300 characters, between 500 and 8,000."""
    return min(8000, max(500, characters // 300))


def word_tokenizer(words: Sequence[str], split: str = "space") -> Tokenizer:
    """Return the tokenizer that knows just these words, in this order."""
    vocabulary = {word: index for index, word in enumerate(words)}
    vocabulary[UNKNOWN] = len(vocabulary)
    return Tokenizer(_word(models.WordLevel(vocabulary, unk_token=UNKNOWN), split).to_str())


def char_tokenizer(characters: Sequence[str]) -> Tokenizer:
    """Return the tokenizer that knows just these characters, in this order."""
    # A BPE that never merges is a table of characters, and the library's fastest.
    vocabulary = {character: index for index, character in enumerate(characters)}
    vocabulary[UNKNOWN] = len(vocabulary)
    engine = Engine(models.BPE(vocabulary, [], unk_token=UNKNOWN, fuse_unk=False))
    engine.decoder = decoders.Fuse()
    return Tokenizer(engine.to_str())


def parse_tokenizer(choice: str) -> TokenizerSettings | Path:
    """Return what `--tokenizer` asks for: settings for a new one, or the place of one that exists."""
    kind, colon, size = choice.partition(":")
    if kind in KINDS:
        if colon and not (size.isdecimal() and len(size) < 20):
            raise SettingsError(f"--tokenizer {choice}: found {size!r}, expected a number", "for example bpe:2000")
        from satchel.config import build

        return build(TokenizerSettings, {"kind": kind, "size": int(size) if colon else None}, "--tokenizer")
    if os.path.exists(choice):
        return Path(choice)
    raise SettingsError(
        f"--tokenizer {choice}: there is no such tokenizer, run or file",
        "expected char, byte, word, bpe:N, unigram:N, a run folder or a tokenizer.json",
    )


def _word(model: models.Model, split: str) -> Engine:
    engine = Engine(model)
    spaces = pre_tokenizers.WhitespaceSplit()
    punctuation = pre_tokenizers.Sequence([spaces, pre_tokenizers.Punctuation("isolated")])
    engine.pre_tokenizer = punctuation if split == "punctuation" else spaces
    return engine


def _byte_level(model: models.Model) -> Engine:
    engine = Engine(model)
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(PIECES, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    engine.decoder = decoders.ByteLevel()
    return engine


def _count(pieces: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for piece in pieces:
        counts.update(piece)
    return counts


def _kept(counts: Counter[str], settings: TokenizerSettings) -> list[str]:
    often = sorted(
        (character for character, count in counts.items() if count >= settings.min_count),
        key=lambda character: (-counts[character], character),
    )
    # One token is the unknown one.
    return sorted(often if settings.size is None else often[: settings.size - 1])


def _by_id(engine: Engine) -> list[str]:
    return [engine.id_to_token(id_) or "" for id_ in range(engine.get_vocab_size())]


def _batches(pieces: Iterable[str], count: int = 64) -> Iterator[list[str]]:
    batch: list[str] = []
    for piece in pieces:
        batch.append(piece)
        if len(batch) == count:
            yield batch
            batch = []
    if batch:
        yield batch
