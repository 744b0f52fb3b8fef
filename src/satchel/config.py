"""Settings: strict pydantic models built from TOML files and `--set` assignments; all errors are reported at once."""

import difflib
import json
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from satchel.errors import SettingsError, expectation

S = TypeVar("S", bound="Settings")
Tree = dict[str, Any]

LARGEST_FILE = 1 << 16
DEEPEST = 32


class Settings(BaseModel):
    """Base class of settings: immutable, no unknown keys, no type conversions, no NaN."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


def read_toml(path: Path) -> Tree:
    """Return the contents of a TOML file."""
    try:
        # Pipes and devices have no size and may never end.
        if path.is_dir():
            raise SettingsError("is a folder, expected a TOML file", where=str(path))
        if path.exists() and not path.is_file():
            raise SettingsError("is not a regular file, expected a TOML file", where=str(path))
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise SettingsError(f"has {size} bytes, expected at most {LARGEST_FILE}", where=str(path))
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"is not TOML: {error}", where=str(path)) from error
    groups = [tree]
    for _ in range(DEEPEST):
        groups = [value for group in groups for value in group.values() if isinstance(value, dict)]
    if groups:
        raise SettingsError(f"has tables nested more than {DEEPEST} deep", where=str(path))
    return tree


def parse_assignments(assignments: Iterable[str]) -> Tree:
    """Return the settings given by `--set key=value` arguments; a value with commas becomes a list."""
    tree: Tree = {}
    for assignment in assignments:
        key, value = split_assignment(assignment)
        place(tree, key, _value(value))
    return tree


def split_assignment(assignment: str) -> tuple[str, str]:
    """Return the key and the text of the value of `key=value`."""
    key, equals, value = assignment.partition("=")
    if not equals or not key.strip():
        raise SettingsError(
            f"--set {assignment}: '=' is missing, expected key=value", "for example --set model.order=5"
        )
    return key.strip(), value.strip()


def place(tree: Tree, key: str, value: object) -> None:
    """Set the dotted `key` of the tree to `value`."""
    *parents, last = key.split(".")
    if len(parents) >= DEEPEST:
        raise SettingsError(f"--set {key[:40]}...: the key has more than {DEEPEST} parts")
    for parent in parents:
        tree = tree.setdefault(parent, {})
        if not isinstance(tree, dict):
            raise SettingsError(f"--set {key}: {parent} is a value, not a group of settings")
    tree[last] = value


def _value(text: str) -> object:
    """Parse a value as TOML; otherwise return it as a string, or as a list of strings if it contains commas.

    True and False, as Python prints them, are accepted as well.
    """
    if text in ("True", "False"):
        return text == "True"
    for candidate in (text, f"[{text}]" if "," in text else text):
        try:
            match tomllib.loads(f"value = {candidate}"):
                case {"value": value, **others} if not others:
                    return value
        except (ValueError, RecursionError):
            continue
    return [part.strip() for part in text.split(",")] if "," in text else text


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Return the trees merged key by key; later trees take precedence."""
    merged: Tree = {}
    for tree in trees:
        for key, value in tree.items():
            both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
            merged[key] = merge(merged[key], value) if both else value
    return merged


def build(kind: type[S], tree: Mapping[str, Any], where: str = "") -> S:
    """Return validated settings, or raise SettingsError with all errors at once."""
    try:
        # Validation from JSON is strict about types but accepts a list for a tuple.
        return kind.model_validate_json(json.dumps(tree, default=str))
    except ValidationError as error:
        raise SettingsError("\n".join(_messages(error, kind, tree)), where=where) from None
    except (ValueError, RecursionError) as error:  # numbers with too many digits, excessive nesting
        raise SettingsError(f"the settings are not valid: {error}", where=where) from None


def keys(kind: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield every dotted key of a settings class."""
    for name, field in kind.model_fields.items():
        nested = groups(field.annotation)
        for group in nested:
            yield from keys(group, f"{prefix}{name}.")
        if not nested:
            yield f"{prefix}{name}"


def groups(annotation: Any) -> list[type[BaseModel]]:
    """Return the settings classes in an annotation, which may be a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [group for part in typing.get_args(annotation) for group in groups(part)]


def _messages(error: ValidationError, kind: type[BaseModel], tree: Mapping[str, Any]) -> list[str]:
    """Return one line for each invalid setting; a setting of a union type lists what each type expects."""
    expected: dict[str, list[str]] = {}
    known = list(keys(kind))
    for detail in error.errors(include_url=False):
        key = ".".join(_path(detail["loc"], tree))
        parent = key.rpartition(".")[0]
        if detail["type"] == "json_invalid":
            expected["a string is not valid Unicode"] = []
        elif detail["type"] == "extra_forbidden":
            expected[_unknown(key, known, kind, tree)] = []
        elif not key:  # a combination of settings is invalid
            expected[detail["msg"].removeprefix("Value error, ")] = []
        elif detail["type"] == "missing":
            expected[f"{key}: the value is missing"] = []
        else:
            # pydantic reports one error per member of a union and appends the member's name to the key.
            key = parent if parent in known and isinstance(detail["loc"][-1], str) else key
            value = detail.get("input")
            if detail["type"].startswith("union_tag"):  # the input is the group, and the invalid value its kind
                key, value = f"{key}.kind", value.get("kind") if isinstance(value, Mapping) else value
            text = json.dumps(value, default=str)
            first = f"{key}: found {text if len(text) < 60 else text[:57] + '...'}, expected"
            expected.setdefault(first, []).append(expectation(detail))
    return [" ".join([first, ", or ".join(messages)]).strip() for first, messages in expected.items()]


def _unknown(key: str, known: Sequence[str], kind: type[BaseModel], tree: Mapping[str, Any]) -> str:
    """Return the message for an unknown setting: the kinds of models that have it, or the most similar known one."""
    parent, _, name = key.rpartition(".")
    group = tree.get(parent)
    chosen = group.get("kind") if isinstance(group, Mapping) else None
    if key in known and chosen is not None:
        members = [each.model_fields for each in groups(kind.model_fields[parent].annotation)]
        kinds = [each for fields in members if name in fields for each in typing.get_args(fields["kind"].annotation)]
        return f"{key} is not a setting of {parent}.kind={chosen}, only of {', '.join(kinds)}"
    groups_of_keys = {each.rpartition(".")[0] for each in known} - {""}
    near = difflib.get_close_matches(key, [*known, *groups_of_keys], n=1, cutoff=0.5)
    # Keys of one group are similar by their prefix alone.
    is_similar = near and difflib.SequenceMatcher(None, name, near[0].rpartition(".")[2]).ratio() >= 0.5
    suffix = f" of {parent}.kind={chosen}" if chosen is not None else ""
    return f"unknown setting {key}{suffix}" + (f": did you mean {near[0]}?" if is_similar else "")


def _path(location: Sequence[int | str], tree: object) -> Iterator[str]:
    """Return the keys of an error's location without the union member names that pydantic inserts."""
    for part in location:
        if isinstance(tree, Mapping) and part not in tree and part == tree.get("kind"):
            continue
        tree = tree.get(part) if isinstance(tree, Mapping) else None
        yield str(part)


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) pairs in order."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
