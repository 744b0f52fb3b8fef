"""`satchel runs`: listing, deletion, removal of checkpoints."""

import json
import shutil
from pathlib import Path

import pytest

from satchel import durable
from tests.cli.conftest import Cli, json_of


@pytest.fixture
def root(cli: Cli, verses: Path, runs: dict[str, Path], tmp_path: Path) -> Path:
    """A folder with runs at two levels, one of them damaged."""
    folder = tmp_path / "runs"
    for name in ("ngram", "transformer", "tagger"):
        shutil.copytree(runs[name], folder / name)
    shutil.copytree(runs["ngram"], folder / "group" / "damaged")
    (folder / "group" / "damaged" / "model.safetensors").write_bytes(b"")
    (folder / "notes").mkdir()
    return folder


def test_runs_are_listed_with_task_model_metric_size_and_date(cli: Cli, root: Path) -> None:
    listed = {each["run"]: each for each in json_of(cli, "runs", "--root", root)["runs"]}
    assert list(listed) == ["group/damaged", "ngram", "tagger", "transformer"]
    ngram, tagger = listed["ngram"], listed["tagger"]
    assert (ngram["task"], ngram["model"], ngram["metric"], ngram["status"]) == (
        "lm", "ngram", "perplexity", "complete",
    )  # fmt: skip
    assert (tagger["task"], tagger["metric"]) == ("tag", "accuracy")
    for each in listed.values():
        assert each["size"] == sum(path.stat().st_size for path in (root / each["run"]).rglob("*") if path.is_file())
        assert each["date"].endswith("Z")
    assert {"name", "value"} <= set(tagger["baseline"])
    assert tagger["checkpoints"]["number"] == len(list((root / "tagger" / "checkpoints").glob("step-*"))) > 0
    assert (listed["group/damaged"]["status"], ngram["reason"]) == ("damaged", None)
    assert "model.safetensors" in listed["group/damaged"]["reason"]


def test_the_table_has_a_row_for_each_run(cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)
    monkeypatch.setenv("COLUMNS", "200")
    code, printed, messages = cli("runs")
    assert code == 0
    assert [line.split()[0] for line in printed.splitlines()[1:] if line[:1].strip()] == [
        "group/damaged", "ngram", "tagger", "transformer",
    ]  # fmt: skip
    assert "group/damaged is damaged" in messages
    monkeypatch.chdir(root / "notes")
    code, printed, messages = cli("runs")
    assert (code, printed) == (0, "")
    assert "no runs" in messages
    assert cli("runs", "--root", "absent")[0] == 2


def test_runs_are_deleted_by_name_or_path(cli: Cli, root: Path) -> None:
    deleted = json_of(cli, "runs", "delete", "group/damaged", root / "ngram", "--root", root)
    assert [Path(each["run"]) for each in deleted["deleted"]] == [root / "group/damaged", root / "ngram"]
    assert deleted["bytes"] == sum(each["bytes"] for each in deleted["deleted"]) > 0
    assert not (root / "ngram").exists()
    assert {each["run"] for each in json_of(cli, "runs", "--root", root)["runs"]} == {"tagger", "transformer"}


def test_nothing_is_deleted_if_a_run_is_being_trained_or_a_folder_has_other_files(cli: Cli, root: Path) -> None:
    with durable.locked(root / "tagger"):
        assert cli("runs", "delete", "ngram", "tagger", "--root", root)[0] != 0
    (root / "transformer" / "thesis.txt").write_text("a")
    for names in (["ngram", "transformer"], ["ngram", "notes"], ["ngram", "absent"]):
        code, _, messages = cli("runs", "delete", *names, "--root", root)
        assert code == 2
        assert names[1] in messages
    (root / "link").symlink_to(root / "tagger")
    assert cli("runs", "delete", "link", "--root", root)[0] == 2
    assert all((root / name).exists() for name in ("ngram", "tagger", "transformer/thesis.txt", "notes"))


def test_slim_deletes_checkpoints_and_keeps_the_model(cli: Cli, root: Path) -> None:
    before = cli("evaluate", root / "transformer", "--json")[1]
    slimmed = json_of(cli, "runs", "slim", "transformer", "--root", root)
    assert slimmed["bytes"] == slimmed["slimmed"][0]["bytes"] > 0
    assert not (root / "transformer" / "checkpoints").exists()
    assert json.loads(cli("evaluate", root / "transformer", "--json")[1]) == json.loads(before)
    assert json_of(cli, "runs", "slim", "transformer", "--root", root)["bytes"] == 0
    code, _, messages = cli("train", "--resume", root / "transformer")
    assert code == 2
    assert "checkpoint" in messages
