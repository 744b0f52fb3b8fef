"""The inputs of lessons: their settings as rows of cells, with ranges and labels for controls of a page."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from satchel.config import Settings


@dataclass(frozen=True)
class Input:
    """Range of the numbers of a setting (None: unlimited), the step of a control, and the labels of its cells."""

    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    columns: tuple[str, ...] = ()


SEED = Input(0, (1 << 32) - 1, 1)
# Ranges and labels by lesson and setting; the functions of the lessons check the values.
INPUTS: dict[str, dict[str, Input]] = {
    "counting": {"order": Input(1, 5, 1)},
    "rnn": {"sequence": Input(-1_000_000, 1_000_000, 1), "only": Input(-1_000_000, 1_000_000, 1)},
    "api": {"seed": SEED},
    "attention": {
        "q": Input(step=0.1, columns=("A", "B")),
        "base": Input(1.001, None, 0.1),
        "sharp": Input(step=0.1),
    },
    "self-attention": {"base": Input(1.001, None, 0.1), "sharp": Input(0.001, None, 0.1)},
    "encoder-decoder": {"previous": Input(-1000, 1000, 0.1), "current": Input(-1000, 1000, 0.1)},
    "scaling": {"width": Input(1, 1024, 1), "heads": Input(1, 1024, 1), "seed": Input(step=1)},
    "heads": {"width": Input(1, 1_000_000, 1), "heads": Input(1, 1_000_000, 1), "chunk": Input(1, 2, 1)},
    "block": {
        "width": Input(2, 64, 1),
        "hidden": Input(1, 512, 1),
        "heads": Input(1, 64, 1),
        "seed": Input(step=1),
    },
    "positions": {"width": Input(2, 1024, 2), "length": Input(2, 64, 1)},
    "masking": {"seed": Input(step=1)},
    "training-pairs": {"length": Input(1, 200, 1)},
    "classifier": {"padding": Input(0, 12, 1)},
    "perplexity": {"probabilities": Input(1e-12, 1, 0.01)},
    "sense-selection": {"b": Input(0.001, 1e6, 0.1)},
}


def input_documents(lesson: str, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the keys of each entry of `inputs` in `lesson NAME --json`.

    `values` is a matrix, for most settings of a single cell; `choices` are the valid values, if they are a list.
    """
    for name, value in settings:
        shown = INPUTS.get(lesson, {}).get(name, Input())
        annotation = type(settings).model_fields[name].annotation
        yield {
            "name": name,
            "values": [list(value)] if isinstance(value, tuple) else [[value]],
            "rows": [],
            "columns": list(shown.columns),
            "minimum": shown.minimum,
            "maximum": shown.maximum,
            "step": shown.step,
            "choices": list(get_args(annotation)) if get_origin(annotation) is Literal else None,
        }
