"""Recipes: files of settings with a measured result, some of them part of the package."""

from pathlib import Path

from satchel import config
from satchel.errors import SettingsError

RECIPES = {path.stem: path for path in sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))}


def read_recipe(name: str) -> config.Tree:
    """Return the settings of a recipe: one of the package's by its name, or a .toml file."""
    if name in RECIPES:
        return config.read_toml(RECIPES[name])
    if not name.endswith(".toml") and not Path(name).exists():
        raise SettingsError(f"there is no recipe {name}", f"there is {', '.join(RECIPES)}; or name a .toml file")
    return config.read_toml(Path(name))
