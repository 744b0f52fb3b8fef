"""`satchel data`, `tokenize`, `info`, `export` and `import`: files in and out."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from satchel.cli.evaluate import AsJson, Run
from satchel.cli.options import Columns, Delimiter, Encoding, EncodingErrors, LabelColumn, TextColumn, reading
from satchel.cli.output import Progress, emit_json, print_pairs, print_table, say, text_argument


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(data)
    app.command()(tokenize)
    app.command()(info)
    app.command()(export)
    app.command("import")(import_)


def data(
    name: Annotated[str | None, Argument(help="A file, a folder, two aligned files, - or a built-in.")] = None,
    valid: Annotated[str | None, Option(help="Another file: say how much of it is in the first.")] = None,
    settings: Annotated[list[str] | None, Option("--set", help="A setting, such as data.size=100.")] = None,
    encoding: Encoding = None,
    encoding_errors: EncodingErrors = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    tags_column: Annotated[str | None, Option(help="The column that holds the tags.")] = None,
    source_column: Annotated[str | None, Option(help="The column that is translated.")] = None,
    target_column: Annotated[str | None, Option(help="The column that holds the translation.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the built-in data, or check a file before training on it."""
    from satchel import config
    from satchel.datasets import report
    from satchel.datasets.builtin import BUILTINS
    from satchel.datasets.corpora import open_corpus
    from satchel.text.display import visible
    from satchel.text.reading import DataSettings

    if name is None:
        listed = [{"name": item.name, "task": item.task, "title": item.title} for item in BUILTINS.values()]
        if as_json:
            emit_json({"data": listed})
        else:
            print_table(["name", "task", "what it is"], [[*row.values()] for row in listed])
        return
    tree: config.Tree = config.parse_assignments(settings or [])
    given = reading(
        columns,
        delimiter,
        encoding=encoding,
        encoding_errors=encoding_errors,
        text_column=text_column,
        label_column=label_column,
        tags_column=tags_column,
        source_column=source_column,
        target_column=target_column,
    )
    for key, value in given.items():
        config.place(tree, f"data.{key}", value)
    chosen = config.build(report.ReportSettings, tree).data
    with Progress() as progress:
        corpus = open_corpus(name, chosen)
        other = open_corpus(valid, chosen) if valid is not None else None
        found = report.describe(corpus, other, lambda stage: progress(stage, None))
    assert isinstance(chosen, DataSettings)
    if as_json:
        emit_json(found)
        return
    print(f"{visible(name)}: data for the task {found['task']}")
    print_pairs(
        (key.replace("_", " "), visible(_shown(value))) for key, value in found.items() if key not in ("task", "labels")
    )
    if found.get("labels"):
        print()
        total = sum(found["labels"].values())
        print_table(
            ["label", "rows", "share"],
            [[visible(label), f"{count:,}", f"{count / total:.1%}"] for label, count in found["labels"].items()],
            right=(1, 2),
        )


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value)) or "-"
    return f"{value:,}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def tokenize(
    tokenizer: Annotated[str, Argument(metavar="RUN|TOKENIZER.JSON", help="A run folder or a tokenizer.json.")],
    text: Annotated[str | None, Argument(help="The text in quotes, or - for standard input.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens of a text."""
    from satchel.text.display import visible
    from satchel.text.tokenizer import load_tokenizer

    loaded = load_tokenizer(Path(tokenizer))
    content = text_argument(text)
    encoding = loaded.encode(content)
    tokens = [{"text": loaded.text_of(int(id_)), "id": int(id_)} for id_ in encoding.ids]
    if as_json:
        emit_json(
            {
                "kind": loaded.kind,
                "size": loaded.size,
                "tokens": tokens,
                "unknown": encoding.unknown,
                "lossless": encoding.lossless,
                "characters": len(content),
                "bytes": len(content.encode()),
            }
        )
        return
    print(" ".join(f"{visible(str(token['text']), spaces=True)}" for token in tokens))
    kept = "" if encoding.lossless else "; decoding does not give back all of the text"
    say(f"{len(tokens):,} tokens, {encoding.unknown:,} unknown ({loaded.kind}, {loaded.size:,} in all){kept}")


def info(
    name: Annotated[
        str | None,
        Argument(
            metavar="[RUN|FILE.TOML|PRESET]", help="A run, a file of settings, gpt3, gpt3-small, vaswani, backpack, ..."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a run, what a network would cost, or this installation."""
    from satchel.api.info import describe

    found = describe(name)
    if as_json:
        emit_json(found)
        return
    from satchel.config import flatten
    from satchel.text.display import visible

    tables = {key: found.pop(key) for key in ("components", "presets") if key in found}
    names = found.pop("sites", [])
    print_pairs((key, visible(_shown(value))) for key, value in flatten(found))
    if names:
        print(f"\nsites (satchel look, model.trace): {', '.join(_numbered(names))}")
    for rows in tables.values():
        print()
        _print_rows(rows)


def _numbered(names: list[str]) -> list[str]:
    """Return names that differ in a number only as one: blocks.0-5.output."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in names:
        parts = re.match(r"(.*?)\.(\d+)\.(.*)", name)
        before, number, after = parts.groups() if parts else (name, "", "")
        found.setdefault((before, after), []).append(number)
    return [
        f"{before}.{numbers[0]}{f'-{numbers[-1]}' if len(numbers) > 1 else ''}.{after}" if after else before
        for (before, after), numbers in found.items()
    ]


def _print_rows(rows: list[dict[str, Any]]) -> None:
    """Print a table of numbers, shares as per cent, and the notes below it."""
    columns = [name for name in rows[0] if name != "note"]
    numbers = [place for place, name in enumerate(columns) if not isinstance(rows[0][name], str)]
    print_table(
        [name.replace("_", " ") for name in columns], [[_cell(row[name]) for name in columns] for row in rows], numbers
    )
    for row in rows:
        if row.get("note"):
            say(f"{row['name']}: {row['note']}")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.1%}"
    if isinstance(value, int) and value >= 10_000_000:
        return f"{value / 1e9:,.2f} B" if value >= 1_000_000_000 else f"{value / 1e6:,.1f} M"
    return f"{value:,}" if isinstance(value, int) else str(value)


def export(
    run: Run,
    to: Annotated[str, Option(help="arpa.")],
    out: Annotated[Path, Option("-o", "--out", help="The file to write.")],
) -> None:
    """Write a model in the format of another tool."""
    from satchel import api
    from satchel.errors import SettingsError

    if to != "arpa":
        raise SettingsError(f"--to {to}: found no such format", "expected arpa")
    with Progress() as progress:
        path = api.load_language_model(run).export_arpa(out, progress=progress)
    say(f"wrote {path} ({path.stat().st_size:,} bytes)")


def import_(
    source: Annotated[str, Argument(metavar="FILE.ARPA", help="An n-gram model of another tool.")],
    out: Annotated[Path, Option("-o", "--out", help="The run folder to write.")],
    tokenizer: Annotated[str, Option(help="What its words are: word, char, a run or a tokenizer.json.")] = "word",
    force: Annotated[bool, Option("--force", help="Replace the run that is there.")] = False,
) -> None:
    """Make a run of a model from another tool."""
    from satchel import api

    with Progress() as progress:
        model = api.import_arpa(source, out, tokenizer=tokenizer, force=force, progress=progress)
    say(
        f"{out}: an n-gram model, {model.tokenizer.size:,} tokens, {_shown(model.run.facts['ngrams'])} n-grams by order"
    )
    say(f"next: satchel evaluate {out} FILE")
