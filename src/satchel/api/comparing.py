"""Several runs at once: comparing them on one text, and mixing them into one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from satchel import durable
from satchel.api.classification import Classifier
from satchel.api.language import LanguageModel
from satchel.api.loading import load_language_model, load_model
from satchel.api.models import Model
from satchel.api.settings import MixRunSettings, MixSettings, Progress, silent
from satchel.data.tokens import TokenFile, scratch_tokens
from satchel.errors import DataError, RunError, SettingsError
from satchel.evaluation import comparison
from satchel.evaluation.comparison import Comparison
from satchel.evaluation.likelihood import Likelihood, likelihood
from satchel.generation.mixing import Mix, learn_weights, part_logprobs
from satchel.runs import folder as runs
from satchel.text.corpora import open_corpus
from satchel.text.reading import Corpus


def compare(names: Sequence[str | Path], data: str | Path, *, progress: Progress = silent) -> Comparison:
    """Return the runs' values on one text, or one table, with paired bootstrap intervals.

    Language models are measured in bits per byte, so that tokenizers may differ; where one of them loses some
    of the text, in nats per token, and all must be the same. Classifiers are measured by their accuracy.
    """
    if len(names) < 2:
        raise SettingsError(f"found {len(names)} runs, expected two or more to compare")
    models = [load_model(name) for name in names]
    tasks = sorted({model.settings.task for model in models})
    if len(tasks) > 1:
        raise RunError(f"found runs for different tasks: {', '.join(tasks)}", "compare runs for one task")
    classifiers = [model for model in models if isinstance(model, Classifier)]
    if classifiers:
        return _compare_classifiers(names, classifiers, data, progress)
    return _compare_language(names, [model for model in models if isinstance(model, LanguageModel)], data, progress)


def _compare_classifiers(
    names: Sequence[str | Path], models: Sequence[Classifier], data: str | Path, progress: Progress
) -> Comparison:
    rights = []
    # Standard input can be read once.
    judged = [model.judge(data, progress=progress) for model in models]
    for model, each in zip(models, judged, strict=True):
        gold = [each.names[place] for place in each.gold_E]
        if gold != [judged[0].names[place] for place in judged[0].gold_E]:
            raise RunError("reads other rows of this table than the first run", where=str(model.folder))
        rights.append(comparison.UnitCosts((each.logprobs_EC.argmax(axis=1) == each.gold_E) * 1.0, np.ones(len(gold))))
    return comparison.compare([str(name) for name in names], rights, "accuracy", 1.0, _seed_groups(models))


def _compare_language(
    names: Sequence[str | Path], models: Sequence[LanguageModel], data: str | Path, progress: Progress
) -> Comparison:
    rules = {model.settings.data.documents for model in models}
    if len(rules) > 1:
        raise RunError(
            f"found runs with different documents: {', '.join(sorted(rules))}",
            "compare runs trained with the same data.documents",
        )
    (rule,) = rules
    corpus = open_corpus(data, models[0].settings.data, models[0].settings.training.seed)
    tokens = [_tokens(model, corpus, progress) for model in models]
    if all(each.counts.lossless for each in tokens):
        bytes_U = comparison.unit_bytes(corpus, rule)
        costs: list[comparison.UnitCosts] = []
        for model, each in zip(models, tokens, strict=True):
            progress(f"scoring with {model.folder.name}", len(costs) / len(models))
            costs.append(comparison.byte_costs(model.predictor, model.tokenizer, each, bytes_U))
        return comparison.bits_per_byte([str(name) for name in names], costs, _seed_groups(models))
    if len({model.tokenizer.sha256 for model in models}) > 1:
        losing = next(model for model, each in zip(models, tokens, strict=True) if not each.counts.lossless)
        raise RunError(
            f"{losing.folder} does not keep all of this text and the tokenizers differ: there is no common measure",
            "compare runs with the same tokenizer, or with char, byte, bpe or unigram ones",
        )
    costs = [comparison.token_costs(m.predictor, m.tokenizer, t) for m, t in zip(models, tokens, strict=True)]
    return comparison.compare([str(name) for name in names], costs, "nats_per_token", 1.0, _seed_groups(models))


def _tokens(model: LanguageModel, corpus: Corpus, progress: Progress) -> TokenFile:
    tokens = scratch_tokens(
        corpus, model.tokenizer, model.settings.data.documents, lambda done: progress("tokenizing", None)
    )
    if not tokens.counts.tokens:
        raise DataError("found no text, expected at least one token", where=corpus.name)
    return tokens


def _seed_groups(models: Sequence[Model]) -> list[list[int]]:
    """Return which runs are the same but for their seed."""
    groups: dict[str, list[int]] = {}
    for index, model in enumerate(models):
        groups.setdefault(_without_seed(model.run.settings, model.run.data.sha256), []).append(index)
    return [members for members in groups.values() if len({_seed(models[index]) for index in members}) > 1]


def _without_seed(settings: Mapping[str, Any], data: str) -> str:
    return repr((data, {key: value for key, value in settings.items() if key != "training"}))


def _seed(model: Model) -> int:
    return model.settings.training.seed


@dataclass(frozen=True)
class MixReport:
    """How a mix came about: each part's name, weight and cost on the text that taught the weights, and the mix's."""

    parts: tuple[str, ...]
    weights: tuple[float, ...]
    alone: tuple[Likelihood, ...]
    mixed: Likelihood
    rounds: int


def mix(
    names: Sequence[str | Path],
    data: str | Path,
    out: str | Path,
    *,
    force: bool = False,
    progress: Progress = silent,
) -> tuple[LanguageModel, MixReport]:
    """Learn the weights under which some runs together predict a text best, and keep the mix as a run of its own."""
    if len(names) < 2:
        raise SettingsError(f"found {len(names)} runs, expected two or more to mix")
    models = [load_language_model(name) for name in names]
    first = models[0]
    for model in models[1:]:
        if model.tokenizer.sha256 != first.tokenizer.sha256:
            raise RunError(
                f"has another tokenizer than {first.folder}, so their tokens cannot be mixed",
                f"train it with --tokenizer {first.folder}",
                where=str(model.folder),
            )
        if model.settings.data.documents != first.settings.data.documents:
            raise RunError(
                f"has documents by {model.settings.data.documents}, {first.folder} by {first.settings.data.documents}",
                "train it with the same data.documents",
                where=str(model.folder),
            )
    corpus = open_corpus(data, first.settings.data, first.settings.training.seed)
    tokens = _tokens(first, corpus, progress)
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
    described = runs.describe(settings, first.tokenizer, corpus.name, corpus.identity(), facts)
    with durable.new_folder(target, runs.is_run if force else None) as folder:
        progress("writing", None)
        for number, model in enumerate(models):
            runs.copy_run(folder, model.folder, f"{runs.PARTS}/{number}")
        runs.write_model(folder, described, first.tokenizer, {"weights": weights})
    alone = tuple(likelihood(predictor, tokens.ids, tokens.counts) for predictor in predictors)
    report = MixReport(labels, tuple(weights.tolist()), alone, likelihood(mixed, tokens.ids, tokens.counts), len(costs))
    return LanguageModel(mixed, first.tokenizer, settings, described, target), report


def _labels(folders: Sequence[Path]) -> tuple[str, ...]:
    """Return a name for each part: its folder's, with a number where two have the same."""
    names = [folder.resolve().name for folder in folders]
    return tuple(name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, start=1))
