"""Facts about a run and its training data in config.json: their types, bounds, and which of them a run must have."""

from typing import Annotated, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from satchel.durable import Count

# Maximum number of labels.
MOST_LABELS = 1 << 20
MOST_THREADS = 1024
Name = str  # may contain unpaired surrogates, as names of files do
Share = Annotated[float, Field(ge=0, le=1)]

_strict = with_config(ConfigDict(strict=True, allow_inf_nan=False, extra="forbid"))


@_strict
class CountFacts(TypedDict):
    """Counts of a token file; see data.tokens.TokenCounts."""

    documents: Count
    tokens: Count
    unknown: Count
    characters: Count
    bytes: Count
    lossless: bool


@_strict
class Arithmetic(TypedDict):
    """Properties on which the rounding of sums depends."""

    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)]
    processes: Annotated[int, Field(ge=1, le=1 << 16)]
    torch: Name
    device: Literal["cpu", "cuda", "mps"]
    # Absent in runs of earlier versions; `bfloat16` states whether the processor had instructions for it.
    precision: NotRequired[Literal["float32", "bfloat16"]]
    bfloat16: NotRequired[Literal["native", "emulated"]]


@_strict
class SkippedPairs(TypedDict):
    """Numbers of skipped pairs of a translator, by reason."""

    empty: Count
    long: Count


@_strict
class CrossValidation(TypedDict):
    """Result of the cross-validation of an n-gram classifier."""

    examples: Count
    accuracy: Share
    nats_per_example: float


@with_config(ConfigDict(strict=True, allow_inf_nan=False, extra="allow"))
class Facts(TypedDict, total=False):
    """Facts about a run. Keys of later versions are kept and not interpreted."""

    # All runs that were trained.
    counts: CountFacts
    repaired: dict[Name, Count]
    # Classifiers and taggers.
    rows_by_label: Annotated[list[Count], Field(max_length=MOST_LABELS)]
    labels_only_held_out: Annotated[list[Name], Field(max_length=MOST_LABELS)]
    unit: Literal["character", "word", "token"]
    unlabelled: Count
    # Translators.
    source_counts: CountFacts
    left_out: SkippedPairs
    # Networks.
    parameters: Count
    arithmetic: Arithmetic
    # N-gram models.
    ngrams: Annotated[list[Count], Field(max_length=100)]
    discounts: Annotated[list[list[float]], Field(max_length=100)]
    fallback_orders: Annotated[list[Count], Field(max_length=100)]
    temper: dict[Name, float]
    cross_check: CrossValidation | None
    imported: Name
    # Mixtures.
    weights: Annotated[list[float], Field(max_length=1000)]
    rounds: Count
    parts: Annotated[list[Name], Field(max_length=1000)]


def required_facts(task: str, kind: object, facts: Facts) -> list[str]:
    """Return the names of the facts that a run with this task and kind of model must have."""
    if kind == "mix" or "imported" in facts:
        return []
    names = ["counts", "repaired"]
    names += ["rows_by_label", "labels_only_held_out"] if task in ("classify", "tag") else []
    names += ["unit"] if task == "tag" else []
    names += ["source_counts", "left_out"] if task == "translate" else []
    return names + ([] if kind == "ngram" else ["parameters", "arithmetic"])
