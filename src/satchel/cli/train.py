"""`satchel train` and `satchel demo`."""

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from satchel.cli.options import (
    Columns,
    Delimiter,
    Encoding,
    EncodingErrors,
    LabelColumn,
    SourceColumn,
    TagsColumn,
    TargetColumn,
    TextColumn,
    reading,
)
from satchel.cli.output import Progress, emit_json, print_pairs, print_table, say
from satchel.torchrun import launch

if TYPE_CHECKING:
    from satchel.api import LanguageModel, Plan
    from satchel.api.load import AnyModel
    from satchel.charts.figures import Figure
    from satchel.evaluation.classification import ClassificationMetrics
    from satchel.evaluation.likelihood import Likelihood
    from satchel.evaluation.translation import TranslationMetrics


# What the demonstration looks at.
DEMO_WORDS = ("file", "string", "new")
DEMO_TEXT = "Return the name of the"


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(demo)
    app.command()(train)


def train(
    data: Annotated[
        str | None, Argument(help="A file, a folder, two aligned files (a,b), - or a built-in (@python-docs).")
    ] = None,
    task: Annotated[
        str | None, Option(help="lm, tag, classify or translate; without it, what the data is for.")
    ] = None,
    model: Annotated[str | None, Option(help="ngram, dan, window, rnn, gru, lstm, transformer or backpack.")] = None,
    size: Annotated[str | None, Option(help="Of a network: nano, tiny, micro, mini or small.")] = None,
    recipe: Annotated[str | None, Option(help="The name of a recipe (imdb-ngram), or a .toml file.")] = None,
    tokenizer: Annotated[
        str | None, Option(help="char, byte, word, bpe:N, unigram:N, a run, or a tokenizer.json.")
    ] = None,
    valid: Annotated[str | None, Option(help="A file, or the fraction to hold out.")] = None,
    settings: Annotated[list[str] | None, Option("--set", help="A setting, such as model.order=5.")] = None,
    minutes: Annotated[float | None, Option(help="How long a network is trained.")] = None,
    steps: Annotated[int | None, Option(help="How many updates a network gets.")] = None,
    epochs: Annotated[float | None, Option(help="How often a network reads the text.")] = None,
    seed: Annotated[int | None, Option(help="What every random choice depends on.")] = None,
    threads: Annotated[int | None, Option(help="Threads of the processor for a network.")] = None,
    device: Annotated[str | None, Option(help="auto, cpu, cuda or mps.")] = None,
    start: Annotated[Path | None, Option("--from", help="A run whose weights to begin with, for any task.")] = None,
    resume: Annotated[Path | None, Option(help="A run to go on with, exactly where it stopped.")] = None,
    encoding: Encoding = None,
    encoding_errors: EncodingErrors = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    tags_column: TagsColumn = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the settings and estimates, and stop.")] = False,
    out: Annotated[Path | None, Option("-o", "--out", help="The run folder to write (runs/NAME).")] = None,
    force: Annotated[bool, Option("--force", help="Replace the run that is there.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a model on a text or a table; it becomes a run folder."""
    from satchel import api, config
    from satchel.errors import SettingsError

    if (data is None) == (resume is None):
        raise SettingsError("found no DATA, or both DATA and --resume", "name what to train on, or a run to go on with")
    if resume is not None:
        others = {
            "--task": task, "--model": model, "--size": size, "--recipe": recipe, "--tokenizer": tokenizer,
            "--valid": valid, "--set": settings, "--minutes": minutes, "--steps": steps, "--epochs": epochs,
            "--seed": seed, "--threads": threads, "--device": device, "--from": start, "--out": out,
            "--force": force, "--dry-run": dry_run, "--encoding": encoding, "--encoding-errors": encoding_errors,
            "--columns": columns, "--delimiter": delimiter, "--text-column": text_column,
            "--label-column": label_column, "--tags-column": tags_column, "--source-column": source_column,
            "--target-column": target_column,
        }  # fmt: skip
        given = [name for name, value in others.items() if value not in (None, False)]
        if given:
            raise SettingsError(f"{given[0]}: a run goes on with the settings it has", "--from begins a new one")
        with Progress() as progress, Stopping() as stopping:
            gone_on = api.resume(
                resume, progress=progress, note=progress.note, should_stop=stopping, begins=stopping.arm
            )
        for reason in gone_on.report.reasons if gone_on.report else ():
            say(reason)
        _finish(gone_on, stopping, as_json)
        return
    assert data is not None
    tree = config.parse_assignments(settings or [])
    data_settings = reading(
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
    for key, value in data_settings.items():
        config.place(tree, f"data.{key}", value)
    planned = api.plan(
        data,
        task=task,
        model=model,
        recipe=recipe,
        tokenizer=tokenizer,
        valid=_valid(valid),
        seed=seed,
        size=size,
        minutes=minutes,
        steps=steps,
        epochs=epochs,
        threads=threads,
        device=device,
        start=start,
        settings=tree,
    )
    if dry_run:
        _show_plan(planned, as_json)
        return
    for reason in planned.reasons:
        say(reason)
    trained, stopping = _carry_out(planned, out, force)
    _finish(trained, stopping, as_json)


def _carry_out(planned: "Plan", out: Path | None, force: bool) -> tuple["AnyModel", "Stopping"]:
    """Train as planned, with a line that says how far it is, and signals that save."""
    from satchel import api

    with Progress() as progress, Stopping() as stopping:
        trained = api.run_plan(
            planned,
            out=out,
            force=force,
            progress=progress,
            note=progress.note,
            should_stop=stopping,
            begins=stopping.arm,
        )
    return trained, stopping


class Stopping:
    """Turns a signal into a flag once a training asks for it: it saves and ends; a second signal ends it at once."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        return bool(self.signal)

    def arm(self) -> None:
        """From here on a signal is a flag."""
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}

    def _ask(self, number: int, frame: object) -> None:
        if self.signal:
            os._exit(128 + number)
        self.signal = number

    def __enter__(self) -> "Stopping":
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _finish(trained: "AnyModel", stopping: Stopping, as_json: bool) -> None:
    """Print what came of a training, and leave as it was asked to."""
    if not launch().is_first:
        return
    if as_json:
        emit_json(train_json(trained))
    else:
        _show_report(trained)
    _leave_if_stopped(trained, stopping)


def _leave_if_stopped(trained: "AnyModel", stopping: Stopping) -> None:
    """Leave with a code of its own where a training was stopped, or could not be saved."""
    if trained.report is not None and trained.report.failed_save:
        say(f"the last save failed: {trained.report.failed_save}")
        raise typer.Exit(3)
    if trained.report is not None and trained.report.stopped == "interrupted":
        say(f"saved at step {trained.report.steps:,}; go on with: satchel train --resume {trained.report.run}")
        raise typer.Exit(128 + stopping.signal)


def _valid(text: str | None) -> str | float | None:
    """Return a fraction if that is what was given, else the name of a file."""
    if text is None or Path(text).exists():
        return text
    try:
        return float(text)
    except ValueError:
        return text


def train_json(trained: "AnyModel") -> dict[str, Any]:
    """Return the keys of `train --json`."""
    report = trained.report
    assert report is not None
    return {
        "run": report.run,
        "task": trained.settings.task,
        "model": trained.settings.model.kind,
        "parameters": report.parameters,
        "steps": report.steps,
        "seconds": round(report.seconds, 3),
        "tokens_per_second": round(report.tokens_per_second, 1),
        "train_loss": report.train_loss,
        "valid": _valid_json(trained, report.valid),
        "stopped": report.stopped,
    }


def _valid_json(trained: "AnyModel", valid: Any) -> dict[str, Any] | None:
    from satchel import api
    from satchel.cli import classify, evaluate, translate

    if valid is None:
        return None
    if isinstance(trained, api.Translator):
        return translate.evaluation_json(trained, valid)
    if isinstance(trained, api.LanguageModel):
        return evaluate.evaluation_json(trained, valid)
    return classify.evaluation_json(trained, valid)


def _show_plan(planned: "Plan", as_json: bool) -> None:
    from satchel.config import flatten

    tree = planned.settings.model_dump(mode="json")
    estimates = planned.estimates()
    if as_json:
        emit_json({"settings": tree, "estimates": estimates, "reasons": list(planned.reasons)})
        return
    for key, value in flatten(tree):
        print(f"{key} = {_toml(value)}")
    print()
    print_pairs((name.replace("_", " "), f"{number:,}") for name, number in estimates.items())
    for reason in planned.reasons:
        say(reason)


def _toml(value: object) -> str:
    import json

    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _show_report(trained: "AnyModel") -> None:
    from satchel.text.display import visible

    report, facts = trained.report, trained.run.facts
    assert report is not None
    counts = facts["counts"]
    unknown = f", {counts['unknown']:,} unknown" if counts["unknown"] else ""
    pairs = [
        ("text", f"{counts['characters']:,} characters, {counts['tokens']:,} tokens{unknown}"),
        ("tokenizer", f"{trained.tokenizer.kind}, {trained.tokenizer.size:,} tokens"),
    ]
    if "ngrams" in facts:
        pairs.append(("n-grams", " + ".join(f"{size:,}" for size in facts["ngrams"])))
    if trained.settings.model.kind != "ngram":
        pairs.append(("parameters", f"{report.parameters:,}"))
        pairs.append(("steps", f"{report.steps:,}, {report.tokens_per_second:,.0f} tokens/s ({report.stopped})"))
    if trained.settings.task == "translate":
        pairs = [("pairs", f"{counts['documents']:,}{_left_out(trained)}"), *_sides(trained), *pairs[1:]]
    elif trained.settings.task != "lm":
        most = max(facts["rows_by_label"])
        what = "label" if trained.settings.task == "classify" else "tag"
        pairs.insert(0, ("rows", f"{counts['documents']:,}; the commonest {what} is there {most:,} times"))
    if check := facts.get("cross_check"):
        found = f"{check['accuracy']:.2%} of {check['examples']:,} rows right, by models of the others"
        pairs.append(("cross-check", found))
    if report.train_loss is not None and trained.settings.task == "lm":
        pairs.append(("train", f"{report.train_loss:.4f} nats/token"))
    if report.valid:
        pairs.append(("held out", _result_line(report.valid)))
    if report.baseline:
        pairs.append(("counting", f"{_result_line(report.baseline)} (n-grams of the same tokens, to compare)"))
    for file, count in facts["repaired"].items():
        pairs.append(("repaired", f"{visible(file)}: {count:,} byte sequences that could not be decoded"))
    pairs.append(("took", f"{report.seconds:.1f} s"))
    print(f"{report.run}: {_described(trained)}")
    print_pairs(pairs)
    say(f"next: {_following(trained, report.run)}")


def _left_out(trained: "AnyModel") -> str:
    """Return how many pairs are not learned from, and why."""
    left_out = trained.run.facts["left_out"]
    context = getattr(trained.settings.model, "context", 0)
    why = {"empty": "have an empty side", "long": f"are longer than {context:,} tokens"}
    return "".join(f"; {count:,} left out that {why[name]}" for name, count in left_out.items() if count)


def _sides(trained: "AnyModel") -> list[tuple[str, str]]:
    """Return how much text there is on either side."""
    sides = (("sources", "source_counts"), ("targets", "counts"))
    return [
        (name, f"{counts['characters']:,} characters, {counts['tokens']:,} tokens")
        for name, counts in ((name, trained.run.facts[key]) for name, key in sides)
    ]


def _described(trained: "AnyModel") -> str:
    model, task = trained.settings.model, trained.settings.task
    kind = f"n-grams up to order {model.order}, {model.smoothing}" if model.kind == "ngram" else model.kind
    if order := getattr(model, "ngram", 0):
        kind += f" on n-grams up to order {order}"
    if task == "lm":
        return f"a language model (task lm), {kind}"
    if task == "translate":
        return f"a translator (task translate), {kind}"
    labels = len(trained.run.labels)
    if task == "classify":
        return f"a classifier (task classify) of {labels:,} labels, {kind}"
    return f"a tagger (task tag) of {labels:,} tags, {kind}"


def _following(trained: "AnyModel", run: str) -> str:
    if trained.has_senses and trained.settings.task == "lm":
        return f"satchel generate {run} --tokens 100; satchel senses {run} WORD"
    verbs = {
        "lm": "generate {} --tokens 100",
        "classify": "classify {} 'a text'",
        "tag": "tag {} 'a text'",
        "translate": "translate {} 'a text'",
    }
    return f"satchel {verbs[trained.settings.task].format(run)}"


def _result_line(found: "Likelihood | ClassificationMetrics | TranslationMetrics") -> str:
    """Return how good something is, in one line."""
    from satchel.cli import classify, translate
    from satchel.evaluation.likelihood import Likelihood
    from satchel.evaluation.translation import TranslationMetrics

    if isinstance(found, TranslationMetrics):
        return translate.result_line(found)
    return likelihood_line(found) if isinstance(found, Likelihood) else classify.accuracy_line(found)


def likelihood_line(valid: Any) -> str:
    """Return the cost of a text in one line."""
    bits = f", {valid.bits_per_byte:.3f} bits/byte" if valid.bits_per_byte is not None else ""
    return f"{valid.nats_per_token:.4f} nats/token, perplexity {valid.perplexity:,.2f}{bits}"


def demo(
    minutes: Annotated[float, Option(help="How long the network is trained.", min=0.0)] = 2.0,
    no_serve: Annotated[bool, Option("--no-serve", help="Do not open the workbench at the end.")] = False,
    out: Annotated[Path, Option("-o", "--out", help="Where the runs and pictures go.")] = Path("runs/demo"),
) -> None:
    """Show what satchel does, in a few minutes, on text that every Python has."""
    from satchel import api, charts
    from satchel.cli.compare import show_comparison, show_mix
    from satchel.text.display import safe

    del no_serve  # for the workbench, which is not part of this version
    order, orders = 5, range(1, 8)
    run, network, mix = out / "ngram", out / "backpack", out / "mix"
    say(f"$ satchel train @python-docs --model ngram --valid 0.1 --set model.order={order} -o {run}")
    with Progress() as progress:
        counted = api.train(
            "@python-docs",
            model="ngram",
            valid=0.1,
            settings={"model.order": order},
            out=run,
            force=True,
            progress=progress,
        )
    _show_report(counted)
    say(f"\n$ satchel generate {run} 'Return the' --tokens 60 --temperature 0.7 --seed 1")
    print(f"Return the{safe(counted.generate('Return the', tokens=60, temperature=0.7, seed=1).text)}")
    say(f"\n$ satchel evaluate {run}     (and the same for the other orders)")
    with Progress() as progress:
        costs = api.cost_by_order(counted, orders, progress)
    print_table(
        ["order", "bits/byte", "perplexity"],
        [[n, f"{cost.bits_per_byte:.3f}", f"{cost.perplexity:.1f}"] for n, cost in zip(orders, costs, strict=True)],
        right=(0, 1, 2),
    )
    _draw(
        charts.cost_by_order([(n, cost.bits_per_byte or 0.0) for n, cost in zip(orders, costs, strict=True)]),
        out / "pictures" / "bits-per-byte-by-order",
    )
    # Small steps: there are minutes, not hours, and a curve of two points is none.
    settings = {"model.senses": 8, "training.batch_tokens": 1024, "training.evaluate_every": 100}
    changes = " ".join(f"--set {key}={value}" for key, value in settings.items())
    options = f"--model backpack --valid 0.1 --minutes {minutes:g} {changes}"
    say(f"\n$ satchel train @python-docs --tokenizer {run} {options} -o {network}")
    planned = api.plan("@python-docs", model="backpack", tokenizer=run, valid=0.1, minutes=minutes, settings=settings)
    trained, stopping = _carry_out(planned, network, force=True)
    _show_report(trained)
    _leave_if_stopped(trained, stopping)
    say(f"\n$ satchel generate {network} 'Return the' --tokens 60 --temperature 0.7 --seed 1")
    assert isinstance(trained, api.LanguageModel)
    print(f"Return the{safe(trained.generate('Return the', tokens=60, temperature=0.7, seed=1).text)}")
    assert counted.report is not None
    baseline = counted.report.valid.bits_per_byte
    curve = [(step, bits) for step, bits in api.bits_by_step(trained) if bits is not None]
    _draw(charts.training_curves({"backpack": curve}, baseline), out / "pictures" / "training")
    say(f"\n$ satchel mix {run} {network} -o {mix}")
    _, report = api.mix([run, network], mix, force=True)
    show_mix(report, "mix")
    say(f"\n$ satchel compare {run} {network}")
    found = api.compare([run, network])
    show_comparison(found)
    rows = [(row.run, row.value, row.low, row.high) for row in found.rows]
    _draw(charts.comparison(found.metric, rows), out / "pictures" / "comparison")
    _show_inside(trained, out / "pictures")


def _show_inside(trained: "LanguageModel", pictures: Path) -> None:
    """Show what the senses of a few words are, which of them moved a prediction, and who looked at whom."""
    from satchel import charts
    from satchel.api.report import write_report
    from satchel.cli.look.contributions import show_explanation
    from satchel.cli.senses import show_senses

    say(f"\n$ satchel senses {trained.folder} {' '.join(DEMO_WORDS)} --top 6")
    for word in DEMO_WORDS:
        show_senses(trained.senses(word, top=6))
    say(f"\n$ satchel look contributions {trained.folder} '{DEMO_TEXT}'")
    found = trained.contributions(DEMO_TEXT)
    show_explanation(found)
    title = f"What adds to {found.target!r}"
    _draw(charts.by_word_and_sense(found.words, found.values, title), pictures / "contributions")
    say(f"\n$ satchel look attention {trained.folder} '{DEMO_TEXT}' -o {pictures / 'attention.svg'}")
    traced = trained.trace(DEMO_TEXT)
    maps = (((layer, head), weights) for layer, head, weights in traced.attention.each())
    _draw(charts.attention_maps(traced.tokens, traced.tokens, maps), pictures / "attention")
    report = pictures.parent / "report.html"
    say(f"\n$ satchel report {trained.folder} -o {report}")
    write_report(trained, report)
    say(f"wrote {report}")


def _draw(picture: "Figure", path: Path) -> None:
    for suffix in (".svg", ".png"):
        picture.save(path.with_name(path.name + suffix))
        say(f"drew {path.with_name(path.name + suffix)}")
