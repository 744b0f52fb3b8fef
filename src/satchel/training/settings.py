"""What training depends on besides the model and the data. No torch here: n-grams have a seed too."""

from typing import Literal

from pydantic import Field, model_validator

from satchel.config import Settings


class SeedSettings(Settings):
    """What everything that is trained has."""

    seed: int = Field(0, ge=0, lt=1 << 63, description="what every random choice depends on")


class TrainingSettings(SeedSettings):
    """How a network is trained."""

    steps: int | None = Field(None, ge=1, le=1 << 40, description="how many updates; or epochs")
    epochs: float | None = Field(None, gt=0, description="how often the text is read")
    minutes: float | None = Field(None, gt=0, description="how long at most, in time spent training")
    batch_tokens: int = Field(4096, ge=1, le=1 << 30, description="tokens in an update")
    length: int | None = Field(None, ge=1, description="tokens in a row; else the model's context, or 128")
    parts: int = Field(1, ge=1, description="an update is made of so many smaller batches")
    learning_rate: float = Field(2e-3, gt=0, le=10, description="its highest value")
    warmup: float = Field(0.05, ge=0, lt=1, description="the share of the training over which it rises")
    decay: float = Field(0.7, gt=0, le=1, description="the share of the training, at its end, over which it falls")
    optimizer: Literal["adamw", "muon"] = Field("adamw", description="adamw; muon for matrices inside the network")
    weight_decay: float = Field(0.1, ge=0, le=10, description="of matrices")
    clip: float = Field(1.0, gt=0, description="the largest norm of a gradient")
    dropout_after: float = Field(1.0, ge=0, description="dropout begins when the text was read so often")
    noise: float = Field(0.0, ge=0, lt=1, description="the share of tokens read that are replaced by random others")
    merge_dropout: float = Field(
        0.0, ge=0, lt=1, description="translate: the share of merges of bpe tokens that are undone"
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="the share of each target given to all alike")
    class_weights: Literal["none", "balanced"] = Field("none", description="balanced: rare labels count for more")
    patience: int = Field(0, ge=0, description="stop after so many validations without a better one; 0 never")
    checkpoint_every: int = Field(500, ge=1, description="steps between two checkpoints")
    evaluate_every: int = Field(250, ge=1, description="steps between two validations")
    keep: int = Field(2, ge=1, le=1000, description="how many of the last checkpoints are kept, besides the best")
    threads: int = Field(0, ge=0, le=1024, description="of the processor; 0 chooses by the model's size")

    device: Literal["auto", "cpu", "cuda", "mps"] = Field("auto", description="where it is computed")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="of products; few processors have bfloat16"
    )
    compile: bool = Field(False, description="compile the network first: a minute at the start, some gain after it")

    @model_validator(mode="after")
    def _one_budget(self) -> "TrainingSettings":
        if self.steps is not None and self.epochs is not None:
            raise ValueError("expected steps or epochs, not both; minutes may stand beside either")
        return self
