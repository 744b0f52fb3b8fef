"""Training: from data and some settings to a run folder."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from satchel import durable
from satchel.api.classification import Classifier, fit_classifier
from satchel.api.language import LanguageModel, fit_language_model
from satchel.api.planning import Plan, default_out, plan
from satchel.api.settings import ClassifierSettings, Progress, silent
from satchel.errors import SettingsError
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
        settings=settings,
    )
    return carry_out(planned, out=out, force=force, progress=progress)


def carry_out(
    planned: Plan, *, out: str | Path | None = None, force: bool = False, progress: Progress = silent
) -> LanguageModel | Classifier:
    """Train as planned. The run folder appears whole, or not at all."""
    settings = planned.settings
    if settings.model.smoothing == "imported":
        raise SettingsError("model.smoothing=imported: such a model is not trained", "use kneser-ney")
    target = Path(out) if out is not None else default_out(planned.data)
    began = time.perf_counter()
    with durable.new_folder(target, runs.is_run if force else None) as folder:
        if planned.data == "-":
            with folder.create("stdin.txt") as handle:
                stdin_source(handle)
            source = file_source(folder.path / "stdin.txt", "-")
            corpus = Corpus("-", (source,), settings.data)
        else:
            corpus = open_corpus(
                planned.data, settings.data, settings.training.seed, lambda stage: progress(stage, None)
            )
        fit = fit_classifier if isinstance(settings, ClassifierSettings) else fit_language_model
        return fit(folder, corpus, planned, target, began, progress)
