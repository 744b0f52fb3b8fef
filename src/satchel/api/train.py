"""Train a model, resume a training, or run a plan."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

from satchel.api.load import load_model
from satchel.api.model import TrainReport
from satchel.api.tasks import TASKS, AnyModel, new_model, read_settings
from satchel.errors import RunError
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.torchrun import launch
from satchel.training.fitted import Fitted, Hooks, ignore
from satchel.training.plan import Plan, TrainOptions, default_out, make_plan


def plan(data: str | Path, **options: Unpack[TrainOptions]) -> Plan:
    """Return the plan of `train` with the same options, without training."""
    return make_plan(TASKS, data, options)


def train(
    data: str | Path,
    *,
    out: str | Path | None = None,
    force: bool = False,
    progress: Progress = silent,
    **options: Unpack[TrainOptions],
) -> Any:
    """Train a model and return it: a LanguageModel, a Classifier, a Tagger or a Translator, as the task is.

    It is kept in the run folder `out`, by default runs/NAME-OF-THE-DATA. `model` may also be an encoder of your own.
    """
    return run_plan(plan(data, **options), out=out, force=force, progress=progress)


def run_plan(
    plan: Plan,
    *,
    out: str | Path | None = None,
    force: bool = False,
    progress: Progress = silent,
    note: Callable[[str], None] = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    on_start: Callable[[], None] = ignore,
) -> AnyModel:
    """Train as planned and return the model.

    The run folder is complete or absent at any time; that of a network is written before its first step.
    """
    target = Path(out) if out is not None else default_out(plan.data)
    hooks = Hooks(progress, note, should_stop, on_start)
    fitted = plan.task.family(plan.settings.model.kind).train(plan, target, hooks, force=force)
    return _report(target, fitted, hooks, plan.reasons, plan.custom_encoder)


def resume(
    run: str | Path,
    *,
    model: Any = None,
    progress: Progress = silent,
    note: Callable[[str], None] = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    on_start: Callable[[], None] = ignore,
) -> Any:
    """Continue the training of a network exactly where it stopped, and return the model.

    If the run was trained with an encoder of your program, give that again as `model`.
    """
    path, hooks = Path(run), Hooks(progress, note, should_stop, on_start)
    settings: Any = read_settings(runs.read_config(path), path)
    if settings.model.kind in ("ngram", "mix"):
        raise RunError(f"is a model of kind {settings.model.kind}, which is not trained in steps", where=str(run))
    fitted = TASKS[settings.task].network().resume(path, settings, hooks, model)
    return _report(path, fitted, hooks, (), model)


def _report(run: Path, fitted: Fitted, hooks: Hooks, reasons: tuple[str, ...], custom_encoder: Any) -> AnyModel:
    """Return the model of a finished training with its report."""
    if fitted.predictor is None:
        model = load_model(run, custom_encoder)
    else:
        model = new_model(fitted.predictor, runs.open_run(run))
    valid, baseline = fitted.valid, None
    has_valid = any((run / name).exists() for name in (runs.VALID_TOKENS, runs.VALID_PAIRS))
    # After an interruption the user does not want to wait for an evaluation.
    if fitted.predictor is None and has_valid and launch().is_first and fitted.stopped != "interrupted":
        hooks.progress("evaluating", None)
        valid, baseline = model.evaluate(), model.ngram_baseline(hooks.progress)
    model.report = TrainReport(
        run=str(run),
        parameters=fitted.parameters,
        seconds=fitted.seconds,
        tokens_per_second=fitted.tokens / max(fitted.seconds, 1e-9),
        train_loss=fitted.train_loss,
        valid=valid,
        reasons=(*reasons, *fitted.notes),
        counts=fitted.counts,
        steps=fitted.steps,
        stopped=fitted.stopped,
        baseline=baseline,
        failed_save=fitted.failed_save,
    )
    return model
