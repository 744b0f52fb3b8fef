"""Settings are strict: everything that is wrong is told at once, by name, and nothing is guessed."""

import math
import os
import re
import time
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from satchel import config
from satchel.errors import SettingsError
from satchel.training.networks import EncoderRunSettings, PairRunSettings
from satchel.training.settings import NgramRunSettings

pytestmark = pytest.mark.timeout(20)


def toml(tmp_path: Path, data: str | bytes) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def complaints(tree: dict[str, Any], where: str = "") -> list[str]:
    """Return the lines in which the settings of a tree are refused."""
    with pytest.raises(SettingsError) as refused:
        config.build(NgramRunSettings, tree, where)
    return refused.value.cause.split("\n")


# --- one tree ------------------------------------------------------------------------------------


def test_all_errors_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    path = toml(
        tmp_path, '[model]\norder = 0\nk = nan\nordr = 3\n[data]\nencoding = "klingon"\n[training]\nseed = -1\n'
    )
    with pytest.raises(SettingsError) as refused:
        config.build(NgramRunSettings, config.read_toml(path), str(path))
    assert str(refused.value).startswith(f"{path}: ")
    assert sorted(refused.value.cause.split("\n")) == [
        'data.encoding: found "klingon", expected a text encoding of Python, such as utf-8, latin-1 or utf-16',
        "model.k: found NaN, expected a finite number",
        "model.order: found 0, expected a number of at least 1",
        "training.seed: found -1, expected a number of at least 0",
        "unknown setting model.ordr: did you mean model.order?",
    ]


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        ({"model": {"ordr": 3}}, "unknown setting model.ordr: did you mean model.order?"),
        ({"modle": {"order": 3}}, "unknown setting modle: did you mean model?"),
        ({"training": {"sede": 3}}, "unknown setting training.sede: did you mean training.seed?"),
        ({"order": 3}, "unknown setting order: did you mean model.order?"),
        ({"zzzzzzzz": 3}, "unknown setting zzzzzzzz"),
        ({"": 3}, "unknown setting"),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest_known_one(tree: dict[str, Any], line: str) -> None:
    assert complaints(tree) == [line]


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("model.order", 5.0, "model.order: found 5.0, expected an integer"),
        ("model.order", True, "model.order: found true, expected an integer"),
        ("model.order", "5", 'model.order: found "5", expected an integer'),
        ("model.order", None, "model.order: found null, expected an integer"),
        ("model.order", 0, "model.order: found 0, expected a number of at least 1"),
        ("model.order", 11, "model.order: found 11, expected a number of at most 10"),
        ("model.order", 10**30, f"model.order: found {10**30}, expected a number of at most 10"),
        ("model.k", float("nan"), "model.k: found NaN, expected a finite number"),
        ("model.k", float("inf"), "model.k: found Infinity, expected a finite number"),
        ("model.k", 0, "model.k: found 0, expected a number greater than 0"),
        ("model.k", False, "model.k: found false, expected a number"),
        ("model", 3, "model: found 3, expected a group of named values"),
        ("model", [], "model: found [], expected a group of named values"),
        ("data.valid", float("nan"), "data.valid: found NaN, expected a finite number, or a text"),
        ("data.valid", True, "data.valid: found true, expected a number, or a text"),
        ("data.valid", 1, "data.valid: found 1, expected a file, or a fraction of at least 0 and less than 1"),
        ("data.valid", -0.1, "data.valid: found -0.1, expected a file, or a fraction of at least 0 and less than 1"),
        ("training.seed", 1 << 63, f"training.seed: found {1 << 63}, expected a number less than {1 << 63}"),
        ("training.seed", 1.5, "training.seed: found 1.5, expected an integer"),
    ],
)
def test_a_value_of_another_kind_is_refused_not_converted(key: str, value: object, line: str) -> None:
    tree: config.Tree = {}
    config.place(tree, key, value)
    assert complaints(tree) == [line]


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        ({"model": {"kind": "transformer", "name": "x"}},
         "model.name is not a setting of model.kind=transformer, only of own"),
        ({"model": {"kind": "transformer", "senses": 3}},
         "model.senses is not a setting of model.kind=transformer, only of backpack"),
        ({"model": {"kind": "lstm", "heads": 3}},
         "model.heads is not a setting of model.kind=lstm, only of transformer, backpack"),
        ({"model": {"kind": "transformer", "order": 2}}, "unknown setting model.order of model.kind=transformer"),
        ({"model": {"kind": "transformer", "widht": 2}},
         "unknown setting model.widht of model.kind=transformer: did you mean model.width?"),
        ({"model": {"kind": "zebra"}},
         "model.kind: found \"zebra\", expected 'dan', 'window', 'rnn', 'gru', 'lstm', 'transformer', 'backpack', "
         "'own'"),
        ({"model": {"kind": "own"}}, "model.name: the value is missing"),
    ],
)  # fmt: skip
def test_settings_of_other_kinds_of_models_are_reported_with_their_kind(tree: dict[str, Any], line: str) -> None:
    with pytest.raises(SettingsError) as caught:
        config.build(EncoderRunSettings, tree)
    assert caught.value.cause == line


class Shapes(config.Settings):
    """Settings of all types."""

    pair: tuple[float, float] = (0.0, 0.0)
    several: tuple[int, ...] = Field((), min_length=1)
    letter: str = Field("a", min_length=1, max_length=1)
    flag: bool = False
    choice: Literal["a", "b"] = "a"
    share: float = Field(0.5, gt=0, lt=1)
    group: config.Settings = config.Settings()
    entries: dict[str, int] = Field(default_factory=dict)
    names: list[str] = Field(default_factory=list)


VALUES: list[Any] = [-1, 0, 10**30, 1.5, math.inf, "x", "", "xyz", [], [1, 2, 3], ["a"], [0.5], {"a": "b"}, None, True]


def test_no_message_contains_text_of_pydantic() -> None:
    messages = list[str]()
    for settings_class in (Shapes, EncoderRunSettings, PairRunSettings, NgramRunSettings):
        for key in config.keys(settings_class):
            for value in VALUES:
                tree: config.Tree = {}
                config.place(tree, key, value)
                try:
                    config.build(settings_class, tree)
                except SettingsError as error:
                    messages.append(str(error))
    assert len(messages) > 500
    for message in messages:
        assert not re.search(r"[Ii]nput|should|a valid|after validation|Field|discriminator", message), message


def test_a_list_with_too_many_values_is_reported_with_the_limit() -> None:
    with pytest.raises(SettingsError, match=r"^pair: found \[1, 2, 3\], expected at most 2 values$"):
        config.build(Shapes, {"pair": [1, 2, 3]})
    with pytest.raises(SettingsError, match=r"^pair.1: the value is missing$"):
        config.build(Shapes, {"pair": [1]})


@pytest.mark.parametrize("prune", [[1], [0, 2, 1], [0, -1], [], [1, 1], -1, 1])
def test_prune_counts_are_non_decreasing_and_start_with_zero(prune: object) -> None:
    [line] = complaints({"model": {"prune": prune}})
    assert line.endswith("expected non-decreasing counts that start with 0, such as 0,0,1")


@pytest.mark.parametrize("prune", [[0, 1.0], [0, True], True, "x", 0.0])
def test_counts_to_prune_are_whole_numbers(prune: object) -> None:
    [line] = complaints({"model": {"prune": prune}})
    assert line.startswith("model.prune")


@pytest.mark.parametrize(
    ("prune", "expected"), [(0, (0,)), ([0], (0,)), ([0, 0, 1], (0, 0, 1)), ([0, 3, 3], (0, 3, 3))]
)
def test_sound_counts_to_prune_are_taken(prune: object, expected: tuple[int, ...]) -> None:
    assert config.build(NgramRunSettings, {"model": {"prune": prune}}).model.prune == expected


def test_a_whole_number_may_stand_for_a_fraction_and_nothing_is_the_default() -> None:
    assert config.build(NgramRunSettings, {"model": {"k": 2}}).model.k == 2.0
    assert config.build(NgramRunSettings, {}) == NgramRunSettings()


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        NgramRunSettings().model.order = 3  # type: ignore[misc]


def test_long_values_are_cut_where_they_are_told() -> None:
    [line] = complaints({"model": {"order": "x" * 10_000}})
    assert len(line) < 120


def nested(depth: int) -> config.Tree:
    tree: config.Tree = {}
    for _ in range(depth):
        tree = {"a": tree}
    return tree


@pytest.mark.parametrize(
    "tree",
    [nested(300), nested(5000), {"training": {"seed": 10**5000}}, {"data": {"text_column": "\udcff"}}],
    ids=["300 deep", "5000 deep", "5000 digits", "not Unicode"],
)
def test_what_no_settings_can_hold_is_refused(tree: config.Tree) -> None:
    assert complaints(tree)


# --- files ---------------------------------------------------------------------------------------


def test_a_file_is_read_as_toml(tmp_path: Path) -> None:
    path = toml(tmp_path, 'task = "lm"\r\n[model]\r\norder = 3\r\nprune = [0, 0, 1]\r\n')
    assert config.read_toml(path) == {"task": "lm", "model": {"order": 3, "prune": [0, 0, 1]}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"order", "is not TOML"),
        (b"a = 1\na = 2", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        ("a = 1".encode("utf-16"), "is not TOML"),
        (b"\0", "is not TOML"),
        (b"!!python/object/apply:os.system [ls]", "is not TOML"),
        (b"a = " + b"9" * 5000, "is not TOML"),
        (b"a = " + b"[" * 10_000 + b"]" * 10_000, "is not TOML"),
        (b"a = " + b"{a=" * 10_000 + b"1" + b"}" * 10_000, "is not TOML"),
        (b"[" + b"a." * 2000 + b"a]\nb = 1", "more than 32 deep"),
        (b"a" + b".a" * 1000 + b" = 1", "more than 32 deep"),
        (b"#" * (config.LARGEST_FILE + 1), "expected at most"),
    ],
    ids=range(12),
)
def test_a_file_that_is_not_sound_is_refused_and_named(data: bytes, message: str, tmp_path: Path) -> None:
    path = toml(tmp_path, data)
    began = time.perf_counter()
    with pytest.raises(SettingsError, match=message) as refused:
        config.read_toml(path)
    assert time.perf_counter() - began < 1
    assert refused.value.where == str(path)


def test_a_file_of_a_gigabyte_is_refused_at_once(tmp_path: Path) -> None:
    path = toml(tmp_path, "")
    os.truncate(path, 1 << 30)
    with pytest.raises(SettingsError, match="has 1073741824 bytes"):
        config.read_toml(path)


@pytest.mark.parametrize("name", ["missing", "folder", "pipe", "loop", "x" * 300, "a\0b"], ids=lambda name: name[:7])
def test_what_is_no_file_is_refused_without_waiting(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SettingsError) as refused:
        config.read_toml(tmp_path / name)
    assert refused.value.where == str(tmp_path / name)
    assert ("is a folder" in refused.value.cause) == (name == "folder")


def test_an_endless_device_is_refused() -> None:
    with pytest.raises(SettingsError, match="is not a regular file"):
        config.read_toml(Path("/dev/zero"))


# --- the command line ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("1_000", 1000),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("True", True),
        ("False", False),
        ('"3"', "3"),
        ("'a,b'", "a,b"),
        ("word", "word"),
        ("two words", "two words"),
        ("a=b", "a=b"),
        ("", ""),
        ("007", "007"),
        ("0,0,1", [0, 0, 1]),
        ("1,", [1]),
        ("[0, 1]", [0, 1]),
        ("a,b", ["a", "b"]),
        ("label, -, text", ["label", "-", "text"]),
        ("a,1", ["a", "1"]),
        ("{a = 1}", {"a": 1}),
        ("[[[", "[[["),
        ("/tmp/held out.txt", "/tmp/held out.txt"),
        ("1\nb = 2", "1\nb = 2"),
        ("9" * 5000, "9" * 5000),
        ("[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_an_assigned_value_is_toml_or_text_and_commas_make_a_list(text: str, value: object) -> None:
    assert config.parse_assignments([f"group.key = {text}"]) == {"group": {"key": value}}


def test_assignments_make_one_tree_and_the_last_wins() -> None:
    assert config.parse_assignments(["a.b=1", "a.c=2", "d=3", "a.b=4"]) == {"a": {"b": 4, "c": 2}, "d": 3}


@pytest.mark.parametrize("assignment", ["model.order", "", "=3", "  = 3", "model.order:3"])
def test_an_assignment_without_key_or_value_is_refused(assignment: str) -> None:
    with pytest.raises(SettingsError, match=r"expected key=value") as refused:
        config.parse_assignments([assignment])
    assert refused.value.remedy == "for example --set model.order=5"


def test_a_value_is_no_group() -> None:
    with pytest.raises(SettingsError, match="a is a value, not a group"):
        config.parse_assignments(["a=1", "a.b=2"])


def test_a_key_of_thousands_of_parts_is_refused() -> None:
    with pytest.raises(SettingsError, match="more than 32 parts"):
        config.parse_assignments([".".join("a" * 5000) + "=1"])


@pytest.mark.parametrize("assignment", ["model.order=nan", "model.order=inf", "model..order=3", ".=3", "model.order="])
def test_an_assignment_that_no_setting_takes_is_refused(assignment: str) -> None:
    assert complaints(config.parse_assignments([assignment]))


# --- merging -------------------------------------------------------------------------------------


def test_later_trees_win_and_groups_are_merged_key_by_key() -> None:
    first = {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    second = {"a": {"c": [3]}, "d": {"e": 2}}
    assert config.merge(first, second) == {"a": {"b": 1, "c": [3]}, "d": {"e": 2}}
    assert config.merge(second, first)["d"] == 1
    # What was merged is as it was.
    assert first == {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    assert config.merge() == {}


def test_every_key_is_listed_and_flattened_alike() -> None:
    listed = list(config.keys(NgramRunSettings))
    assert {"task", "model.order", "data.valid", "training.seed"} <= set(listed)
    assert [key for key, _ in config.flatten(NgramRunSettings().model_dump())] == listed
