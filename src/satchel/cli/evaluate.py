"""`satchel evaluate`, `score` and `generate`: what a trained model answers."""

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from satchel.cli.options import (
    Columns,
    Delimiter,
    Encoding,
    LabelColumn,
    SourceColumn,
    TagsColumn,
    TargetColumn,
    TextColumn,
    reading,
)
from satchel.cli.output import Progress, emit_json, print_pairs, print_table, say, text_argument

if TYPE_CHECKING:
    from satchel.api import LanguageModel, Translator
    from satchel.evaluation.likelihood import Likelihood
    from satchel.evaluation.recall import Distance

Run = Annotated[str, Argument(metavar="RUN", help="A run folder.")]
AsJson = Annotated[bool, Option("--json", help="Print the result as JSON.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(evaluate)
    app.command()(score)
    app.command()(generate)


def evaluate(
    run: Run,
    data: Annotated[str | None, Argument(help="A file, a folder or -; without it, the run's held-out part.")] = None,
    by: Annotated[
        str | None, Option(help="distance: how well documents' last words are recalled. Translators: length, position.")
    ] = None,
    beam: Annotated[int | None, Option(help="Translators: translations followed at once (4); 1 is greedy.")] = None,
    similarity: Annotated[
        str | None, Option(help="Backpacks: a file or folder of rated pairs of words (SimLex-999 and its like).")
    ] = None,
    errors: Annotated[Path | None, Option(help="Classifiers, taggers: write what was wrong, surest first.")] = None,
    encoding: Encoding = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    tags_column: TagsColumn = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    as_json: AsJson = False,
) -> None:
    """Say how good a model is: perplexity and bits per byte; accuracy, F1 and calibration; BLEU and chrF."""
    from satchel import api
    from satchel.cli import classify, senses
    from satchel.errors import SettingsError

    changes = reading(
        columns,
        delimiter,
        encoding=encoding,
        text_column=text_column,
        label_column=label_column,
        tags_column=tags_column,
        source_column=source_column,
        target_column=target_column,
    )
    if similarity is not None:
        if data is not None or by is not None or errors is not None:
            raise SettingsError("--similarity compares words, and takes no text", "give one of them")
        senses.show_agreement(api.load_model(run), similarity, as_json)
        return
    with Progress() as progress:
        model = api.load_model(run)
        if isinstance(model, api.Translator):
            tell = _translations(model, data, by, {} if beam is None else {"beam": beam}, errors, changes, progress)
        elif beam is not None:
            raise SettingsError("--beam is for translators", "leave it out")
        elif by is not None:
            found = by_distance(model, data, by, changes, progress)
        elif not isinstance(model, api.LanguageModel):
            judged = model.judge(data, reading=changes, progress=progress)
        elif errors is not None:
            raise SettingsError(
                "--errors is for classifiers and taggers", "`satchel score` shows what each token of a text costs"
            )
        else:
            result = model.evaluate(data, reading=changes, progress=progress)
    if isinstance(model, api.Translator):
        tell(as_json)
        return
    if by is not None:
        _show_distances(found, as_json)
        return
    if not isinstance(model, api.LanguageModel):
        classify.show_evaluation(model, judged, errors, as_json)
        return
    if as_json:
        emit_json(evaluation_json(model, result))
        return
    print_pairs(_evaluation_pairs(result))
    if "order" in result.notes:
        print()
        orders = result.notes["order"]
        print_table(
            ["answered by", "tokens", "share"],
            [[f"order {n}", f"{count:,}", f"{count / result.tokens:.1%}"] for n, count in orders.items()],
            right=(1, 2),
        )


def _translations(
    model: "Translator",
    data: str | None,
    by: str | None,
    options: dict[str, Any],
    errors: Path | None,
    changes: dict[str, Any],
    progress: Progress,
) -> Callable[[bool], None]:
    """Return what tells how good a translator is."""
    from satchel.cli import translate
    from satchel.errors import SettingsError

    if errors is not None:
        raise SettingsError("--errors is for classifiers and taggers", "`satchel translate --input` writes every row")
    if by is None:
        found = model.evaluate(data, reading=changes, progress=progress, **options)
        return lambda as_json: translate.show_evaluation(model, found, as_json)
    if by not in ("length", "position"):
        raise SettingsError(f"--by {by}: found no such way to part translations", "expected length or position")
    if by == "length":
        buckets = model.by_length(data, reading=changes, progress=progress, **options)
    else:
        buckets = model.by_position(data, reading=changes, progress=progress)
    return lambda as_json: translate.show_buckets(buckets, by, as_json)


def by_distance(model: Any, data: str | None, by: str, changes: dict[str, Any], progress: Progress) -> "list[Distance]":
    """Return how well the last word of each document is recalled, by how far away it stood before."""
    from satchel import api
    from satchel.errors import SettingsError

    if by != "distance":
        raise SettingsError(f"--by {by}: found no such way to part a text", "expected distance")
    if not isinstance(model, api.LanguageModel):
        raise SettingsError("--by distance is for language models", "`evaluate` says how labels and tags fare")
    return model.recall(data, reading=changes, progress=progress)


def _show_distances(found: "list[Distance]", as_json: bool) -> None:
    if as_json:
        emit_json({"by": "distance", "rows": [asdict(each) for each in found]})
        return
    print_table(
        ["words between", "documents", "recalled", "nats"],
        [
            [f"{each.nearest} to {each.farthest}", f"{each.documents:,}", f"{each.accuracy:.1%}", f"{each.nats:.3f}"]
            for each in found
        ],
        right=(0, 1, 2, 3),
    )


def evaluation_json(model: "LanguageModel", result: "Likelihood") -> dict[str, Any]:
    """Return the keys of `evaluate --json` for language models."""
    return {
        "task": "lm",
        "model": model.settings.model.kind,
        "tokens": result.tokens,
        "unknown": result.unknown,
        "bytes": result.bytes,
        "characters": result.characters,
        "nats_per_token": result.nats_per_token,
        "perplexity": result.perplexity,
        "bits_per_byte": result.bits_per_byte,
        "bits_per_character": result.bits_per_character,
        "context": result.context,
        "impossible": result.impossible,
        "notes": result.notes,
    }


def _evaluation_pairs(result: "Likelihood") -> list[tuple[str, str]]:
    def number(value: float | None, digits: int) -> str:
        if value is None:
            return "-  (the tokenizer does not keep all of this text)"
        return f"{value:,.{digits}f}" if math.isfinite(value) else "infinite"

    pairs = [
        ("tokens", f"{result.tokens:,}" + (f", {result.unknown:,} unknown" if result.unknown else "")),
        ("nats per token", number(result.nats_per_token, 4)),
        ("perplexity", number(result.perplexity, 2)),
        ("bits per byte", number(result.bits_per_byte, 4)),
        ("bits per character", number(result.bits_per_character, 4)),
        ("context", result.context),
    ]
    if result.impossible:
        pairs.append(("impossible", f"{result.impossible:,} tokens had no probability at all"))
    return pairs


def score(
    run: Run,
    text: Annotated[str | None, Argument(help="The text in quotes, or - for standard input.")] = None,
    target: Annotated[str | None, Option(help="Translators: the translation to score.")] = None,
    as_json: AsJson = False,
) -> None:
    """Give the log-probability of every token of a text, or of a translation of it."""
    from satchel import api
    from satchel.text.display import visible

    if target is not None:
        result = api.load_translator(run).score(text_argument(text), target)
    else:
        result = api.load_language_model(run).score(text_argument(text))
    notes = {name: values.tolist() for name, values in result.notes.items()}
    rows = list(zip(result.tokens, result.ids, result.logprobs.tolist(), strict=True))
    if as_json:
        tokens = [
            {
                # The notes come first: a part of a mix may have any name, and the promised keys win.
                **{name: values[index] for name, values in notes.items()},
                "text": token,
                "id": id_,
                "logprob": logprob,
            }
            for index, (token, id_, logprob) in enumerate(rows)
        ]
        emit_json({"tokens": tokens, "total_logprob": result.total_logprob, "perplexity": result.perplexity})
        return
    print_table(
        ["token", "logprob", "probability", *notes],
        [
            [
                visible(token, spaces=True),
                f"{logprob:.4f}",
                f"{math.exp(logprob):.4g}",
                *(f"{values[i]:.3f}" if isinstance(values[i], float) else values[i] for values in notes.values()),
            ]
            for i, (token, _, logprob) in enumerate(rows)
        ],
        right=range(1, 3 + len(notes)),
    )
    print_pairs([("total", f"{result.total_logprob:.4f}"), ("perplexity", f"{result.perplexity:,.2f}")])


def generate(
    run: Run,
    prompt: Annotated[str, Argument(help="What to continue, or - for standard input.")] = "",
    tokens: Annotated[int, Option(help="The most tokens to add.")] = 100,
    temperature: Annotated[float, Option(help="Below 1 sharper, above 1 flatter, 0 greedy.")] = 1.0,
    top_k: Annotated[int | None, Option(help="Only the K likeliest tokens.")] = None,
    top_p: Annotated[float | None, Option(help="Only the likeliest tokens that reach this mass.")] = None,
    min_p: Annotated[float | None, Option(help="Only tokens this likely, relative to the likeliest.")] = None,
    stop: Annotated[list[str] | None, Option(help="End where this text appears; may be repeated.")] = None,
    samples: Annotated[int, Option(help="How many continuations.")] = 1,
    seed: Annotated[int, Option(help="What the draws depend on.")] = 0,
    greedy: Annotated[bool, Option("--greedy", help="Always the likeliest token.")] = False,
    as_json: AsJson = False,
) -> None:
    """Continue a prompt."""
    from satchel import api
    from satchel.text.display import safe

    prompt = text_argument(prompt, "PROMPT")
    options: dict[str, Any] = {
        "tokens": tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "stop": stop or [],
        "samples": samples,
        "seed": seed,
        "greedy": greedy,
    }
    model = api.load_language_model(run)
    if samples == 1 and not as_json:
        _write_as_it_comes(model, prompt, options)
        return
    with Progress() as progress:
        result = model.generate(prompt, progress=progress, **options)
    if as_json:
        listed = [
            {"text": sample.text, "tokens": len(sample.ids), "finish": sample.finish} for sample in result.samples
        ]
        emit_json({"prompt": prompt, "samples": listed, "tokens_per_second": round(result.tokens_per_second, 1)})
        return
    for number, sample in enumerate(result.samples):
        say(f"--- sample {number + 1} ({sample.finish})")
        print(safe(prompt + sample.text))


def _write_as_it_comes(model: "LanguageModel", prompt: str, options: dict[str, Any]) -> None:
    """Print a continuation while it is written."""
    from satchel.text.display import safe

    shown: str | None = None  # nothing: what is wrong with the options is told before the prompt is printed

    def show(text: str) -> None:
        nonlocal shown
        new = prompt + text if shown is None else text[len(shown) :]
        print(safe(new), end="", flush=True)
        shown = text

    result = model.generate(prompt, on_text=show, **options)
    show(result.text)
    print()
