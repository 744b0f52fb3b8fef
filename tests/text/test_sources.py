"""Sources: folders, regular files and changes of them, standard input."""

import gzip
import hashlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from satchel.datasets.corpora import open_corpus
from satchel.errors import DataError
from satchel.text.reading import DataSettings
from satchel.text.sources import file_source, folder_sources

STRICT = DataSettings()


def texts(folder: Path) -> list[str]:
    corpus = open_corpus(folder, STRICT)
    return ["".join(corpus.texts(source)) for source in corpus.sources]


# --- folders


def test_the_text_files_of_a_folder_are_sorted_by_relative_path_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a.txt", "a/b/c.txt", "Z.txt", "é.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"d.txt.gz"))
    for name in (".hidden.txt", ".git/x.txt", "a/.x/y.txt", "picture.png", "table.csv", "txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"\xff")
    names = ["Z.txt", "a.txt", "a/b/c.txt", "a/z.txt", "b.txt", "d.txt.gz", "é.txt"]
    sources, others = folder_sources(tmp_path)
    assert [source.name for source in sources] == names
    assert texts(tmp_path) == names
    assert others == 3
    assert open_corpus(tmp_path, STRICT).skipped == 3


def test_a_folder_inside_a_hidden_folder_can_be_opened(tmp_path: Path) -> None:
    (tmp_path / ".cache" / "data").mkdir(parents=True)
    (tmp_path / ".cache" / "data" / "a.txt").write_text("a", encoding="utf-8")
    assert texts(tmp_path / ".cache" / "data") == ["a"]


def test_cyclic_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert texts(tmp_path) == ["a"]
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")
    with pytest.raises(DataError, match=r"loop\.txt: cannot be read: Too many"):
        open_corpus(tmp_path, STRICT)


def test_a_folder_without_text_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").touch()
    with pytest.raises(DataError, match=r"has 1 files, none of them \.txt"):
        open_corpus(tmp_path, STRICT)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="this user may read all files")
def test_an_unreadable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0)
    with pytest.raises(DataError, match=r"closed: cannot be read: Permission denied"):
        open_corpus(tmp_path, STRICT)


def test_files_with_names_that_are_not_utf8_can_be_read(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.txt", "wb") as handle:
        handle.write(b"text")
    assert texts(tmp_path) == ["text"]
    assert len(open_corpus(tmp_path, STRICT).identity()) == 64


# --- other than regular files


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "missing", "under a file", "long", "nul", "half a pair"])
def test_other_than_regular_files_are_rejected_without_blocking(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "under a file":
        path.touch()
        path = path / "y"
    elif kind != "missing":
        path = tmp_path / {"long": "x" * 5000, "nul": "a\0b", "half a pair": "\ud800"}[kind]
    with pytest.raises(DataError) as caught:
        file_source(path)
    assert caught.value.where == str(path)
    with pytest.raises(DataError):
        open_corpus(str(path), STRICT)
    with pytest.raises(DataError):
        open_corpus(f"{path},{path}", STRICT)


@pytest.mark.timeout(20)
def test_a_pipe_in_a_folder_is_rejected_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(DataError, match="is a pipe"):
        open_corpus(tmp_path, STRICT)


def test_a_folder_instead_of_a_file_is_reported_as_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        open_corpus(f"{tmp_path},{tmp_path}", STRICT)
    assert str(caught.value) == f"{tmp_path}: is a folder, expected a file\nname a file in it"


def test_an_empty_name_is_rejected() -> None:
    with pytest.raises(DataError, match="name of the data is empty"):
        open_corpus("", STRICT)


# --- changed files


@pytest.mark.parametrize("change", ["longer", "shorter", "rewritten", "replaced", "deleted", "a pipe"])
@pytest.mark.timeout(20)
def test_a_file_that_changes_between_two_reads_is_rejected(change: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("some text\n", encoding="utf-8")
    os.utime(path, ns=(10**18, 10**18))
    corpus = open_corpus(path, STRICT)
    corpus.identity()
    if change == "replaced":
        other = tmp_path / "b"
        other.write_text("same size\n", encoding="utf-8")
        os.utime(other, ns=(10**18, 10**18))
        other.replace(path)
    elif change in ("deleted", "a pipe"):
        path.unlink()
        if change == "a pipe":
            os.mkfifo(path)
    else:
        path.write_text({"longer": "some text\nmore", "shorter": "some", "rewritten": "SOME TEXT\n"}[change])
    with pytest.raises(DataError, match=r"changed while it was being read|no such file|is a pipe"):
        list(corpus.pieces())
    with pytest.raises(DataError):
        corpus.identity()


def test_a_file_that_changes_while_it_is_read_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"line of text\n" * 100_000)
    corpus = open_corpus(path, STRICT)
    reader = corpus.texts(corpus.sources[0])
    next(reader)
    with open(path, "ab") as handle:
        handle.write(b"more")
    with pytest.raises(DataError, match="changed while it was being read"):
        list(reader)


def test_reading_a_part_of_a_file_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"line of text\n" * 100_000)
    corpus = open_corpus(path, STRICT)
    reader = corpus.texts(corpus.sources[0])
    next(reader)
    assert isinstance(reader, Iterator)
    reader.close()  # type: ignore[attr-defined]
    assert len("".join(corpus.texts(corpus.sources[0]))) == 1_300_000


# --- standard input


def test_standard_input_can_be_read_twice() -> None:
    program = """
from satchel.datasets.corpora import open_corpus
from satchel.text.reading import DataSettings
corpus = open_corpus("-", DataSettings())
for _ in range(2):
    print(ascii("".join(piece.text for piece in corpus.pieces())), corpus.size, corpus.identity())
"""
    data = "größe\n".encode() * 3
    done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True)
    identity = hashlib.sha256(b"-\x0024\0" + data).hexdigest()
    line = f"{data.decode()!a} {len(data)} {identity}\n"
    assert done.stdout.decode() == line * 2
    compressed = subprocess.run(
        [sys.executable, "-c", program], input=gzip.compress(data), capture_output=True, check=True
    )
    assert compressed.stdout.decode().startswith(ascii(data.decode()))


def test_errors_name_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ab\xff")))
    with pytest.raises(DataError, match="standard input, line 1: byte 0xff at offset 2"):
        list(open_corpus("-", STRICT).pieces())


def test_a_closed_standard_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="standard input: is closed"):
        open_corpus("-", STRICT)
