"""The machinery of settings: strict trees, read from TOML and `--set`, all errors told at once."""

import difflib
import json
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from satchel.errors import SettingsError

S = TypeVar("S", bound="Settings")
Tree = dict[str, Any]

LARGEST_FILE = 1 << 16
DEEPEST = 32


class Settings(BaseModel):
    """A frozen set of settings: no unknown keys, no silent conversions, no NaN."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


def read_toml(path: Path) -> Tree:
    """Return the tree of a TOML file."""
    try:
        # Only a regular file has a size that can be trusted, and an end.
        if path.exists() and not path.is_file():
            raise SettingsError("is not a file, expected one in TOML", where=str(path))
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise SettingsError(f"found {size} bytes, expected at most {LARGEST_FILE}", where=str(path))
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"is not TOML: {error}", where=str(path)) from error
    groups = [tree]
    for _ in range(DEEPEST):
        groups = [value for group in groups for value in group.values() if isinstance(value, dict)]
    if groups:
        raise SettingsError(f"found groups more than {DEEPEST} deep", where=str(path))
    return tree


def parse_assignments(assignments: Iterable[str]) -> Tree:
    """Return the tree that `--set key=value` arguments spell; commas make a list."""
    tree: Tree = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise SettingsError(
                f"--set {assignment}: found no '=', expected key=value", "for example --set model.order=5"
            )
        place(tree, key.strip(), _value(value.strip()))
    return tree


def place(tree: Tree, key: str, value: object) -> None:
    """Put `value` at the dotted `key` of the tree."""
    *parents, last = key.split(".")
    if len(parents) >= DEEPEST:
        raise SettingsError(f"--set {key[:40]}...: found groups more than {DEEPEST} deep")
    for parent in parents:
        tree = tree.setdefault(parent, {})
        if not isinstance(tree, dict):
            raise SettingsError(f"--set {key}: {parent} is a value, not a group of settings")
    tree[last] = value


def _value(text: str) -> object:
    """Read a value as TOML; what is not TOML is a string, or a list of them where commas are."""
    for candidate in (text, f"[{text}]" if "," in text else text):
        try:
            match tomllib.loads(f"value = {candidate}"):
                case {"value": value, **others} if not others:
                    return value
        except (ValueError, RecursionError):
            continue
    return [part.strip() for part in text.split(",")] if "," in text else text


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Return one tree; later trees win, groups are merged key by key."""
    merged: Tree = {}
    for tree in trees:
        for key, value in tree.items():
            both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
            merged[key] = merge(merged[key], value) if both else value
    return merged


def build(kind: type[S], tree: Mapping[str, Any], where: str = "") -> S:
    """Return the settings that the tree spells, or tell everything that is wrong with it at once."""
    try:
        # The JSON form is strict about types but lets a TOML list be a tuple.
        return kind.model_validate_json(json.dumps(tree, default=str))
    except ValidationError as error:
        raise SettingsError("\n".join(_complaints(error, list(keys(kind)), tree)), where=where) from None
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, groups within groups without end
        raise SettingsError(f"cannot be settings: {error}", where=where) from None


def keys(kind: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Return every dotted key of a settings class."""
    for name, field in kind.model_fields.items():
        groups = [part for part in _parts(field.annotation) if _is_settings(part)]
        for group in groups:
            yield from keys(group, f"{prefix}{name}.")
        if not groups:
            yield f"{prefix}{name}"


def _parts(annotation: Any) -> Sequence[Any]:
    is_union = isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union
    return typing.get_args(annotation) if is_union else [annotation]


def _is_settings(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _complaints(error: ValidationError, known: list[str], tree: Mapping[str, Any]) -> list[str]:
    """Return a line for each setting that is wrong; what is expected of one may be any of several things."""
    expected: dict[str, list[str]] = {}
    groups = {key.rpartition(".")[0] for key in known} - {""}
    for detail in error.errors(include_url=False):
        key = ".".join(_path(detail["loc"], tree))
        parent = key.rpartition(".")[0]
        if detail["type"] == "json_invalid":
            expected["a text is not Unicode"] = []
        elif detail["type"] == "extra_forbidden":
            near = difflib.get_close_matches(key, [*known, *groups], n=1, cutoff=0.5)
            expected[f"unknown setting {key}" + (f": did you mean {near[0]}?" if near else "")] = []
        elif not key:  # settings that do not go together
            expected[detail["msg"].removeprefix("Value error, ")] = []
        else:
            # A setting that may be one type or another has a complaint of each, named after the type.
            key = parent if parent in known and isinstance(detail["loc"][-1], str) else key
            found = json.dumps(detail.get("input"), default=str)
            message = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
            first = f"{key}: found {found if len(found) < 60 else found[:57] + '...'}, expected"
            expected.setdefault(first, []).append(message.removeprefix("expected "))
    return [" ".join([first, ", or ".join(messages)]).strip() for first, messages in expected.items()]


def _path(place: Sequence[int | str], tree: object) -> Iterator[str]:
    """Return the names of a place in a tree: pydantic puts the kind of a group behind the group's name."""
    for part in place:
        if isinstance(tree, Mapping) and part not in tree and part == tree.get("kind"):
            continue
        tree = tree.get(part) if isinstance(tree, Mapping) else None
        yield str(part)


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Return (dotted key, value) pairs in order."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
