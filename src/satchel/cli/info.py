"""`satchel info`: sizes and settings of a run, costs of a network, or versions of this installation."""

import re
from typing import Annotated, Any

from typer import Argument, Option

from satchel.cli.data import number_text
from satchel.cli.output import TEXT, message, print, print_fields, print_table
from satchel.cli.result import Result, reports
from satchel.errors import SettingsError
from satchel.text.display import visible


@reports
def info(
    name: Annotated[
        str | None,
        Argument(
            metavar="[RUN|FILE.TOML|PRESET]",
            help="Run folder, settings file, or published model: gpt3, gpt3-small, vaswani, backpack, ...",
        ),
    ] = None,
    tensors: Annotated[
        bool, Option("--tensors", help="List name, shape, dtype and meaning of each tensor of a run.")
    ] = False,
) -> Result:
    """Print settings, parameters and FLOPs per token of a run or of a planned network; without NAME the versions."""
    from satchel.api.info import describe

    if tensors:
        return _tensors(name)
    tree = describe(name)
    return Result(lambda: tree, lambda: _show(tree))


def _tensors(name: str | None) -> Result:
    from satchel.api.info import describe_tensors

    if name is None:
        raise SettingsError("--tensors needs a run", "name a run folder")
    rows = describe_tensors(name)
    columns = dict.fromkeys(("name", "shape", "dtype", "meaning"), TEXT)
    return Result(
        lambda: {"run": name, "tensors": rows},
        lambda: print_table(columns, [[row[key] for key in columns] for row in rows]),
    )


def _show(tree: dict[str, Any]) -> None:
    from satchel.config import flatten

    tables = [tree.pop(key) for key in ("components", "presets") if key in tree]
    sites = tree.pop("sites", [])
    print_fields((key, visible(number_text(value))) for key, value in flatten(tree))
    if sites:
        print(f"\nsites (satchel look, model.trace): {', '.join(_merge_numbers(sites))}")
    for rows in tables:
        print()
        _print_rows(rows)


def _merge_numbers(names: list[str]) -> list[str]:
    """Return names that differ only in a number as one name: blocks.0-5.output."""
    numbers: dict[tuple[str, str], list[str]] = {}
    for name in names:
        match = re.match(r"(.*?)\.(\d+)\.(.*)", name)
        before, number, after = match.groups() if match else (name, "", "")
        numbers.setdefault((before, after), []).append(number)
    return [
        f"{before}.{group[0]}{f'-{group[-1]}' if len(group) > 1 else ''}.{after}" if after else before
        for (before, after), group in numbers.items()
    ]


def _print_rows(rows: list[dict[str, Any]]) -> None:
    """Print a table of names, counts and shares, and the notes of its rows."""
    names = [name for name in rows[0] if name != "note"]
    columns = {name.replace("_", " "): TEXT if isinstance(rows[0][name], str) else ">" for name in names}
    print_table(columns, [[_number(row[name]) for name in names] for row in rows])
    for row in rows:
        if row.get("note"):
            message(f"{row['name']}: {row['note']}")


def _number(value: Any) -> str:
    """Return a share as per cent, and a large count in millions (M) or billions (B)."""
    if isinstance(value, float):
        return f"{value:.1%}"
    if isinstance(value, int) and value >= 10_000_000:
        return f"{value / 1e9:,.2f} B" if value >= 1_000_000_000 else f"{value / 1e6:,.1f} M"
    return f"{value:,}" if isinstance(value, int) else str(value)
