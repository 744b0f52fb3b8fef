"""Damaged and forged run folders are refused with the name of the file; replaced ones do not affect loaded models."""

import hashlib
import json
import os
import pickle
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel import durable, tensors
from satchel.errors import RunError, SatchelError, SettingsError
from satchel.runs import folder as runs

from ..conftest import VERSE
from .system import contents

pytestmark = pytest.mark.timeout(60)

SETTINGS = {"model.order": 3}
# Files without which a run cannot be loaded.
REQUIRED = [runs.CONFIG, runs.TOKENIZER, runs.MODEL, durable.MANIFEST]


def train(text: Path, out: Path, **options: Any) -> satchel.LanguageModel:
    """Train a character trigram model."""
    model: satchel.LanguageModel = satchel.train(
        text, model="ngram", tokenizer="char", valid=0.1, settings=SETTINGS, out=out, **options
    )
    return model


def outputs(model: satchel.LanguageModel) -> tuple[object, ...]:
    """Return log-probabilities, next tokens and a generated text, for exact comparison."""
    scored = model.score("The cat saw the log; was it flat?")
    following = model.next("The c", top=5)
    return scored.logprobs.tobytes(), scored.tokens, following, model.generate("The", tokens=20, seed=1).text


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a small model and return its run folder."""
    folder = tmp_path_factory.mktemp("original")
    text = folder / "verse.txt"
    text.write_text(VERSE * 20, encoding="utf-8", newline="\n")
    train(text, folder / "run")
    return folder / "run"


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    """Return a copy of the run folder that a test may damage."""
    return Path(shutil.copytree(original, tmp_path / "run"))


def rewrite_manifest(run: Path) -> None:
    """Write a manifest with the sizes and checksums of the current files, as a forger would."""
    files = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(folder_contents(run).items())
        if name != durable.MANIFEST
    }
    (run / durable.MANIFEST).write_bytes(durable.to_json({"schema_version": durable.SCHEMA, "files": files}))


def folder_contents(run: Path) -> dict[str, bytes]:
    """Return the bytes of each file of a folder."""
    files = contents(run)
    assert isinstance(files, dict)
    return files


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
    tree = json.loads(path.read_bytes())
    assert isinstance(tree, dict)
    return tree


# --- manifest and files --------------------------------------------------------------------------


def with_files(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """Return a function that applies a change to the entry `files` of a manifest."""

    def changed(data: bytes) -> bytes:
        tree = json.loads(data)
        change(tree["files"])
        return json.dumps(tree).encode()

    return changed


# Change of the manifest, and the expected message.
MANIFESTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "manifest.json: is not JSON"),
    "not JSON": (lambda data: data[:-5], "manifest.json: is not JSON"),
    "not UTF-8": (lambda data: b"\xff" + data, "manifest.json: is not JSON"),
    "NaN": (lambda data: data.replace(b'"schema_version": 1', b'"schema_version": NaN'), "manifest.json: contains NaN"),
    "another version": (lambda data: data.replace(b'on": 1', b'on": 0'), "manifest.json: has schema_version 0"),
    "a newer version": (lambda data: data.replace(b'on": 1', b'on": 2'), "manifest.json: has schema_version 2"),
    "a version in words": (lambda data: data.replace(b'on": 1', b'on": "1"'), "manifest.json: has schema_version 1"),
    "no version": (lambda data: data.replace(b"schema_", b"_"), "manifest.json: has schema_version None"),
    "a list": (lambda data: b"[]", "manifest.json: is not a manifest"),
    "no files": (lambda data: b'{"schema_version": 1}', "manifest.json: is not a manifest"),
    "files a list": (lambda data: b'{"schema_version": 1, "files": []}', "manifest.json: is not a manifest"),
    "10,000 deep": (lambda data: b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "manifest.json: is nested too deeply"),
    "a key twice": (lambda data: data.replace(b"{", b'{"schema_version": 1,', 1), "manifest.json: contains the key"),
    "too large": (lambda data: data + b" " * durable.LARGEST_JSON, "manifest.json: has .* bytes, expected at most"),
    "a file not listed": (with_files(lambda files: files.pop("config.json")), "config.json is not in the manifest"),
    "an invalid entry": (
        with_files(lambda files: files.update({"config.json": 1})),
        "files.config.json: found 1, expected a group of named values",
    ),
    "another size": (with_files(lambda files: files["config.json"].update(size=1)), "config.json: is damaged"),
    "no size": (with_files(lambda files: files["tokenizer.json"].pop("size")), "files.tokenizer.json.size: is missing"),
    "another sha256": (
        with_files(lambda files: files["tokenizer.json"].update(sha256="0" * 64)),
        "tokenizer.json: is dam",
    ),
    "no sha256": (with_files(lambda files: files["config.json"].pop("sha256")), "config.json.sha256: is missing"),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_damaged_manifest_is_refused(kind: str, run: Path) -> None:
    change, message = MANIFESTS[kind]
    before = (run / durable.MANIFEST).read_bytes()
    after = change(before)
    assert after != before
    (run / durable.MANIFEST).write_bytes(after)
    began = time.perf_counter()
    with pytest.raises(RunError, match=message):
        satchel.load(run)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_file_symlink_pipe_or_folder_is_refused_by_name(name: str, run: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    (run / name).rename(moved)
    for kind in ("missing", "symlink", "pipe", "folder"):
        if kind == "symlink":
            (run / name).symlink_to(moved)
        elif kind == "pipe":
            os.mkfifo(run / name)
        elif kind == "folder":
            (run / name).mkdir()
        with pytest.raises(RunError, match=name):
            satchel.load(run)
        if kind in ("symlink", "pipe"):
            (run / name).unlink()


@pytest.mark.parametrize("name", REQUIRED)
def test_an_empty_truncated_or_zeroed_file_is_refused_by_name(name: str, run: Path) -> None:
    data = (run / name).read_bytes()
    for damaged in (b"", data[: len(data) // 2], data[:-2], bytes(len(data))):
        (run / name).write_bytes(damaged)
        with pytest.raises(RunError, match=name):
            satchel.load(run)


def test_additional_files_in_the_run_folder_are_ignored(run: Path, original: Path) -> None:
    (run / "notes.txt").write_bytes(b"notes")
    os.mkfifo(run / "pipe")
    assert outputs(satchel.load(run, task="lm")) == outputs(satchel.load(original, task="lm"))


@pytest.mark.parametrize("name", ["nowhere", "x" * 300, "y/" * 2100, "a\0b", "verse.txt"], ids=lambda name: name[:9])
def test_a_path_that_is_not_a_run_is_reported(name: str, tmp_path: Path) -> None:
    (tmp_path / "verse.txt").write_bytes(b"x")
    with pytest.raises(RunError, match=r"run not found|is not a run"):
        satchel.load(tmp_path / name)


def test_pickle_files_in_place_of_run_files_are_refused_and_never_executed(run: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(canary),)

    bomb = pickle.dumps(Bomb())
    for name in REQUIRED:
        data = (run / name).read_bytes()
        (run / name).write_bytes(bomb)
        with pytest.raises(RunError, match=name):
            satchel.load(run)
        if name != durable.MANIFEST:
            rewrite_manifest(run)
            with pytest.raises(RunError, match=name):
                satchel.load(run)
        (run / name).write_bytes(data)
        rewrite_manifest(run)
    assert not canary.exists()


def test_a_flipped_bit_is_refused_or_does_not_change_the_outputs(run: Path) -> None:
    expected = outputs(satchel.load(run, task="lm"))
    rng = random.Random(0)
    refused = unchanged = 0
    for number in range(300):
        path = run / REQUIRED[number % len(REQUIRED)]
        data = path.read_bytes()
        bit = rng.randrange(8 * len(data))
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            model = satchel.load(run, task="lm")
        except SatchelError:
            refused += 1
        else:
            assert outputs(model) == expected, f"{path.name}, bit {bit}"
            unchanged += 1
        path.write_bytes(data)
    print(f"300 flipped bits: {refused} refused, {unchanged} without effect")
    # Bits without effect are in manifest entries of files that loading does not read.
    assert refused > 225
    assert outputs(satchel.load(run, task="lm")) == expected


# --- forged runs with matching checksums ---------------------------------------------------------


def forge_model(run: Path, change: Callable[[dict[str, tensors.Array]], object]) -> None:
    """Change the arrays of a model and update all checksums."""
    arrays, metadata = tensors.read(run / runs.MODEL)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays)
    with (run / runs.MODEL).open("wb") as handle:
        tensors.write(handle, arrays, metadata)
    rewrite_manifest(run)


def replace(
    name: str, change: Callable[[tensors.Array], tensors.Array]
) -> Callable[[dict[str, tensors.Array]], object]:
    """Return a function that applies a change to one of several arrays."""
    return lambda arrays: arrays.update({name: change(arrays[name])})


def assign(index: int, value: float) -> Callable[[tensors.Array], tensors.Array]:
    """Return a function that sets one element of an array."""

    def change(array: tensors.Array) -> tensors.Array:
        array[index] = value
        return array

    return change


# Change of the arrays of the n-gram table, and the expected message.
TABLES: dict[str, tuple[Callable[[dict[str, tensors.Array]], object], str]] = {
    "a tensor is missing": (lambda arrays: arrays.pop("2.weights"), "2.weights"),
    "an order is missing": (
        lambda arrays: [arrays.pop(f"3.{part}") for part in ("keys", "probabilities", "weights")],
        "3.k",
    ),
    "an unexpected tensor": (lambda arrays: arrays.update(extra=np.zeros(1)), "extra"),
    "a renamed tensor": (lambda arrays: arrays.update({"4.keys": arrays.pop("3.keys")}), "3.keys, 4.keys"),
    "a shorter tensor": (replace("2.probabilities", lambda array: array[:-1]), "order 2"),
    "weights of the highest order": (replace("3.weights", lambda array: np.ones(3)), "order 3"),
    "two dimensions": (replace("2.keys", lambda array: array[None]), "order 2"),
    "no dimension": (replace("2.keys", lambda array: np.array(0)), "order 2"),
    "another integer type": (replace("2.keys", lambda array: array.astype(np.int32)), "order 2"),
    "another float type": (replace("1.probabilities", lambda array: array.astype(np.float32)), "order 1"),
    "floats for keys": (replace("3.keys", lambda array: array.astype(np.float64)), "order 3"),
    "a negative probability": (replace("1.probabilities", assign(0, -0.1)), "order 1"),
    "a probability above one": (replace("3.probabilities", assign(0, 1.5)), "order 3"),
    "a negative weight": (replace("2.weights", assign(-1, -1e-9)), "order 2"),
    "keys out of order": (replace("2.keys", lambda array: array[::-1]), "order 2"),
    "a key twice": (replace("3.keys", lambda array: np.concatenate([array[:1], array[:-1]])), "order 3"),
    "a negative key": (replace("2.keys", assign(0, -1)), "order 2"),
    "a key out of range": (replace("3.keys", assign(-1, 2**62)), "order 3"),
    "other unigrams": (replace("1.keys", lambda array: array + 1), "order 1"),
    "NaN": (replace("2.probabilities", assign(1, np.nan)), "2.probabilities"),
    "infinity": (replace("1.weights", assign(1, np.inf)), "1.weights"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_an_invalid_ngram_table_is_refused(kind: str, run: Path) -> None:
    change, message = TABLES[kind]
    forge_model(run, change)
    with pytest.raises(RunError, match=message) as error:
        satchel.load(run)
    assert error.value.where.endswith(runs.MODEL)


def test_an_unchanged_table_with_rewritten_checksums_is_loaded(run: Path) -> None:
    expected = outputs(satchel.load(run, task="lm"))
    forge_model(run, lambda arrays: None)
    assert outputs(satchel.load(run, task="lm")) == expected


def setting(key: str, value: object) -> Callable[[dict[str, Any]], object]:
    """Return a function that sets a dotted key of a nested dictionary."""

    def change(tree: dict[str, Any]) -> None:
        *groups, last = key.split(".")
        for group in groups:
            tree = tree[group]
        tree[last] = value

    return change


# Change of config.json, and the expected message.
CONFIGS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a higher order": (setting("settings.model.order", 4), "4.keys"),
    "a lower order": (setting("settings.model.order", 2), "3.keys"),
    "order 0": (setting("settings.model.order", 0), "config.json: model.order: found 0"),
    "order 1,000,000": (setting("settings.model.order", 10**6), "config.json: model.order: found 1000000"),
    "a float for an order": (setting("settings.model.order", 3.0), "config.json: model.order: found 3.0"),
    "an unknown setting": (setting("settings.model.code", "os.system"), "config.json: unknown setting model.code"),
    "an unknown key": (setting("code", "os.system"), "config.json: code"),
    "settings that are a list": (setting("settings", []), "config.json: settings"),
    "another kind of model": (setting("settings.model.kind", "os.system"), "config.json: facts.parameters is missing"),
    "another task": (setting("task", "translate"), "task and settings.task differ"),
    "an unknown task": (setting("task", "rm"), "config.json: task"),
    "a newer version": (setting("schema_version", 2), "config.json: schema_version"),
    "another tokenizer": (setting("tokenizer.sha256", "0" * 64), "tokenizer.json: is not the tokenizer"),
    "another vocabulary": (
        setting("tokenizer.size", 2**31),
        "config.json: tokenizer.size: found 2147483648, expected a number of at most",
    ),
    "deeply nested facts": (setting("facts", json.loads('{"a":' * 400 + "1" + "}" * 400)), "config.json"),
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_an_inconsistent_config_is_refused(kind: str, run: Path) -> None:
    change, message = CONFIGS[kind]
    tree = read_json(run / runs.CONFIG)
    change(tree)
    (run / runs.CONFIG).write_bytes(json.dumps(tree).encode())
    rewrite_manifest(run)
    with pytest.raises((RunError, SettingsError), match=message):
        satchel.load(run)


@pytest.mark.parametrize("number", [b"1e999", b"NaN", b"9" * 5000], ids=["1e999", "NaN", "5000 digits"])
def test_an_invalid_number_in_the_config_is_refused(number: bytes, run: Path) -> None:
    data = (run / runs.CONFIG).read_bytes()
    (run / runs.CONFIG).write_bytes(data.replace(b'"facts": {', b'"facts": {"x": %b,' % number))
    rewrite_manifest(run)
    with pytest.raises(RunError, match=runs.CONFIG):
        satchel.load(run)


def test_the_model_of_another_run_is_refused(run: Path, tmp_path: Path) -> None:
    text = tmp_path / "other.txt"
    text.write_text("Another text has other letters. " * 20, encoding="utf-8")
    train(text, tmp_path / "other")
    shutil.copy(tmp_path / "other" / runs.MODEL, run / runs.MODEL)
    rewrite_manifest(run)
    with pytest.raises(RunError, match="belongs to another run"):
        satchel.load(run)


# --- replaced runs -------------------------------------------------------------------------------


def test_replacing_a_run_does_not_affect_a_loaded_model(verse: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(verse, run)
    first = satchel.load(run, task="lm")
    before = outputs(first)
    other = tmp_path / "other.txt"
    other.write_text("The log sat on the cat, the mat saw the dog.\n" * 30, encoding="utf-8")
    train(other, run, force=True)
    assert outputs(first) == before
    assert outputs(satchel.load(run, task="lm")) == outputs(train(other, tmp_path / "separate"))
    assert outputs(satchel.load(run, task="lm")) != before


def test_the_same_training_gives_the_same_bytes(verse: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        train(verse, tmp_path / name)
    one, two = (folder_contents(tmp_path / name) for name in ("one", "two"))
    equal = {name for name in one if one[name] == two[name]}
    assert equal >= {runs.CONFIG, runs.TOKENIZER, runs.MODEL, runs.TRAIN_TOKENS, runs.VALID_TOKENS}
    # The metrics contain times, and the manifest contains the checksum of the metrics.
    assert set(one) - equal <= {runs.METRICS, durable.MANIFEST}


def test_a_run_is_not_replaced_without_force(run: Path, verse: Path) -> None:
    before = contents(run)
    with pytest.raises(RunError, match="already exists"):
        train(verse, run)
    assert contents(run) == before


@pytest.mark.parametrize(
    "files",
    [
        {"cat.jpg": b"cat"},
        {"config.json": b"{}", "cat.jpg": b"cat"},
        {"config.json": b'{"port": 80}', "manifest.json": b'{"manifest_version": 3, "name": "my extension"}'},
        {"config.json": b"", "manifest.json": b""},
    ],
    ids=["photos", "a program's settings", "a browser's extension", "empty files"],
)
def test_a_folder_that_is_not_a_run_is_never_replaced(files: dict[str, bytes], verse: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    with pytest.raises(RunError, match="is not a run folder and is not replaced"):
        train(verse, folder, force=True)
    assert contents(folder) == files


@pytest.mark.parametrize("name", [runs.CONFIG, durable.MANIFEST, runs.MODEL])
def test_a_damaged_run_can_be_replaced(name: str, run: Path, verse: Path) -> None:
    (run / name).write_bytes(b"damaged")
    trained = train(verse, run, force=True)
    assert outputs(satchel.load(run, task="lm")) == outputs(trained)


def test_a_run_behind_a_symlink_is_loaded_and_replaced_at_its_target(run: Path, verse: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(run)
    assert outputs(satchel.load(link, task="lm")) == outputs(satchel.load(run, task="lm"))
    train(verse, link, force=True)
    assert link.is_symlink()
    assert outputs(satchel.load(link, task="lm")) == outputs(satchel.load(run, task="lm"))


@pytest.mark.parametrize("name", ["two words", "two\nlines", "\u6f22\u5b57 \U0001f408", "x" * 200], ids=ascii)
def test_a_run_may_have_an_unusual_name(name: str, verse: Path, tmp_path: Path) -> None:
    trained = train(verse, tmp_path / name)
    assert outputs(satchel.load(tmp_path / name, task="lm")) == outputs(trained)


def test_training_on_a_file_whose_name_is_not_valid_unicode(verse: Path, tmp_path: Path) -> None:
    text = verse.rename(tmp_path / os.fsdecode(b"\xff.txt"))
    trained = train(text, tmp_path / "run")
    assert outputs(satchel.load(tmp_path / "run", task="lm")) == outputs(trained)
