"""The models people hold in their hands, and what they answer."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from satchel import config, durable
from satchel.api.settings import MixRunSettings, Progress, RunSettings, silent
from satchel.data.tokens import TokenCounts, TokenFile, open_tokens, scratch_tokens
from satchel.errors import DataError, RunError, SettingsError
from satchel.evaluation.likelihood import Likelihood, likelihood
from satchel.generation.decoding import Sample, continue_text
from satchel.generation.sampling import Sampling
from satchel.ngram import arpa
from satchel.ngram.tables import Table
from satchel.predictor import Floats, Predictor
from satchel.runs import folder as runs
from satchel.text.corpora import open_corpus
from satchel.text.reading import Corpus, DataSettings, bytes_source
from satchel.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TrainReport:
    """How a training went; `valid` is the held-out part's cost, where there is one."""

    run: str
    parameters: int
    seconds: float
    tokens_per_second: float
    train_loss: float
    valid: Likelihood | None
    reasons: tuple[str, ...]
    counts: TokenCounts


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


@dataclass(frozen=True)
class NextTokens:
    """The likeliest next tokens."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]


class LanguageModel:
    """A trained language model and everything it can be asked."""

    def __init__(
        self,
        predictor: Predictor,
        tokenizer: Tokenizer,
        settings: RunSettings | MixRunSettings,
        run: runs.RunConfig,
        folder: Path,
    ) -> None:
        self.predictor = predictor
        self.tokenizer = tokenizer
        self.settings = settings
        self.run = run
        self.folder = folder
        self.report: TrainReport | None = None

    def __repr__(self) -> str:
        return f"<LanguageModel {self.settings.model.kind} at {self.folder}>"

    def evaluate(
        self, data: str | Path | None = None, *, encoding: str | None = None, progress: Progress = silent
    ) -> Likelihood:
        """Return what a text costs: a file, a folder or a built-in; without one, the run's own held-out part."""
        tokens = self._own_valid() if data is None else self._tokenize(data, encoding, progress)
        if not tokens.counts.tokens:
            raise DataError("found no text, expected at least one token", where=str(data))
        progress("scoring", None)
        return likelihood(self.predictor, tokens.ids, tokens.counts)

    def score(self, text: str) -> TextScore:
        """Return the log-probability of every token of a text, by the run's own rule for documents."""
        tokens = self._tokenize_corpus(Corpus("text", (bytes_source("text", text.encode()),)), silent)
        if not tokens.counts.tokens:
            raise DataError("found no text, expected at least one token")
        scores = self.predictor.score(tokens.ids)
        ids = tuple(int(id_) for id_ in tokens.ids[1:])
        return TextScore(tuple(map(self.tokenizer.text_of, ids)), ids, scores.logprobs, scores.notes)

    def next(self, prompt: str = "", top: int = 10) -> NextTokens:
        """Return the `top` likeliest tokens after a prompt, and their probabilities."""
        if top < 1:
            raise SettingsError(f"top: found {top}, expected 1 or more")
        ids_T = np.concatenate([[self.tokenizer.boundary], self.tokenizer.encode(prompt).ids])
        logprobs_BV, _ = self.predictor.step(ids_T[None], self.predictor.start(1))
        best = [int(id_) for id_ in np.argsort(-logprobs_BV[0], kind="stable")[:top]]
        chances = tuple(float(chance) for chance in np.exp(logprobs_BV[0, best]))
        return NextTokens(tuple(map(self.tokenizer.text_of, best)), tuple(best), chances)

    def generate(self, prompt: str = "", *, progress: Progress = silent, **options: Any) -> Generation:
        """Return continuations of a prompt. Options are those of Sampling: tokens, temperature, top_k, seed, ..."""
        sampling = config.build(Sampling, options)
        began = time.perf_counter()
        samples = continue_text(
            self.predictor, self.tokenizer, prompt, sampling, lambda done: progress("generating", done)
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

    def _tokenize(self, data: str | Path, encoding: str | None, progress: Progress) -> TokenFile:
        settings = self.settings.data
        if encoding is not None:
            settings = config.build(DataSettings, {**settings.model_dump(), "encoding": encoding}, "--encoding")
        corpus = open_corpus(data, settings, self.settings.training.seed)
        return self._tokenize_corpus(corpus, progress)

    def _tokenize_corpus(self, corpus: Corpus, progress: Progress) -> TokenFile:
        return scratch_tokens(
            corpus,
            self.tokenizer,
            self.settings.data.documents,
            lambda characters: progress("tokenizing", min(1.0, characters / max(1, corpus.size))),
        )

    def _own_valid(self) -> TokenFile:
        path = self.folder / runs.VALID_TOKENS
        if not path.exists():
            raise RunError(
                "kept no text to evaluate on",
                "name a file, or train with --valid 0.05",
                where=str(self.folder),
            )
        return open_tokens(path, tokenizer=self.tokenizer)
