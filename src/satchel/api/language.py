"""Language models: what they answer, and how they are fitted."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from satchel import config, durable
from satchel.api.model import Model, TrainReport
from satchel.charts import html
from satchel.data.tokens import TokenFile, decode_documents, open_tokens, tokenize_corpus
from satchel.errors import DataError, RunError, SettingsError
from satchel.evaluation.likelihood import Likelihood, likelihood
from satchel.evaluation.recall import Distance, recall
from satchel.generation.decoding import Sample, continue_text
from satchel.generation.sampling import Sampling
from satchel.ngram import arpa
from satchel.ngram.smoothing import Estimate, NgramSettings, estimate
from satchel.ngram.tables import Table
from satchel.predictor import Floats, Ids, Predictor
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text.display import visible
from satchel.text.reading import Corpus, bytes_source
from satchel.training.plan import Plan
from satchel.training.run_settings import LanguageSettings, MixRunSettings
from satchel.training.token_files import write_token_files

if TYPE_CHECKING:
    from satchel.api.senses import Explanation
    from satchel.training.networks import NetworkSettings


@dataclass(frozen=True)
class TextScore:
    """Every token of a text with its log-probability, and what the model says of each answer (`notes`)."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    logprobs: Floats
    notes: Mapping[str, Any]

    @property
    def total_logprob(self) -> float:
        return float(self.logprobs.sum())

    @property
    def perplexity(self) -> float:
        mean = -self.total_logprob / max(1, len(self.ids))
        return math.exp(mean) if mean < 700 else math.inf

    def _repr_html_(self) -> str:
        bits = (-self.logprobs / math.log(2)).tolist()
        total = f"{sum(bits):.2f} bits, {sum(bits) / max(1, len(bits)):.2f} in the mean of {len(bits):,} tokens"
        return html.tinted(self.tokens, bits, [f"{cost:.1f}" for cost in bits]) + html.lines([total])


@dataclass(frozen=True)
class Generation:
    """The continuations of a prompt."""

    prompt: str
    samples: tuple[Sample, ...]
    tokens_per_second: float

    @property
    def text(self) -> str:
        """The first continuation."""
        return self.samples[0].text

    def _repr_html_(self) -> str:
        return "".join(html.passage(sample.text, self.prompt) for sample in self.samples)


@dataclass(frozen=True)
class NextTokens:
    """The likeliest next tokens."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]

    def _repr_html_(self) -> str:
        rows = zip(self.tokens, self.probabilities, strict=True)
        return html.table(["token", "probability"], [(visible(token, spaces=True), f"{p:.4f}") for token, p in rows])


class LanguageModel(Model):
    """A trained language model and everything it can be asked."""

    predictor: Predictor
    settings: "LanguageSettings | MixRunSettings | NetworkSettings"

    def evaluate(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> Likelihood:
        """Return what a text costs: a file, a folder or a built-in; without one, the run's own held-out part.

        `reading` may change how it is read: {"encoding": "latin-1"}.
        """
        tokens = self.own_valid() if data is None else self._tokenize(self.corpus(data, reading), progress)
        if not tokens.counts.tokens:
            raise DataError("found no text, expected at least one token", where=str(data))
        progress("scoring", None)
        return likelihood(self.predictor, tokens.ids, tokens.counts)

    def recall(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> list[Distance]:
        """Return how well the last word of each document is recalled, by how far away it stood before."""
        if self.settings.data.documents == "stream":
            raise RunError(
                "reads all text as one document, and distances are measured within documents",
                "train with --set data.documents=line",
                where=str(self.folder),
            )
        tokens = self.own_valid() if data is None else self._tokenize(self.corpus(data, reading), progress)
        progress("recalling", None)
        found = recall(self.predictor, self.tokenizer, decode_documents(tokens.ids, self.tokenizer))
        if not found:
            raise DataError("found no document whose last word stood in it before", where=str(data))
        return found

    def score(self, text: str) -> TextScore:
        """Return the log-probability of every token of a text, by the run's own rule for documents."""
        tokens = self._tokenize(Corpus("text", (bytes_source("text", text.encode()),)), silent)
        if not tokens.counts.tokens:
            raise DataError("found no text, expected at least one token")
        scores = self.predictor.score(tokens.ids)
        ids = tuple(int(id_) for id_ in tokens.ids[1:])
        return TextScore(tuple(map(self.tokenizer.text_of, ids)), ids, scores.logprobs, scores.notes)

    def contributions(
        self, prefix: str, target: str | int | None = None, versus: str | int | None = None
    ) -> "Explanation":
        """Return what each sense of each word adds to the score of a token after a text, or to its lead over another.

        Without a target it is the likeliest token. A target is a word as it follows the text, or a token's number.
        """
        return self.reader.explain_next(prefix, target, versus)

    def tokens_of(self, data: str | Path) -> Ids:
        """Return the tokens of a file, read as the run's own was."""
        return self._tokenize(self.corpus(data), silent).ids

    def next(self, prompt: str = "", top: int = 10) -> NextTokens:
        """Return the `top` likeliest tokens after a prompt, and their probabilities."""
        if top < 1:
            raise SettingsError(f"top: found {top}, expected 1 or more")
        ids_T = np.concatenate([[self.tokenizer.boundary], self.tokenizer.encode(prompt).ids])
        logprobs_BV, _ = self.predictor.step(ids_T[None], self.predictor.start(1))
        best = [int(id_) for id_ in np.argsort(-logprobs_BV[0], kind="stable")[:top]]
        chances = tuple(float(chance) for chance in np.exp(logprobs_BV[0, best]))
        return NextTokens(tuple(map(self.tokenizer.text_of, best)), tuple(best), chances)

    def generate(
        self,
        prompt: str = "",
        *,
        progress: Progress = silent,
        on_text: Callable[[str], None] = lambda text: None,
        **options: Any,
    ) -> Generation:
        """Return continuations of a prompt. Options are those of Sampling: tokens, temperature, top_k, seed, ...

        `on_text` is given the first one as it grows.
        """
        sampling = config.build(Sampling, options)
        began = time.perf_counter()
        samples = continue_text(
            self.predictor,
            self.tokenizer,
            prompt,
            sampling,
            lambda done: progress("generating", done),
            on_text,
        )
        written = sum(len(sample.ids) for sample in samples)
        return Generation(prompt, tuple(samples), written / max(time.perf_counter() - began, 1e-9))

    def export_arpa(self, path: str | Path, *, progress: Progress = silent) -> Path:
        """Write the model as an ARPA file and return where it is."""
        if not isinstance(self.predictor, Table):
            raise RunError("is not an n-gram model", "only those can be ARPA files", where=str(self.folder))
        path = Path(path) / "model.arpa" if Path(path).is_dir() else Path(path)
        with durable.new_file(path) as handle:
            arpa.write_arpa(
                handle,
                self.predictor,
                self.tokenizer.spellings,
                self.tokenizer.unknown,
                lambda done: progress("writing", done),
            )
        return path

    def _tokenize(self, corpus: Corpus, progress: Progress) -> TokenFile:
        return tokenize_corpus(
            corpus,
            self.tokenizer,
            self.settings.data.documents,
            lambda characters: progress("tokenizing", min(1.0, characters / max(1, corpus.size))),
        )


# --- fitting ---------------------------------------------------------------------------------------


def fit_language_model(
    folder: durable.NewFolder, corpus: Corpus, planned: Plan, target: Path, began: float, progress: Progress
) -> LanguageModel:
    """Count a language model from a corpus and write its run into a new folder."""
    settings = planned.settings
    assert isinstance(settings, LanguageSettings)
    sha256 = corpus.identity()
    tokenizer = write_token_files(folder, corpus, sha256, planned, progress)
    tokens = open_tokens(folder.path / runs.TRAIN_TOKENS)
    fitted = estimate(
        tokens.ids,
        tokenizer.size + 1,
        settings.model,
        ends=settings.data.documents != "stream",
        progress=lambda n: progress(f"counting {n}-grams", (n - 1) / settings.model.order),
    )
    progress("writing", None)
    described = runs.describe(settings, tokenizer, corpus.name, sha256, _facts(fitted, tokens, corpus))
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


def bits_by_step(model: LanguageModel) -> list[tuple[int, float | None]]:
    """Return what the held-out text cost, in bits per byte, at each step of a training where it was measured."""
    counts = model.own_valid().counts
    per_byte = counts.tokens / counts.bytes / math.log(2) if counts.lossless and counts.bytes else None
    found = []
    for measured in runs.read_metrics(model.folder):
        loss = measured.get("valid_loss")
        found.append((measured["step"], None if loss is None or per_byte is None else loss * per_byte))
    return sorted(found)
