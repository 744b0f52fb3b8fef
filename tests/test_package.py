"""The package as others get it: a wheel that installs into an empty environment, and a README that is true."""

import os
import pkgutil
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_the_wheel_works_in_an_empty_environment(tmp_path: Path, verse: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path / "dist"), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    # All that the wheel asks for, but for torch: no n-gram command needs it, and it is large.
    needed = [need for need in requires("satchel") or [] if "extra ==" not in need and not need.startswith("torch")]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *needed], check=True)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    reviews = tmp_path / "reviews.tsv"
    reviews.write_text("0\t1\t1\ta bad film\n1\t9\t2\ta good film\n" * 5, encoding="utf-8")
    for command in (
        ["train", str(reviews), "--model", "ngram", "--recipe", "imdb-ngram", "-o", "reviews"],
        ["train", str(verse), "--model", "ngram", "--tokenizer", "char", "-o", "run"],
        ["generate", "run", "The", "--tokens", "5"],
        ["evaluate", "run", str(verse)],
    ):
        subprocess.run([str(python), "-m", "satchel", *command], check=True, cwd=tmp_path, capture_output=True)
    installed = subprocess.run(
        [str(python), "-c", "import satchel; print(satchel.__file__)"],
        check=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    ).stdout
    assert str(tmp_path / "venv") in installed
    assert (Path(installed.strip()).parent / "py.typed").exists()


def blocks(language: str, page: str = "README.md") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def shortened(command: str) -> str:
    """Return a README command with the training of a network limited to 20 steps."""
    is_network = command.startswith("satchel train") and "--model ngram" not in command
    return re.sub(r" --(minutes|epochs) \S+", "", command) + " --steps 20" if is_network else command


def run_readme_commands(folder: Path, change: Callable[[str], str]) -> None:
    lines = [line.partition("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("satchel ")]
    assert len(commands) > 20
    for command in map(change, commands):
        result = subprocess.run(
            f"{sys.executable} -m {command}", shell=True, cwd=folder, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, f"{command}\n{result.stderr}"


@pytest.mark.timeout(600)
def test_the_readme_commands_work_with_short_trainings(tmp_path: Path) -> None:
    run_readme_commands(tmp_path, shortened)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_readme_commands_work_as_written(tmp_path: Path) -> None:
    run_readme_commands(tmp_path, lambda command: command)
    translation = subprocess.run(
        [sys.executable, "-m", "satchel", "translate", "runs/dates", "the third of May, 2021"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert translation.stdout.strip() == "2021-05-03"


def test_the_readme_python_works(tmp_path: Path) -> None:
    for block in blocks("python"):
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize("page", ["docs/networks.md", "docs/training.md", "docs/lessons.md", "docs/generation.md"])
def test_the_python_of_the_pages_works(page: str, tmp_path: Path, verse: Path) -> None:
    shutil.copy(verse, tmp_path / "my.txt")
    assert blocks("python", page)
    for block in blocks("python", page):
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True)


def test_the_commands_on_lessons_work(tmp_path: Path) -> None:
    commands = [line for block in blocks("sh", "docs/lessons.md") for line in block.split("\n") if line]
    assert len(commands) > 3
    for command in commands:
        done = subprocess.run(
            f"{sys.executable} -m {command}", shell=True, cwd=tmp_path, capture_output=True, check=False, input=b""
        )
        assert done.returncode == 0, command


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md")),
    ],
)
def test_links_between_pages_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/*.md")), ids=lambda path: path.name)
def test_dotted_names_on_the_pages_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = set(re.findall(r"\bsatchel(?:\.[A-Za-z_]\w*)+", text))
    for module, imported in re.findall(r"^from (satchel[\w.]*) import (.+)$", text, flags=re.MULTILINE):
        names |= {f"{module}.{name}" for name in imported.split(", ")}
    for name in names:
        pkgutil.resolve_name(name)
