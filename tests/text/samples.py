"""Sample texts, and tokenizers trained on them."""

from typing import Any

from hypothesis import strategies as st

from satchel.text.tokenizer import Tokenizer, TokenizerSettings
from satchel.text.tokenizer_training import train_tokenizer

PROSE = """The cat sat on the mat, and the dog sat on the log. "Where is the cat?" asked the dog.
Nobody knew; 1,234 other cats were there, too. <unk> is a word here, and so is </s>.
한국어 텍스트와 שלום עולם, naïve façade, 👩‍👩‍👧 and e\u0301 with a combining mark.
"""
SPECIAL = ["<unk>", "<s>", "</s>", "<eos>", "<pad>", " <unk>", "<|endoftext|>", "<end>", "[UNK]", "\ufffd", "<0x41>"]
FAMILY = "👩‍👩‍👧‍👦"
PARTS = [
    *SPECIAL,
    *("the", " cat", "\n", "\r\n", " ", "  ", "\t", "\0", "\x1b[31m", "\x7f", "\x85", "\ufeff", "\u2028"),
    *(FAMILY, "🏳️‍🌈", "e\u0301\u0323", "한국어", "각", "שָׁלוֹם", "\u202eabc\u202c", "\u200d", "ﷺ", "Ǆ", "ß", "\U0010ffff"),
]
TEXTS = st.lists(st.sampled_from(PARTS) | st.text(max_size=6), max_size=12).map("".join)


def train(kind: str, text: str = PROSE * 5, **more: Any) -> Tokenizer:
    """Return a tokenizer trained on a text."""
    return train_tokenizer(TokenizerSettings.model_validate({"kind": kind, **more}), [text], len(text))
