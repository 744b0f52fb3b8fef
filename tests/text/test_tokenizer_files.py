"""Files of tokenizers: saving, validation, imported tokenizers such as that of GPT-2."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings

from satchel.errors import RunError
from satchel.text import reading
from satchel.text.tokenizer import UNKNOWN, Tokenizer
from satchel.text.tokenizer_files import load_tokenizer, read_tokenizer
from satchel.text.tokenizer_training import word_tokenizer
from tests.text.samples import PROSE, TEXTS, train

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


# --- components that are not supported


def with_component(name: str, component: object) -> Callable[[Tree], None]:
    return lambda tree: tree.update({name: component})


UNSUPPORTED: dict[str, tuple[Callable[[Tree], None], str]] = {
    "normalizer": (
        with_component("normalizer", {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10**6}),
        "normalizer: found 'Replace'",
    ),
    "backtracking": (
        lambda tree: tree["pre_tokenizer"]["pretokenizers"][0].update(pattern={"Regex": "(a|a)*(a|aa)+$"}),
        "pre_tokenizer: found Split with the pattern {'Regex': '(a|a)*(a|aa)+$'}, ByteLevel for the model BPE",
    ),
    "repeated": (
        lambda tree: tree["pre_tokenizer"]["pretokenizers"].append({"type": "ByteLevel", "add_prefix_space": True}),
        "pre_tokenizer: found Split with",
    ),
    "nested": (
        lambda tree: tree.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [tree["pre_tokenizer"]]}),
        "pre_tokenizer: found Sequence",
    ),
    "without pre-tokenizer": (with_component("pre_tokenizer", None), "pre_tokenizer: found none for the model BPE"),
    "template": (with_component("post_processor", {"type": "TemplateProcessing"}), "post_processor: found 'Template"),
    "decoder": (with_component("decoder", {"type": "Replace"}), "decoder: found 'Replace'"),
    "suffix": (lambda tree: tree["model"].update(end_of_word_suffix="</w>"), "model.end_of_word_suffix: found '</w>'"),
    "WordPiece": (lambda tree: tree["model"].update(type="WordPiece"), "model: found 'WordPiece'"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_components_that_satchel_does_not_save_are_refused_by_name(name: str, trained: dict[str, Tokenizer]) -> None:
    change, message = UNSUPPORTED[name]
    tree = tree_of(trained["bpe"])
    change(tree)
    cause = error_of(tree)
    assert message in cause
    assert "which satchel does not support" in cause


def test_large_scores_of_a_unigram_model_are_refused(trained: dict[str, Tokenizer]) -> None:
    tree = tree_of(trained["unigram"])
    tree["model"]["vocab"][3][1] = -1e300
    assert "not a list of tokens" in error_of(tree)
