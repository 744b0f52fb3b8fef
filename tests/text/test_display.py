"""Escaping of control and invisible characters in JSON and in shell commands."""

import json
import subprocess

import pytest

from satchel.text.display import json_text, quoted

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
