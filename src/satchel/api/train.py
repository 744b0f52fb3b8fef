"""Train a model, resume a training, or run a plan."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from satchel.api.classification import Classifier
from satchel.api.keywords import suggest_keywords
from satchel.api.language import LanguageModel
from satchel.api.load import load
from satchel.api.tagging import Tagger
from satchel.api.tasks import TASKS, AnyModel, CustomEncoder, check_task, new_model, read_settings
from satchel.api.translation import Translator
from satchel.errors import RunError, SatchelError
from satchel.evaluation.baselines import better_baseline, headline_metric
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text.display import finite, quoted
from satchel.torchrun import launch
from satchel.training.clock import Clock
from satchel.training.defaults import baseline_seconds
from satchel.training.plan import Plan, PlanOptions, TrainOptions, default_out, make_plan
from satchel.training.report import Hooks, TrainReport, ignore

if TYPE_CHECKING:
    from satchel.models.encoder import Encoder


# Smallest number of held-out tokens of an evaluation after a training.
LEAST_SAMPLE = 1000


class _TrainOptions(TrainOptions, total=False):
    """Options of `train` besides the task."""

    out: str | Path | None
    force: bool
    progress: Progress


class _ResumeOptions(TypedDict, total=False):
    """Options of `resume` besides the task."""

    model: CustomEncoder
    progress: Progress
    note: Callable[[str], None]
    should_stop: Callable[[], bool]
    on_start: Callable[[], None]
    on_end: Callable[[], None]
    interruptible: Callable[[], AbstractContextManager[None]]
    clock: Clock | None


def plan(data: str | Path, **options: Unpack[PlanOptions]) -> Plan:
    """Return the plan of `train` with the same options, without training."""
    return make_plan(TASKS, data, options)


@overload
def train(data: str | Path, *, task: Literal["lm"], **options: Unpack[_TrainOptions]) -> LanguageModel: ...
@overload
def train(data: str | Path, *, task: Literal["classify"], **options: Unpack[_TrainOptions]) -> Classifier: ...
@overload
def train(data: str | Path, *, task: Literal["tag"], **options: Unpack[_TrainOptions]) -> Tagger: ...
@overload
def train(data: str | Path, *, task: Literal["translate"], **options: Unpack[_TrainOptions]) -> Translator: ...
@overload
def train(data: str | Path, *, task: None = None, **options: Unpack[_TrainOptions]) -> AnyModel: ...
@suggest_keywords
def train(
    data: str | Path,
    *,
    task: str | None = None,
    model: "str | Encoder | Callable[[int], Encoder] | None" = None,
    size: str | None = None,
    recipe: str | Path | None = None,
    tokenizer: str | Path | None = None,
    valid: str | Path | float | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    seed: int | None = None,
    threads: int | None = None,
    device: str | None = None,
    start: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> AnyModel:
    """Train a model, write it as a run folder, and return it.

    Options that are not given are chosen by the data and the budget; `model.report.reasons` lists them with the
    reasons. Settings are listed by `satchel train DATA --dry-run` and in docs/training.md.

    Args:
        data: The training data: a file, a folder, two aligned files ("de.txt,en.txt"), "-" for standard input, or a
            built-in data set ("@python-docs").
        task: "lm" (language model), "classify", "tag" or "translate". Default: inferred from the data.
        model: The kind of model: "ngram", "dan", "window", "rnn", "gru", "lstm", "transformer" or "backpack". Or an
            encoder of your program: a satchel.models.Encoder, or a function that returns one for a vocabulary size.
        size: The size of a network: "nano", "tiny", "micro", "mini" or "small".
        recipe: Settings to start from: the name of a built-in recipe ("imdb-ngram"), or the path of a .toml file.
        tokenizer: "char", "byte", "word", "bpe:8000", "unigram:8000", a run, or the path of a tokenizer.json.
        valid: The held-out data: a file, or the fraction of the data to hold out.
        minutes: The maximum training time of a network in minutes. Default: 5, unless steps or epochs are given.
        steps: The number of optimizer steps of a network.
        epochs: The number of passes of a network over the data.
        seed: The seed of all random numbers. The same seed gives the same model, bit by bit.
        threads: The number of CPU threads. Default: chosen by the size of the network.
        device: "auto", "cpu", "cuda" or "mps".
        start: A run whose parameters initialise the network, for the same or another task.
        settings: Further settings by name, such as {"model.width": 256, "training.learning_rate": 1e-3}.
        out: The run folder to write. Default: runs/NAME, where NAME is the name of the data.
        force: Replace the run folder if it exists.
        progress: A function that is called with the current stage and the finished fraction (or None).

    Returns:
        A LanguageModel, Classifier, Tagger or Translator, according to the task. Its `report` holds the results of
        the training.

    Raises:
        SatchelError: The data, a setting or the machine does not permit the training; the message names the remedy.
    """
    options: PlanOptions = {
        "task": task,
        "model": model,
        "size": size,
        "recipe": recipe,
        "tokenizer": tokenizer,
        "valid": valid,
        "minutes": minutes,
        "steps": steps,
        "epochs": epochs,
        "seed": seed,
        "threads": threads,
        "device": device,
        "start": start,
        "settings": settings,
    }
    clock = Clock()
    return run_plan(make_plan(TASKS, data, options), out=out, force=force, progress=progress, clock=clock)


@suggest_keywords
def run_plan(
    plan: Plan,
    *,
    out: str | Path | None = None,
    force: bool = False,
    progress: Progress = silent,
    note: Callable[[str], None] = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    on_start: Callable[[], None] = ignore,
    on_end: Callable[[], None] = ignore,
    interruptible: Callable[[], AbstractContextManager[None]] = nullcontext,
    clock: Clock | None = None,
) -> AnyModel:
    """Train as planned and return the model; see `train` and `resume` for the options.

    The run folder is complete or absent at any time; that of a network is written before its first step. The limit
    `training.minutes` counts from the start of `clock`, by default from this call.
    """
    target = Path(out) if out is not None else default_out(plan.data)
    hooks = Hooks(progress, note, should_stop, on_start, on_end, interruptible, clock or Clock())
    report, predictor = plan.task.family(plan.settings.model.kind).train(plan, target, hooks, force=force)
    if predictor is None:
        return _evaluated(report, hooks, plan.custom_encoder)
    model = new_model(predictor, runs.open_run(target))
    model.report = replace(_record(report), wall_seconds=hooks.clock.elapsed())
    return model


@overload
def resume(run: str | Path, *, task: Literal["lm"], **options: Unpack[_ResumeOptions]) -> LanguageModel: ...
@overload
def resume(run: str | Path, *, task: Literal["classify"], **options: Unpack[_ResumeOptions]) -> Classifier: ...
@overload
def resume(run: str | Path, *, task: Literal["tag"], **options: Unpack[_ResumeOptions]) -> Tagger: ...
@overload
def resume(run: str | Path, *, task: Literal["translate"], **options: Unpack[_ResumeOptions]) -> Translator: ...
@overload
def resume(run: str | Path, *, task: None = None, **options: Unpack[_ResumeOptions]) -> AnyModel: ...
@suggest_keywords
def resume(
    run: str | Path,
    *,
    task: str | None = None,
    model: CustomEncoder = None,
    progress: Progress = silent,
    note: Callable[[str], None] = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    on_start: Callable[[], None] = ignore,
    on_end: Callable[[], None] = ignore,
    interruptible: Callable[[], AbstractContextManager[None]] = nullcontext,
    clock: Clock | None = None,
) -> AnyModel:
    """Continue an interrupted training of a network. The result equals that of an uninterrupted training, bit by bit.

    Args:
        run: The run folder. It has the settings and the budget of the training.
        task: The expected task: "lm", "classify", "tag" or "translate". A run for another task raises an error.
        model: The encoder, if the run was trained with an encoder of your program; see `train`.
        progress: A function that is called with the current stage and the finished fraction (or None).
        note: A function that is called with lines worth keeping, such as the results of validations.
        should_stop: A function that is called after every step; if it returns True, the training saves and stops.
        on_start: A function that is called before the first step.
        on_end: A function that is called after the last save, before the evaluation.
        interruptible: A function that returns a context manager. In its context, a signal handler may raise
            StopRequested: the training abandons the current step or validation, saves and stops.
        clock: The clock of the command, whose time counts towards `training.minutes`. Default: started by this call.

    Returns:
        A LanguageModel, Classifier, Tagger or Translator, according to the task of the run.
    """
    path, hooks = Path(run), Hooks(progress, note, should_stop, on_start, on_end, interruptible, clock or Clock())
    config = runs.read_config(path)
    check_task(config, task, path)
    settings: Any = read_settings(config, path)
    if settings.model.kind in ("ngram", "mix"):
        raise RunError(f"is a model of kind {settings.model.kind}, which is not trained in steps", where=str(run))
    report = TASKS[settings.task].network().resume(path, settings, hooks, model)
    return _evaluated(report, hooks, model)


def _evaluated(report: TrainReport, hooks: Hooks, custom_encoder: CustomEncoder) -> AnyModel:
    """Return the model of a trained network, with metrics on the held-out data in its report."""
    path = Path(report.run)
    model = load(path, model=custom_encoder)
    has_valid = any((path / name).exists() for name in (runs.VALID_TOKENS, runs.VALID_PAIRS))
    # After an interruption the user does not want to wait for an evaluation.
    if has_valid and launch().is_first and report.stopped != "interrupted":
        hooks.progress("evaluating", None)
        report = _record(_with_metrics(report, model, hooks))
    elif not has_valid and model.settings.data.valid:
        note = "no validation metrics: the data is too small for a held-out part; give a file with --valid"
        report = replace(report, notes=(*report.notes, note))
    model.report = replace(report, wall_seconds=hooks.clock.elapsed())
    return model


def _with_metrics(report: TrainReport, model: AnyModel, hooks: Hooks) -> TrainReport:
    """Return the report with the metrics of the model and its baseline, as far as the time limit permits."""
    settings: Any = model.settings
    limit, notes, clock = settings.training.validation_tokens, list(report.notes), hooks.clock
    evaluated, valid = model, None
    if limit is not None and report.evaluation_seconds > clock.remaining():
        # The time of an evaluation depends on the predictions, such as the lengths of translations: it is measured on
        # a small sample first.
        began = clock.elapsed()
        evaluated = _on_sample(model, LEAST_SAMPLE)
        valid = evaluated.evaluate(progress=hooks.progress)
        affordable = LEAST_SAMPLE * clock.remaining() / max(2 * (clock.elapsed() - began), 1e-9)
        if affordable > 2 * LEAST_SAMPLE:
            evaluated, valid = _on_sample(model, min(limit, int(affordable))), None
        notes.append(
            f"the validation metrics are those of a sample of the held-out data, because --minutes leaves no time "
            f"for all of it (about {report.evaluation_seconds:,.0f} s); for all: satchel evaluate {quoted(report.run)}"
        )
    if valid is None:
        valid = evaluated.evaluate(progress=hooks.progress)
    baseline = None
    seconds = baseline_seconds(model.run, model.tokenizer.kind)
    if seconds < 1 or seconds <= clock.remaining():
        baseline = evaluated.ngram_baseline(hooks.progress)
    else:
        notes.append(f"no n-gram baseline: counting takes about {seconds:,.0f} s, for which --minutes leaves no time")
    better = better_baseline(valid, baseline)
    if better is not None and better.baseline == "ngram":
        better = replace(better, commands=_ngram_commands(model))
    return replace(report, valid=valid, baseline=baseline, better_baseline=better, notes=tuple(notes))


def _record(report: TrainReport) -> TrainReport:
    """Write the main metric and the best baseline of a report to the run folder; return the report."""
    if report.valid is None:
        return report
    metric, value, baseline = headline_metric(report.valid, report.baseline)
    compared = dict(zip(("name", "value"), baseline, strict=True)) if baseline is not None else None
    tree = {"metric": metric, "value": value, "baseline": compared}
    try:
        runs.write_evaluation(Path(report.run), runs.Evaluation.model_validate(finite(tree)))
    except (OSError, SatchelError) as error:
        return replace(report, notes=(*report.notes, f"the evaluation is not recorded in the run: {error}"))
    return report


def _on_sample(model: AnyModel, tokens: int) -> AnyModel:
    """Return the model with a sample of its held-out data of about this many tokens."""
    return new_model(model.predictor, replace(runs.open_run(model.folder), held_out_limit=tokens))


def _ngram_commands(model: AnyModel) -> tuple[str, ...]:
    """Return the commands that train an n-gram model on the data of a network, and mix it with a language model."""
    run, data = model.folder, model.settings.data
    name = str(run / "stdin.txt") if model.run.data.name == "-" else model.run.data.name
    ngram = run.with_name(f"{run.name}-ngram")
    command = ["satchel", "train", quoted(name), "--task", model.task, "--model", "ngram", "-o", quoted(ngram)]
    if isinstance(data.valid, str) or data.valid:
        command += ["--valid", quoted(str(data.valid))]
    if model.task != "lm":
        return (" ".join(command),)
    # A mix requires the same tokenizer and the same documents.
    command += [
        "--tokenizer",
        quoted(run),
        *(["--set", f"data.documents={data.documents}"] * (data.documents != "stream")),
    ]
    mixture = run.with_name(f"{run.name}-mix")
    return " ".join(command), f"satchel mix {quoted(ngram)} {quoted(run)} -o {quoted(mixture)}"
