"""Training tokenizers, and building them from a vocabulary."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from satchel.text.tokenizer import ALPHABET, LARGEST_VOCABULARY, UNKNOWN, Tokenizer, TokenizerSettings, byte_alphabet

# Pre-tokens of byte-level tokenizers: words with the space before them, numbers, punctuation, newlines, other white
# space. White space only starts a pre-token and no rule looks behind, which `reading.split_pieces` relies on.
# The length is limited because the training time is quadratic in it.
PRE_TOKEN_PATTERN = (
    r" ?\p{L}{1,256}| ?\p{N}{1,256}| ?[^\s\p{L}\p{N}]{1,256}|\n{1,256}|[^\S\n]{1,256}(?!\S)|[^\S\n]{1,256}"
)


def train_tokenizer(settings: TokenizerSettings, pieces: Iterable[str], size: int) -> Tokenizer:
    """Return a tokenizer trained on pieces of text with about `size` characters in total."""
    if settings.kind == "byte":
        return Tokenizer(_byte_level(models.BPE({character: byte for byte, character in byte_alphabet()}, [])).to_str())
    if settings.kind == "char":
        return char_tokenizer(_frequent_characters(pieces, settings))
    if settings.kind == "word":
        engine = _word(models.WordLevel({UNKNOWN: 0}, unk_token=UNKNOWN), settings.split)
        # The unknown token is part of the vocabulary size.
        limit = (settings.size or LARGEST_VOCABULARY) - 1
        word_trainer = trainers.WordLevelTrainer(
            vocab_size=limit, min_frequency=settings.min_count, show_progress=False, special_tokens=[]
        )
        engine.train_from_iterator(pieces, word_trainer)
        vocabulary = engine.get_vocab()
        return word_tokenizer(sorted(vocabulary, key=vocabulary.__getitem__), settings.split)
    limit = settings.size or default_size(size)
    is_bpe = settings.kind == "bpe"
    engine = _byte_level(models.BPE() if is_bpe else models.Unigram())
    trainer = trainers.BpeTrainer if is_bpe else trainers.UnigramTrainer
    engine.train_from_iterator(pieces, trainer(vocab_size=limit, initial_alphabet=ALPHABET, show_progress=False))
    return Tokenizer((engine if is_bpe else _deterministic(engine)).to_str())


def _deterministic(engine: Engine) -> Engine:
    """Return a unigram engine that depends on the training text only.

    The order of the trainer's sums varies, which changes the last digits of scores: they are rounded. Bytes that do not
    occur in the text get scores in steps of 0.0001 below the lowest score, in varying order: all get the lowest score.
    """
    scores = dict(json.loads(engine.to_str())["model"]["vocab"])
    # Scores are missing if the training text is empty.
    lowest = min((score for score in scores.values() if score is not None), default=0.0)
    largest_step = lowest + 0.0001 * len(ALPHABET)
    rounded = {
        spelling: round(lowest if score is None or (len(spelling) == 1 and score <= largest_step) else score, 6)
        for spelling, score in scores.items()
    }
    return _byte_level(models.Unigram(sorted(rounded.items(), key=lambda entry: (-entry[1], entry[0])), None, False))


def default_size(characters: int) -> int:
    """Return the default vocabulary size: one token per 300 characters of text, at least 500 and at most 8,000."""
    return min(8000, max(500, characters // 300))


def word_tokenizer(words: Sequence[str], split: str = "space") -> Tokenizer:
    """Return a tokenizer with these words as vocabulary, in this order, and an unknown token."""
    vocabulary = {word: index for index, word in enumerate(words)}
    vocabulary[UNKNOWN] = len(vocabulary)
    return Tokenizer(_word(models.WordLevel(vocabulary, unk_token=UNKNOWN), split).to_str())


def char_tokenizer(characters: Sequence[str]) -> Tokenizer:
    """Return a tokenizer with these characters as vocabulary, in this order, and an unknown token."""
    # BPE without merges maps each character to its id, and is the fastest such model of the library.
    vocabulary = {character: index for index, character in enumerate(characters)}
    vocabulary[UNKNOWN] = len(vocabulary)
    engine = Engine(models.BPE(vocabulary, [], unk_token=UNKNOWN, fuse_unk=False))
    engine.decoder = decoders.Fuse()
    return Tokenizer(engine.to_str())


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
            pre_tokenizers.Split(Regex(PRE_TOKEN_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    engine.decoder = decoders.ByteLevel()
    return engine


def _frequent_characters(pieces: Iterable[str], settings: TokenizerSettings) -> list[str]:
    """Return the most frequent characters with at least `min_count` occurrences, in code point order."""
    counts = Counter(chain.from_iterable(pieces))
    frequent = [character for character, count in counts.items() if count >= settings.min_count]
    by_frequency = sorted(frequent, key=lambda character: (-counts[character], character))
    # The unknown token is part of the vocabulary size.
    return sorted(by_frequency if settings.size is None else by_frequency[: settings.size - 1])
