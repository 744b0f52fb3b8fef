"""Several runs at once: comparing them on one text, and mixing them into one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from satchel import durable
from satchel.api.classification import Classifier
from satchel.api.language import LanguageModel
from satchel.api.load import load_language_model, load_model
from satchel.api.model import Model
from satchel.api.tagging import Tagger
from satchel.api.translation import Translator
from satchel.data.tokens import TokenCounts, TokenFile, decode_documents, tokenize_corpus
from satchel.errors import DataError, RunError, SettingsError
from satchel.evaluation import comparison
from satchel.evaluation.comparison import Comparison
from satchel.evaluation.likelihood import Likelihood, likelihood
from satchel.evaluation.translation import by_sentence
from satchel.generation.mixing import Mix, learn_weights, part_logprobs
from satchel.predictor import Ids
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text.reading import Corpus, DocumentRule
from satchel.text.tokenizer import Tokenizer
from satchel.training.run_settings import MixRunSettings, MixSettings


def compare(names: Sequence[str | Path], data: str | Path | None = None, *, progress: Progress = silent) -> Comparison:
    """Return the runs' values on one text, or one table, with paired bootstrap intervals.

    Without `data` it is what all of them held out, which has to be the same.

    Language models are measured in bits per byte, so that tokenizers may differ; where one of them loses some
    of the text, in nats per token, and all must be the same. Classifiers and taggers are measured by their accuracy,
    translators by the mean chrF of a sentence.
    """
    if len(names) < 2:
        raise SettingsError(f"found {len(names)} runs, expected two or more to compare")
    models = [load_model(name) for name in names]
    tasks = sorted({model.settings.task for model in models})
    if len(tasks) > 1:
        raise RunError(f"found runs for different tasks: {', '.join(tasks)}", "compare runs for one task")
    labellers = [model for model in models if isinstance(model, (Classifier, Tagger))]
    translators = [model for model in models if isinstance(model, Translator)]
    if translators:
        return _compare_translators(names, translators, data, progress)
    if labellers:
        return _compare_labellers(names, labellers, data, progress)
    return _compare_language(names, [model for model in models if isinstance(model, LanguageModel)], data, progress)


def _compare_labellers(
    names: Sequence[str | Path], models: Sequence[Classifier | Tagger], data: str | Path | None, progress: Progress
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


def _compare_translators(
    names: Sequence[str | Path], models: Sequence[Translator], data: str | Path | None, progress: Progress
) -> Comparison:
    pairs = models[0].pairs(data)
    texts = [pair[:2] for pair in pairs]
    scores: list[comparison.UnitCosts] = []
    for model in models:
        if data is None and [pair[:2] for pair in model.pairs()] != texts:
            raise RunError("the runs did not hold out the same pairs", "name some with --data")
        progress(f"translating with {model.folder.name}", len(scores) / len(models))
        found = [each.target for each in model.predict(pair.source for pair in pairs)]
        likeness = by_sentence(found, [pair.target for pair in pairs])
        scores.append(comparison.UnitCosts(np.array(likeness), np.ones(len(likeness))))
    return comparison.compare([str(name) for name in names], scores, "sentence_chrf", 1.0, _seed_groups(models))


def _compare_language(
    names: Sequence[str | Path], models: Sequence[LanguageModel], data: str | Path | None, progress: Progress
) -> Comparison:
    rules = {model.settings.data.documents for model in models}
    if len(rules) > 1:
        raise RunError(
            f"found runs with different documents: {', '.join(sorted(rules))}",
            "compare runs trained with the same data.documents",
        )
    (rule,) = rules
    if data is None:
        tokens = [_shared_valid(models)] * len(models)
        bytes_U = comparison.token_bytes(tokens[0], models[0].tokenizer, rule) if tokens[0].counts.lossless else None
    else:
        corpus = models[0].corpus(data)
        tokens = [_tokens(model, corpus, progress) for model in models]
        bytes_U = comparison.unit_bytes(corpus, rule) if all(each.counts.lossless for each in tokens) else None
    if bytes_U is not None:
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


def _shared_valid(models: Sequence[LanguageModel]) -> TokenFile:
    """Return what all of some runs held out. A mix holds out nothing of its own: its parts have seen to that."""
    tokens = [model.own_valid() for model in models if not isinstance(model.settings, MixRunSettings)]
    same = len({model.tokenizer.sha256 for model in models}) == 1 and bool(tokens)
    if not same or any(not np.array_equal(each.ids, tokens[0].ids) for each in tokens[1:]):
        raise RunError("the runs did not hold out the same text", "name a text with --data")
    return tokens[0]


def _tokens(model: LanguageModel, corpus: Corpus, progress: Progress) -> TokenFile:
    tokens = tokenize_corpus(
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
    training = {key: value for key, value in settings["training"].items() if key != "seed"}
    return repr((data, {**settings, "training": training}))


def _seed(model: Model) -> int:
    return model.settings.training.seed


@dataclass(frozen=True)
class MixReport:
    """How a mix came about: each part's name and weight, what a text costs it alone, and what it costs the mix.

    `is_new` says whether that text is another one than the one that taught the weights.
    """

    parts: tuple[str, ...]
    weights: tuple[float, ...]
    alone: tuple[Likelihood, ...]
    mixed: Likelihood
    rounds: int
    is_new: bool


def mix(
    names: Sequence[str | Path],
    out: str | Path,
    data: str | Path | None = None,
    *,
    force: bool = False,
    progress: Progress = silent,
) -> tuple[LanguageModel, MixReport]:
    """Learn the weights under which some runs together predict a text best, and keep the mix as a run of its own.

    Without `data` they are learned on the first half of what all of the runs held out, and measured on the other.
    """
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
    if data is None:
        tokens, measured = _halves(_shared_valid(models), first.tokenizer, first.settings.data.documents)
        name, sha256 = first.run.data.name, first.run.data.sha256
    else:
        corpus = first.corpus(data)
        tokens = measured = _tokens(first, corpus, progress)
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
    described = runs.describe(settings, first.tokenizer, name, sha256, facts)
    with durable.new_folder(target, runs.is_run if force else None) as folder:
        progress("writing", None)
        for number, model in enumerate(models):
            runs.copy_run(folder, model.folder, f"{runs.PARTS}/{number}")
        runs.write_model(folder, described, first.tokenizer, {"weights": weights})
    report = MixReport(
        labels,
        tuple(weights.tolist()),
        alone=tuple(likelihood(predictor, measured.ids, measured.counts) for predictor in predictors),
        mixed=likelihood(mixed, measured.ids, measured.counts),
        rounds=len(costs),
        is_new=measured is not tokens,
    )
    return LanguageModel(mixed, first.tokenizer, settings, described, target), report


def _halves(tokens: TokenFile, tokenizer: Tokenizer, rule: DocumentRule) -> tuple[TokenFile, TokenFile]:
    """Return the two halves of a text: whole documents, or parts of a stream."""
    ids = np.asarray(tokens.ids)
    ends = np.flatnonzero(ids[1:] == tokenizer.boundary) + 2
    middle = int(ends[(len(ends) - 1) // 2]) if len(ends) else (len(ids) + 1) // 2
    parts = ids[:middle], np.concatenate([ids[:1], ids[middle:]])
    if min(map(len, parts)) < 2:
        raise DataError("the held-out text is too short to be halved", "name a text with --data")
    return _part(parts[0], tokens, tokenizer, rule), _part(parts[1], tokens, tokenizer, rule)


def _part(ids: Ids, tokens: TokenFile, tokenizer: Tokenizer, rule: DocumentRule) -> TokenFile:
    """Return part of a token file."""
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
    """Return a name for each part: its folder's, with a number where two have the same."""
    names = [folder.resolve().name for folder in folders]
    return tuple(name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, start=1))
