"""Training: from data and some settings to a run folder."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

from satchel import durable
from satchel.api.classification import Classifier, fit_classifier
from satchel.api.language import LanguageModel, fit_language_model
from satchel.api.load import AnyModel, read_settings
from satchel.datasets.corpora import open_corpus
from satchel.errors import RunError, SettingsError
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text.reading import Corpus, file_source, stdin_source
from satchel.torchrun import launch
from satchel.training.plan import Plan, TrainOptions, default_out, plan
from satchel.training.run_settings import ClassifierSettings, LanguageSettings, MixRunSettings


def ignored(text: str) -> None:
    """Note nothing."""
    del text


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
    planned: Plan,
    *,
    out: str | Path | None = None,
    force: bool = False,
    progress: Progress = silent,
    note: Callable[[str], None] = ignored,
    should_stop: Callable[[], bool] = lambda: False,
    begins: Callable[[], None] = lambda: None,
) -> AnyModel:
    """Train as planned. The run folder appears whole, or not at all; that of a network before it is trained."""
    settings = planned.settings
    target = Path(out) if out is not None else default_out(planned.data)
    if isinstance(settings, (LanguageSettings, ClassifierSettings)):
        if settings.model.smoothing == "imported":
            raise SettingsError("model.smoothing=imported: such a model is not trained", "use kneser-ney")
        if launch().size > 1:
            raise SettingsError("n-grams are counted by one process", "start it without torchrun")
        return _count(planned, target, force, progress)
    from satchel.api.train_network import train_run
    from satchel.training.callbacks import Watcher
    from satchel.training.distributed import joined
    from satchel.training.prepare import check_machine, prepare

    check_machine(settings)
    with joined() as team:
        if team.is_first and not (team.restarts and _was_begun(target, planned)):
            changing = (runs.MODEL, runs.METRICS, runs.SAMPLES)
            with durable.new_folder(target, runs.is_run if force else None, changing) as folder:
                prepare(folder, _corpus(folder, planned, progress), planned, progress, team)
        team.told(None)  # the run is there
        trained: AnyModel = train_run(
            target, Watcher(progress, note, should_stop, begins), team, planned.reasons, planned.own
        )
    return trained


def _count(planned: Plan, target: Path, force: bool, progress: Progress) -> LanguageModel | Classifier:
    began = time.perf_counter()
    with durable.new_folder(target, runs.is_run if force else None) as folder:
        corpus = _corpus(folder, planned, progress)
        fit = fit_classifier if isinstance(planned.settings, ClassifierSettings) else fit_language_model
        return fit(folder, corpus, planned, target, began, progress)


def _corpus(folder: durable.NewFolder, planned: Plan, progress: Progress) -> Corpus:
    """Return what a training reads; what comes through a pipe is kept in its folder."""
    settings = planned.settings
    if planned.data == "-":
        with folder.create("stdin.txt") as handle:
            stdin_source(handle)
        return Corpus("-", (file_source(folder.path / "stdin.txt", "-"),), settings.data)
    return open_corpus(planned.data, settings.data, settings.training.seed, lambda stage: progress(stage, None))


def _was_begun(target: Path, planned: Plan) -> bool:
    """Return whether the same training is there already: then processes that were started again go on with it."""
    return runs.is_run(target) and runs.read_config(target).settings == planned.settings.model_dump(mode="json")


def resume(
    run: str | Path,
    *,
    model: Any = None,
    progress: Progress = silent,
    note: Callable[[str], None] = ignored,
    should_stop: Callable[[], bool] = lambda: False,
    begins: Callable[[], None] = lambda: None,
) -> Any:
    """Go on with the training of a network exactly where it stopped, and return it.

    Where it is trained with an encoder of your own, give that again as `model`.
    """
    described = runs.read_config(Path(run))
    if isinstance(read_settings(described, Path(run)), (LanguageSettings, ClassifierSettings, MixRunSettings)):
        raise RunError("was counted, not trained in steps: there is nothing to go on with", where=str(run))
    from satchel.api.train_network import train_run
    from satchel.training.callbacks import Watcher
    from satchel.training.distributed import joined

    with joined() as team:
        return train_run(Path(run), Watcher(progress, note, should_stop, begins), team, own=model)
