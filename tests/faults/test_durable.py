"""Atomic writes: after a kill, an error or a race the target has the complete old or the complete new content."""

import contextlib
import ctypes
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from satchel import durable
from satchel.errors import MachineError, RunError

from .system import calls, contents, error_at, faulty, fork, kill_at, wait_for

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals"),
    pytest.mark.timeout(60),
]

OLD, NEW, LATER = (letter * 2000 for letter in (b"o", b"n", b"l"))
ERRORS = [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO]

Save = Callable[[Path, bytes], None]


def has_manifest(folder: Path) -> bool:
    return (folder / durable.MANIFEST).is_file()


def check_manifest(folder: Path) -> None:
    """Allow the replacement of a folder with a manifest."""
    if not has_manifest(folder):
        raise RunError("is not a run folder and is not replaced")


def save_file(path: Path, data: bytes) -> None:
    """Write one file."""
    durable.write_file(path, data)


def save_folder(path: Path, data: bytes) -> None:
    """Write a folder of two files."""
    with durable.new_folder(path, check_manifest) as folder:
        folder.write("first.bin", data)
        folder.write("inner/second.bin", data[::-1])


def saved_content(path: Path, save: Save, data: bytes, tmp_path: Path) -> object:
    """Return the content of a save of `data` without faults."""
    copy = tmp_path / "without-faults" / path.name
    save(copy, data)
    content = contents(copy)
    shutil.rmtree(copy.parent)
    return content


saves = pytest.mark.parametrize("save", [save_file, save_folder])
new_or_replaced = pytest.mark.parametrize("exists", [False, True], ids=["new", "replaced"])


# --- killed --------------------------------------------------------------------------------------


@saves
@new_or_replaced
def test_a_save_killed_at_any_call_leaves_the_old_or_the_new_content(save: Save, exists: bool, tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    target = parent / "target"
    old = saved_content(target, save, OLD, tmp_path) if exists else None
    new, later = saved_content(target, save, NEW, tmp_path), saved_content(target, save, LATER, tmp_path)

    def reset() -> None:
        shutil.rmtree(parent, ignore_errors=True)
        if exists:
            save(target, OLD)

    reset()
    names = calls(lambda: save(target, NEW))
    # The kills cover every relevant kind of call.
    assert {"open", "open file", "write", "fsync"} <= set(names)
    assert "replace" in names or "rename" in names or exists
    is_new = []
    for k in range(1, len(names) + 1):
        for moment in ("before", "after"):
            reset()

            def killed(k: int = k, moment: str = moment) -> None:
                with faulty(**{moment: kill_at(k)}):
                    save(target, NEW)

            assert wait_for(fork(killed)) == -signal.SIGKILL, f"{moment} call {k}, {names[k - 1]}"
            content = contents(target)
            assert content in (old, new), f"{moment} call {k}, {names[k - 1]}: neither old nor new"
            is_new.append(content == new)
            save(target, LATER)
            assert contents(target) == later
            assert os.listdir(parent) == ["target"], f"{moment} call {k}, {names[k - 1]}: a temporary file is left"
    # There is one call that switches from old to new.
    assert is_new == sorted(is_new)
    assert set(is_new) == {False, True}


def test_without_atomic_exchange_an_interrupted_replacement_is_rolled_back_by_the_next_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *args, **options: object())  # has no renameat2
    parent = tmp_path / "parent"
    target = parent / "target"
    save_folder(target, OLD)
    old = contents(target)
    names = calls(lambda: save_folder(target, NEW))
    assert names.count("rename") == 3
    new = contents(target)
    absent = 0
    for k in range(1, len(names) + 1):
        shutil.rmtree(parent)
        save_folder(target, OLD)

        def killed(k: int = k) -> None:
            with faulty(after=kill_at(k)):
                save_folder(target, NEW)

        assert wait_for(fork(killed)) == -signal.SIGKILL
        absent += not target.exists()
        with contextlib.suppress(ZeroDivisionError), durable.new_folder(target, check_manifest):
            raise ZeroDivisionError
        assert contents(target) in (old, new)
        assert os.listdir(parent) == ["target"]
    assert absent == 1


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.EACCES, errno.EIO], ids=errno.errorcode.get)
def test_a_failing_exchange_falls_back_to_renames_or_raises(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Library:
        @staticmethod
        def renameat2(*args: object) -> int:
            ctypes.set_errno(code)
            return -1

    target = tmp_path / "target"
    save_folder(target, OLD)
    monkeypatch.setattr(ctypes, "CDLL", lambda *args, **options: Library)
    expected = {errno.EACCES: MachineError, errno.EIO: OSError}.get(code)
    with pytest.raises(expected) if expected else contextlib.nullcontext():
        save_folder(target, NEW)
    assert (target / "first.bin").read_bytes() == (OLD if expected else NEW)
    assert os.listdir(tmp_path) == ["target"]


@saves
def test_all_files_are_synced_before_the_rename_and_the_parent_folder_after_it(
    save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    synced: list[int] = []
    synced_before_rename: list[int] = []
    fsync = os.fsync

    def recording_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    def record(number: int, name: str) -> None:
        if name in ("rename", "replace"):
            synced_before_rename.extend(synced)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    with faulty(before=record):
        save(target, NEW)
    inodes = {path.stat().st_ino for path in [target, *target.rglob("*")]}
    assert inodes <= set(synced_before_rename)
    assert synced[-1] == tmp_path.stat().st_ino


# --- system errors -------------------------------------------------------------------------------


@saves
@new_or_replaced
@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
def test_an_error_at_any_call_is_raised_and_changes_nothing(
    save: Save, exists: bool, code: int, tmp_path: Path
) -> None:
    parent = tmp_path / "parent"
    target = parent / "target"
    new = saved_content(target, save, NEW, tmp_path)
    parent.mkdir()

    def reset() -> None:
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
        if exists:
            save(target, OLD)

    reset()
    old, listing = contents(target), os.listdir(parent)
    names = calls(lambda: save(target, NEW))
    reset()
    expected = OSError if code == errno.EIO else MachineError
    failed = set()
    for k, name in enumerate(names, start=1):
        if name.startswith("clear"):
            continue
        try:
            with faulty(before=error_at(k, code)):
                save(target, NEW)
        except expected:
            failed.add(name)
            if contents(target) == old:
                assert os.listdir(parent) == listing, f"call {k}, {name}"
                continue
        # The error occurred after the replacement, or was ignored.
        assert contents(target) == new, f"call {k}, {name}"
        assert os.listdir(parent) == ["target"]
        reset()
    assert {"open", "open file", "write", "fsync"} <= failed
    save(target, NEW)
    assert contents(target) == new
    assert os.listdir(parent) == ["target"]


def test_an_error_while_removing_the_old_folder_does_not_fail_the_save(tmp_path: Path) -> None:
    target = tmp_path / "target"
    save_folder(target, OLD)
    names = calls(lambda: save_folder(target, NEW))
    removals = [k for k, name in enumerate(names, start=1) if name.startswith("clear")]
    assert removals
    for number, k in enumerate(removals):
        data = b"%d" % number
        with faulty(before=error_at(k, errno.EACCES)):
            save_folder(target, data)
        assert (target / "first.bin").read_bytes() == data
        save_folder(target, LATER)
        assert os.listdir(tmp_path) == ["target"]


@saves
def test_an_interrupted_save_changes_nothing(save: Save, tmp_path: Path) -> None:
    target = tmp_path / "target"
    save(target, OLD)
    old = contents(target)

    def interrupt(number: int, name: str) -> None:
        if name == "write":
            raise KeyboardInterrupt

    with faulty(before=interrupt), pytest.raises(KeyboardInterrupt):
        save(target, NEW)
    assert contents(target) == old
    assert os.listdir(tmp_path) == ["target"]


@saves
def test_exceeding_the_file_size_limit_is_reported(save: Save, tmp_path: Path) -> None:
    target = tmp_path / "target"
    save(target, OLD)
    old = contents(target)

    def limited() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        with pytest.raises(MachineError, match="File too large"):
            save(target, b"x" * 20_000)
        return 7

    assert wait_for(fork(limited)) == 7
    assert contents(target) == old
    assert os.listdir(tmp_path) == ["target"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 256 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a file system is not permitted")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@saves
def test_a_full_disk_is_reported_and_the_old_content_remains(save: Save, small_disk: Path) -> None:
    target = small_disk / "target"
    save(target, OLD)
    old = contents(target)
    with pytest.raises(MachineError, match="No space left"):
        save(target, b"x" * 300_000)
    assert contents(target) == old
    assert os.listdir(small_disk) == ["target"]
    save(target, NEW)
    assert os.listdir(small_disk) == ["target"]


# --- two processes -------------------------------------------------------------------------------


@saves
def test_a_second_process_is_refused_until_the_first_has_ended(save: Save, tmp_path: Path) -> None:
    target = tmp_path / "target"
    ready, signal_ready = os.pipe()

    def first() -> None:
        context = durable.new_file(target) if save is save_file else durable.new_folder(target)
        with context:
            os.write(signal_ready, b"x")
            signal.pause()

    child = fork(first)
    try:
        assert os.read(ready, 1) == b"x"
        for _ in range(3):
            with pytest.raises(RunError, match="target: is being written by another process"):
                save(target, NEW)
        assert not target.exists()
    finally:
        os.kill(child, signal.SIGKILL)
        wait_for(child)
        os.close(ready)
        os.close(signal_ready)
    save(target, NEW)
    assert os.listdir(tmp_path) == ["target"]


def race(functions: list[Callable[[], object]]) -> list[int]:
    """Run functions in child processes that start at the same time, and return their exit codes."""
    start, go = os.pipe()

    def wait_and_call(function: Callable[[], object]) -> object:
        os.close(go)
        os.read(start, 1)
        return function()

    children = [fork(lambda function=function: wait_and_call(function)) for function in functions]  # type: ignore[misc]
    os.close(start)
    os.close(go)
    return [wait_for(child) for child in children]


def test_of_two_processes_creating_the_same_folder_exactly_one_succeeds(tmp_path: Path) -> None:
    def start(data: bytes) -> int:
        try:
            with durable.new_folder(target) as folder:
                folder.write("winner", data)
        except RunError:
            return 1
        return 0

    for number in range(20):
        target = tmp_path / f"run-{number}"
        codes = race([lambda: start(b"0"), lambda: start(b"1")])
        assert sorted(codes) == [0, 1]
        assert (target / "winner").read_bytes() == b"%d" % codes.index(0)
        durable.read_verified(target, "winner", 10)
    assert len(os.listdir(tmp_path)) == 20


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_save_that_finishes_while_another_acquires_the_lock_does_not_damage_it(moment: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    first = contextlib.ExitStack()
    first.enter_context(durable.new_folder(target)).write("first.bin", OLD)

    def finish(number: int, name: str) -> None:
        if name == "open":
            first.close()

    with faulty(**{moment: finish}):
        save_folder(target, NEW)
    assert contents(target) == saved_content(target, save_folder, NEW, tmp_path)
    assert os.listdir(tmp_path) == ["target"]


@saves
def test_concurrent_saves_leave_the_complete_content_of_one_of_them(save: Save, tmp_path: Path) -> None:
    target = tmp_path / "target"
    attempts = 60

    def save_repeatedly(letter: bytes) -> int:
        successes = 0
        for _ in range(attempts):
            with contextlib.suppress(RunError):
                save(target, letter * 100)
                successes += 1
        return successes

    assert 0 < sum(race([lambda: save_repeatedly(b"a"), lambda: save_repeatedly(b"b")])) <= 2 * attempts
    assert contents(target) in [saved_content(target, save, letter * 100, tmp_path) for letter in (b"a", b"b")]
    assert os.listdir(tmp_path) == ["target"]


# --- existing targets ----------------------------------------------------------------------------


def test_an_existing_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    target = tmp_path / "target"
    save_folder(target, OLD)
    with pytest.raises(RunError, match="already exists"), durable.new_folder(target):
        pytest.fail("the folder was opened for writing")
    assert os.listdir(tmp_path) == ["target"]


def test_a_folder_created_meanwhile_by_another_process_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    mkdir = os.mkdir

    def mkdir_after_save(path: Path, mode: int = 0o777) -> None:
        monkeypatch.setattr(os, "mkdir", mkdir)
        save_folder(target, OLD)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", mkdir_after_save)
    with pytest.raises(RunError, match="already exists"), durable.new_folder(target):
        pytest.fail("the folder was opened for writing")
    assert os.listdir(tmp_path) == ["target"]


def test_only_a_run_folder_is_replaced(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "cat.jpg").write_bytes(b"cat")
    note = tmp_path / "note"
    note.write_bytes(b"note")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "missing")
    for target in (photos, note, dangling):
        with pytest.raises(RunError, match="is not a run folder and is not replaced"):
            save_folder(target, NEW)
    assert contents(photos) == {"cat.jpg": b"cat"}
    assert note.read_bytes() == b"note"


def test_an_empty_folder_is_replaced_if_replacing_is_allowed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    save_folder(target, NEW)
    assert has_manifest(target)


@saves
def test_saving_to_a_symlink_replaces_its_target(save: Save, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "target"
    save(target, OLD)
    link = tmp_path / "link"
    link.symlink_to(target)
    save(link, NEW)
    assert link.is_symlink()
    assert contents(target) == saved_content(target, save, NEW, tmp_path)
    assert os.listdir(tmp_path / "real") == ["target"]


@saves
def test_a_symlink_with_the_name_of_the_temporary_file_is_not_followed(save: Save, tmp_path: Path) -> None:
    user_folder = tmp_path / "user"
    (user_folder / "new").mkdir(parents=True)
    (user_folder / "new" / "cat.jpg").write_bytes(b"cat")
    parent = tmp_path / "parent"
    parent.mkdir()
    victim = user_folder / "new" / "cat.jpg" if save is save_file else user_folder
    (parent / ".target.partial").symlink_to(victim)
    with pytest.raises(MachineError, match="cannot be written"):
        save(parent / "target", NEW)
    assert contents(user_folder) == {"new/cat.jpg": b"cat"}
    assert not (parent / "target").exists()


@pytest.mark.timeout(10)
def test_a_file_does_not_replace_a_folder_or_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe):
        with pytest.raises(MachineError, match="is not a regular file"):
            durable.write_file(path, b"x")
    assert pipe.is_fifo()


# --- names ---------------------------------------------------------------------------------------


@saves
@pytest.mark.parametrize(
    "name",
    [
        "two words",
        "two\nlines",
        "\u00e9\u0301 \u6f22\u5b57 \U0001f408",
        "-o",
        "x" * 200,
        "x" * 246,
        "\u6f22" * 82,
        "$(x)",
        "\udcff",
    ],
    ids=ascii,
)
def test_unusual_names_work(save: Save, name: str, tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    save(parent / name, OLD)
    save(parent / name, NEW)
    assert contents(parent / name) == saved_content(parent / name, save, NEW, tmp_path)
    assert os.listdir(parent) == [name]


@saves
@pytest.mark.parametrize(
    "name", ["x" * 247, "x" * 255, "x" * 256, "\u6f22" * 85, "x" * 5000, "y/" * 2100 + "x"], ids=len
)
def test_too_long_names_are_refused(save: Save, name: str, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"expected at most 246|too long"):
        save(tmp_path / name, NEW)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@saves
def test_a_parent_that_is_a_file_or_a_symlink_loop_is_reported(save: Save, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for folder in ("file", "file/deeper", "loop", "loop/deeper"):
        with pytest.raises(MachineError, match="part of this path is"):
            save(tmp_path / folder / "target", NEW)
    assert (tmp_path / "file").read_bytes() == b"content"


# --- JSON ----------------------------------------------------------------------------------------


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        ('{"a": 1}'.encode("utf-16"), "is not JSON"),
        (b'{"a": NaN}', "contains NaN"),
        (b'{"a": -Infinity}', "contains -Infinity"),
        (b'{"a": 1e999}', "contains 1e999"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b"[" * 10_000 + b"]" * 10_000, "nested too deeply"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "nested too deeply"),
        (b'{"a": 1, "b": {"c": 1, "c": 1}}', "'c' more than once"),
        (b"{" + b",".join(b'"%d":1' % min(i, 199_998) for i in range(200_000)) + b"}", "'199998' more than once"),
    ],
    ids=range(12),
)
def test_invalid_json_is_refused_with_the_file_name(data: bytes, message: str) -> None:
    with pytest.raises(RunError, match=message) as error:
        durable.from_json(data, "here.json")
    assert str(error.value).startswith("here.json: ")


def test_json_round_trip() -> None:
    value = {"a": [1, 2.5, -1e300, True, None, "é\u2028\x00"], "b": {"c": {}}}
    assert durable.from_json(durable.to_json(value), "here") == value


def test_json_replaces_surrogates_of_undecodable_file_names() -> None:
    assert durable.from_json(durable.to_json({"name": "\udcff.txt"}), "here") == {"name": "?.txt"}


# --- appended lines, removal, locks, changing files ----------------------------------------------


def test_a_line_is_appended_as_a_new_line_after_an_incomplete_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    durable.append_line(path, b"one")
    durable.append_line(path, b"two")
    assert path.read_bytes() == b"one\ntwo\n"
    path.write_bytes(b"one\ntw")
    durable.append_line(path, b"three")
    assert path.read_bytes() == b"one\ntw\nthree\n"


def test_removing_a_folder_also_removes_the_remains_of_an_interrupted_removal(tmp_path: Path) -> None:
    for name in ("a", ".a.gone"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    durable.remove_folder(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_locked_folder_cannot_be_locked_again_until_it_is_released(tmp_path: Path) -> None:
    refused = pytest.raises(RunError, match="is being trained by another process")
    with durable.locked(tmp_path), refused, durable.locked(tmp_path):
        pass
    with durable.locked(tmp_path):
        pass


def test_changing_files_are_not_in_the_manifest(tmp_path: Path) -> None:
    with durable.new_folder(tmp_path / "run", changing=["model"]) as folder:
        folder.write("model", b"1")
        folder.write("config", b"2")
    assert set(durable.read_manifest(tmp_path / "run")) == {"config"}
