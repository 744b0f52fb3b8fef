"""Saves that are killed, refused, or raced leave the old one whole or the new one whole, and nothing else."""

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

from .system import calls, contents, error_at, faulty, fork, kill_at, leave

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals"),
    pytest.mark.timeout(60),
]

OLD, NEW, LATER = (letter * 2000 for letter in (b"o", b"n", b"l"))
ERRORS = [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO]

Save = Callable[[Path, bytes], None]


def is_made(folder: Path) -> bool:
    return (folder / durable.MANIFEST).is_file()


def save_file(path: Path, data: bytes) -> None:
    durable.write_file(path, data)


def save_folder(path: Path, data: bytes) -> None:
    with durable.new_folder(path, is_made) as folder:
        folder.write("first.bin", data)
        folder.write("inner/second.bin", data[::-1])


def whole(path: Path, save: Save, data: bytes, tmp_path: Path) -> object:
    """Return what a save of `data` gives when nothing goes wrong."""
    elsewhere = tmp_path / "undisturbed" / path.name
    save(elsewhere, data)
    found = contents(elsewhere)
    shutil.rmtree(elsewhere.parent)
    return found


saves = pytest.mark.parametrize("save", [save_file, save_folder])
with_old_one = pytest.mark.parametrize("is_there", [False, True], ids=["new", "replaced"])


# --- killed --------------------------------------------------------------------------------------


@saves
@with_old_one
def test_a_save_killed_at_any_call_leaves_the_old_one_or_the_new_one(
    save: Save, is_there: bool, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    target = place / "target"
    old = whole(target, save, OLD, tmp_path) if is_there else None
    new, later = whole(target, save, NEW, tmp_path), whole(target, save, LATER, tmp_path)

    def begin() -> None:
        shutil.rmtree(place, ignore_errors=True)
        if is_there:
            save(target, OLD)

    begin()
    names = calls(lambda: save(target, NEW))
    # The kills land where it matters.
    assert {"open", "open file", "write", "fsync"} <= set(names)
    assert "replace" in names or "rename" in names or is_there
    seen = []
    for k in range(1, len(names) + 1):
        for moment in ("before", "after"):
            begin()

            def killed(k: int = k, moment: str = moment) -> None:
                with faulty(**{moment: kill_at(k)}):
                    save(target, NEW)

            assert leave(fork(killed)) == -signal.SIGKILL, f"{moment} call {k}, {names[k - 1]}"
            found = contents(target)
            assert found in (old, new), f"{moment} call {k}, {names[k - 1]}: neither the old one nor the new one"
            seen.append(found == new)
            save(target, LATER)
            assert contents(target) == later
            assert os.listdir(place) == ["target"], f"{moment} call {k}, {names[k - 1]}: a partial is left"
    # Once the new one is there it stays.
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this a system that cannot exchange two names at once."""
    monkeypatch.setattr(ctypes, "CDLL", lambda *args, **options: object())


def test_where_names_cannot_be_exchanged_the_next_use_brings_the_old_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_exchange(monkeypatch)
    place = tmp_path / "place"
    target = place / "target"
    save_folder(target, OLD)
    old = contents(target)
    names = calls(lambda: save_folder(target, NEW))
    assert names.count("rename") == 3
    new = contents(target)
    absent = 0
    for k in range(1, len(names) + 1):
        shutil.rmtree(place)
        save_folder(target, OLD)

        def killed(k: int = k) -> None:
            with faulty(after=kill_at(k)):
                save_folder(target, NEW)

        assert leave(fork(killed)) == -signal.SIGKILL
        absent += not target.exists()
        with contextlib.suppress(ZeroDivisionError), durable.new_folder(target, is_made):
            raise ZeroDivisionError
        assert contents(target) in (old, new)
        assert os.listdir(place) == ["target"]
    assert absent == 1


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.EACCES, errno.EIO], ids=errno.errorcode.get)
def test_an_exchange_that_is_refused_is_done_in_steps_or_told(
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
def test_everything_is_on_the_disk_before_it_gets_its_name(
    save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    synced: list[int] = []
    when_named: list[int] = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    def note(number: int, name: str) -> None:
        if name in ("rename", "replace"):
            when_named.extend(synced)

    monkeypatch.setattr(os, "fsync", recorded)
    with faulty(before=note):
        save(target, NEW)
    made = {path.stat().st_ino for path in [target, *target.rglob("*")]}
    assert made <= set(when_named)
    # The new name itself comes last.
    assert synced[-1] == tmp_path.stat().st_ino


# --- errors of the system ------------------------------------------------------------------------


@saves
@with_old_one
@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
def test_an_error_at_any_call_is_told_and_leaves_everything_as_it_was(
    save: Save, is_there: bool, code: int, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    target = place / "target"
    new = whole(target, save, NEW, tmp_path)
    place.mkdir()

    def begin() -> None:
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
        if is_there:
            save(target, OLD)

    begin()
    old, listing = contents(target), os.listdir(place)
    names = calls(lambda: save(target, NEW))
    begin()
    told = OSError if code == errno.EIO else MachineError
    refused = set()
    for k, name in enumerate(names, start=1):
        if name.startswith("clear"):
            continue
        try:
            with faulty(before=error_at(k, code)):
                save(target, NEW)
        except told:
            refused.add(name)
            if contents(target) == old:
                assert os.listdir(place) == listing, f"call {k}, {name}"
                continue
        # The error came when the new one was in its place already, or did not matter.
        assert contents(target) == new, f"call {k}, {name}"
        assert os.listdir(place) == ["target"]
        begin()
    assert {"open", "open file", "write", "fsync"} <= refused
    save(target, NEW)
    assert contents(target) == new
    assert os.listdir(place) == ["target"]


def test_an_error_while_clearing_away_does_not_fail_a_save(tmp_path: Path) -> None:
    target = tmp_path / "target"
    save_folder(target, OLD)
    names = calls(lambda: save_folder(target, NEW))
    clearing = [k for k, name in enumerate(names, start=1) if name.startswith("clear")]
    assert clearing
    for number, k in enumerate(clearing):
        data = b"%d" % number
        with faulty(before=error_at(k, errno.EACCES)):
            save_folder(target, data)
        assert (target / "first.bin").read_bytes() == data
        save_folder(target, LATER)
        assert os.listdir(tmp_path) == ["target"]


@saves
def test_an_interrupted_save_leaves_everything_as_it_was(save: Save, tmp_path: Path) -> None:
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
def test_a_limit_on_the_size_of_files_is_told(save: Save, tmp_path: Path) -> None:
    target = tmp_path / "target"
    save(target, OLD)
    old = contents(target)

    def limited() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        with pytest.raises(MachineError, match="File too large"):
            save(target, b"x" * 20_000)
        return 7

    assert leave(fork(limited)) == 7
    assert contents(target) == old
    assert os.listdir(tmp_path) == ["target"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 kilobytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@saves
def test_a_full_disk_is_told_and_the_old_one_stays(save: Save, small_disk: Path) -> None:
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
def test_a_second_process_is_refused_until_the_first_is_dead(save: Save, tmp_path: Path) -> None:
    target = tmp_path / "target"
    ready, tell = os.pipe()

    def first() -> None:
        making = durable.new_file(target) if save is save_file else durable.new_folder(target)
        with making:
            os.write(tell, b"x")
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
        leave(child)
        os.close(ready)
        os.close(tell)
    save(target, NEW)
    assert os.listdir(tmp_path) == ["target"]


def race(works: list[Callable[[], object]]) -> list[int]:
    """Start some children at the same moment and return how they left."""
    start, go = os.pipe()

    def waiting(work: Callable[[], object]) -> object:
        os.close(go)
        os.read(start, 1)
        return work()

    children = [fork(lambda work=work: waiting(work)) for work in works]  # type: ignore[misc]
    os.close(start)
    os.close(go)
    return [leave(child) for child in children]


def test_of_two_racing_starters_exactly_one_wins(tmp_path: Path) -> None:
    def start(data: bytes) -> int:
        try:
            with durable.new_folder(target) as folder:
                folder.write("winner", data)
        except RunError:
            return 1
        return 0

    for number in range(20):
        target = tmp_path / f"run-{number}"
        left = race([lambda: start(b"0"), lambda: start(b"1")])
        assert sorted(left) == [0, 1]
        assert (target / "winner").read_bytes() == b"%d" % left.index(0)
        durable.read_verified(target, "winner", 10)
    assert len(os.listdir(tmp_path)) == 20


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_process_that_finishes_while_another_asks_for_its_place_spoils_nothing(moment: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    first = contextlib.ExitStack()
    first.enter_context(durable.new_folder(target)).write("first.bin", OLD)

    def finish(number: int, name: str) -> None:
        if name == "open":
            first.close()

    with faulty(**{moment: finish}):
        save_folder(target, NEW)
    assert contents(target) == whole(target, save_folder, NEW, tmp_path)
    assert os.listdir(tmp_path) == ["target"]


@saves
def test_savers_that_come_one_upon_another_never_spoil_each_others_work(save: Save, tmp_path: Path) -> None:
    target = tmp_path / "target"
    tries = 60

    def again_and_again(letter: bytes) -> int:
        won = 0
        for _ in range(tries):
            with contextlib.suppress(RunError):
                save(target, letter * 100)
                won += 1
        return won

    assert 0 < sum(race([lambda: again_and_again(b"a"), lambda: again_and_again(b"b")])) <= 2 * tries
    assert contents(target) in [whole(target, save, letter * 100, tmp_path) for letter in (b"a", b"b")]
    assert os.listdir(tmp_path) == ["target"]


# --- what is there already -----------------------------------------------------------------------


def test_a_folder_that_exists_is_refused_before_any_work(tmp_path: Path) -> None:
    target = tmp_path / "target"
    save_folder(target, OLD)
    with pytest.raises(RunError, match="already exists"), durable.new_folder(target):
        pytest.fail("the work has begun")
    assert os.listdir(tmp_path) == ["target"]


def test_a_folder_that_another_process_finished_meanwhile_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    mkdir = os.mkdir

    def late(path: Path, mode: int = 0o777) -> None:
        monkeypatch.setattr(os, "mkdir", mkdir)
        save_folder(target, OLD)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", late)
    with pytest.raises(RunError, match="already exists"), durable.new_folder(target):
        pytest.fail("the work has begun")
    assert os.listdir(tmp_path) == ["target"]


def test_only_what_may_be_replaced_is_replaced(tmp_path: Path) -> None:
    mine = tmp_path / "photos"
    mine.mkdir()
    (mine / "cat.jpg").write_bytes(b"cat")
    note = tmp_path / "note"
    note.write_bytes(b"note")
    nowhere = tmp_path / "nowhere"
    nowhere.symlink_to(tmp_path / "missing")
    for target in (mine, note, nowhere):
        with pytest.raises(RunError, match="is not a run folder and is not replaced"):
            save_folder(target, NEW)
    assert contents(mine) == {"cat.jpg": b"cat"}
    assert note.read_bytes() == b"note"


def test_an_empty_folder_is_replaced_where_that_was_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    save_folder(target, NEW)
    assert is_made(target)


@saves
def test_what_a_link_names_is_replaced_where_it_lives(save: Save, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "target"
    save(target, OLD)
    link = tmp_path / "link"
    link.symlink_to(target)
    save(link, NEW)
    assert link.is_symlink()
    assert contents(target) == whole(target, save, NEW, tmp_path)
    assert os.listdir(tmp_path / "real") == ["target"]


@saves
def test_a_planted_link_is_not_followed(save: Save, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "new").mkdir()
    (mine / "new" / "cat.jpg").write_bytes(b"cat")
    place = tmp_path / "place"
    place.mkdir()
    victim = mine / "new" / "cat.jpg" if save is save_file else mine
    (place / ".target.partial").symlink_to(victim)
    with pytest.raises(MachineError, match="cannot be written"):
        save(place / "target", NEW)
    assert contents(mine) == {"new/cat.jpg": b"cat"}
    assert not (place / "target").exists()


@pytest.mark.timeout(10)
def test_a_file_replaces_no_folder_or_pipe(tmp_path: Path) -> None:
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
    place = tmp_path / "place"
    save(place / name, OLD)
    save(place / name, NEW)
    assert contents(place / name) == whole(place / name, save, NEW, tmp_path)
    assert os.listdir(place) == [name]


@saves
@pytest.mark.parametrize(
    "name", ["x" * 247, "x" * 255, "x" * 256, "\u6f22" * 85, "x" * 5000, "y/" * 2100 + "x"], ids=len
)
def test_names_too_long_are_refused(save: Save, name: str, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"expected at most 246|too long"):
        save(tmp_path / name, NEW)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@saves
def test_a_parent_that_is_a_file_or_a_link_to_itself_is_told(save: Save, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for parent in ("file", "file/deeper", "loop", "loop/deeper"):
        with pytest.raises(MachineError, match="part of this path is"):
            save(tmp_path / parent / "target", NEW)
    assert (tmp_path / "file").read_bytes() == b"mine"


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
def test_json_that_is_not_sound_is_refused_and_named(data: bytes, message: str) -> None:
    with pytest.raises(RunError, match=message) as refused:
        durable.from_json(data, "here.json")
    assert str(refused.value).startswith("here.json: ")


def test_json_comes_back_as_it_was() -> None:
    value = {"a": [1, 2.5, -1e300, True, None, "é\u2028\x00"], "b": {"c": {}}}
    assert durable.from_json(durable.to_json(value), "here") == value


def test_a_name_that_is_not_unicode_can_be_written() -> None:
    assert durable.from_json(durable.to_json({"name": "\udcff.txt"}), "here") == {"name": "?.txt"}


# --- lines, removal, locks, files that change ----------------------------------------------------------------


def test_lines_are_added_whole_even_after_one_that_was_torn(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    durable.append_line(path, b"one")
    durable.append_line(path, b"two")
    assert path.read_bytes() == b"one\ntwo\n"
    path.write_bytes(b"one\ntw")
    durable.append_line(path, b"three")
    assert path.read_bytes() == b"one\ntw\nthree\n"


def test_a_removed_folder_is_gone_and_what_a_killed_removal_left_is_too(tmp_path: Path) -> None:
    for name in ("a", ".a.gone"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    durable.remove_folder(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_locked_folder_is_refused_to_others_and_free_afterwards(tmp_path: Path) -> None:
    refused = pytest.raises(RunError, match="is being trained by another process")
    with durable.locked(tmp_path), refused, durable.locked(tmp_path):
        pass
    with durable.locked(tmp_path):
        pass


def test_files_that_change_are_not_in_the_manifest(tmp_path: Path) -> None:
    with durable.new_folder(tmp_path / "run", changing=["model"]) as folder:
        folder.write("model", b"1")
        folder.write("config", b"2")
    assert set(durable.read_manifest(tmp_path / "run")) == {"config"}
