"""Training: from a text and some settings to a run folder."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from satchel import config, durable
from satchel.api.models import LanguageModel, TrainReport
from satchel.api.settings import Progress, RunSettings, silent
from satchel.data.tokens import Split, TokenFile, TokenWriter, open_tokens, write_tokens
from satchel.errors import DataError, SettingsError
from satchel.evaluation.likelihood import Likelihood, likelihood
from satchel.ngram.smoothing import Estimate, NgramSettings, estimate
from satchel.runs import folder as runs
from satchel.text.builtin import BUILTINS
from satchel.text.corpora import infer_task, open_corpus
from satchel.text.reading import Corpus, Piece, file_source, stdin_source
from satchel.text.tokenizer import KINDS, Tokenizer, load_tokenizer, parse_tokenizer, train_tokenizer


@dataclass(frozen=True)
class Plan:
    """What a training would do: its settings, its text, its tokenizer if there is one already, and why."""

    settings: RunSettings
    data: str
    tokenizer: Tokenizer | None
    reasons: tuple[str, ...]

    def estimates(self) -> dict[str, int]:
        """Return about how many tokens, parameters, bytes of memory and seconds the training would take."""
        corpus = open_corpus(self.data, self.settings.data, self.settings.training.seed)
        _require_lm(corpus, self.settings)
        characters = sum(len(piece.text) for piece in corpus.pieces())
        kind = self.tokenizer.kind if self.tokenizer else self.settings.tokenizer.kind
        tokens = characters if kind in ("char", "byte") else int(characters / (5.5 if kind == "word" else 3.5))
        size = self.tokenizer.size if self.tokenizer else self.settings.tokenizer.size or 8000
        ngrams = sum(min(size**n, tokens) for n in range(1, self.settings.model.order + 1))
        return {
            "characters": characters,
            "tokens": tokens,
            "parameters_at_most": 2 * ngrams,
            "memory_bytes": 100 * tokens + 40 * ngrams,
            "seconds": 1 + int(characters * 4e-7 + ngrams * 5e-7),
        }


def plan(
    data: str | Path,
    *,
    task: str | None = None,
    model: str | None = None,
    recipe: str | Path | None = None,
    tokenizer: str | Path | None = None,
    valid: str | float | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """Return what `train` would do with the same arguments. `settings` may use dotted keys."""
    tree: config.Tree = {}
    for key, value in (settings or {}).items():
        tree = config.merge(tree, _nested(key, value))
    recipe_tree = config.read_toml(Path(recipe)) if recipe is not None else {}
    tree = config.merge(recipe_tree, tree)
    reasons: list[str] = []
    existing: Tokenizer | None = None
    if tokenizer is not None:
        chosen = parse_tokenizer(str(tokenizer))
        if isinstance(chosen, Path):
            existing = load_tokenizer(chosen)
            if existing.kind in KINDS:
                tree = config.merge(tree, {"tokenizer": {"kind": existing.kind}})
            reasons.append(f"tokenizer: {existing.kind}, {existing.size:,} tokens, from {chosen}")
        else:
            tree = config.merge(tree, {"tokenizer": chosen.model_dump(exclude_unset=True, exclude_none=True)})
    for key, value in (("task", task), ("model.kind", model), ("data.valid", valid), ("training.seed", seed)):
        if value is not None:
            tree = config.merge(tree, _nested(key, value))
    where = str(recipe) if recipe is not None else ""
    given = config.build(RunSettings, tree, where)
    if str(data) in BUILTINS and "documents" not in given.data.model_fields_set:
        rule = BUILTINS[str(data)].documents
        tree = config.merge(tree, _nested("data.documents", rule))
        reasons.append(f"data.documents={rule}: as suits {data}")
    kind = existing.kind if existing else given.tokenizer.kind
    if kind in ("char", "byte") and "order" not in given.model.model_fields_set:
        tree = config.merge(tree, _nested("model.order", 7))
        reasons.append(f"model.order=7: single {'characters' if kind == 'char' else 'bytes'} need a longer context")
    return Plan(config.build(RunSettings, tree, where), str(data), existing, tuple(reasons))


def _nested(key: str, value: Any) -> config.Tree:
    tree: config.Tree = {}
    config.place(tree, key, value)
    return tree


def train(
    data: str | Path,
    *,
    task: str | None = None,
    model: str | None = None,
    recipe: str | Path | None = None,
    tokenizer: str | Path | None = None,
    valid: str | float | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> LanguageModel:
    """Train a model on a text and return it. It is kept in the run folder `out`, by default runs/NAME-OF-THE-DATA."""
    planned = plan(
        data,
        task=task,
        model=model,
        recipe=recipe,
        tokenizer=tokenizer,
        valid=valid,
        seed=seed,
        settings=settings,
    )
    return carry_out(planned, out=out, force=force, progress=progress)


def default_out(data: str) -> Path:
    """Return where a run goes whose folder was not named."""
    stem = Path(data.split(",")[0]).name.lstrip("@").split(".")[0] if data != "-" else "stdin"
    return Path("runs") / (stem or "run")


def carry_out(
    planned: Plan, *, out: str | Path | None = None, force: bool = False, progress: Progress = silent
) -> LanguageModel:
    """Train as planned. The run folder appears whole, or not at all."""
    settings = planned.settings
    if settings.model.smoothing == "imported":
        raise SettingsError("model.smoothing=imported: such a model is not trained", "use kneser-ney")
    target = Path(out) if out is not None else default_out(planned.data)
    began = time.perf_counter()
    with durable.new_folder(target, runs.is_run if force else None) as folder:
        if planned.data == "-":
            with folder.create("stdin.txt") as handle:
                stdin_source(handle)
            source = file_source(folder.path / "stdin.txt", "-")
            corpus = Corpus("-", (source,), settings.data)
        else:
            corpus = open_corpus(
                planned.data, settings.data, settings.training.seed, lambda stage: progress(stage, None)
            )
        _require_lm(corpus, settings)
        sha256 = corpus.identity()
        tokenizer = _write_token_files(folder, corpus, sha256, planned, progress)
        tokens = open_tokens(folder.path / runs.TRAIN_TOKENS)
        fitted = estimate(
            tokens.ids,
            tokenizer.size + 1,
            settings.model,
            ends=settings.data.documents != "stream",
            progress=lambda n: progress(f"counting {n}-grams", (n - 1) / settings.model.order),
        )
        progress("writing", None)
        described = runs.describe("lm", settings, tokenizer, corpus.name, sha256, _facts(fitted, tokens, corpus))
        runs.write_model(folder, described, tokenizer, fitted.table.arrays())
        valid = None
        if (folder.path / runs.VALID_TOKENS).exists():
            held_out = open_tokens(folder.path / runs.VALID_TOKENS)
            valid = likelihood(fitted.table, held_out.ids, held_out.counts)
        seconds = time.perf_counter() - began
        runs.write_metrics(
            folder,
            step=0,
            seconds=round(seconds, 3),
            train_loss=fitted.train_loss,
            valid_loss=valid.nats_per_token if valid else None,
        )
    trained = LanguageModel(fitted.table, tokenizer, settings, described, target)
    trained.report = TrainReport(
        run=str(target),
        parameters=fitted.table.parameters,
        seconds=seconds,
        tokens_per_second=tokens.counts.tokens / seconds,
        train_loss=fitted.train_loss,
        valid=valid,
        reasons=planned.reasons,
        counts=tokens.counts,
    )
    return trained


def _require_lm(corpus: Corpus, settings: RunSettings) -> None:
    """Refuse data for a task that there is no model for."""
    found = infer_task(corpus)
    if found != settings.task and "task" not in settings.model_fields_set:
        raise DataError(
            f"is data for the task {found}, and this version trains language models only",
            "to read it as plain text give --task lm",
            where=corpus.name,
        )


def _write_token_files(
    folder: durable.NewFolder, corpus: Corpus, sha256: str, planned: Plan, progress: Progress
) -> Tokenizer:
    """Write the train tokens, and the validation tokens if there are any; return the tokenizer."""
    settings = planned.settings
    rule, held_out = settings.data.documents, settings.data.valid
    split = Split(held_out if isinstance(held_out, float) else 0.0, settings.training.seed)
    # The tokenizer and a split of a stream need to know how much text there is.
    characters = 0
    for piece in corpus.pieces(rule):
        characters += len(piece.text)
        progress("reading", None)
    if not characters:
        raise DataError("found no text, expected at least one token", "give a file with text in it", where=corpus.name)

    def part(is_valid: bool) -> Iterator[Piece]:
        for is_held_out, piece in split.parts(corpus, rule, characters):
            if is_held_out == is_valid:
                yield piece

    def report(done: int) -> None:
        progress("tokenizing", min(1.0, done / characters))

    tokenizer = planned.tokenizer
    if tokenizer is None:
        progress("learning the tokenizer", None)
        texts = (piece.text for piece in part(is_valid=False))
        tokenizer = train_tokenizer(settings.tokenizer, texts, characters)
    _write_part(folder, runs.TRAIN_TOKENS, tokenizer, part(is_valid=False), settings, sha256, report)
    if isinstance(held_out, str):
        other = open_corpus(held_out, settings.data, settings.training.seed)
        _write_part(folder, runs.VALID_TOKENS, tokenizer, other.pieces(rule), settings, other.identity(), report)
    elif held_out > 0:
        _write_part(folder, runs.VALID_TOKENS, tokenizer, part(is_valid=True), settings, sha256, report)
    return tokenizer


def _write_part(
    folder: durable.NewFolder,
    name: str,
    tokenizer: Tokenizer,
    pieces: Iterator[Piece],
    settings: RunSettings,
    sha256: str,
    report: Callable[[int], None],
) -> None:
    with folder.create(name) as handle:
        writer = TokenWriter(handle, tokenizer, settings.data.documents)
        counts = write_tokens(writer, pieces, report)
        writer.finish(sha256)
    if not counts.tokens:
        is_valid = name == runs.VALID_TOKENS
        raise DataError(
            f"the {'validation' if is_valid else 'training'} part has no token in it",
            "give more text, another fraction, or a file with --valid",
        )


def _facts(fitted: Estimate, tokens: TokenFile, corpus: Corpus) -> dict[str, Any]:
    """Return what was found out while training, for people who open the run."""
    return {
        "counts": asdict(tokens.counts),
        "repaired": dict(corpus.repaired),
        "ngrams": fitted.table.sizes,
        "discounts": [[*discount.amounts] for discount in fitted.discounts],
        "fallback_orders": [n for n, discount in enumerate(fitted.discounts, start=1) if discount.is_fallback],
    }


def cost_by_order(model: LanguageModel, orders: Sequence[int], progress: Progress = silent) -> list[Likelihood]:
    """Return what the run's held-out text costs under models of other orders, fitted to its training text."""
    tokens, held_out = (
        open_tokens(model.folder / runs.TRAIN_TOKENS),
        open_tokens(model.folder / runs.VALID_TOKENS),
    )
    costs = []
    for number, order in enumerate(orders):
        progress(f"fitting order {order}", number / len(orders))
        assert isinstance(model.settings.model, NgramSettings)
        settings = model.settings.model.model_copy(update={"order": order})
        ends = model.settings.data.documents != "stream"
        table = estimate(tokens.ids, model.predictor.vocabulary, settings, ends=ends).table
        costs.append(likelihood(table, held_out.ids, held_out.counts))
    return costs
