"""Incremental decoding equals decoding of all ids, for every kind of tokenizer."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from satchel.text.incremental import IncrementalDecoder
from satchel.text.tokenizer import Tokenizer
from tests.text.samples import PROSE

PROMPTS = ["", "The cat", "The cat ", "line\n", "naï"]


def wordpiece() -> Tokenizer:
    engine = Engine(models.WordPiece(unk_token="[UNK]"))
    engine.normalizer, engine.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece()
    engine.train_from_iterator([PROSE], trainers.WordPieceTrainer(vocab_size=150, special_tokens=["[UNK]"]))
    return Tokenizer(engine.to_str())


def byte_fallback() -> Tokenizer:
    """A tokenizer like that of Llama: spaces are U+2581, unknown characters are bytes."""
    engine = Engine(models.BPE(byte_fallback=True, unk_token="<unk>"))
    engine.normalizer = normalizers.Replace(" ", "\u2581")
    engine.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    engine.train_from_iterator([PROSE], trainers.BpeTrainer(vocab_size=330, special_tokens=special))
    return Tokenizer(engine.to_str())


def end_of_word() -> Tokenizer:
    engine = Engine(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.Whitespace(), decoders.BPEDecoder("</w>")
    trainer = trainers.BpeTrainer(vocab_size=150, special_tokens=["<unk>"], end_of_word_suffix="</w>")
    engine.train_from_iterator([PROSE], trainer)
    return Tokenizer(engine.to_str())


IMPORTED: dict[str, Callable[[], Tokenizer]] = {
    "wordpiece": wordpiece,
    "byte fallback": byte_fallback,
    "end of word": end_of_word,
}


@pytest.fixture(scope="module")
def tokenizers(trained: dict[str, Tokenizer]) -> dict[str, Tokenizer]:
    """Return trained and imported tokenizers by name."""
    imported = {name: make() for name, make in IMPORTED.items()}
    assert {tokenizer.kind for tokenizer in imported.values()} == {"other"}
    return {**trained, **imported}


@pytest.mark.parametrize("name", ["byte", "bpe", "unigram", "char", "word", "punctuation", *IMPORTED])
@settings(deadline=None, max_examples=60)
@given(data=st.data(), prompt=st.sampled_from(PROMPTS))
def test_incremental_decoding_of_random_ids_equals_that_of_all(
    name: str, tokenizers: dict[str, Tokenizer], data: st.DataObject, prompt: str
) -> None:
    tokenizer = tokenizers[name]
    # Byte fallback replaces all bytes of a run if one is invalid, also those of earlier characters.
    is_random = [not spelling.startswith("<0x") for spelling in tokenizer.spellings] + [True]
    ids = data.draw(st.lists(st.sampled_from([id_ for id_, is_drawn in enumerate(is_random) if is_drawn]), max_size=30))
    decoder, text = IncrementalDecoder(tokenizer, prompt), ""
    expected = tokenizer.decode_after(prompt, ids)
    for id_ in ids:
        text += decoder.add(id_)
        assert expected.startswith(text)
    assert text + decoder.finish() == expected


@pytest.mark.parametrize("name", ["byte", "bpe", "unigram", "char", "byte fallback"])
def test_incremental_decoding_of_text_restores_it_without_incomplete_characters(
    name: str, tokenizers: dict[str, Tokenizer]
) -> None:
    tokenizer = tokenizers[name]
    text = PROSE if name == "char" else f"{PROSE}ж漢字🎉"  # characters that are not in the training text
    decoder, ids = IncrementalDecoder(tokenizer), tokenizer.encode(text).ids.tolist()
    parts = [decoder.add(id_) for id_ in ids]
    assert not any("\ufffd" in part for part in parts)
    assert "".join(parts) + decoder.finish() == text
