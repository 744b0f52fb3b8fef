"""A run folder that is damaged, hostile, or replaced under a model: it is refused and named, or answers the same."""

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
NEEDED = [runs.CONFIG, runs.TOKENIZER, runs.MODEL, durable.MANIFEST]


def train(text: Path, out: Path, **options: Any) -> satchel.LanguageModel:
    model: satchel.LanguageModel = satchel.train(
        text, model="ngram", tokenizer="char", valid=0.1, settings=SETTINGS, out=out, **options
    )
    return model


def answers(model: satchel.LanguageModel) -> tuple[object, ...]:
    """Return what a model says, to the bit."""
    scored = model.score("The cat saw the log; was it flat?")
    following = model.next("The c", top=5)
    return scored.logprobs.tobytes(), scored.tokens, following, model.generate("The", tokens=20, seed=1).text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run."""
    place = tmp_path_factory.mktemp("made")
    text = place / "verse.txt"
    text.write_text(VERSE * 20, encoding="utf-8", newline="\n")
    train(text, place / "run")
    return place / "run"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of the small run, to be spoilt."""
    return Path(shutil.copytree(made, tmp_path / "run"))


def seal(run: Path) -> None:
    """Write the manifest that fits what is in the folder: a forger's work, not an accident."""
    files = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(folder_contents(run).items())
        if name != durable.MANIFEST
    }
    (run / durable.MANIFEST).write_bytes(durable.to_json({"schema_version": durable.SCHEMA, "files": files}))


def folder_contents(run: Path) -> dict[str, bytes]:
    found = contents(run)
    assert isinstance(found, dict)
    return found


def tree_of(path: Path) -> dict[str, Any]:
    tree = json.loads(path.read_bytes())
    assert isinstance(tree, dict)
    return tree


# --- the manifest --------------------------------------------------------------------------------


def entries(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """Return a change of a manifest's bytes that changes its list of files."""

    def changed(data: bytes) -> bytes:
        tree = json.loads(data)
        change(tree["files"])
        return json.dumps(tree).encode()

    return changed


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
    "a file not named": (entries(lambda files: files.pop("config.json")), "config.json is not in the manifest"),
    "a file named wrongly": (entries(lambda files: files.update({"config.json": 1})), "config.json is not in the"),
    "another size": (entries(lambda files: files["config.json"].update(size=1)), "config.json: is damaged"),
    "no size": (entries(lambda files: files["tokenizer.json"].pop("size")), "tokenizer.json: is damaged"),
    "another sha256": (
        entries(lambda files: files["tokenizer.json"].update(sha256="0" * 64)),
        "tokenizer.json: is dam",
    ),
    "no sha256": (entries(lambda files: files["config.json"].pop("sha256")), "config.json: is damaged"),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest_that_is_not_sound_is_refused_and_named(kind: str, run: Path) -> None:
    change, message = MANIFESTS[kind]
    before = (run / durable.MANIFEST).read_bytes()
    after = change(before)
    assert after != before
    (run / durable.MANIFEST).write_bytes(after)
    began = time.perf_counter()
    with pytest.raises(RunError, match=message):
        satchel.load(run)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize("name", NEEDED)
def test_a_file_that_is_missing_or_no_file_is_refused_and_named(name: str, run: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (run / name).rename(elsewhere)
    for make in ("nothing", "link", "pipe", "folder"):
        if make == "link":
            (run / name).symlink_to(elsewhere)
        elif make == "pipe":
            os.mkfifo(run / name)
        elif make == "folder":
            (run / name).mkdir()
        with pytest.raises(RunError, match=name):
            satchel.load(run)
        if make in ("link", "pipe"):
            (run / name).unlink()


@pytest.mark.parametrize("name", NEEDED)
def test_a_file_that_is_empty_cut_short_or_full_of_zeros_is_refused_and_named(name: str, run: Path) -> None:
    data = (run / name).read_bytes()
    for other in (b"", data[: len(data) // 2], data[:-2], bytes(len(data))):
        (run / name).write_bytes(other)
        with pytest.raises(RunError, match=name):
            satchel.load(run)


def test_files_that_do_not_belong_to_the_run_do_no_harm(run: Path, made: Path) -> None:
    (run / "notes.txt").write_bytes(b"mine")
    os.mkfifo(run / "pipe")
    assert answers(satchel.load(run)) == answers(satchel.load(made))


@pytest.mark.parametrize("name", ["nowhere", "x" * 300, "y/" * 2100, "a\0b", "verse.txt"], ids=lambda name: name[:9])
def test_what_is_no_run_is_said_to_be_none(name: str, tmp_path: Path) -> None:
    (tmp_path / "verse.txt").write_bytes(b"x")
    with pytest.raises(RunError, match=r"run not found|is not a run"):
        satchel.load(tmp_path / name)


def test_pickles_by_the_names_of_a_run_are_refused_and_never_run(run: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(canary),)

    bomb = pickle.dumps(Bomb())
    for name in NEEDED:
        before = (run / name).read_bytes()
        (run / name).write_bytes(bomb)
        with pytest.raises(RunError, match=name):
            satchel.load(run)
        if name != durable.MANIFEST:
            seal(run)
            with pytest.raises(RunError, match=name):
                satchel.load(run)
        (run / name).write_bytes(before)
        seal(run)
    assert not canary.exists()


def test_a_flipped_bit_is_refused_or_changes_no_answer(run: Path) -> None:
    expected = answers(satchel.load(run))
    chance = random.Random(0)
    refused = same = 0
    for number in range(300):
        path = run / NEEDED[number % len(NEEDED)]
        data = path.read_bytes()
        place = chance.randrange(8 * len(data))
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            model = satchel.load(run)
        except SatchelError:
            refused += 1
        else:
            assert answers(model) == expected, f"{path.name}, bit {place}"
            same += 1
        path.write_bytes(data)
    print(f"300 flipped bits: {refused} refused, {same} changed no answer")
    # What changes nothing is in the manifest's lines about other files, or names nothing.
    assert refused > 225
    assert answers(satchel.load(run)) == expected


# --- a forged run --------------------------------------------------------------------------------


def forge(run: Path, change: Callable[[dict[str, tensors.Array]], object]) -> None:
    """Change the arrays of a model and make every checksum fit."""
    arrays, metadata = tensors.read(run / runs.MODEL)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays)
    with (run / runs.MODEL).open("wb") as handle:
        tensors.write(handle, arrays, metadata)
    seal(run)


def put(name: str, change: Callable[[tensors.Array], tensors.Array]) -> Callable[[dict[str, tensors.Array]], object]:
    return lambda arrays: arrays.update({name: change(arrays[name])})


def at(place: int, value: float) -> Callable[[tensors.Array], tensors.Array]:
    def change(array: tensors.Array) -> tensors.Array:
        array[place] = value
        return array

    return change


TABLES: dict[str, tuple[Callable[[dict[str, tensors.Array]], object], str]] = {
    "a tensor is missing": (lambda arrays: arrays.pop("2.weights"), "2.weights"),
    "a level is missing": (
        lambda arrays: [arrays.pop(f"3.{part}") for part in ("keys", "probabilities", "weights")],
        "3.k",
    ),
    "a tensor too many": (lambda arrays: arrays.update(extra=np.zeros(1)), "extra"),
    "another name": (lambda arrays: arrays.update({"4.keys": arrays.pop("3.keys")}), "3.keys, 4.keys"),
    "a shorter one": (put("2.probabilities", lambda array: array[:-1]), "order 2"),
    "weights at the top": (put("3.weights", lambda array: np.ones(3)), "order 3"),
    "two sides": (put("2.keys", lambda array: array[None]), "order 2"),
    "no side": (put("2.keys", lambda array: np.array(0)), "order 2"),
    "other integers": (put("2.keys", lambda array: array.astype(np.int32)), "order 2"),
    "other floats": (put("1.probabilities", lambda array: array.astype(np.float32)), "order 1"),
    "floats for keys": (put("3.keys", lambda array: array.astype(np.float64)), "order 3"),
    "a negative probability": (put("1.probabilities", at(0, -0.1)), "order 1"),
    "a probability above one": (put("3.probabilities", at(0, 1.5)), "order 3"),
    "a negative weight": (put("2.weights", at(-1, -1e-9)), "order 2"),
    "keys out of order": (put("2.keys", lambda array: array[::-1]), "order 2"),
    "a key twice": (put("3.keys", lambda array: np.concatenate([array[:1], array[:-1]])), "order 3"),
    "a negative key": (put("2.keys", at(0, -1)), "order 2"),
    "a key past the end": (put("3.keys", at(-1, 2**62)), "order 3"),
    "other unigrams": (put("1.keys", lambda array: array + 1), "order 1"),
    "NaN": (put("2.probabilities", at(1, np.nan)), "2.probabilities"),
    "infinity": (put("1.weights", at(1, np.inf)), "1.weights"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_that_is_not_one_is_refused_and_named(kind: str, run: Path) -> None:
    change, message = TABLES[kind]
    forge(run, change)
    with pytest.raises(RunError, match=message) as refused:
        satchel.load(run)
    assert refused.value.where.endswith(runs.MODEL)


def test_a_table_that_was_not_changed_passes_the_forger(run: Path) -> None:
    expected = answers(satchel.load(run))
    forge(run, lambda arrays: None)
    assert answers(satchel.load(run)) == expected


def setting(key: str, value: object) -> Callable[[dict[str, Any]], object]:
    def change(tree: dict[str, Any]) -> None:
        *groups, last = key.split(".")
        for group in groups:
            tree = tree[group]
        tree[last] = value

    return change


CONFIGS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a higher order": (setting("settings.model.order", 4), "4.keys"),
    "a lower order": (setting("settings.model.order", 2), "3.keys"),
    "order 0": (setting("settings.model.order", 0), "config.json: model.order: found 0"),
    "order 1,000,000": (setting("settings.model.order", 10**6), "config.json: model.order: found 1000000"),
    "a float for an order": (setting("settings.model.order", 3.0), "config.json: model.order: found 3.0"),
    "an unknown setting": (setting("settings.model.code", "os.system"), "config.json: unknown setting model.code"),
    "an unknown key": (setting("code", "os.system"), "config.json: code"),
    "settings of another kind": (setting("settings", []), "config.json: settings"),
    "another kind of model": (setting("settings.model.kind", "os.system"), "config.json: model.kind"),
    "another task": (setting("task", "translate"), "task and settings.task differ"),
    "an unknown task": (setting("task", "rm"), "config.json: task"),
    "a newer version": (setting("schema_version", 2), "config.json: schema_version"),
    "another tokenizer": (setting("tokenizer.sha256", "0" * 64), "tokenizer.json: is not the tokenizer"),
    "another vocabulary": (setting("tokenizer.size", 2**31), "tokenizer.json: is not the tokenizer"),
    "facts without end": (setting("facts", json.loads('{"a":' * 400 + "1" + "}" * 400)), "config.json"),
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_description_that_does_not_fit_is_refused_and_named(kind: str, run: Path) -> None:
    change, message = CONFIGS[kind]
    tree = tree_of(run / runs.CONFIG)
    change(tree)
    (run / runs.CONFIG).write_bytes(json.dumps(tree).encode())
    seal(run)
    with pytest.raises((RunError, SettingsError), match=message):
        satchel.load(run)


@pytest.mark.parametrize("number", [b"1e999", b"NaN", b"9" * 5000], ids=["1e999", "NaN", "5000 digits"])
def test_a_description_with_a_number_that_is_none_is_refused_and_named(number: bytes, run: Path) -> None:
    data = (run / runs.CONFIG).read_bytes()
    (run / runs.CONFIG).write_bytes(data.replace(b'"facts": {', b'"facts": {"x": %b,' % number))
    seal(run)
    with pytest.raises(RunError, match=runs.CONFIG):
        satchel.load(run)


def test_the_model_of_another_run_is_refused(run: Path, tmp_path: Path) -> None:
    text = tmp_path / "other.txt"
    text.write_text("Another text has other letters. " * 20, encoding="utf-8")
    train(text, tmp_path / "other")
    shutil.copy(tmp_path / "other" / runs.MODEL, run / runs.MODEL)
    seal(run)
    with pytest.raises(RunError, match="belongs to another run"):
        satchel.load(run)


# --- saved again ---------------------------------------------------------------------------------


def test_a_model_answers_the_same_while_its_run_is_replaced(verse: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(verse, run)
    first = satchel.load(run)
    before = answers(first)
    other = tmp_path / "other.txt"
    other.write_text("The log sat on the cat, the mat saw the dog.\n" * 30, encoding="utf-8")
    train(other, run, force=True)
    assert answers(first) == before
    assert answers(satchel.load(run)) == answers(train(other, tmp_path / "undisturbed"))
    assert answers(satchel.load(run)) != before


def test_the_same_training_gives_the_same_bytes(verse: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        train(verse, tmp_path / name)
    one, two = (folder_contents(tmp_path / name) for name in ("one", "two"))
    same = {name for name in one if one[name] == two[name]}
    assert same >= {runs.CONFIG, runs.TOKENIZER, runs.MODEL, runs.TRAIN_TOKENS, runs.VALID_TOKENS}
    # The clock is in the measurements, and so in the manifest.
    assert set(one) - same <= {runs.METRICS, durable.MANIFEST}


def test_a_run_is_never_replaced_unasked(run: Path, verse: Path) -> None:
    before = contents(run)
    with pytest.raises(RunError, match="already exists"):
        train(verse, run)
    assert contents(run) == before


@pytest.mark.parametrize(
    "mine",
    [
        {"cat.jpg": b"cat"},
        {"config.json": b"{}", "cat.jpg": b"cat"},
        {"config.json": b'{"port": 80}', "manifest.json": b'{"manifest_version": 3, "name": "my extension"}'},
        {"config.json": b"", "manifest.json": b""},
    ],
    ids=["photos", "a program's settings", "a browser's extension", "empty files"],
)
def test_a_folder_of_ones_own_is_never_replaced(mine: dict[str, bytes], verse: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, data in mine.items():
        (folder / name).write_bytes(data)
    with pytest.raises(RunError, match="is not a run folder and is not replaced"):
        train(verse, folder, force=True)
    assert contents(folder) == mine


@pytest.mark.parametrize("name", [runs.CONFIG, durable.MANIFEST, runs.MODEL])
def test_a_damaged_run_can_be_replaced(name: str, run: Path, verse: Path) -> None:
    (run / name).write_bytes(b"damaged")
    trained = train(verse, run, force=True)
    assert answers(satchel.load(run)) == answers(trained)


def test_a_run_behind_a_link_is_loaded_and_replaced_where_it_lives(run: Path, verse: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(run)
    assert answers(satchel.load(link)) == answers(satchel.load(run))
    train(verse, link, force=True)
    assert link.is_symlink()
    assert answers(satchel.load(link)) == answers(satchel.load(run))


@pytest.mark.parametrize("name", ["two words", "two\nlines", "\u6f22\u5b57 \U0001f408", "x" * 200], ids=ascii)
def test_a_run_may_have_an_unusual_name(name: str, verse: Path, tmp_path: Path) -> None:
    trained = train(verse, tmp_path / name)
    assert answers(satchel.load(tmp_path / name)) == answers(trained)


def test_a_text_whose_name_is_not_unicode_is_trained_on(verse: Path, tmp_path: Path) -> None:
    text = verse.rename(tmp_path / os.fsdecode(b"\xff.txt"))
    trained = train(text, tmp_path / "run")
    assert answers(satchel.load(tmp_path / "run")) == answers(trained)
