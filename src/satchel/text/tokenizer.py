"""Tokenizers: char, byte, word, byte-level BPE and unigram, all kept in one `tokenizer.json`.

The ids of a tokenizer are 0 .. size-1. The document boundary is the id one past them, so that no
text can ever produce it; models see `size + 1` ids. `char` and `word` have an id for what they do
not know, spelled so that no text spells it; nothing is unknown to the others.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from satchel import durable
from satchel.config import Settings
from satchel.errors import RunError, SettingsError

Ids = npt.NDArray[np.int64]

# A space inside: `word` splits there, `char` sees seven characters, byte-level alphabets have no space.
UNKNOWN = " <unk>"
LARGEST_FILE = 1 << 28
LARGEST_VOCABULARY = 1 << 24
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
# Words with the space before them, numbers, punctuation, newlines, other white space. No newline is
# ever in a piece with anything else, and no rule looks back: that is what makes reading.cut safe.
PIECES = Regex(r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\n+|[^\S\n]+(?!\S)|[^\S\n]+")

Kind = Literal["char", "byte", "word", "bpe", "unigram"]


class TokenizerSettings(Settings):
    """Which tokenizer to make from the training text."""

    kind: Kind = Field("bpe", description="char, byte, word, bpe or unigram")
    size: int | None = Field(None, ge=1, le=LARGEST_VOCABULARY, description="the most tokens there may be")
    min_count: int = Field(1, ge=1, description="char and word: drop what occurs less often")
    split: Literal["space", "punctuation"] = Field("space", description="word: also split punctuation off")

    @model_validator(mode="after")
    def _large_enough(self) -> "TokenizerSettings":
        if self.kind in ("bpe", "unigram") and self.size is not None and self.size <= len(ALPHABET):
            raise ValueError(f"expected a size above {len(ALPHABET)}: each byte is a token")
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

    # --- text to ids

    def encode(self, text: str) -> Encoding:
        """Return the ids of a text."""
        from satchel.text.reading import cut

        pieces = list(cut([text]))
        parts = list(self.encode_pieces(pieces, [True, *[False] * (len(pieces) - 1)]))
        if not parts:
            return Encoding(np.empty(0, np.int64), 0, True)
        return Encoding(
            np.concatenate([part.ids for part in parts]),
            sum(part.unknown for part in parts),
            all(part.lossless for part in parts),
        )

    def encode_pieces(self, pieces: Sequence[str], begins: Sequence[bool]) -> Iterator[Encoding]:
        """Return the encoding of each piece (see reading.cut); `begins` says which begin a document."""
        for text, begin, encoded in zip(
            pieces,
            begins,
            self._engine.encode_batch_fast(list(pieces), add_special_tokens=False),
            strict=True,
        ):
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
            gaps = len(ids) - (1 if begin else 0)
            return len(text) - int(self._lengths[ids].sum()) == gaps == text.count(" ")
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
    if model["type"] == "Unigram":
        _check_words([entry[0] for entry in vocabulary or []] if _is_pairs(vocabulary) else None, where)
    else:
        _check_ids(vocabulary, tree.get("added_tokens") or [], where)
    try:
        return Tokenizer(data.decode("utf-8"))
    except BaseException as error:
        # The library's own failures are Exceptions, or panics of the runtime it is built with.
        if not isinstance(error, Exception) and type(error).__module__ != "pyo3_runtime":
            raise
        raise RunError(f"is not a tokenizer that can be read: {error}", where=where) from None


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer in a file, or that of a run folder."""
    if path.is_dir():
        if not (path / "tokenizer.json").exists():
            raise RunError("is not a run: it has no tokenizer.json", where=str(path))
        path = path / "tokenizer.json"
    return read_tokenizer(durable.read_file(path, LARGEST_FILE), str(path))


def _is_pairs(vocabulary: Any) -> bool:
    return isinstance(vocabulary, list) and all(isinstance(entry, list) and len(entry) == 2 for entry in vocabulary)


def _check_words(words: list[Any] | None, where: str) -> None:
    if words is None or not all(isinstance(word, str) for word in words) or not words:
        raise RunError("its vocabulary is not a list of tokens", where=where)
    if len(words) > LARGEST_VOCABULARY:
        raise RunError(f"found {len(words)} tokens, expected at most {LARGEST_VOCABULARY}", where=where)
    for word in words:
        if any("\ud800" <= character <= "\udfff" for character in word):
            raise RunError(f"the token {word!r} is not text", where=where)
    if len(set(words)) < len(words):
        twice = Counter(words).most_common(1)[0][0]
        raise RunError(f"found the token {twice!r} twice", where=where)


def _check_ids(vocabulary: Any, added: list[Any], where: str) -> None:
    if not isinstance(vocabulary, dict):
        raise RunError("its vocabulary is not a table of tokens", where=where)
    extra = {token["content"]: token["id"] for token in added if isinstance(token, dict) and "id" in token}
    ids = {**vocabulary, **extra}
    _check_words(list(ids), where)
    if not all(type(id_) is int for id_ in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        raise RunError(f"its ids are not 0 to {len(ids) - 1}, each once", where=where)


def _kind(tree: dict[str, Any], unknown: int | None) -> str:
    """Return which of the kinds a tokenizer is, from how it is built; `other` if none."""
    model, splitter = tree["model"], tree.get("pre_tokenizer")
    if tree.get("normalizer") is not None:
        return "other"
    if splitter is None and model["type"] == "BPE" and not model["merges"] and unknown is not None:
        return "char"
    if model["type"] == "WordLevel" and unknown is not None:
        return "word"
    steps = splitter.get("pretokenizers", [splitter]) if splitter else []
    if any(step["type"] == "ByteLevel" and not step["add_prefix_space"] for step in steps):
        if model["type"] == "Unigram":
            return "unigram"
        if model["type"] == "BPE":
            return "bpe" if model["merges"] else "byte"
    return "other"


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
        limit = LARGEST_VOCABULARY if settings.size is None else settings.size
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
    return Tokenizer(engine.to_str())


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
    if kind in ("char", "byte", "word", "bpe", "unigram"):
        if colon and not size.isdigit():
            raise SettingsError(f"--tokenizer {choice}: found {size!r}, expected a number", "for example bpe:2000")
        from satchel.config import build

        return build(TokenizerSettings, {"kind": kind, "size": int(size) if colon else None}, "--tokenizer")
    if Path(choice).exists():
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
    return sorted(often[: settings.size])


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
