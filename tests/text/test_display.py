"""Display of tokens, and escaping of control and invisible characters in JSON and in shell commands."""

import copy
import json
import pickle
import subprocess

import pytest

from satchel.text.display import Token, json_text, quoted, separator, visible, with_roles
from tests.text.samples import train

TEXT = "the <unk> saw the <start> of the <end> <unk>"
# C0, DEL, C1, bidirectional and other format characters, line separators, noncharacters, private use, a lone surrogate.
INVISIBLE = "\x00\x07\x1b\n\t\x7f\x80\x9b\xad\u200b\u200d\u202e\u2028\u2066\ufeff\ue000\uffff\U000e0001\U0010ffff\ud800"


def test_json_contains_no_invisible_characters_and_is_read_as_the_same_value() -> None:
    value = {f"key{INVISIBLE}": [f"a{INVISIBLE}é😀 ", None, 1.5], "plain": "é\\u009b"}
    for indent in (None, 2):
        text = json_text(value, indent=indent)
        assert json.loads(text) == value
        assert not set(text) & (set(INVISIBLE) - {"\n"})
        assert "é😀" in text
    assert "\n" not in json_text(value)


@pytest.mark.parametrize(
    "name", ["run", "my run", "it's", "a\x1b[31mb", "a\nb", "a\tb\\n'c' \u202e\x9b\U000e0001", "-x;rm $HOME `id`"]
)
def test_a_quoted_name_is_one_word_of_a_shell_command(name: str) -> None:
    word = quoted(name)
    assert word.isprintable()
    environment = {"LC_ALL": "C.UTF-8"}
    command = ["bash", "-c", f"printf '%s' {word}"]
    assert subprocess.run(command, capture_output=True, check=True, env=environment).stdout.decode() == name


def test_plain_names_are_not_quoted() -> None:
    assert quoted("runs/verse") == "runs/verse"


# --- tokens


def test_the_boundary_is_the_start_in_a_context_and_the_end_as_a_target() -> None:
    tokenizer = train("word", TEXT)
    context = tokenizer.tokens_of([tokenizer.boundary], as_context=True)
    target = tokenizer.tokens_of([tokenizer.boundary])
    assert [(token, token.role, token.id) for token in context + target] == [
        ("<start>", "start", tokenizer.boundary),
        ("<end>", "end", tokenizer.boundary),
    ]


def test_tokens_of_text_that_are_spelled_like_special_tokens_have_no_role_and_another_display() -> None:
    tokenizer = train("word", TEXT)
    words = tokenizer.tokens_of(tokenizer.encode("<unk> <start> <end> unseen").ids)
    assert list(words) == ["<unk>", "<start>", "<end>", "<unk>"]
    assert [word.role for word in words] == [None, None, None, "unknown"]
    assert len({word.id for word in words}) == 4
    assert [visible(word) for word in words] == ["\\<unk>", "\\<start>", "\\<end>", "<unk>"]
    assert [visible(word.strip()) for word in words] == [visible(word) for word in words]
    assert tokenizer.decode(word.id for word in words) == "<unk> <start> <end> <unk>"


def test_copies_of_a_token_keep_its_id_and_role() -> None:
    token = Token("<end>", 7, "end")
    for copied in (copy.deepcopy(token), pickle.loads(pickle.dumps(token))):
        assert (copied, copied.id, copied.role) == ("<end>", 7, "end")


def test_documents_list_the_roles_beside_the_tokens() -> None:
    start, cat = Token("<start>", 7, "start"), Token("cat", 1)
    document = with_roles(
        {"tokens": [start, cat], "said": [[cat], [start]], "target": start, "versus": None, "bits": []}
    )
    assert document["token_roles"] == ["start", None]
    assert document["said_roles"] == [[None], ["start"]]
    assert (document["target_role"], document["versus_role"]) == ("start", None)
    assert "bits_roles" not in document


@pytest.mark.parametrize(
    ("kind", "text", "between"),
    [
        ("word", "one", " "),
        ("word", "one a\x1cb two", " "),
        ("char", "cat", ""),
        ("char", "a cat", ""),
        ("byte", "cat", ""),
    ],
)
def test_a_space_separates_the_tokens_of_word_tokenizers_only(kind: str, text: str, between: str) -> None:
    tokenizer = train(kind, text)
    assert separator(tokenizer.tokens_of(tokenizer.encode(text).ids)) == between


def test_words_without_white_space_are_separated_by_a_space() -> None:
    assert separator(["the", "cat"]) == " "
    assert separator(["the", " cat"]) == ""
