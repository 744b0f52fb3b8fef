"""`satchel info`: sizes and settings of a run, costs of a network, or versions of this installation."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from typer import Argument, Option

from satchel.cli.data import number_text
from satchel.cli.output import TEXT, Progress, message, print, print_fields, print_table
from satchel.cli.result import View, view
from satchel.errors import SettingsError
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.training.speed import SpeedReport

PANEL = "satchel info speed"


@view
def info(
    name: Annotated[
        str | None,
        Argument(
            metavar="[RUN|FILE.TOML|PRESET|speed]",
            help="Run folder, settings file, or published model: gpt3, gpt3-small, vaswani, backpack, ...; "
            "speed: measure tokens per second of networks of equal size.",
        ),
    ] = None,
    tensors: Annotated[
        bool, Option("--tensors", help="List name, shape, dtype and meaning of each tensor of a run.")
    ] = False,
    models: Annotated[
        str | None,
        Option(help="Kinds of networks, separated by commas (default lstm,transformer).", rich_help_panel=PANEL),
    ] = None,
    lengths: Annotated[
        str | None, Option(help="Lengths of sequences in tokens (default 64,256,1024).", rich_help_panel=PANEL)
    ] = None,
    parameters: Annotated[
        int | None, Option(help="Number of parameters of each network (default 1,000,000).", rich_help_panel=PANEL)
    ] = None,
    rounds: Annotated[int | None, Option(help="Number of measurements (default 3).", rich_help_panel=PANEL)] = None,
    threads: Annotated[
        int | None, Option(help="Number of CPU threads (default: chosen by torch).", min=1, rich_help_panel=PANEL)
    ] = None,
) -> View:
    """Print settings, parameters and FLOPs per token of a run or of a planned network; without NAME the versions.

    `satchel info speed` measures the tokens per second of training and decoding of networks of equal size.
    """
    from satchel.api.info import describe

    options = {"models": models, "lengths": lengths, "parameters": parameters, "rounds": rounds, "threads": threads}
    given = {option: value for option, value in options.items() if value is not None}
    if name == "speed" and not Path(name).exists():
        return _speed(given)
    if given:
        raise SettingsError(f"--{next(iter(given))} applies to `satchel info speed` only", "remove it")
    if tensors:
        return _tensors(name)
    tree = describe(name)
    return View(_no_figure, lambda: tree, lambda: _show(tree))


def _no_figure() -> NoReturn:
    raise SettingsError("-o writes the figure of `satchel info speed` only", "use --json for the other values")


def _speed(options: dict[str, Any]) -> View:
    from satchel.api.info import measure_speed

    if "models" in options:
        options["kinds"] = options.pop("models").split(",")
    if "lengths" in options:
        options["lengths"] = [_length(text) for text in options["lengths"].split(",")]
    with Progress() as progress:
        report = measure_speed(note=progress.note, progress=lambda done: progress("measuring", done), **options)
    return View(report.picture, report.document, lambda: _show_speed(report))


def _length(text: str) -> int:
    if not text.strip().isdecimal():
        raise SettingsError(f"--lengths: found {text!r}, expected numbers of tokens separated by commas")
    return int(text)


def _show_speed(report: "SpeedReport") -> None:
    sizes = {model.kind: model for model in report.models}
    print_table(
        {"model": TEXT, "parameters": ",", "length": ",", "training tokens/s": ",.0f", "decoding tokens/s": ",.0f"},
        [[each.kind, sizes[each.kind].parameters, each.length, each.training, each.decoding] for each in report.speeds],
    )
    print()
    for statement in report.statements():
        print(statement)
    message(
        f"{report.conditions}; numbers of parameters differ by at most {report.difference:.1%}; "
        f"measured in {report.seconds:.0f} s"
    )


def _tensors(name: str | None) -> View:
    from satchel.api.info import describe_tensors

    if name is None:
        raise SettingsError("--tensors needs a run", "name a run folder")
    rows = describe_tensors(name)
    columns = dict.fromkeys(("name", "shape", "dtype", "meaning"), TEXT)
    return View(
        _no_figure,
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
