"""`satchel train`: train a model, or resume a training."""

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from satchel.cli.options import READING, AsJson, Assignments, Force, reads_files
from satchel.cli.output import Progress, emit_json, message, print, print_fields
from satchel.errors import SettingsError, StopRequested
from satchel.text.display import json_text, quoted, visible
from satchel.torchrun import launch

if TYPE_CHECKING:
    from satchel.api import Plan
    from satchel.api.tasks import AnyModel
    from satchel.runs.facts import CountFacts
    from satchel.training.report import TrainReport

# Command to try after training, by task.
NEXT = {
    "lm": "generate {run} --tokens 100",
    "classify": "classify {run} 'a text'",
    "tag": "tag {run} 'a text'",
    "translate": "translate {run} 'a text'",
}
# Settings of the options with the same name, as named in errors.
FLAGS = {
    "task": "task", "model": "model.kind", "valid": "data.valid", "minutes": "training.minutes",
    "steps": "training.steps", "epochs": "training.epochs", "seed": "training.seed", "threads": "training.threads",
    "device": "training.device",
}  # fmt: skip
# Held-out fraction of the data when several kinds of models are trained, unless --valid is given.
COMPARED_FRACTION = 0.05
# Parameters that can be combined with --resume.
RESUME_PARAMETERS = ("resume", "as_json")


@reads_files(*READING)
def train(
    context: typer.Context,
    data: Annotated[
        str | None,
        Argument(
            metavar="DATA",
            help="File, folder, two aligned files (a,b), - (standard input) or built-in data (@python-docs).",
        ),
    ] = None,
    task: Annotated[str | None, Option(help="lm, tag, classify or translate; default: inferred from the data.")] = None,
    model: Annotated[
        str | None,
        Option(
            help="ngram, dan, window, rnn, gru, lstm, transformer or backpack; several (lstm,transformer) or all: one "
            "run per kind in the folder -o."
        ),
    ] = None,
    size: Annotated[str | None, Option(help="Size of a network: nano, tiny, micro, mini or small.")] = None,
    recipe: Annotated[str | None, Option(help="Name of a built-in recipe (imdb-ngram), or a .toml file.")] = None,
    tokenizer: Annotated[
        str | None, Option(help="char, byte, word, bpe:N, unigram:N, a run, or a tokenizer.json file.")
    ] = None,
    valid: Annotated[str | None, Option(help="Validation file, or the fraction of the data to hold out.")] = None,
    settings: Assignments = None,
    minutes: Annotated[
        float | None, Option(help="Maximum time of the whole command for a network, in minutes.")
    ] = None,
    steps: Annotated[int | None, Option(help="Number of optimizer steps of a network.")] = None,
    epochs: Annotated[float | None, Option(help="Number of passes over the training data.")] = None,
    seed: Annotated[int | None, Option(help="Random seed of initialisation, data order and splits.")] = None,
    threads: Annotated[int | None, Option(help="Number of CPU threads for a network.")] = None,
    device: Annotated[str | None, Option(help="auto, cpu, cuda or mps.")] = None,
    start: Annotated[
        Path | None, Option("--from", help="Run whose parameters initialise the new model; its task may differ.")
    ] = None,
    resume: Annotated[
        Path | None, Option(help="Continue this interrupted run from its last checkpoint, with its own settings.")
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print all settings and estimates of parameters, memory and time, then exit.")
    ] = False,
    out: Annotated[Path | None, Option("-o", "--out", help="Run folder to write (default: runs/NAME).")] = None,
    force: Force = False,
    as_json: AsJson = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Train a model on texts or a table, write it as a run folder, and print training and validation metrics."""
    from satchel import api, config
    from satchel.training.clock import Clock
    from satchel.training.plan import default_out

    clock = Clock()
    if (data is None) == (resume is None):
        raise SettingsError("expected either DATA or --resume", "name the training data, or a run to resume")
    if resume is not None:
        _check_resume_options(context)
        trained, stop = run_training(partial(api.resume, resume, clock=clock))
        message(*(trained.report.reasons if trained.report else ()))
        _finish(trained, stop, as_json)
        return
    assert data is not None
    tree = config.parse_assignments(settings or [])
    make_plan = partial(
        _name_flags,
        context,
        api.plan,
        data,
        task=task,
        model=model,
        recipe=recipe,
        tokenizer=tokenizer,
        valid=_file_or_fraction(valid),
        seed=seed,
        size=size,
        minutes=minutes,
        steps=steps,
        epochs=epochs,
        threads=threads,
        device=device,
        start=start,
        settings=config.merge(tree, {"data": reading}) if reading else tree,
    )
    if model is not None and (model == "all" or "," in model):
        if dry_run or data == "-":
            raise SettingsError(
                f"--model {model}: several kinds cannot be combined with {'--dry-run' if dry_run else 'DATA -'}",
                "name one kind",
            )
        _train_kinds(make_plan, model, out or default_out(data), force, as_json)
        return
    plan = make_plan()
    if dry_run:
        _show_plan(plan, as_json)
        return
    message(*plan.reasons)
    trained, stop = run_training(partial(api.run_plan, plan, out=out, force=force, clock=clock))
    _finish(trained, stop, as_json)


def _train_kinds(make_plan: "partial[Plan]", models: str, out: Path, force: bool, as_json: bool) -> None:
    """Train one run per kind in the folder `out`, all with the same tokenizer and held-out data, and list the runs."""
    from satchel import api
    from satchel.training.clock import Clock
    from satchel.training.task import KINDS

    if models == "all":
        task = make_plan(model=None).task
        kinds = [kind for kind in KINDS if kind in task.kinds]
    else:
        kinds = [kind.strip() for kind in models.split(",")]
    if len(set(kinds)) < len(kinds):
        raise SettingsError(f"--model {models}: expected different kinds, separated by commas")
    # Errors in settings are reported before the first training. A default fraction of the data is held out for all
    # kinds, because the runs are compared on it.
    held_out = {} if make_plan.keywords["valid"] is not None else {"valid": COMPARED_FRACTION}
    for kind in kinds:
        make_plan(model=kind, **held_out)
        if (out / kind).exists() and not force:
            raise SettingsError(
                "exists already", "choose another folder with -o, or replace it with --force", where=str(out / kind)
            )
    documents: list[dict[str, Any]] = []
    for kind in kinds:
        shared = {"tokenizer": out / kinds[0]} if documents else {}
        plan = make_plan(model=kind, **held_out, **shared)
        message(f"--- {kind}", *plan.reasons)
        trained, stop = run_training(partial(api.run_plan, plan, out=out / kind, force=force, clock=Clock()))
        documents.append(_document(trained))
        if not as_json:
            show_report(trained)
        exit_if_stopped(trained, stop)
    if as_json:
        emit_json({"runs": documents})
    else:
        message(f"next: satchel compare {' '.join(quoted(out / kind) for kind in kinds)}")


def _name_flags(context: typer.Context, function: "Callable[..., Plan]", *arguments: Any, **options: Any) -> "Plan":
    """Call a function; errors in settings that were given as flags name the flags."""
    try:
        return function(*arguments, **options)
    except SettingsError as error:
        for flag, key in FLAGS.items():
            source = context.get_parameter_source(flag)
            if source is not None and source.name == "COMMANDLINE":
                error.cause = re.sub(rf"^{re.escape(key)}(?=[:=])", f"--{flag}", error.cause, flags=re.MULTILINE)
        raise


def _check_resume_options(context: typer.Context) -> None:
    """Raise an error if an option is given that a resumed training cannot change."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name not in RESUME_PARAMETERS and source is not None and source.name == "COMMANDLINE":
            raise SettingsError(
                f"{max(parameter.opts, key=len)} cannot be combined with --resume: a resumed run keeps its settings",
                "use --from to start a new run with the parameters of this one",
            )


def run_training(function: "Callable[..., AnyModel]") -> tuple["AnyModel", "SignalFlag"]:
    """Call a training function with a progress line; SIGINT and SIGTERM save a checkpoint and stop."""
    with Progress() as progress, SignalFlag() as stop:
        trained = function(
            progress=progress,
            note=progress.note,
            should_stop=stop,
            on_start=stop.install,
            on_end=stop.remove,
            interruptible=stop.interruptible,
        )
    return trained, stop


class SignalFlag:
    """Records SIGINT and SIGTERM between `install` and `remove`; a second signal ends the process immediately.

    The current step or validation may be completed within GRACE seconds, then it is abandoned.
    """

    GRACE = 2.0

    def __init__(self) -> None:
        self.signal = 0
        self._is_interruptible = self._is_repeated = self._is_overdue = False
        self._timer = threading.Timer(self.GRACE, self._repeat)
        self._previous: dict[int, Any] = {}

    def __call__(self) -> bool:
        return bool(self.signal)

    def install(self) -> None:
        """Replace the signal handlers."""
        self._previous = {number: signal.signal(number, self._record) for number in (signal.SIGINT, signal.SIGTERM)}

    def remove(self) -> None:
        """Restore the signal handlers."""
        self._timer.cancel()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _record(self, number: int, frame: object) -> None:
        if not self.signal:
            self.signal = number
            self._timer.daemon = True
            self._timer.start()
        elif self._is_repeated:
            self._is_repeated, self._is_overdue = False, True
            if self._is_interruptible:
                raise StopRequested
        else:
            os._exit(128 + number)

    def _repeat(self) -> None:
        """Repeat the signal: its handler runs in the main thread and can raise an exception there."""
        self._is_repeated = True
        signal.raise_signal(self.signal)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raise StopRequested in the block, or before it, as soon as the time after a signal is over."""
        self._is_interruptible = True
        try:
            if self._is_overdue:
                raise StopRequested
            yield
        finally:
            self._is_interruptible = False

    def __enter__(self) -> "SignalFlag":
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def _finish(trained: "AnyModel", stop: SignalFlag, as_json: bool) -> None:
    """Print the result of a training; exit with the code of an interruption or of a failed save."""
    if not launch().is_first:
        return
    if as_json:
        emit_json(_document(trained))
    else:
        show_report(trained)
    exit_if_stopped(trained, stop)


def exit_if_stopped(trained: "AnyModel", stop: SignalFlag) -> None:
    """Exit with 3 if the last save failed, or with 128 plus the signal number if the training was interrupted."""
    report = trained.report
    if report is not None and report.failed_save:
        message(f"the last save failed: {report.failed_save}", *_saved_state(report))
        raise typer.Exit(3)
    if report is not None and report.stopped == "interrupted":
        message(f"saved at step {report.steps:,}; continue with: satchel train --resume {quoted(report.run)}")
        raise typer.Exit(128 + stop.signal)


def _saved_state(report: "TrainReport") -> Iterator[str]:
    """Yield the step of the model in a run whose last save failed, and how to continue."""
    if report.saved_step is None:
        yield f"{report.run} has no intact model"
    else:
        yield f"{report.run} has the model of step {report.saved_step:,}; the training reached step {report.steps:,}"
    yield f"free disk space, then continue with: satchel train --resume {quoted(report.run)}"


def _file_or_fraction(text: str | None) -> str | float | None:
    if text is None or Path(text).exists():
        return text
    try:
        return float(text)
    except ValueError:
        return text


def _document(trained: "AnyModel") -> dict[str, Any]:
    report = trained.report
    assert report is not None
    return {
        "run": report.run,
        "task": trained.settings.task,
        "model": trained.settings.model.kind,
        "parameters": report.parameters,
        "steps": report.steps,
        "seconds": round(report.seconds, 3),
        "wall_seconds": round(report.wall_seconds, 3),
        "tokens_per_second": round(report.tokens_per_second, 1),
        "precision": trained.run.facts.get("arithmetic", {}).get("precision"),
        "train_loss": report.train_loss,
        "valid": trained.metrics_document(report.valid) if report.valid is not None else None,
        "baseline": report.baseline.document() if report.baseline is not None else None,
        "better_baseline": report.better_baseline.document() if report.better_baseline is not None else None,
        "stopped": report.stopped,
        "saved_step": report.saved_step,
        "failed_save": report.failed_save or None,
        "notes": list(report.notes),
    }


def _show_plan(plan: "Plan", as_json: bool) -> None:
    """Print the settings as they would be used, and the estimates."""
    from satchel.config import flatten

    tree, estimates = plan.settings.model_dump(mode="json"), plan.estimates()
    if as_json:
        emit_json({"settings": tree, "estimates": estimates, "reasons": list(plan.reasons)})
        return
    for key, value in flatten(tree):
        print(f"{key} = {'none' if value is None else json_text(value)}")
    print()
    print_fields((name.replace("_", " "), f"{number:,}") for name, number in estimates.items())
    message(*plan.reasons)
    message("steps, memory and seconds are estimates, within a factor of about two on an idle machine")


def show_report(trained: "AnyModel") -> None:
    """Print a summary of a training: data, size, speed, loss and validation metrics."""
    report = trained.report
    assert report is not None
    is_network = trained.settings.model.kind != "ngram"
    fields = [*_data_fields(trained), ("tokenizer", f"{trained.tokenizer.kind}, {trained.tokenizer.size:,} tokens")]
    if "ngrams" in trained.run.facts:
        fields.append(("n-grams by order", " + ".join(f"{size:,}" for size in trained.run.facts["ngrams"])))
    if is_network:
        fields.append(("parameters", f"{report.parameters:,}"))
        fields.append(("steps", f"{report.steps:,}, {report.tokens_per_second:,.0f} tokens/s ({report.stopped})"))
        arithmetic = trained.run.facts["arithmetic"]
        if precision := arithmetic.get("precision"):  # not recorded by earlier versions
            emulated = " (emulated)" if arithmetic.get("bfloat16") == "emulated" else ""
            fields.append(("precision", f"{precision}{emulated}"))
    if check := trained.run.facts.get("cross_check"):
        fields.append(("cross-validation", f"accuracy {check['accuracy']:.2%} on {check['examples']:,} examples"))
    if report.train_loss is not None and trained.settings.task == "lm":
        fields.append(("training loss", f"{report.train_loss:.4f} nats per token"))
    if report.valid:
        fields.append(("validation", report.valid.headline))
    if report.baseline:
        fields.append(("n-gram baseline", f"{report.baseline.headline} (same data and tokenizer)"))
    part = f", training steps {report.seconds:.1f} s" if is_network else ""
    fields.append(("time", f"{report.wall_seconds:.1f} s{part}"))
    print(f"{visible(report.run)}: {_description(trained)}")
    print_fields(fields)
    sees_targets = getattr(trained, "sees_targets", False)
    command = ("evaluate {run}" if sees_targets else NEXT[trained.settings.task]).format(run=quoted(report.run))
    also = f"; satchel senses {quoted(report.run)} WORD" if trained.has_senses and trained.settings.task == "lm" else ""
    better = [report.better_baseline.sentence] if report.better_baseline is not None else []
    message(*better, *report.notes, f"next: satchel {command}{also}")


def _data_fields(trained: "AnyModel") -> list[tuple[str, str]]:
    """Return the sizes of the training data, and the numbers of skipped pairs and repaired bytes."""

    def size(counts: "CountFacts") -> str:
        unknown = f", {counts['unknown']:,} unknown" if counts["unknown"] else ""
        return f"{counts['characters']:,} characters, {counts['tokens']:,} tokens{unknown}"

    facts, fields = trained.run.facts, []
    counts = facts["counts"]
    if "source_counts" in facts:
        reasons = {"empty": "with an empty side", "long": "longer than the context"}
        skipped = "".join(f"; {count:,} skipped {reasons[key]}" for key, count in facts["left_out"].items() if count)
        fields = [
            ("sentence pairs", f"{counts['documents']:,}{skipped}"),
            ("source text", size(facts["source_counts"])),
        ]
    elif "rows_by_label" in facts:
        most = max(facts["rows_by_label"])
        fields = [("rows", f"{counts['documents']:,}; the most frequent label occurs {most:,} times")]
        if unlabelled := facts.get("unlabelled"):
            fields.append(("skipped rows", f"{unlabelled:,} without a label"))
    fields.append(("target text" if "source_counts" in facts else "training text", size(counts)))
    for file, count in facts["repaired"].items():
        fields.append(("undecodable bytes", f"{visible(file)}: {count:,} sequences repaired"))
    return fields


def _description(trained: "AnyModel") -> str:
    """Return task, labels and kind of a model in one line."""
    from satchel.api.tasks import TASKS

    model, task = trained.settings.model, trained.settings.task
    kind = f"n-grams up to order {model.order}, {model.smoothing}" if model.kind == "ngram" else model.kind
    if order := getattr(model, "ngram", 0):
        kind += f", interpolated with an n-gram model of order {order}"
    if getattr(model, "causal", None) is False:
        kind += ", without causal mask"
    labels = len(trained.run.labels)
    classes = f" with {labels:,} {'tags' if task == 'tag' else 'labels'}" if labels else ""
    return f"{TASKS[task].noun} (task {task}){classes}, {kind}"
