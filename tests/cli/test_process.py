"""The command as a process: what it imports, signals, pipes, several at once."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SATCHEL = [sys.executable, "-m", "satchel"]


def satchel(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    command = [*SATCHEL, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


def imported(*arguments: object, cwd: Path) -> set[str]:
    """Return the packages that a command imports."""
    code = (
        "import sys, json\n"
        "from satchel.cli.main import run\n"
        "code = run(sys.argv[1:])\n"
        "print('\\n' + json.dumps([code, sorted({name.partition('.')[0] for name in sys.modules})]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True, cwd=cwd
    )
    exit_code, names = json.loads(done.stdout.splitlines()[-1])
    assert exit_code == 0, done.stderr
    return set(names)


def test_help_and_the_bare_package_import_next_to_nothing(tmp_path: Path) -> None:
    assert not {"torch", "numpy", "tokenizers", "altair"} & imported("--help", cwd=tmp_path)
    code = "import sys, satchel; print({'torch', 'numpy', 'pydantic', 'typer', 'tokenizers'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_no_ngram_command_imports_torch(tmp_path: Path, verse: Path) -> None:
    for arguments in (
        ("train", verse, "--model", "ngram", "--tokenizer", "char", "--valid", "0.1", "-o", "run"),
        ("evaluate", "run", verse),
        ("score", "run", "The cat"),
        ("generate", "run", "The", "--tokens", 5),
        ("tokenize", "run", "The"),
        ("export", "run", "--to", "arpa", "-o", "run.arpa"),
        ("import", "run.arpa", "--tokenizer", "char", "-o", "again"),
        ("data", verse),
        ("info", "run"),
        ("info",),
    ):
        assert "torch" not in imported(*arguments, cwd=tmp_path), arguments


def test_every_verb_explains_itself(tmp_path: Path) -> None:
    listed = satchel("--help").stdout
    for verb in (
        "demo",
        "train",
        "evaluate",
        "classify",
        "compare",
        "mix",
        "score",
        "generate",
        "data",
        "tokenize",
        "info",
        "export",
        "import",
    ):
        assert verb in listed
        done = satchel(verb, "--help", env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"})
        assert done.returncode == 0
        assert "Usage: satchel" in done.stdout
        assert "\x1b" not in done.stdout
    bare = satchel()
    assert (bare.returncode, bare.stderr, "train" in bare.stdout) == (0, "", True)
    assert satchel("--version").stdout.startswith("satchel 0.")


def test_standard_input_is_a_text(tmp_path: Path, verse: Path) -> None:
    text = verse.read_text()
    done = satchel(
        "train", "-", "--model", "ngram", "--tokenizer", "char", "-o", "run", "--json", cwd=tmp_path, input=text
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "stdin.txt").read_text() == text
    by_file, by_pipe = (
        json.loads(satchel("evaluate", "run", data, "--json", cwd=tmp_path, input=text).stdout) for data in (verse, "-")
    )
    assert by_file == by_pipe
    scored = json.loads(satchel("score", "run", "-", "--json", cwd=tmp_path, input="The cat").stdout)
    assert len(scored["tokens"]) == 7
    assert satchel("score", "run", "-", cwd=tmp_path, input="caf\udce9", errors="surrogateescape").returncode == 2


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path, verse: Path) -> None:
    satchel("train", verse, "--model", "ngram", "--tokenizer", "char", "-o", "run", cwd=tmp_path)
    command = f"{sys.executable} -m satchel generate run T --tokens 5000 --json; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -c 10 > /dev/null"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "0"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_gone_already_is_no_error(unbuffered: str, tmp_path: Path) -> None:
    command = f"({sys.executable} -m satchel lesson sense-selection; echo $? >&2) | true"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=True, env=environment
    )
    assert done.stderr.split("\n")[-2] == "0"
    assert "Error" not in done.stderr


def large_text(folder: Path) -> Path:
    """Return a text that takes seconds to train on."""
    path = folder / "large.txt"
    with path.open("w") as handle:
        for number in range(400_000):
            handle.write(f"line {number} of {number * 7919 % 100_003} and {number * 31 % 1009}\n")
    return path


def wait_for(pattern: str, folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a file of this name is there."""
    while not list(folder.rglob(pattern)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_training_leaves_nothing(number: signal.Signals, code: int, tmp_path: Path) -> None:
    text = large_text(tmp_path)
    process = subprocess.Popen(
        [*SATCHEL, "train", str(text), "--model", "ngram", "-o", "runs/large"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for("train.safetensors", tmp_path, process)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "interrupted" in said
    assert "Traceback" not in said
    assert not (tmp_path / "runs").exists()


def test_two_trainings_into_one_folder_do_not_meet(tmp_path: Path) -> None:
    text = large_text(tmp_path)
    command = [*SATCHEL, "train", str(text), "--model", "ngram", "-o", "runs/large"]
    first = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for("tokens", tmp_path, first)
    second = satchel("train", text, "--model", "ngram", "-o", "runs/large", cwd=tmp_path)
    assert second.returncode == 2
    assert "is being written by another process" in second.stderr
    first.kill()
    first.communicate()
    # What a killed process left behind is cleared away.
    small = tmp_path / "small.txt"
    small.write_text("a small text\n" * 50)
    third = satchel("train", small, "--model", "ngram", "-o", "runs/large", cwd=tmp_path)
    assert third.returncode == 0, third.stderr
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["large"]


def test_demo_makes_a_run_and_pictures(tmp_path: Path) -> None:
    done = satchel("demo", "--no-serve", "--minutes", "0.1", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/ngram/model.safetensors").exists()
    picture = (tmp_path / "out/pictures/bits-per-byte-by-order.svg").read_text()
    assert picture.startswith("<svg")
    assert "bits per byte" in picture
    assert (tmp_path / "out/pictures/bits-per-byte-by-order.png").read_bytes()[:4] == b"\x89PNG"
    assert done.stderr.count("$ satchel ") == 11
    for name in ("backpack", "mix"):
        assert (tmp_path / "out" / name / "model.safetensors").exists()
    for name in ("attention", "comparison", "contributions", "training"):
        assert (tmp_path / f"out/pictures/{name}.svg").read_text().startswith("<svg")
    assert "Senses" in (tmp_path / "out/report.html").read_text()
    assert "95 % interval" in done.stdout
    shown = dict(re.findall(r"^(ngram|backpack|mix) .* ([\d.,]+)$", done.stdout.replace(",", ""), re.MULTILINE))
    assert float(shown["mix"]) <= min(float(shown["ngram"]), float(shown["backpack"]))
    assert "bits/byte" in done.stdout
    assert re.search(r"^sense +share +promotes +suppresses", done.stdout, re.MULTILINE)
    assert "the sum of" in done.stdout


def test_standard_input_can_be_compared_on_and_mixed_by(tmp_path: Path, verse: Path) -> None:
    text = verse.read_text()[:400]
    (tmp_path / "part.txt").write_text(text)
    satchel(
        "train", verse, "--model", "ngram", "--tokenizer", "char", "--set", "model.order=2", "-o", "two", cwd=tmp_path
    )
    satchel(
        "train", verse, "--model", "ngram", "--tokenizer", "two", "--set", "model.order=4", "-o", "four", cwd=tmp_path
    )
    for verb in ("compare", "mix"):
        answers: list[dict[str, object]] = []
        for data in ("part.txt", "-"):
            target = () if verb == "compare" else ("-o", f"mix-{len(answers)}")
            done = satchel(verb, "two", "four", "--data", data, *target, "--json", cwd=tmp_path, input=text)
            assert done.returncode == 0, done.stderr
            answers.append({key: value for key, value in json.loads(done.stdout).items() if key != "run"})
        assert answers[0] == answers[1]
    identities = [
        json.loads((tmp_path / f"mix-{number}" / "config.json").read_text())["data"]["sha256"] for number in (0, 1)
    ]
    empty = hashlib.sha256(b"-\x000\x00").hexdigest()
    assert empty not in identities


def test_a_run_with_another_runs_tokenizer_says_which_kind_it_is(tmp_path: Path, verse: Path) -> None:
    satchel("train", verse, "--model", "ngram", "--tokenizer", "char", "-o", "first", cwd=tmp_path)
    satchel("train", verse, "--model", "ngram", "--tokenizer", "first", "-o", "second", cwd=tmp_path)
    config = json.loads((tmp_path / "second" / "config.json").read_text())
    assert config["settings"]["tokenizer"]["kind"] == config["tokenizer"]["kind"] == "char"
