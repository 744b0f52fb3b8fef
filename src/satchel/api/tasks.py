"""The task table: for each task, its data, settings, training, predictor and model class.

Only the functions below import modules that need torch, so that n-gram commands and `satchel --help` start without it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from satchel import config
from satchel.api.classification import Classifier
from satchel.api.language import LanguageModel
from satchel.api.model import Model
from satchel.api.tagging import Tagger
from satchel.api.translation import Translator
from satchel.errors import RunError
from satchel.runs import folder as runs
from satchel.runs.folder import RunConfig, RunFolder
from satchel.training import counting, defaults
from satchel.training.examples.pairs import write_pairs
from satchel.training.examples.rows import write_labelled, write_tagged_rows
from satchel.training.examples.text import write_text
from satchel.training.settings import MixRunSettings, RunSettings
from satchel.training.task import CUSTOM, KINDS, NETWORK_KINDS, Task, build_settings, find_task

if TYPE_CHECKING:
    from satchel.models.encoder import Encoder
    from satchel.training.network_task import NetworkTask

AnyModel: TypeAlias = LanguageModel | Classifier | Tagger | Translator
# An encoder of the user's program, or a function of the vocabulary size that returns one.
CustomEncoder: TypeAlias = "Encoder | Callable[[int], Encoder] | None"


@dataclass(frozen=True, kw_only=True)
class ModelTask(Task):
    """A task with the class of its models."""

    model: type[Model]


def _language() -> "NetworkTask":
    from satchel.training.jobs.language import LANGUAGE

    return LANGUAGE


def _tagging() -> "NetworkTask":
    from satchel.training.jobs.labels import TAGGING

    return TAGGING


def _classification() -> "NetworkTask":
    from satchel.training.jobs.labels import CLASSIFICATION

    return CLASSIFICATION


def _translation() -> "NetworkTask":
    from satchel.training.jobs.translation import TRANSLATION

    return TRANSLATION


TASKS = {
    task.name: task
    for task in (
        ModelTask(
            name="lm",
            noun="a language model",
            usage="use `satchel generate` or `satchel score`",
            data="a text",
            kinds=(*KINDS, CUSTOM),
            default_kind="transformer",
            unsupported="is not a language model",
            model=LanguageModel,
            counting=counting.LANGUAGE,
            network=_language,
            write_examples=write_text,
            choose_defaults=defaults.choose_language,
            choose_format=defaults.choose_documents,
        ),
        ModelTask(
            name="tag",
            noun="a tagger",
            usage="use `satchel tag`",
            data="a table with texts and tags",
            kinds=(*(kind for kind in NETWORK_KINDS if kind != "dan"), CUSTOM),
            default_kind="transformer",
            unsupported="has no output per token and cannot tag",
            model=Tagger,
            network=_tagging,
            write_examples=write_tagged_rows,
            choose_defaults=defaults.choose_tagger,
            choose_format=defaults.choose_tag_unit,
        ),
        ModelTask(
            name="classify",
            noun="a classifier",
            usage="use `satchel classify`",
            data="a table with labels and texts",
            kinds=(*KINDS, CUSTOM),
            default_kind="dan",
            unsupported="is not a classifier",
            model=Classifier,
            counting=counting.CLASSIFICATION,
            network=_classification,
            write_examples=write_labelled,
            choose_defaults=defaults.choose_classifier,
        ),
        ModelTask(
            name="translate",
            noun="a translator",
            usage="use `satchel translate`",
            data="a table with sources and targets",
            kinds=("rnn", "gru", "lstm", "transformer", "backpack"),
            default_kind="transformer",
            unsupported="has no decoder and cannot translate",
            model=Translator,
            network=_translation,
            write_examples=write_pairs,
            choose_defaults=defaults.choose_translator,
            choose_required=defaults.choose_embeddings,
        ),
    )
}


def read_settings(run: RunConfig, folder: Path) -> RunSettings:
    """Return the settings of a run."""
    model, where = run.settings.get("model"), str(folder / runs.CONFIG)
    if isinstance(model, dict) and model.get("kind") == "mix":
        return config.build(MixRunSettings, run.settings, where)
    return build_settings(TASKS, run.settings, where)


def check_task(run: RunConfig, name: str | None, where: str | Path) -> None:
    """Raise an error if a run is for another task than the one expected; None accepts all tasks."""
    if name is None or name == run.task:
        return
    expected, found = find_task(TASKS, name), TASKS[run.task]
    raise RunError(
        f"is {found.noun}, expected {expected.noun}",
        f"{found.usage}; or train {expected.noun} on {expected.data}",
        where=str(where),
    )


def new_model(predictor: Any, run: RunFolder) -> AnyModel:
    """Return the model of a run with this predictor."""
    settings = read_settings(run.config, run.path)
    return cast(AnyModel, TASKS[settings.task].model(predictor, settings, run))
