"""Recipes: TOML files of settings with measured results; some are part of the package."""

from pathlib import Path

from satchel import config
from satchel.errors import SettingsError

RECIPES = {path.stem: path for path in sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))}


def read_recipe(name: str) -> config.Tree:
    """Return the settings of a recipe: the name of a built-in recipe, or the path of a .toml file."""
    if name in RECIPES:
        return config.read_toml(RECIPES[name])
    if not name.endswith(".toml") and not Path(name).exists():
        raise SettingsError(f"recipe {name} not found", f"use {', '.join(RECIPES)}, or the path of a .toml file")
    return config.read_toml(Path(name))
