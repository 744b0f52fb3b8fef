"""`satchel runs`: list runs, delete them, or delete their checkpoints."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from satchel.cli.options import AsJson
from satchel.cli.output import TEXT, message, print, print_table
from satchel.cli.result import Result, present, reports
from satchel.errors import RunError, SettingsError
from satchel.text.display import visible

DEFAULT_ROOT = Path("runs")
COLUMNS = {
    "run": TEXT, "task": TEXT, "model": TEXT, "metric": TEXT, "value": ",.4g", "baseline": ",.4g", "size": TEXT,
    "date": TEXT, "status": TEXT,
}  # fmt: skip
METRICS = {"bits_per_byte": "bits/byte", "nats_per_token": "nats/token", "chrf": "chrF"}

Root = Annotated[Path | None, Option(help="Folder that contains the runs (default: runs).")]
Runs = Annotated[
    list[str], Argument(metavar="RUN...", help="Run folders, or names of runs below --root.", show_default=False)
]

app = typer.Typer(
    help="List the runs in a folder: task, model, metric on held-out data, size, date and status.",
    invoke_without_command=True,
)


@app.callback()
def runs(context: typer.Context, root: Root = None, as_json: AsJson = False) -> None:
    """List the runs in a folder: task, model, metric on held-out data, size, date and status."""
    if context.invoked_subcommand is None:
        present(_list(root), as_json=as_json)
    elif as_json:
        raise SettingsError("--json before a command has no effect", "write it after the names of the runs")
    context.obj = root


@app.command()
@reports
def delete(context: typer.Context, runs: Runs, root: Root = None) -> Result:
    """Delete runs. Runs that are being trained and folders with other files are refused; then none is deleted."""
    from satchel.runs.removal import delete_runs

    return _removed("deleted", delete_runs, _paths(runs, root or context.obj))


@app.command()
@reports
def slim(context: typer.Context, runs: Runs, root: Root = None) -> Result:
    """Delete the checkpoints of runs. The models are kept; interrupted trainings can no longer be resumed."""
    from satchel.runs.removal import slim_runs

    return _removed("slimmed", slim_runs, _paths(runs, root or context.obj))


def _list(root: Path | None) -> Result:
    from satchel.runs.listing import RunSummary, list_runs

    folder = root or DEFAULT_ROOT
    if root is not None and not root.is_dir():
        raise SettingsError("there is no such folder", "check the name of --root", where=str(root))
    summaries = list_runs(folder)

    def row(each: RunSummary) -> list[Any]:
        name, value, baseline = each.metric
        metric, baseline_value = (METRICS.get(name, name) if name else None), (baseline["value"] if baseline else None)
        day = each.date.partition("T")[0]
        return [each.run, each.task, each.model, metric, value, baseline_value, _bytes(each.size), day, each.status]

    def show() -> None:
        if summaries:
            print_table(COLUMNS, map(row, summaries))
        else:
            message(f"no runs in {visible(str(folder))}; next: satchel train DATA")
        for each in summaries:
            if each.reason is not None:
                message(f"{each.run} is damaged: {each.reason}")

    return Result(lambda: {"root": str(folder), "runs": [each.document() for each in summaries]}, show)


def _paths(names: Sequence[str], root: Path | None) -> list[Path]:
    """Return the folders of runs, each once: a path, or if it does not exist a name below the root."""
    paths = {}
    for name in names:
        candidates = [Path(name), (root or DEFAULT_ROOT) / name]
        existing = [path for path in candidates if path.exists() or path.is_symlink()]
        if not existing:
            raise RunError("run not found", f"`satchel runs` lists the runs in {root or DEFAULT_ROOT}", where=name)
        paths[existing[0].resolve()] = existing[0]
    return list(paths.values())


def _removed(verb: str, remove: Callable[[Sequence[Path]], list[int]], paths: list[Path]) -> Result:
    """Remove the runs or parts of them; return the bytes that were freed."""
    sizes = remove(paths)
    rows = [{"run": str(path), "bytes": size} for path, size in zip(paths, sizes, strict=True)]

    def show() -> None:
        for path, size in zip(paths, sizes, strict=True):
            print(f"{verb} {visible(str(path))}: {_bytes(size)}")

    return Result(lambda: {verb: rows, "bytes": sum(sizes)}, show)


def _bytes(size: int) -> str:
    """Return a number of bytes as text."""
    units = ["B", "kB", "MB", "GB", "TB"]
    value = float(size)
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.3g} {units[0]}"
