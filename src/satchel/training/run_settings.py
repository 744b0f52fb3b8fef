"""The settings of a run: data, tokenizer, model, training."""

from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import Field

from satchel import config
from satchel.config import Settings
from satchel.errors import SettingsError
from satchel.ngram.classes import ClassNgramSettings
from satchel.ngram.smoothing import NgramSettings
from satchel.text.reading import DataSettings
from satchel.text.tokenizer import TokenizerSettings
from satchel.training.settings import SeedSettings


class MixSettings(Settings):
    """Which models a mix adds up; their weights are in the model file."""

    kind: Literal["mix"] = Field("mix", description="a weighted sum of models")
    parts: tuple[str, ...] = Field((), description="the names of the parts")


class SharedSettings(Settings):
    """What the settings of every run have."""

    data: DataSettings = DataSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    training: SeedSettings = SeedSettings()


class LanguageSettings(SharedSettings):
    """The whole tree of settings of a trained language model."""

    task: Literal["lm"] = Field("lm", description="a language model")
    model: NgramSettings = NgramSettings()


class MixRunSettings(SharedSettings):
    """The settings of a mix: those that its parts share, and which they are."""

    task: Literal["lm"] = Field("lm", description="a language model")
    model: MixSettings = MixSettings()


class ClassifierSettings(SharedSettings):
    """The whole tree of settings of a trained classifier."""

    task: Literal["classify"] = Field("classify", description="a classifier of texts")
    model: ClassNgramSettings = ClassNgramSettings()


if TYPE_CHECKING:
    from satchel.training.networks import NetworkSettings, TranslationSettings

    RunSettings: TypeAlias = LanguageSettings | ClassifierSettings | NetworkSettings | TranslationSettings

# The kinds of models that need torch, and whose settings do.
NETWORKS = ("dan", "window", "rnn", "gru", "lstm", "transformer", "backpack")
COUNTED: dict[str, type[LanguageSettings] | type[ClassifierSettings]] = {
    "lm": LanguageSettings,
    "classify": ClassifierSettings,
}
TASKS = ("lm", "tag", "classify", "translate")
# Those of which one reads, and another writes.
PAIRS = ("rnn", "gru", "lstm", "transformer", "backpack")


def build_settings(tree: config.Tree, where: str = "") -> "RunSettings":
    """Return the settings that a tree spells, for the task that it names; lm if it names none."""
    task = tree.get("task", "lm")
    if task not in TASKS:
        raise SettingsError(f"task: found {task!r}, expected {', '.join(TASKS)}", where=where)
    model = tree.get("model")
    kind = model.get("kind", "ngram") if isinstance(model, dict) else "ngram"
    if kind not in ("ngram", *NETWORKS, "own"):
        raise SettingsError(f"model.kind: found {kind!r}, expected ngram, {', '.join(NETWORKS)}", where=where)
    if task == "tag" and kind in ("ngram", "dan"):
        raise SettingsError(
            f"model.kind={kind}: gives no place of a text a tag of its own",
            f"for the task tag take {', '.join(name for name in NETWORKS if name != 'dan')}",
            where=where,
        )
    if task == "translate" and kind not in PAIRS:
        raise SettingsError(
            f"model.kind={kind}: does not write what another text says",
            f"for the task translate take {', '.join(PAIRS)}",
            where=where,
        )
    if kind != "ngram":
        from satchel.training.networks import NetworkSettings, TranslationSettings

        if task == "translate":
            return config.build(TranslationSettings, tree, where)
        return config.build(NetworkSettings, tree, where)
    return config.build(COUNTED[task], tree, where)
