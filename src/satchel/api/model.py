"""The base class of trained models."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, overload

from satchel import config
from satchel.charts import html
from satchel.data.tokens import TokenFile, decode_documents
from satchel.datasets.corpora import open_corpus, require_text
from satchel.datasets.registry import dataset_for_task
from satchel.errors import RunError, SettingsError
from satchel.evaluation.baselines import Metrics
from satchel.evaluation.comparison import UnitCosts
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.text.columns import DELIMITERS
from satchel.text.reading import Corpus, DataSettings
from satchel.text.tables import prefer_header
from satchel.training.report import TrainReport
from satchel.training.settings import RunSettings

if TYPE_CHECKING:
    from satchel.inspection.ablation import HeadCosts, Measure
    from satchel.inspection.aggregate import TotalList
    from satchel.inspection.attribution import Attributions, ComparedAttributions, Instead, Method
    from satchel.inspection.embeddings import WordVectors
    from satchel.inspection.lens import Lens
    from satchel.inspection.patched import Patch
    from satchel.inspection.patterns import Pattern, Patterns
    from satchel.inspection.probing import ProbeResult
    from satchel.inspection.senses import SenseVectors, SimilarWords, WordSenses, WordSimilarity
    from satchel.inspection.targets import Target
    from satchel.inspection.trace import Trace
    from satchel.nn.inference_layers import DecodingPrecision


# Unit of the validation loss by task.
LOSS_UNITS = {
    "lm": "nats per token",
    "tag": "nats per tag",
    "classify": "nats per text",
    "translate": "nats per target token",
}
# Maximum number of labels listed in a notebook.
MAX_LABELS = 10
# Methods that split an evaluation into groups, by the value of `by`.
BREAKDOWNS = {"distance": "recall", "length": "by_length", "position": "by_position"}
# Vectors by which words are compared.
Vectors = Literal["sense", "embedding"]


class Breakdown(NamedTuple):
    """Results of an evaluation by group."""

    by: str
    groups: list[Any]

    def document(self) -> dict[str, Any]:
        """Return the keys of `evaluate --by --json`."""
        return {"by": self.by, "rows": [asdict(each) for each in self.groups]}


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
        return html.facts(self.facts().items())

    def facts(self) -> dict[str, str]:
        """Return the facts of the model that a notebook shows, by name."""
        facts, labels, report = self.run.facts, self.run.labels, self.report
        parameters = facts.get("parameters", report.parameters if report else None)
        rows = {
            "model": self.settings.model.kind,
            "task": self.task,
            "parameters": f"{parameters:,}" if parameters else "",
            "n-grams": f"{sum(facts['ngrams']):,}" if "ngrams" in facts else "",
            "tokenizer": f"{self.tokenizer.kind}, {self.tokenizer.size:,} tokens",
            "labels": ", ".join(labels) if len(labels) <= MAX_LABELS else f"{len(labels):,}",
            "data": self.run.data.name,
            "run": str(self.folder),
            "held-out": report.valid.headline if report and report.valid else "",
            "n-gram baseline": report.baseline.headline if report and report.baseline else "",
        }
        return {name: value for name, value in rows.items() if value}

    @property
    def task(self) -> str:
        """Task of the model: lm, tag, classify or translate."""
        return self.settings.task

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of a classifier or tags of a tagger, in the order of the logits."""
        return self.run.labels

    def set_precision(self, precision: "DecodingPrecision") -> None:
        """Set the precision of matrix products: float32, bfloat16, or int8, which is for decoding only.

        The parameters are converted once: call it again after a change of the parameters.
        """
        predictors = [
            each for each in getattr(self.predictor, "parts", (self.predictor,)) if hasattr(each, "precision")
        ]
        if not predictors:
            if precision != "float32":
                raise SettingsError(f"precision={precision} does not apply to n-gram models", "use float32")
            return
        from satchel.nn.inference_layers import Products

        for predictor in predictors:
            predictor.precision = "float32" if precision == "int8" else precision
            predictor.products = Products(precision)

    def corpus(self, data: str | Path, changes: config.Tree | None = None, task: str | None = None) -> Corpus:
        """Return data read with the settings of the run, except for `changes`; by default for the task of the model."""
        stored = self.settings.data.model_dump()
        if stored["delimiter"] in DELIMITERS:  # another file may have another delimiter, which is detected
            stored["delimiter"] = None
        settings = config.build(DataSettings, config.merge(stored, changes or {}))
        task = task or self.task
        corpus = open_corpus(dataset_for_task(str(data), task), settings, self.settings.training.seed, split="test")
        return require_text(corpus) if task == "lm" else corpus

    def texts_of(self, data: str | Path) -> Sequence[str | tuple[str, str]]:
        """Return the texts of data: lines, rows of a table, or for a translator pairs of source and target."""
        return [line for piece in self.corpus(data).pieces() for line in piece.text.split("\n")]

    def table(self, data: str | Path, reading: config.Tree | None = None, task: str | None = None) -> Corpus:
        """Return a table, with a header unless the columns are named."""
        corpus = self.corpus(data, reading, task)
        return corpus if reading and "columns" in reading else prefer_header(corpus)

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

    def metrics_document(self, metrics: Metrics) -> dict[str, Any]:
        """Return the keys of `evaluate --json`."""
        return {"task": self.task, "model": self.settings.model.kind, **metrics.document()}

    def evaluate_by(
        self, by: str, data: str | Path | None = None, *, progress: Progress = silent, **options: Any
    ) -> "Breakdown":
        """Return the evaluation by group: `distance` of a word to its previous occurrence, `length` or `position`.

        Options are those of `evaluate`.
        """
        valid = [name for name, method in BREAKDOWNS.items() if hasattr(self, method)]
        if by not in valid:
            remedy = f"expected {' or '.join(valid)}" if valid else "leave --by out"
            raise SettingsError(f"--by {by} is not available for the task {self.task}", remedy)
        if by == "position":  # measured on the references: no search
            options.pop("beam", None)
        return Breakdown(by, getattr(self, BREAKDOWNS[by])(data, progress=progress, **options))

    def ngram_baseline(self, progress: Progress = silent) -> Metrics | None:
        """Return the metrics of an n-gram model of the same data on the held-out data; None if there is none."""
        del progress
        return None

    @classmethod
    def comparison_warnings(cls, models: Sequence[Any]) -> list[str]:
        """Return warnings about a comparison of models; raise an error if the comparison has no meaning."""
        del models
        return []

    @classmethod
    @abstractmethod
    def unit_costs(
        cls, models: Sequence[Any], data: str | Path | None, reading: config.Tree, progress: Progress
    ) -> tuple[str, list[UnitCosts], Iterable[str]]:
        """Return the metric by which models of this class are compared, its values by unit for each model, and texts.

        The texts are those of the units.
        """

    def validation_curve(self, *, convert: bool = True) -> tuple[str, list[tuple[int, float]]]:
        """Return the axis title and the (step, loss) pairs of the validations during training.

        With `convert`, the loss of a language model is in bits per byte where its tokenizer is lossless.
        """
        del convert
        losses = [(line["step"], line.get("valid_loss")) for line in runs.read_metrics(self.folder)]
        return f"loss ({LOSS_UNITS[self.task]})", [(step, loss) for step, loss in sorted(losses) if loss is not None]

    def excerpt(self, characters: int) -> str:
        """Return the start of the held-out text, or of the training text if there is none."""
        tokens = self._files.valid_tokens() or self._files.tokens()
        return next(iter(decode_documents(tokens.ids[:1000], self.tokenizer)), "")[:characters]

    @property
    def has_senses(self) -> bool:
        """Whether it is a Backpack."""
        return "senses" in type(self.settings.model).model_fields

    @property
    def sense_vectors(self) -> "SenseVectors":
        """Sense vectors of the vocabulary of a Backpack; an error for other models.

        They are computed from the current parameters at each access: keep the object to look up several words.
        """
        from satchel.inspection.senses import SenseVectors

        return SenseVectors(self)

    def senses(self, word: str, top: int = 10, contexts: int = 0) -> "WordSenses":
        """Return the senses of a word: promoted and suppressed tokens, and their use in the training text."""
        return self.sense_vectors.describe(word, top, contexts)

    def all_senses(self, top: int = 10) -> "Iterator[WordSenses]":
        """Return the senses of each token of the vocabulary."""
        return self.sense_vectors.describe_all(top)

    def contribution_totals(
        self,
        data: str | Path,
        by: Sequence[str],
        target: str | None = None,
        versus: str | None = None,
        progress: Progress = silent,
        *,
        raw: bool = False,
        tokens: int = 20_000,
    ) -> "TotalList":
        """Return the contributions of senses summed over a file, by `word`, `sense`, `position` or several of them.

        For language models to the logits of the next tokens, or to that of `target`, minus that of `versus`; for
        classifiers to the logit of each label. They are centred, or with `raw` the raw ones. At most `tokens` tokens of
        the file are used, a random sample; the list has the attributes `tokens` and `total_tokens`.
        """
        from satchel.inspection.aggregate import contribution_totals

        return contribution_totals(self, data, by, target, versus, progress, raw=raw, tokens=tokens)

    @property
    def vectors(self) -> "WordVectors":
        """Embeddings and hidden states of words; an error for models without a network.

        They are computed from the current parameters at each access: keep the object to look up several words.
        """
        from satchel.inspection.embeddings import WordVectors

        return WordVectors(self)

    @property
    def compares_senses(self) -> bool:
        """Whether words are compared by sense; otherwise by embedding, which counts as the only sense."""
        return hasattr(getattr(self.network, "encoder", None), "mean_senses")

    def similar(self, word: str, top: int = 10, by: "Vectors | None" = None) -> "SimilarWords":
        """Return the tokens most similar to a word, by sense, or by embedding as the only list."""
        from satchel.inspection.senses import SimilarWords

        if has_senses := self._by_sense(by):
            lists = self.sense_vectors.neighbours(word, top)
        else:
            lists = [self.vectors.neighbours(word, top)]
        return SimilarWords(word, lists, has_senses=has_senses)

    def similarity(self, first: str, second: str, by: "Vectors | None" = None) -> "WordSimilarity":
        """Return the cosine similarities of two words, by sense, or by embedding as the only sense."""
        return (self.sense_vectors if self._by_sense(by) else self.vectors).similarity(first, second)

    def _by_sense(self, by: "Vectors | None") -> bool:
        return self.compares_senses if by is None else by == "sense"

    def probe(
        self,
        data: str | Path,
        *,
        leave_out: Sequence[str] = (),
        reading: config.Tree | None = None,
        seed: int = 0,
        progress: Progress = silent,
    ) -> "ProbeResult":
        """Return the accuracy of linear probes for the tags of a table at each layer, with baselines.

        Words with a tag in `leave_out` are ignored. `reading` overrides settings for reading the table.
        """
        from satchel.inspection.probing import probe

        return probe(self, self.table(data, reading, "tag"), leave_out=leave_out, seed=seed, progress=progress)

    @overload
    def trace(self, text: str, target: str | None = None, start: int | None = None) -> "Trace": ...
    @overload
    def trace(
        self, text: list[str] | tuple[str, ...], target: None = None, start: int | None = None
    ) -> "list[Trace]": ...
    def trace(
        self, text: str | list[str] | tuple[str, ...], target: str | None = None, start: int | None = None
    ) -> "Trace | list[Trace]":
        """Return the values at all sites of the network in a forward pass over a text, or over each of several.

        A translator is traced on a target, by default its own translation. If the text exceeds the context, its last
        tokens are traced, or the window that begins at the token `start`; `window` of the trace states which.
        """
        if isinstance(text, str):
            return self._trace(text, target, start)
        return [self._trace(each, target, start) for each in text]

    def _trace(self, text: str, target: str | None, start: int | None) -> "Trace":
        from satchel.inspection.trace import trace_text

        if target is not None:
            raise SettingsError(f"target: expected a translator, but the task is {self.task}", "omit the target")
        return trace_text(self, text, start)

    def lens(self, text: str, start: int | None = None) -> "Lens":
        """Return the logit lens: the predictions of the head from the hidden states of each layer.

        If the text exceeds the context, its last tokens are used, or the window that begins at the token `start`.
        """
        from satchel.inspection.lens import logit_lens

        return logit_lens(self, self.trace(text, start=start))

    def attributions(
        self,
        text: str,
        target: "Target | None" = None,
        versus: str | int | None = None,
        method: "Method" = "integrated",
        *,
        instead: "Instead" = "mean",
        steps: int | None = None,
        start: int | None = None,
    ) -> "Attributions":
        """Return an approximate attribution of a logit, or of a difference of two logits, to the words of a text.

        The target is the next token, a label, or for a tagger the index of a word (from 0) and its tag: (3, "NOUN")
        or 3; by default the most probable one. The method is `occlusion`, `gradient` or `integrated` (integrated
        gradients; by default with as many `steps` as completeness needs). The reference embedding is the `mean` of
        all embeddings or a sample of `words`. The `contributions` of a Backpack are exact. The next token is predicted
        from the last tokens of the text, as many as the context, or from those from the token `start` on.
        """
        from satchel.inspection.attribution import attribute
        from satchel.inspection.targets import find_logit

        return attribute(find_logit(self, text, target, versus, start), method, instead=instead, steps=steps)

    def compare_attributions(
        self,
        text: str,
        target: "Target | None" = None,
        versus: str | int | None = None,
        *,
        method: str | None = None,
        instead: "Instead" = "mean",
        start: int | None = None,
        raw: bool = False,
    ) -> "ComparedAttributions":
        """Return the attributions by all methods and, for a Backpack, the exact contributions; or one of them.

        The exact contributions are centred, or with `raw` the raw ones.
        """
        from satchel.inspection.attribution import compare_chosen
        from satchel.inspection.targets import find_logit

        return compare_chosen(find_logit(self, text, target, versus, start), method, instead=instead, raw=raw)

    def patterns(
        self,
        texts: Sequence[str | tuple[str, str]],
        patterns: "Sequence[str] | Mapping[str, Pattern] | None" = None,
        *,
        start: int | None = None,
    ) -> "Patterns":
        """Return the agreement of each head with attention patterns over several texts.

        Patterns are names (`same`, `earlier`, `new`, `self`, `previous`, `next`, `first`; in sentences of @roles also
        `subject`, `object`, `referent`), or functions of the tokens that return a (T, T) array of booleans, by name; by
        default all that apply to any text. For a translator the cross-attention is compared: `same`, `aligned`, or
        functions of the target and the source tokens; its texts may be pairs. Of texts that exceed the context, the
        last tokens are used, or the window that begins at the token `start`.
        """
        from satchel.inspection.patterns import find_patterns

        def trace(text: str | tuple[str, str]) -> "Trace":
            return self.trace(text, start=start) if isinstance(text, str) else self.trace(*text, start=start)

        return find_patterns(self, texts, trace, patterns)

    def edit(self, *, zero: Iterable[tuple[int, int]] = (), patches: "Mapping[str, Patch] | None" = None) -> Self:
        """Return a copy of the model in which the outputs of attention heads, given as (layer, head), are zero.

        `patches` maps names of sites (`satchel info RUN`) to functions that return the replacement of a value there.
        The copy shares the parameters of the model, which is not changed.
        """
        from satchel.inspection.ablation import without_heads
        from satchel.inspection.patched import with_patches

        edited = without_heads(self, zero)
        return with_patches(edited, patches) if patches else edited

    def head_costs(self, data: str | Path | None = None, *, progress: Progress = silent) -> "HeadCosts":
        """Return the deterioration of the model without each attention head, by default on the held-out data.

        Language models are measured in bits per byte on the first tokens, or in bits per token if the tokenizer does
        not preserve the text; classifiers and taggers by accuracy.
        """
        from satchel.inspection.ablation import head_costs

        return head_costs(self, *self._measure(data), progress=progress)

    def _measure(self, data: str | Path | None) -> "tuple[Measure, Callable[[Any], float]]":
        """Return the measure of `head_costs`, and the function of a model that computes it."""
        raise RunError(f"task={self.task}: expected a language model, classifier or tagger", where=str(self.folder))

    @property
    def majority(self) -> int:
        """Class id of the most frequent label or tag in the training data."""
        return self._files.majority
