"""Run folders: configuration, tokenizer, model, token files and metrics of a trained model.

Loading executes no code from the folder and validates everything it reads.
"""

import json
import math
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

import satchel
from satchel import durable, tensors
from satchel.data.batches import NO_TARGET, Ints
from satchel.data.examples import read_classes
from satchel.data.samples import sample_documents, sample_stream
from satchel.data.tokens import TokenFile, open_tokens
from satchel.errors import RunError
from satchel.runs.facts import MOST_LABELS, Facts, Name, required_facts
from satchel.text.reading import Task
from satchel.text.tokenizer import LARGEST_VOCABULARY, Tokenizer
from satchel.text.tokenizer_files import LARGEST_FILE, read_tokenizer

CONFIG, TOKENIZER, MODEL, METRICS = "config.json", "tokenizer.json", "model.safetensors", "metrics.jsonl"
SOURCE_TOKENIZER = "source_tokenizer.json"  # present if sources and targets have different tokenizers
SAMPLES = "samples.jsonl"
EVALUATION = "evaluation.json"
NGRAM = "ngram.safetensors"  # n-gram model interpolated with a network
PARTS = "parts"  # runs of the models of a mix
TRAIN_TOKENS, VALID_TOKENS = "tokens/train.safetensors", "tokens/valid.safetensors"
TRAIN_SOURCES = "tokens/train-sources.safetensors"
VALID_PAIRS = "tokens/valid-pairs.jsonl"
GATE_LOGPROBS = "tokens/aside.safetensors"  # n-gram log-probabilities of the text that the gate is fitted to
TRAIN_CLASSES, VALID_CLASSES = "tokens/train-classes.safetensors", "tokens/valid-classes.safetensors"
# Paths of the files that Satchel writes into a run folder, and of their temporary versions.
WRITTEN_FILES = re.compile(
    rf"({PARTS}/\d+/)*({durable.MANIFEST}|{CONFIG}|{TOKENIZER}|{SOURCE_TOKENIZER}|{MODEL}|{NGRAM}|{METRICS}|{SAMPLES}"
    rf"|{EVALUATION}"
    r"|stdin\.txt|\.writable|tokens/[a-z-]+\.(safetensors|jsonl)"
    rf"|checkpoints/step-\d+/({durable.MANIFEST}|[a-z]+\.(safetensors|json))"
    r"|([^/]+/)*\.[^/]+\.(partial|gone)(/.*)?)"
)
# Maximum size of metrics.jsonl and samples.jsonl in bytes.
LARGEST_LINES = 1 << 28
# Libraries whose versions are recorded in the configuration.
LIBRARIES = ("numpy", "safetensors", "tokenizers")


class TokenizerIdentity(durable.Record):
    """Identity of a run's tokenizer."""

    kind: Name
    size: int = Field(ge=1, le=LARGEST_VOCABULARY)
    sha256: durable.Sha256


class DataIdentity(durable.Record):
    """Identity of a run's training data."""

    name: Name
    sha256: durable.Sha256


class RunConfig(durable.Record):
    """Configuration of a run, as written to config.json. It contains no times, so equal runs have equal files."""

    schema_version: Literal[1] = 1
    task: Task
    settings: dict[str, Any]
    tokenizer: TokenizerIdentity
    source_tokenizer: TokenizerIdentity | None = None
    data: DataIdentity
    labels: Annotated[tuple[Name, ...], Field(max_length=MOST_LABELS)] = ()  # of classifiers and taggers, by class id
    facts: Facts
    versions: dict[Name, Name]

    @model_validator(mode="after")
    def _check_facts(self) -> "RunConfig":
        if self.settings.get("task") != self.task:
            raise ValueError("task and settings.task differ")
        model = self.settings.get("model")
        required = required_facts(self.task, model.get("kind") if isinstance(model, dict) else None, self.facts)
        if missing := [name for name in required if name not in self.facts]:
            raise ValueError(f"facts.{missing[0]} is missing")
        if self.task in ("classify", "tag"):
            names = (*self.labels, *self.facts["labels_only_held_out"])
            if not self.labels or len(set(names)) < len(names):
                raise ValueError("labels and facts.labels_only_held_out: expected distinct names")
            if len(self.facts["rows_by_label"]) != len(self.labels):
                raise ValueError("facts.rows_by_label: expected one number per label")
        return self


class BaselineValue(durable.Record):
    """Name of a baseline, and its value of the metric of an evaluation."""

    name: Literal["ngram", "majority", "copy", "memory"]
    value: float


class Evaluation(durable.Record):
    """Evaluation of a run on its held-out data after the training, as written to evaluation.json."""

    schema_version: Literal[1] = 1
    metric: Literal["bits_per_byte", "perplexity", "accuracy", "chrf"]
    value: float | None
    baseline: BaselineValue | None = None  # the best of the baselines on the same data


class _MetricsLine(durable.Record):
    """A line of metrics.jsonl. Keys of later versions are kept and not interpreted."""

    model_config = ConfigDict(extra="allow")

    step: durable.Count
    seconds: float | None = None
    train_loss: float | None = None
    valid_loss: float | None = None
    valid_accuracy: float | None = None


class _SampleLine(durable.Record):
    """A line of samples.jsonl."""

    model_config = ConfigDict(extra="allow")

    step: durable.Count
    text: str
    source: str | None = None


Line = TypeVar("Line", _MetricsLine, _SampleLine)


def versions() -> dict[str, str]:
    """Return the versions of satchel, Python and the libraries."""
    libraries = {name: version(name) for name in LIBRARIES}
    return {"satchel": satchel.__version__, "python": platform.python_version(), **libraries}


def new_config(
    settings: BaseModel,
    tokenizer: Tokenizer,
    data: str,
    sha256: str,
    facts: Mapping[str, Any],
    labels: tuple[str, ...] = (),
    source_tokenizer: Tokenizer | None = None,
) -> RunConfig:
    """Return the configuration of a new run; `source_tokenizer` is None if sources share `tokenizer`."""
    tree = settings.model_dump(mode="json")
    return RunConfig(
        task=tree["task"],
        settings=tree,
        tokenizer=_identity(tokenizer),
        source_tokenizer=None if source_tokenizer is None else _identity(source_tokenizer),
        data=DataIdentity(name=data, sha256=sha256),
        labels=labels,
        facts=cast(Facts, facts),
        versions=versions(),
    )


def _identity(tokenizer: Tokenizer) -> TokenizerIdentity:
    return TokenizerIdentity(kind=tokenizer.kind, size=tokenizer.size, sha256=tokenizer.sha256)


def write_model(
    folder: durable.NewFolder,
    config: RunConfig,
    tokenizer: Tokenizer,
    arrays: Mapping[str, tensors.Array],
    source_tokenizer: Tokenizer | None = None,
    *,
    step: int = 0,
) -> None:
    """Write the configuration, the tokenizers and the parameters (`arrays`) of a run at a step of its training."""
    folder.write(CONFIG, durable.to_json(config.model_dump(mode="json")))
    folder.write(TOKENIZER, tokenizer.json.encode())
    if source_tokenizer is not None:
        folder.write(SOURCE_TOKENIZER, source_tokenizer.json.encode())
    with folder.create(MODEL) as handle:
        tensors.write(handle, arrays, {"format": "satchel", "step": str(step), "tokenizer": tokenizer.sha256})


def write_ngram(folder: durable.NewFolder, arrays: Mapping[str, tensors.Array], tokenizer: Tokenizer) -> None:
    """Write the n-gram table that is interpolated with a network."""
    with folder.create(NGRAM) as handle:
        tensors.write(handle, arrays, {"format": "satchel", "tokenizer": tokenizer.sha256})


def copy_run(folder: durable.NewFolder, run: Path, name: str) -> None:
    """Copy the files needed to load a run into a new folder, without its token files and figures."""
    for file in (CONFIG, TOKENIZER, SOURCE_TOKENIZER, MODEL, NGRAM, durable.MANIFEST):
        if (run / file).exists():
            folder.copy(run / file, f"{name}/{file}")
    for part in part_folders(run):
        copy_run(folder, part, f"{name}/{PARTS}/{part.name}")


def part_folders(run: Path) -> list[Path]:
    """Return the run folders of the models of a mix, in their order; empty for other runs."""
    folder = durable.inside(run, f"{PARTS}/0").parent
    names = sorted((path.name for path in folder.glob("*") if path.name.isdecimal()), key=int)
    return [durable.inside(run, f"{PARTS}/{name}/{CONFIG}").parent for name in names]


def write_metrics(folder: durable.NewFolder, **metrics: float | None) -> None:
    """Write the first line of metrics; non-finite values become null."""
    finite = {name: value if value is not None and math.isfinite(value) else None for name, value in metrics.items()}
    folder.write(METRICS, json.dumps(finite).encode() + b"\n")


def write_evaluation(folder: Path, evaluation: Evaluation) -> None:
    """Write the evaluation of a run."""
    durable.write_file(folder / EVALUATION, durable.to_json(evaluation.model_dump(mode="json")))


def read_evaluation(folder: Path) -> Evaluation | None:
    """Return the evaluation of a run; None if there is none."""
    path = folder / EVALUATION
    if not os.path.lexists(path):
        return None
    return durable.parse(Evaluation, durable.read_file(path, durable.LARGEST_JSON), str(path))


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics by step. Resuming may repeat a step; the last line of a step counts."""
    return list({line.step: line.model_dump() for line in _lines(_MetricsLine, folder / METRICS)}.values())


def read_samples(folder: Path) -> list[dict[str, Any]]:
    """Return the texts sampled during training, oldest first."""
    return [line.model_dump() for line in _lines(_SampleLine, folder / SAMPLES)]


def _lines(kind: type[Line], path: Path) -> Iterator[Line]:
    if not os.path.lexists(path):
        return
    for number, line in enumerate(durable.read_file(path, LARGEST_LINES).split(b"\n"), start=1):
        if line.endswith(b"}"):  # otherwise empty, or incomplete because the process was killed while writing it
            yield durable.parse(kind, line, f"{path}, line {number}")


def entries_after(path: Path, offset: int, most: int = 1 << 20) -> tuple[list[dict[str, Any]], int]:
    """Return the complete lines of metrics.jsonl or samples.jsonl after a byte offset, and the offset of the next line.

    About `most` bytes are read, but at least one line. If the file has become shorter, it is read from its start.
    """
    if not os.path.lexists(path):
        return [], 0
    kind = _MetricsLine if path.name == METRICS else _SampleLine
    with durable.open_regular(path) as handle:
        if offset > handle.seek(0, os.SEEK_END):
            offset = 0
        handle.seek(offset)
        data = handle.read(most) + handle.readline(LARGEST_LINES)
    complete = data[: data.rfind(b"\n") + 1]
    lines = [line for line in complete.split(b"\n") if line.endswith(b"}")]
    where = f"{path}, byte {offset}"
    return [durable.parse(kind, line, where).model_dump() for line in lines], offset + len(complete)


def is_run(folder: Path) -> bool:
    """Return whether a folder is a run, possibly damaged, and not a folder with files of the same names."""
    expected = {CONFIG: RunConfig.model_fields, durable.MANIFEST: ("schema_version", "files")}
    return all(os.path.isfile(folder / name) for name in expected) and any(
        _has_keys(folder / name, keys) for name, keys in expected.items()
    )


def check_replaceable(folder: Path) -> None:
    """Raise RunError if a folder is not a run, or contains files that Satchel did not write."""
    if not is_run(folder):
        raise RunError("is not a run folder and is not replaced", "choose another name with -o", where=str(folder))
    check_written(folder, folder, "choose another name with -o")


def check_written(run: Path, folder: Path, alternative: str) -> None:
    """Raise RunError if a folder in a run contains files that Satchel did not write."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir())
    names = [path.relative_to(run).as_posix() for path in paths]
    others = [name for name in names if not WRITTEN_FILES.fullmatch(name) or (run / name).is_symlink()]
    if others:
        more = f" and {len(others) - 5:,} more" if len(others) > 5 else ""
        raise RunError(
            f"contains files that satchel did not write and does not delete: {', '.join(others[:5])}{more}",
            f"move them to another folder, or {alternative}",
            where=str(run),
        )


def _has_keys(path: Path, keys: Iterable[str]) -> bool:
    try:
        tree = durable.from_json(durable.read_file(path, durable.LARGEST_JSON), str(path))
    except RunError:
        return False
    return isinstance(tree, dict) and set(keys) <= set(tree)


def read_config(folder: Path) -> RunConfig:
    """Return the configuration of a run."""
    if not os.path.exists(folder):
        raise RunError("run not found", "check the path; `satchel train` creates runs", where=str(folder))
    if not all(os.path.isfile(folder / name) for name in (CONFIG, durable.MANIFEST)):
        raise RunError(
            f"is not a run folder: {CONFIG} or {durable.MANIFEST} is missing",
            "give the folder written by `satchel train -o`",
            where=str(folder),
        )
    data = durable.read_verified(folder, CONFIG, durable.LARGEST_JSON)
    return durable.parse(RunConfig, data, str(folder / CONFIG))


@dataclass(frozen=True)
class RunFolder:
    """An opened run: its path, configuration and tokenizers."""

    path: Path
    config: RunConfig
    tokenizer: Tokenizer
    source_tokenizer: Tokenizer  # of a translator's sources; otherwise the same object as `tokenizer`
    held_out_limit: int | None = None  # maximum number of held-out tokens; more are represented by a sample

    @property
    def all_labels(self) -> tuple[str, ...]:
        """The labels by class id: labels of the training data, then labels that occur in held-out data only."""
        return (*self.config.labels, *self.config.facts["labels_only_held_out"])

    @property
    def majority(self) -> int:
        """Class id of the most frequent label or tag in the training data."""
        counts = self.config.facts["rows_by_label"]
        return max(range(len(counts)), key=counts.__getitem__)

    def header(self) -> dict[str, tensors.ArrayInfo]:
        """Return the type and shape of each parameter of the model, without allocating memory for them."""
        return tensor_header(self.path, MODEL)

    def arrays(self, name: str = MODEL) -> dict[str, tensors.Array]:
        """Return the parameters of the model, or of its n-gram table (`name`)."""
        arrays, metadata = tensors.read(self.path / name, _manifest_entry(self.path, name))
        if metadata.get("tokenizer") != self.tokenizer.sha256:
            raise RunError("belongs to another run: it has a different tokenizer", where=str(self.path / name))
        return arrays

    def gate_logprobs(self) -> npt.NDArray[np.float64]:
        """Return the n-gram log-probabilities of the text that the gate is fitted to."""
        path = durable.inside(self.path, GATE_LOGPROBS)
        arrays, _ = tensors.read(path, _manifest_entry(self.path, GATE_LOGPROBS))
        logprobs = arrays.get("logprobs")
        if len(arrays) != 1 or logprobs is None or logprobs.ndim != 1 or logprobs.dtype != np.float64:
            raise RunError("found other tensors than the log-probabilities of a text", where=str(path))
        return logprobs

    def tokens(self, name: str = TRAIN_TOKENS) -> TokenFile:
        """Return the token file with this name."""
        return run_tokens(self.path, name, self.source_tokenizer if name == TRAIN_SOURCES else self.tokenizer)

    def valid_tokens(self) -> TokenFile | None:
        """Return the held-out tokens, or a sample of them if `held_out_limit` is less; None if there are none."""
        if not (self.path / VALID_TOKENS).exists():
            return None
        tokens = self.tokens(VALID_TOKENS)
        if self.held_out_limit is None or tokens.counts.tokens <= self.held_out_limit:
            return tokens
        if tokens.ids[-1] != self.tokenizer.boundary:
            return sample_stream(tokens, self.tokenizer, self.held_out_limit)
        return self._sample(tokens, self.held_out_limit)[0]

    def _sample(self, tokens: TokenFile, limit: int) -> tuple[TokenFile, Ints, Ints]:
        settings = self.config.settings
        line_ends = settings["data"]["documents"] == "line" and self.config.task == "lm"
        return sample_documents(tokens, self.tokenizer, limit, settings["training"]["seed"], line_ends=line_ends)

    def classes(self, name: str, tokens: TokenFile, *, per_token: bool) -> Ints:
        """Return the class id of each text of a token file, or of each token, NO_TARGET for tokens without a tag."""
        selection: Ints | slice = slice(None)
        if name == VALID_CLASSES and self.held_out_limit is not None:
            tokens = self.tokens(VALID_TOKENS)
            _, rows, positions = self._sample(tokens, self.held_out_limit)
            selection = positions if per_token else rows
        count, least = (len(tokens.ids), NO_TARGET) if per_token else (tokens.counts.documents, 0)
        path = durable.inside(self.path, name)
        classes = read_classes(path, count, len(self.all_labels), least, _manifest_entry(self.path, name))
        return classes[selection]


def tensor_header(folder: Path, name: str) -> dict[str, tensors.ArrayInfo]:
    """Return the type and shape of each tensor in a file of a run."""
    return tensors.read_header(folder / name, _manifest_entry(folder, name))[0]


def saved_step(folder: Path) -> int | None:
    """Return the step of the parameters in a run's model file; None if the file is missing or damaged."""
    try:
        return int(tensors.read_header(folder / MODEL)[1]["step"])
    except (RunError, KeyError, ValueError):
        return None


def count_parameters(header: Mapping[str, tensors.ArrayInfo]) -> int:
    """Return the number of parameters among the tensors of a model file; the keys of n-grams are none."""
    return sum(array.size for name, array in header.items() if not name.endswith(("keys", "starts", "classes")))


def run_tokens(folder: Path, name: str, tokenizer: Tokenizer) -> TokenFile:
    """Return a token file of a run after comparing it with the manifest and the tokenizer."""
    return open_tokens(durable.inside(folder, name), tokenizer, _manifest_entry(folder, name))


def _manifest_entry(folder: Path, name: str) -> durable.ManifestEntry | None:
    """Return the manifest's entry of a file; None if the training changes the file, or the run is being written."""
    if not os.path.lexists(folder / durable.MANIFEST):
        return None
    if name != MODEL:
        return durable.manifest_entry(folder, name)
    return durable.read_manifest(folder).get(name)


def open_run(path: Path) -> RunFolder:
    """Open a run folder."""
    config = read_config(path)
    tokenizer = _read_tokenizer(path / TOKENIZER, config.tokenizer)
    source_tokenizer = tokenizer
    if config.source_tokenizer is not None:
        source_tokenizer = _read_tokenizer(path / SOURCE_TOKENIZER, config.source_tokenizer)
    return RunFolder(path, config, tokenizer, source_tokenizer)


def _read_tokenizer(path: Path, identity: TokenizerIdentity) -> Tokenizer:
    data = durable.read_verified(path.parent, path.name, LARGEST_FILE)
    tokenizer = read_tokenizer(data, str(path))
    if _identity(tokenizer) != identity:
        raise RunError("is not the tokenizer that the run was trained with", where=str(path))
    return tokenizer
