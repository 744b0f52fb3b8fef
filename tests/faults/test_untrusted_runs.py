"""Run folders from untrusted sources, with matching checksums: commands succeed, or report the file and the key."""

import contextlib
import copy
import hashlib
import io
import json
import os
import random
import resource
import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel import durable, tensors
from satchel.cli import main as command_line
from satchel.errors import RunError, SatchelError
from tests.faults.system import fork, wait_for

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork, named pipes and resource limits"),
    pytest.mark.timeout(120),
]

RUNS = Path(__file__).parents[1] / "compatibility" / "runs"


def copy_run(kind: str, folder: Path) -> Path:
    return Path(shutil.copytree(RUNS / kind, folder / kind, dirs_exist_ok=True))


def seal(run: Path) -> None:
    """Write the sizes and checksums of the current files into all manifests of a run, as a forger would."""
    for path in sorted(run.rglob("manifest.json"), key=lambda path: -len(path.parts)):
        names = [name for name in json.loads(path.read_bytes())["files"] if (path.parent / name).is_file()]
        files = {name: (path.parent / name).read_bytes() for name in names}
        entries = {
            name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
        }
        path.write_text(json.dumps({"schema_version": 1, "files": entries}))


def change_json(run: Path, name: str, key: str, value: object) -> None:
    """Set a dotted key of a JSON file, and update the checksums."""
    tree = json.loads((run / name).read_bytes())
    *parents, last = key.split(".")
    node = tree
    for parent in parents:
        node = node[parent]
    node[last] = value
    (run / name).write_text(json.dumps(tree))
    seal(run)


def change_arrays(
    path: Path, change: Callable[[dict[str, Any]], object], metadata: dict[str, str] | None = None
) -> None:
    """Change the arrays of a file in place, with their checksum."""
    arrays, before = tensors.read(path)
    changed = {name: np.array(array) for name, array in arrays.items()}
    change(changed)
    with open(path, "wb") as handle:
        tensors.write(
            handle, changed, {**{key: value for key, value in before.items() if key != "sha256"}, **(metadata or {})}
        )


def command(*arguments: object) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command_line.run([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


# --- values of the JSON files ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "key", "value", "arguments"),
    [
        ("tagger", "facts.unit", "paragraph", ("tag", "{}", "aab")),
        ("tagger", "facts.rows_by_label", None, ("evaluate", "{}")),
        ("tagger", "facts.rows_by_label", [1], ("evaluate", "{}")),
        ("dan-classifier", "facts.labels_only_held_out", 5, ("evaluate", "{}")),
        ("dan-classifier", "facts.labels_only_held_out", ["x", "x"], ("evaluate", "{}")),
        ("dan-classifier", "labels", [], ("classify", "{}", "x")),
        ("transformer", "facts.parameters", "many", ("report", "{}", "-o", "{}/r.html")),
        ("transformer", "facts.counts.tokens", -1, ("report", "{}", "-o", "{}/r.html")),
        ("transformer", "facts.arithmetic.threads", 1_000_000, ("train", "--resume", "{}")),
        ("transformer", "facts.arithmetic.device", "cuda:99", ("train", "--resume", "{}")),
        ("transformer", "facts.arithmetic", {}, ("train", "--resume", "{}")),
        ("ngram", "facts.ngrams", [None], ("report", "{}", "-o", "{}/r.html")),
        ("transformer-translator", "facts.left_out", {"empty": 0}, ("evaluate", "{}")),
        ("mix", "facts.weights", "x", ("evaluate", "{}")),
        ("transformer", "settings.model.width", 1 << 40, ("info", "{}")),
        ("transformer", "settings.model.context", 1 << 40, ("info", "{}")),
        ("transformer", "settings.model.width", 4096, ("info", "{}")),
        ("transformer", "settings.model.layers", 512, ("info", "{}")),
        ("window", "settings.model.window", 60, ("info", "{}")),
        ("transformer", "tokenizer.size", 1 << 23, ("info", "{}")),
        ("mix", "settings.model.parts", ["a"] * 2000, ("info", "{}")),
    ],
)
def test_an_invalid_value_is_an_error_that_names_the_file_and_the_key(
    kind: str, key: str, value: object, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    run = copy_run(kind, tmp_path)
    change_json(run, "config.json", key, value)
    code, _, message = command(*(argument.format(run) for argument in arguments))
    assert code == 2, message
    is_shape = "has shape" in message or "found other tensors" in message
    assert f"{run}/config.json: " in message or (is_shape and f"{run}/model.safetensors: " in message), message
    assert key.split(".")[-1] in message or is_shape, message


def test_an_invalid_line_of_metrics_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    run = copy_run("transformer", tmp_path)
    lines = (run / "metrics.jsonl").read_bytes().split(b"\n")
    for line, key in ((b'{"step": -1}', "step"), (b'{"step": 1, "valid_loss": "low"}', "valid_loss"), (b"{}", "step")):
        (run / "metrics.jsonl").write_bytes(b"\n".join([lines[0], line, *lines[1:]]))
        code, _, message = command("look", "training", run, "--json")
        assert code == 2
        assert f"{run}/metrics.jsonl, line 2: {key}: " in message
    # A line that a killed process did not complete is skipped.
    (run / "metrics.jsonl").write_bytes(b"\n".join([lines[0], lines[1][:20], *lines[1:]]))
    assert command("look", "training", run, "--json")[0] == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [("step", 11), ("recent", [1.5]), ("recent", ["x"]), ("best", "low"), ("tokens", -1), ("seconds", None), ("x", 1)],
)
def test_an_invalid_training_state_is_an_error(key: str, value: object, tmp_path: Path) -> None:
    run = copy_run("interrupted-transformer", tmp_path)
    for path in run.glob("checkpoints/*"):
        change_json(path, "progress.json", key, value)
    code, _, message = command("train", "--resume", run)
    assert code == 2
    assert f"progress.json: {key}" in message


def test_an_optimizer_state_of_another_shape_is_an_error(tmp_path: Path) -> None:
    changes: dict[str, Callable[[dict[str, Any]], object]] = {
        "shape": lambda arrays: arrays.update({"encoder.embedding.weight.exp_avg": np.zeros((2, 2), np.float32)}),
        "parameter": lambda arrays: arrays.update({"other.exp_avg": np.zeros(2, np.float32)}),
        "missing": lambda arrays: arrays.pop("encoder.embedding.weight.exp_avg"),
    }
    for name, change in changes.items():
        run = copy_run("interrupted-transformer", tmp_path / name)
        for path in run.glob("checkpoints/*/optimizer.safetensors"):
            change_arrays(path, change)
        seal(run)
        code, _, message = command("train", "--resume", run)
        assert code == 2
        assert "optimizer.safetensors: " in message


# --- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "tokens/../../x", "a//b", ".hidden", "tokens/"])
def test_names_outside_of_the_run_are_refused_in_the_manifest(name: str, tmp_path: Path) -> None:
    run = copy_run("transformer", tmp_path)
    manifest = json.loads((run / "manifest.json").read_bytes())
    manifest["files"][name] = {"size": 0, "sha256": "0" * 64}
    (run / "manifest.json").write_text(json.dumps(manifest))
    for arguments in (("info", run), ("evaluate", run), ("train", "--resume", run)):
        code, _, message = command(*arguments)
        assert code == 2
        assert f"{run}/manifest.json: files.{name}" in message
        assert "expected a text that matches ^" in message


@pytest.mark.parametrize("name", ["config.json", "tokens/valid.safetensors", "metrics.jsonl", "model.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_files_of_a_run_that_are_not_regular_are_refused(kind: str, name: str, tmp_path: Path) -> None:
    run = copy_run("transformer", tmp_path)
    original = (run / name).rename(tmp_path / "original")
    if kind == "pipe":
        os.mkfifo(run / name)
    elif kind == "link":
        (run / name).symlink_to(original)
    else:
        (run / name).mkdir()
    code, _, message = command("look", "training", run, "--json")
    code = code or command("evaluate", run)[0]
    assert code == 2, message


@pytest.mark.parametrize("name", ["tokens", "checkpoints"])
def test_folders_of_a_run_that_are_symbolic_links_are_not_followed(name: str, tmp_path: Path) -> None:
    run = copy_run("interrupted-transformer", tmp_path)
    (run / name).rename(tmp_path / name)
    (run / name).symlink_to(tmp_path / name)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    code, _, message = command("train", "--resume", run)
    assert code == 2
    assert f"{run}/{name}: is a symbolic link, expected a folder" in message
    if name == "tokens":
        assert command("evaluate", run)[0] == 2
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_part_of_a_mix_that_links_to_the_mix_itself_is_refused(tmp_path: Path) -> None:
    run = copy_run("mix", tmp_path)
    shutil.rmtree(run / "parts" / "0")
    (run / "parts" / "0").symlink_to(run)
    with pytest.raises(RunError, match="is a symbolic link, expected a folder"):
        satchel.load(run)


@pytest.mark.parametrize("name", ["tokens/valid.safetensors", "tokens/train.safetensors", "ngram.safetensors"])
def test_a_flipped_bit_in_the_header_of_a_file_is_detected(name: str, tmp_path: Path) -> None:
    run = copy_run("interrupted-transformer", tmp_path)
    data = (run / name).read_bytes()
    header = struct.unpack("<Q", data[:8])[0]
    used = len(data[8 : 8 + header].rstrip(b" "))
    rng = random.Random(name)
    arguments = ("evaluate", run) if name != "tokens/train.safetensors" else ("train", "--resume", run)
    for _ in range(8):
        place, bit = 8 + rng.randrange(used), 1 << rng.randrange(8)
        (run / name).write_bytes(data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :])
        code, _, message = command(*arguments)
        assert code == 2, (place, bit)
        assert name in message


def test_token_ids_outside_of_the_vocabulary_are_refused(tmp_path: Path) -> None:
    run = copy_run("transformer", tmp_path)

    def change(arrays: dict[str, Any]) -> None:
        arrays["ids"][5] = 60_000

    change_arrays(run / "tokens" / "valid.safetensors", change)
    seal(run)
    code, _, message = command("evaluate", run)
    assert code == 2
    assert "tokens/valid.safetensors: contains the id 60000" in message


# --- parameters ---------------------------------------------------------------------------------------


def test_shapes_are_compared_before_memory_is_allocated(tmp_path: Path) -> None:
    run = copy_run("transformer", tmp_path)
    change_json(run, "config.json", "settings.model.width", 1 << 15)
    change_json(run, "config.json", "settings.model.hidden", 1 << 15)

    def load() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
        limit = pages * resource.getpagesize() + (200 << 20) if pages else resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            satchel.load(run)
        except RunError as error:
            return 2 if "has shape" in str(error) else 3
        return 0

    assert wait_for(fork(load)) == 2


@pytest.mark.parametrize("value", [3.4e38, 9e8])
@pytest.mark.parametrize("kind", ["transformer", "lstm", "dan-classifier", "tagger", "transformer-translator"])
def test_parameters_that_overflow_are_an_error(kind: str, value: float, tmp_path: Path) -> None:
    run = copy_run(kind, tmp_path)

    def change(arrays: dict[str, Any]) -> None:
        for array in arrays.values():
            array[...] = value * np.resize([1, -1, 1], array.shape)

    change_arrays(run / "model.safetensors", change)
    task = json.loads((run / "config.json").read_bytes())["task"]
    commands: dict[str, list[tuple[str, ...]]] = {
        "lm": [("generate", "{}", "--tokens", "5"), ("generate", "{}", "--greedy"), ("score", "{}", "The cat")],
        "classify": [("classify", "{}", "the cat")],
        "tag": [("tag", "{}", "aabb")],
        "translate": [("translate", "{}", "abc")],
    }
    for arguments in (*commands[task], ("evaluate", "{}")):
        code, output, message = command(*(argument.format(run) for argument in arguments))
        assert code == 2 or (value < 1e9 and code == 0), message
        assert "Traceback" not in message
        assert code == 2 or "nan" not in output.lower().split()
        if value > 1e9:
            assert "model.safetensors: " in message


# --- random changes -----------------------------------------------------------------------------------

VALUES: list[Any] = [
    None, True, 0, -1, 2**31, 2**63, 10**30, 1e308, 0.5, "", "x", "../../x", [], [1], {}, {"a": 1}, "\u202e", [[]],
]  # fmt: skip


def paths_of(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value of a JSON tree; of long lists and tables, only the first entries."""
    entries = list(tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else [])
    for key, value in entries if len(entries) < 60 else entries[:3]:
        yield (*path, key)
        yield from paths_of(value, (*path, key))


def changed(tree: Any, rng: random.Random) -> tuple[Any, str]:
    """Return a copy of a JSON tree with one value replaced, removed or added, and a description of the change."""
    tree = copy.deepcopy(tree)
    *parents, last = path = rng.choice(list(paths_of(tree)))
    node = tree
    for key in parents:
        node = node[key]
    value, kind = rng.choice(VALUES), rng.choice(["set", "set", "scale", "remove", "add"])
    if kind == "remove":
        del node[last]
    elif kind == "add" and isinstance(node, dict):
        node["added"] = value
    elif kind == "scale" and type(node[last]) in (int, float):
        node[last] = value = node[last] * rng.choice([-1, 0, 2, 1000])
    else:
        node[last] = value
    return tree, f"{'.'.join(map(str, path))}: {kind} {value!r}"


def damage(run: Path, rng: random.Random) -> str:
    """Change one value of one JSON file or tensor header of a run, update the checksums, and describe the change."""
    names = [path for path in sorted(run.rglob("*")) if path.is_file() and path.stat().st_size]
    path = rng.choice([*names, *(3 * [run / "config.json"])])
    data = path.read_bytes()
    if path.suffix == ".jsonl":
        lines = data.split(b"\n")
        tree, description = changed(json.loads(lines[0]), rng)
        path.write_bytes(b"\n".join([json.dumps(tree).encode(), *lines[1:]]))
    elif path.suffix == ".json":
        tree, description = changed(json.loads(data), rng)
        path.write_text(json.dumps(tree))
    else:
        size = struct.unpack("<Q", data[:8])[0]
        tree, description = changed(json.loads(data[8 : 8 + size]), rng)
        header = json.dumps(tree).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + data[8 + size :])
    if path.name != durable.MANIFEST:
        seal(run)
    return f"{path.relative_to(run)}: {description}"


COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "lm": [
        ("generate", "{}", "--tokens", "3"),
        ("score", "{}", "The cat"),
        ("look", "surprise", "{}", "cat", "--json"),
    ],
    "classify": [("classify", "{}", "the cat", "--json")],
    "tag": [("tag", "{}", "aab", "--json")],
    "translate": [("translate", "{}", "ab", "--json")],
}
ALL_COMMANDS: list[tuple[str, ...]] = [
    ("info", "{}"),
    ("info", "{}", "--tensors"),
    ("evaluate", "{}"),
    ("look", "training", "{}", "--json"),
]


@pytest.mark.parametrize("count", [80, pytest.param(5000, marks=pytest.mark.slow)])
def test_random_changes_of_a_run_are_errors_or_have_no_effect(count: int, tmp_path: Path) -> None:
    rng = random.Random(count)
    kinds = sorted(path.name for path in RUNS.iterdir())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    codes = []
    for _ in range(count):
        kind = rng.choice(kinds)
        run = copy_run(kind, tmp_path)
        task = json.loads((run / "config.json").read_bytes())["task"]
        description = damage(run, rng)
        commands = [*ALL_COMMANDS, *COMMANDS[task]]
        if kind.startswith("interrupted"):
            commands += 4 * [("train", "--resume", "{}")]
        arguments = rng.choice(commands)
        code, _, message = command(*(argument.format(run) for argument in arguments))
        assert code in (0, 2), f"{kind}, {description}, {arguments}: {message}"
        assert "Traceback" not in message, f"{kind}, {description}, {arguments}: {message}"
        codes.append(code)
        shutil.rmtree(run)
    assert count / 4 < codes.count(2) < count
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 500_000, f"the memory grew by {grown} kB"


def test_every_error_of_a_run_is_a_satchel_error_in_python(tmp_path: Path) -> None:
    run = copy_run("backpack", tmp_path)
    change_json(run, "config.json", "facts.counts", [])
    with pytest.raises(SatchelError, match=r"config\.json: facts\.counts"):
        satchel.load(run)
