"""Tokenizers: lossless encoding, unknown tokens, determinism, and validation of files."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from satchel.errors import DataError, RunError, SettingsError
from satchel.text import reading
from satchel.text.tokenizer import UNKNOWN, Tokenizer, TokenizerSettings, parse_tokenizer
from satchel.text.tokenizer_files import load_tokenizer, read_tokenizer
from satchel.text.tokenizer_training import char_tokenizer, default_size, train_tokenizer, word_tokenizer

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
# Text that is partly in the vocabulary of the word and char tokenizers below.
PARTLY_KNOWN = st.lists(
    st.sampled_from(["cat", "sat", "on", ",", ".", "cats", " ", " ", "  ", "\n", "\u3000"]), max_size=9
)


def train(kind: str, text: str = PROSE * 5, **more: Any) -> Tokenizer:
    return train_tokenizer(TokenizerSettings.model_validate({"kind": kind, **more}), [text], len(text))


@pytest.fixture(scope="module")
def trained() -> dict[str, Tokenizer]:
    return {
        "byte": train("byte"),
        "bpe": train("bpe", size=400),
        "unigram": train("unigram", size=400),
        "char": train("char"),
        "word": train("word"),
        "punctuation": train("word", split="punctuation"),
    }


# --- encoding and decoding


@pytest.mark.parametrize(("kind", "examples"), [("byte", 2700), ("bpe", 2700), ("unigram", 2700)])
def test_byte_level_tokenizers_are_lossless_and_have_no_unknown_tokens(
    kind: str, examples: int, trained: dict[str, Tokenizer]
) -> None:
    tokenizer = trained[kind]
    assert tokenizer.kind == kind

    @settings(max_examples=examples, deadline=None)
    @given(TEXTS)
    def check(text: str) -> None:
        encoding = tokenizer.encode(text)
        assert tokenizer.decode(encoding.ids) == text
        assert encoding.unknown == 0
        assert encoding.lossless
        assert b"".join(tokenizer.bytes_of(int(id_)) for id_ in encoding.ids) == text.encode()
        assert encoding.ids.max(initial=0) < tokenizer.size

    check()


@given(TEXTS)
@settings(max_examples=400, deadline=None)
def test_a_char_tokenizer_with_all_characters_is_lossless(text: str) -> None:
    tokenizer = char_tokenizer(sorted(set(text)))
    encoding = tokenizer.encode(text)
    assert tokenizer.decode(encoding.ids) == text
    assert encoding.lossless
    assert len(encoding.ids) == len(text)


@given(PARTLY_KNOWN.map("".join), st.integers(1, 30))
@example("cat, sat  on", 30)
@example("cat , sat", 1)
@example("cat  sat ", 3)
@example("", 1)
@example(" ", 1)
@settings(max_examples=1500, deadline=None)
def test_an_encoding_is_lossless_if_and_only_if_decoding_restores_the_text(text: str, shortest: int) -> None:
    known = ["cat", "sat", "on", ",", "."]
    tokenizers = [
        word_tokenizer(known),
        word_tokenizer(known, "punctuation"),
        char_tokenizer([*"catson, \n"]),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "SHORTEST_PIECE", shortest)
        patch.setattr(reading, "LONGEST_PIECE", shortest + 3)
        for tokenizer in tokenizers:
            encoding = tokenizer.encode(text)
            assert encoding.lossless == (tokenizer.decode(encoding.ids) == text)


def test_an_empty_piece_at_the_start_of_a_document_is_lossless(trained: dict[str, Tokenizer]) -> None:
    for tokenizer in trained.values():
        (encoding,) = tokenizer.encode_pieces([""], [True])
        assert encoding.lossless
        assert len(encoding.ids) == len(tokenizer.encode("").ids) == 0


def test_unknown_tokens_are_counted() -> None:
    words = word_tokenizer(["a", "b"])
    encoding = words.encode("a x b y y\n")
    assert encoding.unknown == 3
    assert not encoding.lossless
    assert words.decode(encoding.ids) == "a <unk> b <unk> <unk>"
    characters = char_tokenizer([*"ab"])
    encoding = characters.encode("axyb")
    assert encoding.ids.tolist() == [0, 2, 2, 1]
    assert encoding.unknown == 2


def test_an_unpaired_surrogate_is_rejected(trained: dict[str, Tokenizer]) -> None:
    for tokenizer in trained.values():
        with pytest.raises(DataError, match="unpaired surrogate"):
            tokenizer.encode("a\ud800b")


# --- spellings of special tokens


@pytest.mark.parametrize("spelling", SPECIAL)
def test_the_spelling_of_a_special_token_is_encoded_as_text(spelling: str, trained: dict[str, Tokenizer]) -> None:
    for text in (spelling, f"a{spelling}b", f"a {spelling} b", spelling * 3):
        for kind in ("byte", "bpe", "unigram"):
            encoding = trained[kind].encode(text)
            assert trained[kind].decode(encoding.ids) == text
        words = word_tokenizer(sorted(set(text.split())))
        for tokenizer in (*trained.values(), words, char_tokenizer(sorted(set(text)))):
            ids = tokenizer.encode(text).ids
            assert tokenizer.boundary == tokenizer.size
            assert ids.max() < tokenizer.boundary
        assert words.encode(text).unknown == 0
        assert char_tokenizer(sorted(set(text))).encode(text).unknown == 0


def test_words_spelled_like_special_tokens_are_in_the_vocabulary() -> None:
    text = " ".join(SPECIAL).replace("  ", " ")
    tokenizer = train("word", text)
    encoding = tokenizer.encode(text)
    assert encoding.unknown == 0
    assert tokenizer.decode(encoding.ids) == text
    assert tokenizer.unknown not in encoding.ids
    assert tokenizer.encode("other").ids.tolist() == [tokenizer.unknown]


def test_decoding_omits_the_boundary_and_ids_out_of_range(trained: dict[str, Tokenizer]) -> None:
    for tokenizer in trained.values():
        ids = tokenizer.encode("cat").ids
        around = [tokenizer.boundary, -1, *ids, 1 << 31, tokenizer.boundary]
        assert tokenizer.decode(around) == tokenizer.decode(ids)
        assert tokenizer.text_of(tokenizer.boundary) == "<end>"


# --- determinism


@pytest.mark.parametrize("kind", ["byte", "bpe", "unigram", "char", "word", "punctuation"])
def test_a_saved_tokenizer_is_the_same(kind: str, trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(trained[kind].json, encoding="utf-8", newline="")
    for loaded in (load_tokenizer(path), load_tokenizer(tmp_path)):
        assert loaded.sha256 == trained[kind].sha256
        assert loaded.kind == trained[kind].kind
        assert loaded.unknown == trained[kind].unknown
        assert loaded.spellings == trained[kind].spellings
        assert np.array_equal(loaded.encode(PROSE).ids, trained[kind].encode(PROSE).ids)


@pytest.mark.parametrize("kind", ["byte", "bpe", "unigram", "char", "word"])
def test_training_twice_gives_the_same_tokenizer(kind: str, trained: dict[str, Tokenizer]) -> None:
    size = 400 if kind in ("bpe", "unigram") else None
    for _ in range(3):
        assert train(kind, size=size).json == trained[kind].json


def test_training_in_another_process_gives_the_same_tokenizer(shared: Path) -> None:
    # The order of the library's hash tables differs between processes.
    program = """
import sys
from pathlib import Path
from satchel.text.tokenizer import TokenizerSettings
from satchel.text.tokenizer_training import train_tokenizer
text = Path(sys.argv[1]).read_text(encoding="utf-8")[:100_000]
for kind in ("word", "bpe", "unigram"):
    pieces = [text[i : i + 1000] for i in range(0, len(text), 1000)]
    print(train_tokenizer(TokenizerSettings(kind=kind), pieces, len(text)).sha256)
"""
    command = [sys.executable, "-c", program, str(shared / "tiny-shakespeare" / "input.txt")]
    first, second = (subprocess.run(command, capture_output=True, check=True).stdout for _ in range(2))
    assert first == second
    assert len(first.split()) == 3


@pytest.mark.parametrize("text", ["", "a", "\0" * 50, "\n" * 50, "   ", "ab" * 400, "é"])
@pytest.mark.parametrize("kind", ["char", "word", "bpe", "unigram"])
def test_a_tokenizer_can_be_trained_on_a_very_short_text(kind: str, text: str) -> None:
    tokenizer = train(kind, text)
    encoding = tokenizer.encode(text)
    assert encoding.unknown == 0
    if kind != "word":
        assert tokenizer.decode(encoding.ids) == text
    assert read_tokenizer(tokenizer.json.encode(), "x").sha256 == tokenizer.sha256


def test_training_on_a_very_long_word_is_fast() -> None:
    # Without a limit of the length of pre-tokens this takes minutes.
    rng = np.random.default_rng(0)
    letters = "".join(map(chr, rng.integers(97, 102, 300_000)))
    assert train("bpe", letters, size=300).size == 300
    assert train("bpe", "\n" * 300_000, size=260).size == 260


# --- sizes


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("size", [1, 100, 256])
def test_byte_level_vocabularies_are_larger_than_the_number_of_bytes(kind: str, size: int) -> None:
    with pytest.raises(SettingsError, match="expected a size above 256: the vocabulary contains every byte"):
        parse_tokenizer(f"{kind}:{size}")


def test_size_limits_the_vocabulary(shared: Path) -> None:
    text = (shared / "tiny-shakespeare" / "input.txt").read_text(encoding="utf-8")[:50_000]
    for kind in ("bpe", "unigram"):
        for size in (257, 300, 1000):
            assert 256 <= train(kind, text, size=size).size <= size
    assert train("bpe", text, size=300).size == 300
    for kind in ("char", "word"):
        for size in (1, 2, 10):
            assert train(kind, text, size=size).size == size


def test_the_vocabulary_has_the_most_frequent_tokens_with_at_least_min_count() -> None:
    text = "b b b a a c c d"
    assert train("word", text, size=2).spellings == ["b", UNKNOWN]
    assert train("word", text, size=3).spellings == ["b", "a", UNKNOWN]
    assert train("word", text, min_count=2).spellings == ["b", "a", "c", UNKNOWN]
    assert train("word", text, min_count=9).spellings == [UNKNOWN]
    assert train("char", text, min_count=3).spellings == [" ", "b", UNKNOWN]
    assert train("char", text, size=4).spellings == [" ", "a", "b", UNKNOWN]
    tokenizer = train("word", text, min_count=2)
    assert tokenizer.encode(text).unknown == 1


def test_words_are_split_at_white_space_and_keep_their_case() -> None:
    assert train("word", "The the, cat's\u00a0x\n").spellings[:-1] == ["The", "cat's", "the,", "x"]
    split = train("word", "The the, cat's", split="punctuation")
    assert sorted(split.spellings[:-1]) == sorted(["The", "the", ",", "cat", "'", "s"])


def test_the_default_size_grows_with_the_text() -> None:
    assert [default_size(count) for count in (0, 300_000, 10**9)] == [500, 1000, 8000]


# --- the option --tokenizer


def test_the_option_is_a_kind_with_a_size_or_a_path(tmp_path: Path) -> None:
    assert parse_tokenizer("char") == TokenizerSettings(kind="char")
    assert parse_tokenizer("bpe:2000") == TokenizerSettings(kind="bpe", size=2000)
    assert parse_tokenizer("byte:256") == TokenizerSettings(kind="byte", size=256)
    assert parse_tokenizer(str(tmp_path)) == tmp_path


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("bpe:", "the vocabulary size is '', expected a number"),
        ("bpe:many", "the vocabulary size is 'many', expected a number"),
        ("bpe:-5", "expected a number"),
        ("bpe:2.5", "expected a number"),
        ("bpe:²", "expected a number"),
        ("bpe:1_000", "expected a number"),
        (f"bpe:{'9' * 5000}", "expected a number"),
        ("bpe:99999999999", "less than or equal"),
        ("word:0", "greater than or equal"),
        ("byte:100", "expected 256 or no size"),
        ("bpee", "is neither a kind of tokenizer nor an existing file or folder"),
        ("BPE:500", "is neither a kind of tokenizer"),
        ("", "is neither a kind of tokenizer"),
        ("x" * 5000, "is neither a kind of tokenizer"),
        ("a\0b", "is neither a kind of tokenizer"),
    ],
)
def test_other_values_of_the_option_are_rejected(choice: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_tokenizer(choice)


# --- validation of files

Tree = dict[str, Any]


def tree_of(tokenizer: Tokenizer) -> Tree:
    tree = json.loads(tokenizer.json)
    assert isinstance(tree, dict)
    return tree


def error_of(tree: object) -> str:
    data = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    with pytest.raises(RunError) as caught:
        read_tokenizer(data, "tokenizer.json")
    assert caught.value.where == "tokenizer.json"
    return caught.value.cause


def vocabulary(change: Callable[[dict[str, Any]], None]) -> Tree:
    tree = tree_of(word_tokenizer(["a", "b", "c"]))
    change(tree["model"]["vocab"])
    return tree


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ids: ids.update(a=7), "ids are not distinct or not 0 to 3"),
        (lambda ids: ids.update(a=-1), "ids are not distinct or not 0 to 3"),
        (lambda ids: ids.update(a=1), "ids are not distinct or not 0 to 3"),
        (lambda ids: ids.update(a=0.5), "ids are not distinct or not 0 to 3"),
        (lambda ids: ids.update(a=True), "ids are not distinct or not 0 to 3"),
        (lambda ids: ids.update(a=1 << 80), "ids are not distinct or not 0 to 3"),
        (lambda ids: ids.update(a="0"), "ids are not distinct or not 0 to 3"),
        (lambda ids: ids.update(a=None), "ids are not distinct or not 0 to 3"),
        (lambda ids: ids.pop("a"), "ids are not distinct or not 0 to 2"),
        (lambda ids: ids.clear(), "not a list of tokens"),
        (lambda ids: ids.update({"\ud800": 4}), "contains an unpaired surrogate"),
        (lambda ids: (ids.pop(UNKNOWN), ids.update(d=3)), "has no unknown token"),
    ],
)
def test_invalid_vocabularies_are_rejected(change: Callable[[dict[str, Any]], None], message: str) -> None:
    assert message in error_of(vocabulary(change))


def test_duplicate_tokens_are_rejected() -> None:
    text = word_tokenizer(["a", "b"]).json.replace('"b":1', '"a":1')
    assert error_of(text.encode()) == "contains the key 'a' more than once"
    tree = tree_of(train("unigram", size=300))
    tree["model"]["vocab"][5] = tree["model"]["vocab"][4]
    assert "twice" in error_of(tree)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"null",
        b"[]",
        b"5",
        b"{}",
        b'{"model": 5}',
        b'{"model": {"type": "Other"}}',
        b'{"model": {"type": ["BPE"]}}',
        b'{"model": {"type": "BPE"}}',
        b'{"model": {"type": "BPE", "vocab": []}}',
        b'{"model": {"type": "BPE", "vocab": {"a": 0}}}',
        b'{"model": {"type": "Unigram", "vocab": []}}',
        b'{"model": {"type": "Unigram", "vocab": [["a"]]}}',
        b'{"model": {"type": "Unigram", "vocab": {"a": 0}}}',
        b'{"model": {"type": "Unigram", "vocab": [[1, 2]]}}',
        b'{"model": {"type": "Unigram", "vocab": [["a", 1e999]]}}',
        b'{"model": {"type": "WordLevel", "vocab": {"a": NaN}}}',
        b'{"model": {"type": "WordLevel", "vocab": {"a": ' + b"9" * 5000 + b"}}}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        "{}".encode("utf-16"),
        b"\xff\xfe",
        b"\x80\x04pickle",
    ],
)
def test_other_files_are_rejected(data: bytes) -> None:
    error_of(data)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
def test_fields_of_the_wrong_type_are_rejected_or_have_no_effect(kind: str, trained: dict[str, Tokenizer]) -> None:
    for name in tree_of(trained[kind]):
        for value in (5, "x", [], [5], {}, {"type": "Nonsense"}, [{"id": 0}], [{"content": [], "id": 0}], True):
            tree = {**tree_of(trained[kind]), name: value}
            try:
                tokenizer = read_tokenizer(json.dumps(tree).encode(), "x")
            except RunError:
                continue
            encoding = tokenizer.encode("The cat")
            assert encoding.lossless == (tokenizer.decode(encoding.ids) == "The cat"), (name, value)


def test_merges_of_unknown_tokens_and_damaged_models_are_rejected(trained: dict[str, Tokenizer]) -> None:
    tree = tree_of(trained["bpe"])
    for merges in ([["no", "such"]], [["a"]], [[1, 2]], "x", [["a", "b", "c"]], {"a": "b"}):
        error_of({**tree, "model": {**tree["model"], "merges": merges}})
    unigram = tree_of(trained["unigram"])
    error_of({**unigram, "model": {**unigram["model"], "unk_id": 10**6}})
    error_of({**unigram, "model": {**unigram["model"], "vocab": [["a", -1.0]]}})
    char = tree_of(trained["char"])
    error_of({**char, "model": {**char["model"], "unk_token": "none such"}})


def test_added_tokens_are_validated(trained: dict[str, Tokenizer]) -> None:
    def added(*tokens: Any) -> Tree:
        return {**tree_of(trained["bpe"]), "added_tokens": list(tokens)}

    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    size = trained["bpe"].size
    valid = read_tokenizer(json.dumps(added({"id": size, "content": "<x>", **flags})).encode(), "x")
    assert valid.size == size + 1
    for invalid in (
        {"id": size + 5, "content": "<x>", **flags},
        {"id": 0, "content": "<x>", **flags},
        {"id": size, "content": "\ud800", **flags},
        {"id": size, **flags},
        {"content": "<x>", **flags},
        {"id": size, "content": ["<x>"], **flags},
        5,
    ):
        error_of(added(invalid))
    unigram = {**tree_of(trained["unigram"]), "added_tokens": [{"id": 9999, "content": "<x>", **flags}]}
    try:
        loaded = read_tokenizer(json.dumps(unigram).encode(), "x")
    except RunError:
        return
    assert "" not in loaded.spellings


MODIFICATIONS: dict[str, Callable[[Tree], None]] = {
    "white space removed": lambda tree: tree["pre_tokenizer"]["pretokenizers"].insert(0, {"type": "WhitespaceSplit"}),
    "matches removed": lambda tree: tree["pre_tokenizer"]["pretokenizers"][0].update(behavior="Removed"),
    "prefix space": lambda tree: tree["pre_tokenizer"]["pretokenizers"][1].update(add_prefix_space=True),
    "byte level twice": lambda tree: tree["pre_tokenizer"]["pretokenizers"].append(
        tree["pre_tokenizer"]["pretokenizers"][1]
    ),
    "lower case": lambda tree: tree.update(normalizer={"type": "Lowercase"}),
    "end-of-word suffix": lambda tree: tree["model"].update(end_of_word_suffix="</w>"),
    "added tokens that absorb spaces": lambda tree: tree.update(
        added_tokens=[
            {"id": 5, "content": "cat", "single_word": False, "lstrip": True, "rstrip": True, "normalized": True}
            | {"special": False, "id": len(tree["model"]["vocab"])}
        ]
    ),
}


@pytest.mark.parametrize("name", MODIFICATIONS)
def test_an_imported_tokenizer_reports_lossy_encodings(name: str, trained: dict[str, Tokenizer]) -> None:
    tree = tree_of(trained["bpe"])
    MODIFICATIONS[name](tree)
    try:
        tokenizer = read_tokenizer(json.dumps(tree).encode(), "x")
    except RunError:
        return
    for text in ("The cat sat", " cat ", "a  b", "Cat\n", "naïve 한", ""):
        encoding = tokenizer.encode(text)
        assert encoding.lossless == (tokenizer.decode(encoding.ids) == text), text


def test_a_byte_level_tokenizer_without_some_bytes_reports_lossy_encodings() -> None:
    tree = tree_of(train("byte"))
    ids = {character: id_ for id_, character in enumerate("abcĠ")}
    tree["model"]["vocab"] = ids
    tokenizer = read_tokenizer(json.dumps(tree).encode(), "x")
    assert tokenizer.encode("a b").lossless
    assert not tokenizer.encode("a bd").lossless


def test_the_dropout_of_an_imported_tokenizer_is_disabled(trained: dict[str, Tokenizer]) -> None:
    tree = tree_of(trained["bpe"])
    tree["model"]["dropout"] = 0.5
    tokenizer = read_tokenizer(json.dumps(tree).encode(), "x")
    for _ in range(5):
        assert np.array_equal(tokenizer.encode(PROSE).ids, trained["bpe"].encode(PROSE).ids)


def test_the_truncation_and_padding_of_an_imported_tokenizer_are_disabled(trained: dict[str, Tokenizer]) -> None:
    tree = tree_of(trained["bpe"])
    tree["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    tree["padding"] = {
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "!",
    }  # fmt: skip
    tokenizer = read_tokenizer(json.dumps(tree).encode(), "x")
    for text in ("a", PROSE):
        assert np.array_equal(tokenizer.encode(text).ids, trained["bpe"].encode(text).ids)


def test_missing_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"has no tokenizer\.json"):
        load_tokenizer(tmp_path)
    for name in ("none", "x" * 5000):
        with pytest.raises(RunError, match="cannot be read"):
            load_tokenizer(tmp_path / name)


# --- GPT-2


@pytest.fixture(scope="module")
def gpt2(shared: Path) -> Tokenizer:
    path = shared / "tiny-gpt2" / "fake_gpt2" / "tokenizer.json.gz"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    return read_tokenizer(gzip.decompress(path.read_bytes()), str(path))


def test_the_tokenizer_of_gpt2_gives_its_ids(gpt2: Tokenizer) -> None:
    assert gpt2.kind == "bpe"
    assert gpt2.size == 50257
    assert gpt2.encode("Hello world").ids.tolist() == [15496, 995]


def test_the_spelling_of_the_special_token_of_gpt2_is_encoded_as_text(gpt2: Tokenizer) -> None:
    text = "one<|endoftext|>two <|endoftext|>"
    encoding = gpt2.encode(text)
    assert 50256 not in encoding.ids
    assert encoding.lossless
    assert gpt2.decode(encoding.ids) == text
    assert gpt2.text_of(50256) == "<|endoftext|>"


@given(TEXTS)
@example("one\n\ntwo\n  three\r\nfour  's five 's")
@settings(max_examples=200, deadline=None)
def test_splitting_into_pieces_changes_no_token_of_gpt2(gpt2: Tokenizer, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "SHORTEST_PIECE", 1)
        encoding = gpt2.encode(text)
    assert encoding.ids.tolist() == gpt2._engine.encode(text, add_special_tokens=False).ids
    assert gpt2.decode(encoding.ids) == text
