"""The base class of trained models."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, overload

from satchel import config
from satchel.charts import html
from satchel.data.tokens import TokenCounts, TokenFile, decode_documents
from satchel.datasets.corpora import open_corpus
from satchel.datasets.registry import dataset_for_task
from satchel.errors import RunError
from satchel.evaluation.classification import ClassificationMetrics
from satchel.evaluation.comparison import UnitCosts
from satchel.evaluation.likelihood import Likelihood
from satchel.evaluation.translation import TranslationMetrics
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.text.reading import Corpus, DataSettings
from satchel.training.settings import RunSettings

if TYPE_CHECKING:
    from satchel.api.ablation import HeadCosts
    from satchel.api.attribution import ComparedAttributions, Target, WordAttributions
    from satchel.api.patterns import Patterns
    from satchel.api.probing import Probed
    from satchel.api.representations import VectorReader
    from satchel.api.senses import Neighbours, SenseReader, WordSenses, WordSimilarity
    from satchel.inspection.attribution import Instead, Method
    from satchel.inspection.lens import Lens
    from satchel.inspection.patterns import Pattern
    from satchel.inspection.trace import Trace


Metrics: TypeAlias = Likelihood | ClassificationMetrics | TranslationMetrics

# Maximum number of labels listed in a notebook.
MAX_LABELS = 10


@dataclass(frozen=True)
class TrainReport:
    """The result of a training."""

    run: str
    parameters: int
    seconds: float
    tokens_per_second: float
    train_loss: float | None
    valid: Metrics | None  # on the held-out data
    reasons: tuple[str, ...]  # for the settings that were chosen automatically
    counts: TokenCounts  # of the training data
    steps: int = 0
    stopped: str = "finished"
    baseline: Metrics | None = None  # of an n-gram model of the same data
    failed_save: str = ""  # why the last save failed, if it did


class Model(ABC):
    """A trained model with its tokenizer, settings and run folder."""

    def __init__(self, predictor: Any, settings: RunSettings, run: RunFolder) -> None:
        self.predictor = predictor  # computes log-probabilities from token ids
        self.network: Any = getattr(predictor, "network", None)  # None for n-gram models and mixtures
        self.tokenizer = run.tokenizer
        self.source_tokenizer = run.source_tokenizer  # differs from `tokenizer` only for translators
        self.settings = settings
        self.run = run.config
        self.folder = run.path
        self.report: TrainReport | None = None
        self._files = run

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.settings.model.kind} at {self.folder}>"

    def _repr_html_(self) -> str:
        facts, labels, report = self.run.facts, self.run.labels, self.report
        parameters = facts.get("parameters", report.parameters if report else None)
        rows = [
            ("model", self.settings.model.kind),
            ("task", self.task),
            ("parameters", f"{parameters:,}" if parameters else ""),
            ("n-grams", f"{sum(facts['ngrams']):,}" if "ngrams" in facts else ""),
            ("tokenizer", f"{self.tokenizer.kind}, {self.tokenizer.size:,} tokens"),
            ("labels", ", ".join(labels) if len(labels) <= MAX_LABELS else f"{len(labels):,}"),
            ("data", self.run.data.name),
            ("run", str(self.folder)),
            ("held-out", report.valid.headline if report and report.valid else ""),
            ("n-gram baseline", report.baseline.headline if report and report.baseline else ""),
        ]
        return html.facts((name, value) for name, value in rows if value)

    @property
    def task(self) -> str:
        """Task of the model: lm, tag, classify or translate."""
        return self.settings.task

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of a classifier or tags of a tagger, in the order of the logits."""
        return self.run.labels

    def corpus(self, data: str | Path, changes: config.Tree | None = None) -> Corpus:
        """Return data read with the settings of the run, except for `changes`."""
        tree = config.merge(self.settings.data.model_dump(), changes or {})
        name = dataset_for_task(str(data), self.task)
        return open_corpus(name, config.build(DataSettings, tree), self.settings.training.seed, split="test")

    def valid_tokens(self) -> TokenFile:
        """Return the held-out tokens of the run."""
        tokens = self._files.valid_tokens()
        if tokens is None:
            raise self._no_valid_data()
        return tokens

    def _no_valid_data(self) -> RunError:
        return RunError("has no held-out data", "give a file, or train with --valid 0.05", where=str(self.folder))

    @abstractmethod
    def evaluate(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> Metrics:
        """Return the metrics of the model on data; without data, on the held-out data of the run."""

    def ngram_baseline(self, progress: Progress = silent) -> Metrics | None:
        """Return the metrics of an n-gram model of the same data on the held-out data; None if there is none."""
        del progress
        return None

    @classmethod
    @abstractmethod
    def unit_costs(
        cls, models: Sequence[Any], data: str | Path | None, progress: Progress
    ) -> tuple[str, list[UnitCosts]]:
        """Return the metric by which models of this class are compared, and its values by unit for each model."""

    def validation_curve(self) -> tuple[str, list[tuple[int, float]]]:
        """Return the axis title and the (step, loss) pairs of the validations during training."""
        losses = [(line["step"], line.get("valid_loss")) for line in runs.read_metrics(self.folder)]
        return "loss (nats)", [(step, loss) for step, loss in sorted(losses) if loss is not None]

    def excerpt(self, characters: int) -> str:
        """Return the start of the held-out text, or of the training text if there is none."""
        tokens = self._files.valid_tokens() or self._files.tokens()
        return next(iter(decode_documents(tokens.ids[:1000], self.tokenizer)), "")[:characters]

    @property
    def has_senses(self) -> bool:
        """Whether it is a Backpack."""
        return "senses" in type(self.settings.model).model_fields

    @functools.cached_property
    def reader(self) -> "SenseReader":
        """What answers questions about senses; only Backpacks have them."""
        from satchel.api.senses import SenseReader

        return SenseReader(self)

    def senses(self, word: str, top: int = 10, contexts: int = 0) -> "WordSenses":
        """Return what each sense of a word promotes and suppresses, and how much it is used in the training text."""
        return self.reader.of(word, top, contexts)

    def all_senses(self, top: int = 10) -> "Iterator[WordSenses]":
        """Return the senses of every token of the vocabulary."""
        return self.reader.every(top)

    @functools.cached_property
    def vectors(self) -> "VectorReader":
        """What answers questions about vectors of words, by themselves and in context; all networks have them."""
        from satchel.api.representations import VectorReader

        return VectorReader(self)

    @property
    def compares_senses(self) -> bool:
        """Whether words are compared sense by sense; else each has one vector, which counts as its only sense."""
        return hasattr(getattr(self.network, "encoder", None), "mean_senses")

    def similar(self, word: str, top: int = 10) -> "list[Neighbours]":
        """Return the words most like a word, sense by sense."""
        return self.reader.near(word, top) if self.compares_senses else [self.vectors.near(word, top)]

    def similarity(self, first: str, second: str) -> "WordSimilarity":
        """Return how alike two words are, sense by sense."""
        return self.reader.alike(first, second) if self.compares_senses else self.vectors.compared(first, second)

    def probe(
        self,
        data: str | Path,
        *,
        leave_out: Sequence[str] = (),
        reading: config.Tree | None = None,
        seed: int = 0,
        progress: Progress = silent,
    ) -> "Probed":
        """Return how well a linear map reads the tags of a table off each layer, beside what needs no network.

        Words with a tag in `leave_out` are not asked about. `reading` may change how the table is read.
        """
        from satchel.api.probing import probe_model

        return probe_model(self, data, leave_out=leave_out, reading=reading, seed=seed, progress=progress)

    @overload
    def trace(self, text: str, target: str | None = None, start: int = 0) -> "Trace": ...
    @overload
    def trace(self, text: list[str] | tuple[str, ...], target: None = None, start: int = 0) -> "list[Trace]": ...
    def trace(
        self, text: str | list[str] | tuple[str, ...], target: str | None = None, start: int = 0
    ) -> "Trace | list[Trace]":
        """Return what the model did with a text: one forward pass, by site; of a translator, towards this target.

        A text that is longer than the model's context is read from its token `start` on. Several texts have a trace
        each.
        """
        from satchel.api.tracing import trace_model

        if isinstance(text, str):
            return trace_model(self, text, target, start)
        return [trace_model(self, each, target, start) for each in text]

    def lens(self, text: str, start: int = 0) -> "Lens":
        """Return what each layer would have said of a text, had it been the last one."""
        from satchel.api.tracing import lens_of

        return lens_of(self, self.trace(text, start=start))

    def attributions(
        self,
        text: str,
        target: "Target | None" = None,
        versus: str | int | None = None,
        method: "Method" = "integrated",
        *,
        instead: "Instead" = "mean",
        steps: int | None = None,
    ) -> "WordAttributions":
        """Return what each word of a text adds to a score, or to its lead over another: by an approximation.

        A target is the token that comes next, a label, or of a tagger a word's number, from 0, and its tag: (3, "NOUN")
        or 3. Without one it is the likeliest. Methods are `occlusion`, `gradient` and `integrated`, which takes as many
        steps as it needs unless `steps` says how many. What a word adds is more than what stands `instead` of it would:
        the `mean` of all word vectors, or `words` drawn from the vocabulary. A Backpack's `contributions` are exact.
        """
        from satchel.api.attribution import attributions

        return attributions(self, text, target, versus, method, instead=instead, steps=steps)

    def compare_attributions(
        self,
        text: str,
        target: "Target | None" = None,
        versus: str | int | None = None,
        *,
        instead: "Instead" = "mean",
    ) -> "ComparedAttributions":
        """Return what every method says of a text, and beside it, for a Backpack, what is exact."""
        from satchel.api.attribution import compared

        return compared(self, text, target, versus, instead=instead)

    def patterns(
        self,
        texts: Sequence[str | tuple[str, str]],
        patterns: "Sequence[str] | Mapping[str, Pattern] | None" = None,
    ) -> "Patterns":
        """Return how well each head fits each pattern over some texts: how much it looks where it is expected to.

        Patterns are names (`same`, `earlier`, `new`, `self`, `previous`, `next`, `first`; in sentences of @roles also
        `subject`, `object`, `referent`), or functions of tokens that give (T, T) booleans, by name. Without any, all
        that apply to every text. A translator is asked where in the source it looks: `same`, `aligned`, or functions
        of the tokens that are written and those of the source; its texts may be pairs.
        """
        from satchel.api.patterns import patterns_of

        return patterns_of(self, texts, patterns)

    def edit(self, *, zero: Iterable[tuple[int, int]] = ()) -> Self:
        """Return the same model without some heads, each the number of its layer and its own.

        Whatever can be asked of the model can be asked of this. They share their weights, and the model stays as it is.
        """
        from satchel.api.ablation import edited

        return edited(self, zero)

    def head_costs(self, data: str | Path | None = None, *, progress: Progress = silent) -> "HeadCosts":
        """Return what each head is worth: how much worse the model is without it, by default on what was held out."""
        from satchel.api.ablation import head_costs

        return head_costs(self, data, progress=progress)

    @property
    def majority(self) -> int:
        """Class id of the most frequent label or tag in the training data."""
        return self._files.majority
