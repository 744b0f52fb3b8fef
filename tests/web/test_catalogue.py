"""Ids of runs and data files."""

import shutil
from pathlib import Path

import pytest

from satchel.errors import DataError
from satchel.web.catalogue import Catalogue
from satchel.web.errors import ConflictError, InvalidFieldError, NotFoundError


@pytest.fixture
def catalogue(root: Path, tmp_path: Path) -> Catalogue:
    """A root with the runs lstm and group/lstm, and three other runs with the same name."""
    for name in ("runs/lstm", "runs/group/lstm", "a/lstm", "b/lstm"):
        shutil.copytree(root / "runs/ngram", tmp_path / name)
    return Catalogue(tmp_path / "runs", [tmp_path / "a/lstm", tmp_path / "b/lstm", tmp_path / "runs/lstm"])


def test_runs_below_the_root_are_named_by_their_path_and_others_by_their_folder(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    paths = {"lstm": "runs/lstm", "group/lstm": "runs/group/lstm", "lstm-2": "a/lstm", "lstm-3": "b/lstm"}
    assert [each["run"] for each in catalogue.list_runs()] == sorted(paths)
    for name, path in paths.items():
        assert catalogue.run(name) == tmp_path / path
        assert catalogue.run_id(tmp_path / path) == name


@pytest.mark.parametrize("name", ["", ".", "..", "group", "lstm/", "/lstm", "group/../lstm", "@model:lstm", "a/lstm"])
def test_other_names_are_not_found(catalogue: Catalogue, name: str) -> None:
    with pytest.raises(NotFoundError):
        catalogue.run(name)


def test_only_runs_below_the_root_can_be_changed(catalogue: Catalogue, tmp_path: Path) -> None:
    assert catalogue.changeable_run("group/lstm") == tmp_path / "runs/group/lstm"
    with pytest.raises(ConflictError):
        catalogue.changeable_run("lstm-2")


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", ".x", "-x", "x/", "a/b/c/d/e", "lstm/x", "@model:x", "x y"])
def test_a_new_run_has_a_simple_name_outside_of_other_runs(catalogue: Catalogue, name: str) -> None:
    with pytest.raises(InvalidFieldError):
        catalogue.new_run(name)


def test_the_name_of_a_new_run_is_not_taken(catalogue: Catalogue, tmp_path: Path) -> None:
    assert catalogue.new_run("group/new") == tmp_path / "runs/group/new"
    for name in ("lstm", "lstm-2", "group"):
        with pytest.raises(ConflictError):
            catalogue.new_run(name)


def test_folders_of_data_with_the_same_name_have_different_ids(tmp_path: Path) -> None:
    for name in ("a/data", "b/data"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.txt").write_text(name)
    catalogue = Catalogue(tmp_path, data=[tmp_path / "a/data", tmp_path / "b/data", tmp_path / "a/data"])
    assert [each["name"] for each in catalogue.list_data() if each["bytes"]] == ["data/x.txt", "data-2/x.txt"]
    assert catalogue.data("data-2/x.txt") == tmp_path / "b/data/x.txt"
    assert catalogue.data("data/x.txt,data-2/x.txt") == f"{tmp_path}/a/data/x.txt,{tmp_path}/b/data/x.txt"
    with pytest.raises(DataError):
        Catalogue(tmp_path, data=[tmp_path / "a/data/x.txt"])
