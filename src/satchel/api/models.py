"""What every trained model has, whatever its task."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from satchel import config
from satchel.api.settings import ClassifierSettings, LanguageSettings, MixRunSettings, Progress, silent
from satchel.data.tokens import TokenCounts, TokenFile, open_tokens
from satchel.errors import RunError
from satchel.evaluation.classification import Classification
from satchel.evaluation.likelihood import Likelihood
from satchel.evaluation.translation import Translation
from satchel.runs import folder as runs
from satchel.text.builtin import variant
from satchel.text.corpora import open_corpus
from satchel.text.reading import Corpus, DataSettings
from satchel.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from satchel.api.networks import NetworkSettings, TranslationSettings
    from satchel.api.probing import Probed
    from satchel.api.representations import VectorReader
    from satchel.api.senses import Alike, Neighbours, SenseReader, WordSenses
    from satchel.looking.lens import Lens
    from satchel.looking.trace import Trace


@dataclass(frozen=True)
class TrainReport:
    """How a training went; `valid` is what the held-out part says, where there is one."""

    run: str
    parameters: int
    seconds: float
    tokens_per_second: float
    train_loss: float | None
    valid: Likelihood | Classification | Translation | None
    reasons: tuple[str, ...]
    counts: TokenCounts
    steps: int = 0
    stopped: str = "finished"
    baseline: Likelihood | Classification | None = None  # what counting makes of the same data
    failed_save: str = ""  # why the last save failed, if it did


class Model:
    """A trained model: its tokenizer, its settings, and the run folder it lives in."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        settings: "LanguageSettings | MixRunSettings | ClassifierSettings | NetworkSettings | TranslationSettings",
        run: runs.RunConfig,
        folder: Path,
        *,
        network: Any = None,
    ) -> None:
        self.network = network  # that which answers; None where it is not one network
        self.tokenizer = tokenizer
        self.settings = settings
        self.run = run
        self.folder = folder
        self.report: TrainReport | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.settings.model.kind} at {self.folder}>"

    def corpus(self, data: str | Path, changes: config.Tree | None = None) -> Corpus:
        """Return a corpus read as the run's own was, but for some settings."""
        tree = config.merge(self.settings.data.model_dump(), changes or {})
        name = variant(str(data), self.settings.task)
        return open_corpus(name, config.build(DataSettings, tree), self.settings.training.seed, part="test")

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

    def similarity(self, first: str, second: str) -> "Alike":
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

    def trace(self, text: str, target: str | None = None, start: int = 0) -> "Trace":
        """Return what the model did with a text: one forward pass, by site; of a translator, towards this target.

        A text that is longer than the model's context is read from its token `start` on.
        """
        from satchel.api.tracing import trace_model

        return trace_model(self, text, target, start)

    def lens(self, text: str, start: int = 0) -> "Lens":
        """Return what each layer would have said of a text, had it been the last one."""
        from satchel.api.tracing import lens_of

        return lens_of(self, self.trace(text, start=start))

    @property
    def majority(self) -> int:
        """The number of the label, or the tag, that most training rows have."""
        counts = self.run.facts["rows_by_label"]
        return max(range(len(counts)), key=counts.__getitem__)

    def own_valid(self) -> TokenFile:
        """Return the tokens that were held out when the run was trained."""
        path = self.folder / runs.VALID_TOKENS
        if not path.exists():
            raise RunError(
                "kept nothing to evaluate on", "name a file, or train with --valid 0.05", where=str(self.folder)
            )
        return open_tokens(path, tokenizer=self.tokenizer)
