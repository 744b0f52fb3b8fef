"""Training: from data and some settings to a run folder."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from satchel import durable
from satchel.api.classification import Classifier, fit_classifier
from satchel.api.language import LanguageModel, fit_language_model
from satchel.api.loading import read_settings
from satchel.api.planning import Plan, default_out, plan
from satchel.api.settings import ClassifierSettings, LanguageSettings, MixRunSettings, Progress, silent
from satchel.errors import RunError, SettingsError
from satchel.runs import folder as runs
from satchel.text.corpora import open_corpus
from satchel.text.reading import Corpus, file_source, stdin_source


def train(
    data: str | Path,
    *,
    task: str | None = None,
    model: str | None = None,
    recipe: str | Path | None = None,
    tokenizer: str | Path | None = None,
    valid: str | float | None = None,
    seed: int | None = None,
    size: str | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    threads: int | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Any:
    """Train a model and return it: a LanguageModel or a Classifier, as the task is.

    It is kept in the run folder `out`, by default runs/NAME-OF-THE-DATA.
    """
    planned = plan(
        data,
        task=task,
        model=model,
        recipe=recipe,
        tokenizer=tokenizer,
        valid=valid,
        seed=seed,
        size=size,
        minutes=minutes,
        steps=steps,
        epochs=epochs,
        threads=threads,
        settings=settings,
    )
    return carry_out(planned, out=out, force=force, progress=progress)


def carry_out(
    planned: Plan,
    *,
    out: str | Path | None = None,
    force: bool = False,
    progress: Progress = silent,
    should_stop: Callable[[], bool] = lambda: False,
) -> LanguageModel | Classifier:
    """Train as planned. The run folder appears whole, or not at all; that of a network before it is trained."""
    settings = planned.settings
    counts = isinstance(settings, (LanguageSettings, ClassifierSettings))
    if isinstance(settings, (LanguageSettings, ClassifierSettings)) and settings.model.smoothing == "imported":
        raise SettingsError("model.smoothing=imported: such a model is not trained", "use kneser-ney")
    target = Path(out) if out is not None else default_out(planned.data)
    began = time.perf_counter()
    changing = () if counts else (runs.MODEL, runs.METRICS)
    with durable.new_folder(target, runs.is_run if force else None, changing) as folder:
        if planned.data == "-":
            with folder.create("stdin.txt") as handle:
                stdin_source(handle)
            source = file_source(folder.path / "stdin.txt", "-")
            corpus = Corpus("-", (source,), settings.data)
        else:
            corpus = open_corpus(
                planned.data, settings.data, settings.training.seed, lambda stage: progress(stage, None)
            )
        if isinstance(settings, ClassifierSettings):
            return fit_classifier(folder, corpus, planned, target, began, progress)
        if counts:
            return fit_language_model(folder, corpus, planned, target, began, progress)
        from satchel.api.networks import prepare, train_run

        prepare(folder, corpus, planned, progress)
    return train_run(target, progress=progress, should_stop=should_stop, reasons=planned.reasons)


def resume(
    run: str | Path, *, progress: Progress = silent, should_stop: Callable[[], bool] = lambda: False
) -> LanguageModel:
    """Go on with the training of a network exactly where it stopped."""
    described = runs.read_config(Path(run))
    if isinstance(read_settings(described, Path(run)), (LanguageSettings, ClassifierSettings, MixRunSettings)):
        raise RunError("was counted, not trained in steps: there is nothing to go on with", where=str(run))
    from satchel.api.networks import train_run

    return train_run(Path(run), progress=progress, should_stop=should_stop)
