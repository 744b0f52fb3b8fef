"""Compare runs on the same data, and mix language models."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from satchel import config, durable
from satchel.api.keywords import suggest_keywords
from satchel.api.language import LanguageModel, shared_valid_tokens
from satchel.api.load import load
from satchel.api.model import Model
from satchel.data.tokens import TokenCounts, TokenFile, decode_documents
from satchel.errors import DataError, RunError, SettingsError
from satchel.evaluation import comparison
from satchel.evaluation.comparison import Comparison, Costs
from satchel.evaluation.likelihood import Likelihood, likelihood
from satchel.generation.mixing import Mix, learn_weights, part_logprobs
from satchel.predictor import Ids
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.text.display import quoted
from satchel.text.reading import DocumentRule
from satchel.text.tokenizer import Tokenizer
from satchel.training.settings import MixRunSettings, MixSettings


@suggest_keywords
def compare(
    names: Sequence[str | Path],
    data: str | Path | None = None,
    *,
    reading: config.Tree | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Compare runs for the same task on the same data, with paired bootstrap confidence intervals.

    Language models are compared by bits per byte, which allows different tokenizers, or by nats per token if a
    tokenizer is lossy and all are equal; classifiers and taggers by accuracy; translators by mean sentence chrF.

    Args:
        names: Two or more run folders.
        data: A text or a table. Default: the held-out data, which must be the same for all runs.
        reading: Changes of the data settings for reading `data`, such as {"text_column": "body"}.
        progress: A function that is called with the current stage and the finished fraction (or None).

    Returns:
        The value of the metric for each run, and the difference of each pair of runs, with confidence intervals.
    """
    if len(names) < 2:
        raise SettingsError(f"found {len(names)} runs, expected two or more to compare")
    return compare_models([str(name) for name in names], [load(name) for name in names], data, reading, progress)


def compare_models(
    names: Sequence[str],
    models: Sequence[Any],
    data: str | Path | None = None,
    reading: config.Tree | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Compare loaded models, as `compare` does; `names` are the names of the runs in the result."""
    tasks = sorted({model.task for model in models})
    if len(tasks) > 1:
        raise RunError(f"the runs are for different tasks: {', '.join(tasks)}", "compare runs for one task")
    warnings = models[0].comparison_warnings(models)
    metric, costs, texts = models[0].unit_costs(models, data, reading or {}, progress)
    scale = 1 / math.log(2) if metric == "bits_per_byte" else 1.0
    run_costs = [Costs(_parameters(model), _training_seconds(model.folder)) for model in models]
    return comparison.compare(names, costs, metric, scale, _seed_groups(models), run_costs, warnings, texts)


def _parameters(model: Model) -> int | None:
    """Return the number of parameters; that of a mixture is the sum of its parts'."""
    predictor: Any = model.predictor
    if model.settings.model.kind != "mix":
        return _run_parameters(model.folder, predictor)
    parts = list(map(_run_parameters, runs.part_folders(model.folder), predictor.parts))
    return None if None in parts else sum(part for part in parts if part is not None)


def _run_parameters(folder: Path, predictor: Any) -> int | None:
    count: int | None = runs.read_config(folder).facts.get("parameters", getattr(predictor, "parameters", None))
    return count


def _training_seconds(folder: Path) -> float | None:
    """Return the time of a training up to its last validation; None if none was measured."""
    lines = runs.read_metrics(folder)
    seconds: float | None = lines[-1].get("wall_seconds") or lines[-1]["seconds"] if lines else None
    return seconds


def _seed_groups(models: Sequence[Model]) -> list[list[int]]:
    """Return groups of runs that differ only in their seeds."""
    groups: dict[str, list[int]] = {}
    for index, model in enumerate(models):
        settings = model.settings.model_dump(mode="json")
        settings["training"].pop("seed")
        groups.setdefault(repr((model.run.data.sha256, settings)), []).append(index)
    seeds = [model.settings.training.seed for model in models]
    return [members for members in groups.values() if len({seeds[index] for index in members}) > 1]


@dataclass(frozen=True)
class MixReport:
    """Names and weights of mixed models, and the likelihood of a text under each of them and under the mix.

    `is_new` is False if the weights were learned on the same text.
    """

    parts: tuple[str, ...]
    weights: tuple[float, ...]
    alone: tuple[Likelihood, ...]
    mixed: Likelihood
    rounds: int
    is_new: bool


@suggest_keywords
def mix(
    names: Sequence[str | Path],
    out: str | Path,
    data: str | Path | None = None,
    *,
    force: bool = False,
    progress: Progress = silent,
) -> tuple[LanguageModel, MixReport]:
    """Mix language models: learn the weights that maximise the likelihood of a text, and write the mix as a run.

    Args:
        names: Two or more runs of language models with the same tokenizer.
        out: The run folder to write.
        data: The text for the weights. Default: the first half of the held-out text, which must be the same for all
            runs; the second half is used to evaluate the mix.
        force: Replace the run folder if it exists.
        progress: A function that is called with the current stage and the finished fraction (or None).

    Returns:
        The mix, and a report with the weights and the likelihood of the text under each model.
    """
    if len(names) < 2:
        raise SettingsError(f"found {len(names)} runs, expected two or more to mix")
    models = [load(name, task="lm") for name in names]
    for model in models:
        model.refuse_visible_targets("be mixed with other models")
    first = models[0]
    for model in models[1:]:
        if model.tokenizer.sha256 != first.tokenizer.sha256:
            raise RunError(
                f"has another tokenizer than {first.folder}: their predictions cannot be mixed",
                f"train it with --tokenizer {quoted(first.folder)}",
                where=str(model.folder),
            )
        if model.settings.data.documents != first.settings.data.documents:
            raise RunError(
                f"has data.documents={model.settings.data.documents}, {first.folder} has "
                f"{first.settings.data.documents}",
                "train it with the same data.documents",
                where=str(model.folder),
            )
    if data is None:
        tokens, measured = _halves(shared_valid_tokens(models), first.tokenizer, first.settings.data.documents)
        name, sha256 = first.run.data.name, first.run.data.sha256
    else:
        corpus = first.corpus(data)
        tokens = measured = first.tokenize(corpus, progress)
        name, sha256 = corpus.name, corpus.identity()
    progress("learning the weights", None)
    predictors = tuple(model.predictor for model in models)
    weights, costs = learn_weights(part_logprobs(predictors, tokens.ids))
    labels = _labels([model.folder for model in models])
    mixed = Mix(predictors, weights, labels)
    settings = MixRunSettings(
        data=first.settings.data, tokenizer=first.settings.tokenizer, model=MixSettings(parts=labels)
    )
    target = Path(out)
    facts = {"weights": weights.tolist(), "rounds": len(costs), "parts": [str(model.folder) for model in models]}
    run_config = runs.new_config(settings, first.tokenizer, name, sha256, facts)
    with durable.new_folder(target, runs.check_replaceable if force else None) as folder:
        progress("writing", None)
        for number, model in enumerate(models):
            runs.copy_run(folder, model.folder, f"{runs.PARTS}/{number}")
        runs.write_model(folder, run_config, first.tokenizer, {"weights": weights})
    report = MixReport(
        labels,
        tuple(weights.tolist()),
        alone=tuple(likelihood(predictor, measured.ids, measured.counts) for predictor in predictors),
        mixed=likelihood(mixed, measured.ids, measured.counts),
        rounds=len(costs),
        is_new=measured is not tokens,
    )
    run = RunFolder(target, run_config, first.tokenizer, first.tokenizer)
    return LanguageModel(mixed, settings, run), report


def _halves(tokens: TokenFile, tokenizer: Tokenizer, rule: DocumentRule) -> tuple[TokenFile, TokenFile]:
    """Return two halves of a text, split between documents or within a stream."""
    ids = np.asarray(tokens.ids)
    ends = np.flatnonzero(ids[1:] == tokenizer.boundary) + 2
    middle = int(ends[(len(ends) - 1) // 2]) if len(ends) else (len(ids) + 1) // 2
    parts = ids[:middle], np.concatenate([ids[:1], ids[middle:]])
    if min(map(len, parts)) < 2:
        raise DataError("the held-out text is too short to be split in halves", "give a text with --data")
    return _part(parts[0], tokens, tokenizer, rule), _part(parts[1], tokens, tokenizer, rule)


def _part(ids: Ids, tokens: TokenFile, tokenizer: Tokenizer, rule: DocumentRule) -> TokenFile:
    """Return a token file with some of the ids of another, and their counts."""
    ends = int((ids[1:] == tokenizer.boundary).sum())
    line_ends = ends if rule == "line" else 0
    texts = list(decode_documents(ids, tokenizer))
    counts = TokenCounts(
        documents=ends,
        tokens=len(ids) - 1,
        unknown=int((ids[1:] == tokenizer.unknown).sum()) if tokenizer.unknown is not None else 0,
        characters=sum(map(len, texts)) + line_ends,
        bytes=sum(len(text.encode()) for text in texts) + line_ends,
        lossless=tokens.counts.lossless,
    )
    return replace(tokens, ids=ids, counts=counts)


def _labels(folders: Sequence[Path]) -> tuple[str, ...]:
    """Return the folder names of the models, numbered if they are not unique."""
    names = [folder.resolve().name for folder in folders]
    return tuple(name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, start=1))
