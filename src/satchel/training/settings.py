"""Settings of a run: data, tokenizer, model and training. Imports no torch."""

from typing import Any, Literal

from pydantic import Field, model_validator

from satchel import config
from satchel.config import Settings
from satchel.errors import SettingsError
from satchel.ngram.classes import ClassNgramSettings
from satchel.ngram.smoothing import NgramSettings
from satchel.text.reading import DataSettings
from satchel.text.tokenizer import TokenizerSettings

# Former names of settings: accepted in files, in --set and in saved runs.
RENAMED = {"training.parts": "training.accumulate"}


class SeedSettings(Settings):
    """Training settings of n-gram models."""

    seed: int = Field(0, ge=0, lt=1 << 63, description="seed of all random numbers")


class TrainingSettings(SeedSettings):
    """Training settings of networks."""

    steps: int | None = Field(None, ge=1, le=1 << 40, description="number of optimizer steps; excludes epochs")
    epochs: float | None = Field(None, gt=0, description="number of passes over the training data; excludes steps")
    minutes: float | None = Field(
        None, gt=0, description="maximum wall time of all train commands of the run, in minutes"
    )
    batch_tokens: int = Field(4096, ge=1, le=1 << 30, description="tokens per optimizer step")
    length: int | None = Field(
        None, ge=1, le=1 << 20, description="tokens per sequence; default: the model's context, or 128"
    )
    max_length: int | None = Field(
        None, ge=1, description="tag, classify: longer texts are truncated in training steps; none: never"
    )
    accumulate: int = Field(
        1,
        ge=1,
        le=1 << 16,
        description="gradient accumulation: micro-batches per optimizer step (formerly training.parts)",
    )
    learning_rate: float = Field(2e-3, gt=0, le=10, description="peak learning rate")
    warmup: float = Field(0.05, ge=0, lt=1, description="fraction of the training with linear warm-up")
    decay: float = Field(0.7, gt=0, le=1, description="fraction of the training, at its end, with linear decay to zero")
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw", description="adamw; or muon: Muon for the inner matrices, AdamW for the other parameters"
    )
    weight_decay: float = Field(0.1, ge=0, le=10, description="weight decay of matrices; vectors have none")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm")
    dropout_after: float = Field(1.0, ge=0, description="number of epochs without dropout at the start")
    noise: float = Field(0.0, ge=0, lt=1, description="fraction of input tokens replaced by random ones")
    merge_dropout: float = Field(
        0.0, ge=0, lt=1, description="translate: BPE-dropout, the fraction of BPE merges that are undone"
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="fraction of the target probability spread evenly over all classes"
    )
    class_weights: Literal["none", "balanced"] = Field(
        "none", description="balanced: weight the loss of each label by its inverse frequency"
    )
    patience: int = Field(0, ge=0, description="stop after this many validations without improvement; 0: never")
    checkpoint_every: int = Field(500, ge=1, description="steps between checkpoints")
    evaluate_every: int | None = Field(
        None, ge=1, description="steps between validations; default: about 20 validations per training"
    )
    validation_tokens: int | None = Field(
        None,
        ge=1,
        description="maximum number of held-out tokens of a validation and of tokens that fit the gate; none: all",
    )
    keep: int = Field(2, ge=1, le=1000, description="number of recent checkpoints kept besides the best")
    threads: int = Field(0, ge=0, le=1024, description="number of CPU threads; 0: chosen by the size of the model")

    device: Literal["auto", "cpu", "cuda", "mps"] = Field("auto", description="device to train on")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="precision of matrix products; auto: bfloat16 if the processor has instructions for it",
    )
    compile: bool = Field(False, description="compile the network with torch.compile; takes about a minute")

    @model_validator(mode="after")
    def _one_budget(self) -> "TrainingSettings":
        if self.steps is not None and self.epochs is not None:
            raise ValueError("expected steps or epochs, not both; minutes may be combined with either")
        return self


class RunSettings(Settings):
    """Base class of the settings of a run; subclasses narrow `training`, `task` and `model`."""

    data: DataSettings = DataSettings()
    tokenizer: TokenizerSettings = TokenizerSettings()
    training: SeedSettings = SeedSettings()
    task: str
    model: Any


class NgramRunSettings(RunSettings):
    """Settings of an n-gram language model."""

    task: Literal["lm"] = Field("lm", description="language model")
    model: NgramSettings = NgramSettings()


class ClassNgramRunSettings(RunSettings):
    """Settings of an n-gram classifier."""

    task: Literal["classify"] = Field("classify", description="text classifier")
    model: ClassNgramSettings = ClassNgramSettings()


class MixSettings(Settings):
    """Names of the language models of a mix; their weights are in the model file."""

    kind: Literal["mix"] = Field("mix", description="weighted sum of language models")
    parts: tuple[str, ...] = Field((), max_length=1000, description="names of the mixed models")


class MixRunSettings(RunSettings):
    """Settings of a mix of language models."""

    task: Literal["lm"] = Field("lm", description="language model")
    model: MixSettings = MixSettings()


def rename_settings(tree: config.Tree) -> tuple[config.Tree, list[str]]:
    """Return the tree with former names of settings replaced, and a note for each of them."""
    notes = []
    for old, new in RENAMED.items():
        (group, name), new_name = old.split("."), new.split(".")[1]
        settings = tree.get(group)
        if not isinstance(settings, dict) or name not in settings:
            continue
        if new_name in settings:
            raise SettingsError(f"{old} is the former name of {new}; both are set", f"remove {old}")
        renamed = {new_name if key == name else key: value for key, value in settings.items()}
        tree = {**tree, group: renamed}
        notes.append(f"{old}: renamed to {new}")
    return tree, notes
