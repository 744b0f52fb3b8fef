"""Default settings by amount of data, task and budget.

`bench/defaults.py` measures these rules. They do not depend on timing: the same data, budget and number of cores always
give the same settings.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from satchel import config
from satchel.data.tagged import has_character_tags
from satchel.datasets.corpora import open_corpus
from satchel.datasets.registry import DATASETS
from satchel.text.reading import Corpus, DataSettings
from satchel.text.tables import read_examples, read_pairs, read_tagged
from satchel.text.tokenizer import Tokenizer
from satchel.text.tokenizer_training import default_size
from satchel.training.task import Choices

# Training time if no budget is given.
DEFAULT_MINUTES = 5.0
# Settings that limit the length of a training.
BUDGETS = frozenset({"steps", "epochs", "minutes"})
# Kinds of models with attention.
ATTENTION_KINDS = ("transformer", "backpack")
# Floating point operations per second in training: of a CPU core, and of other devices.
CORE_RATE = 3e10
DEVICE_RATES = {"cuda": 2e13, "mps": 1e12}
# Number of training tokens per parameter that gives the lowest loss for a given amount of computation.
TOKENS_PER_PARAMETER = 6
# Numbers of epochs above which regularisation is increased.
FEW_EPOCHS, SEVERAL_EPOCHS, MANY_EPOCHS = 2, 8, 20
# Maximum number of tokens for which an n-gram model is counted by default, as counting takes time and memory.
MOST_COUNTED = 20_000_000
# Approximate number of optimizer steps of a training.
UPDATES = 2000
# Assumed number of characters of standard input.
STDIN_CHARACTERS = 1_000_000
# Assumed compression ratio of .gz files.
GZIP_RATIO = 3
# Number of rows of a table that are inspected.
INSPECTED_ROWS = 100
# Maximum mean distance between spaces in a text with words separated by spaces.
MAX_WORD_LENGTH = 20


# A setting, its value and the reason for it.
Choice: TypeAlias = tuple[str, Any, str]


class Shape(NamedTuple):
    """The size of a Transformer."""

    width: int
    layers: int
    heads: int

    def parameters(self, vocabulary: int) -> int:
        """Return the number of parameters of the blocks and the logits."""
        return 12 * self.layers * self.width**2 + vocabulary * self.width

    def pair_parameters(self, vocabulary: int) -> int:
        """Return the number of parameters of an encoder, a decoder and the logits."""
        return 28 * self.layers * self.width**2 + vocabulary * self.width


# Each shape requires two to three times the computation of the previous one.
SHAPES = tuple(
    Shape(*size)
    for size in ((64, 2, 4), (96, 3, 4), (128, 4, 4), (192, 5, 6), (256, 6, 8), (384, 6, 6), (512, 8, 8), (768, 12, 12))
)


@dataclass(frozen=True)
class Budget:
    """The length of a training: floating point operations, or tokens."""

    operations: float | None = None
    tokens: float | None = None

    @property
    def parameters(self) -> float:
        """Number of parameters that gives the lowest loss within the budget."""
        if self.operations is not None:
            return math.sqrt(self.operations / (6 * TOKENS_PER_PARAMETER))
        assert self.tokens is not None
        return self.tokens / TOKENS_PER_PARAMETER

    def training_tokens(self, parameters: float) -> float:
        """Return the number of tokens that a network of this size is trained on."""
        if self.operations is not None:
            return self.operations / (6 * parameters)
        assert self.tokens is not None
        return self.tokens

    def shape(self, vocabulary: int) -> Shape:
        """Return the shape whose number of parameters is nearest to the best one."""
        return min(SHAPES, key=lambda shape: abs(math.log(shape.parameters(vocabulary) / self.parameters)))


def time_budget(minutes: float, device: str = "cpu", threads: int = 0) -> Budget:
    """Return the budget of a number of minutes on a device; 0 threads are all cores."""
    rate = DEVICE_RATES.get(device, CORE_RATE * (threads or os.cpu_count() or 1))
    return Budget(operations=60 * minutes * rate)


def _budget(training: Any, tokens: float) -> Budget:
    """Return the budget of training settings; `tokens` is the size of the training data."""
    if training.minutes is not None:
        return time_budget(training.minutes, training.device, training.threads)
    if training.epochs is not None:
        return Budget(tokens=training.epochs * tokens)
    return Budget(tokens=training.steps * training.batch_tokens)


def characters_per_token(kind: str, size: int) -> float:
    """Return the approximate number of characters per token of English text."""
    if kind in ("char", "byte"):
        return 1.0
    return 5.5 if kind == "word" else 1.9 + 0.45 * math.log2(max(1.0, size / 500))


def ngram_order(kind: str) -> int:
    """Return the default n-gram order for a kind of tokenizer."""
    return 7 if kind in ("char", "byte") else 5


def _characters(corpus: Corpus) -> int:
    """Return the approximate number of characters of a corpus from its file sizes."""
    return sum(source.size * (GZIP_RATIO if source.name.endswith(".gz") else 1) for source in corpus.sources)


def _choose_vocabulary(choices: Choices, characters: int, tokenizer: Tokenizer | None) -> tuple[str, int]:
    """Choose the size of a subword tokenizer; return the kind and the approximate size of the tokenizer."""
    if tokenizer is not None:
        return tokenizer.kind, tokenizer.size
    kind = choices.settings().tokenizer.kind
    if kind in ("bpe", "unigram"):
        choices.choose("tokenizer.size", default_size(characters), f"for a text of {characters:,} characters")
    return kind, choices.group("tokenizer").get("size") or {"char": 100, "byte": 256}.get(kind, 20_000)


def _choose_shape(choices: Choices, shape: Shape, reason: str) -> None:
    """Choose width, layers and heads, unless one of them is set."""
    if not any(choices.is_set(f"model.{name}") for name in shape._fields):
        for name, value in shape._asdict().items():
            choices.choose(f"model.{name}", value, reason)


# --- all networks ------------------------------------------------------------------------------------------


def choose_network(choices: Choices, data: str, size: str | None, *, is_new: bool) -> None:
    """Choose what every network needs: a size, a budget, an optimizer and held-out data.

    `is_new` is False if training starts from the parameters of another run.
    """
    kind, builtin = choices.tree["model"]["kind"], DATASETS.get(data)
    has_attention = kind in ATTENTION_KINDS
    if size is not None:
        choices.tree = config.merge({"model": choices.task.network().size_settings(kind, size)}, choices.tree)
    if not BUDGETS & set(choices.group("training")):
        choices.choose("training.minutes", DEFAULT_MINUTES, "no budget given")
    if has_attention and is_new:  # the large steps of Muon would destroy pretrained parameters
        choices.choose("training.optimizer", "muon", "trains models with attention faster than adamw")
    if valid := builtin.valid if builtin else 0.05:
        choices.choose("data.valid", valid, "held-out data to measure progress")
    if length := builtin.length if builtin else None:
        key = "model.context" if has_attention else "training.length"
        choices.choose(key, length, f"length of the documents of {data}")


def choose_tokens(choices: Choices, data: str, tokenizer: Tokenizer | None) -> None:
    """Choose the tokenizer of a built-in data set, and the order of n-grams of single characters."""
    builtin, task = DATASETS.get(data), choices.task
    if builtin and tokenizer is None and builtin.tokenizer != "bpe":
        choices.choose("tokenizer.kind", builtin.tokenizer, f"default for {data}")
    settings = choices.settings()
    kind = tokenizer.kind if tokenizer else settings.tokenizer.kind
    if settings.model.kind == "ngram" and task.counting and kind in ("char", "byte"):
        unit = "characters" if kind == "char" else "bytes"
        choices.choose("model.order", task.counting.character_order, f"n-grams of {unit} need a longer context")


# --- language models ---------------------------------------------------------------------------------------


def choose_language(choices: Choices, data: str, tokenizer: Tokenizer | None) -> None:
    """Choose vocabulary, shape, regularisation and n-gram order for prose, by its length and the budget."""
    settings = choices.settings()
    is_prose = data not in DATASETS or DATASETS[data].tokenizer == "bpe"
    if settings.model.kind not in ATTENTION_KINDS or not is_prose:
        return
    training: Any = settings.training
    characters = STDIN_CHARACTERS if data == "-" else _characters(open_corpus(data, settings.data))
    kind, vocabulary = _choose_vocabulary(choices, characters, tokenizer)
    tokens = characters / characters_per_token(kind, vocabulary)
    budget = _budget(training, tokens)
    if training.steps is not None:
        choices.give("training.batch_tokens", training.batch_tokens)  # a number of steps implies a batch size
    limit = "time" if budget.operations is not None else "number of tokens"
    _choose_shape(choices, budget.shape(vocabulary), f"lowest expected loss for this {limit}")
    model = choices.settings().model
    shape = Shape(model.width, model.layers, model.heads)
    for choice in language_reading(tokens, budget.training_tokens(shape.parameters(vocabulary))):
        choices.choose(*choice)
    if "model.kind" in choices.chosen and tokens <= MOST_COUNTED and model.causal is not False:
        choices.choose("model.ngram", ngram_order(kind), "interpolation with an n-gram model lowers the loss")


def language_reading(tokens: float, training_tokens: float) -> Iterator[Choice]:
    """Return batch size and regularisation for a text of `tokens`, trained on for `training_tokens`."""
    epochs = training_tokens / max(1.0, tokens)
    reason = f"about {epochs:,.0f} epochs" if epochs >= 1.5 else "about one epoch"
    batch = 2 ** round(math.log2(max(1.0, training_tokens / UPDATES)))
    yield "training.batch_tokens", min(1 << 14, max(1 << 10, batch)), f"about {UPDATES:,} optimizer steps"
    if epochs > FEW_EPOCHS:
        # Above MANY_EPOCHS, noise regularises too, and less dropout is needed.
        yield "model.dropout", 0.2 if SEVERAL_EPOCHS < epochs <= MANY_EPOCHS else 0.1, reason
    if epochs > MANY_EPOCHS:
        yield "training.noise", 0.1, f"{reason}: prevents overfitting"


def choose_documents(choices: Choices, data: str, tokenizer: Tokenizer | None) -> None:
    """Choose how a built-in data set is divided into documents."""
    del tokenizer
    if data in DATASETS:
        choices.choose("data.documents", DATASETS[data].documents, f"default for {data}")


# --- taggers -----------------------------------------------------------------------------------------------


def choose_tag_unit(choices: Choices, data: str, tokenizer: Tokenizer | None) -> None:
    """Choose a tokenizer of characters or words, according to the tags."""
    if data in DATASETS or tokenizer is not None or choices.is_set("tokenizer.kind"):
        return
    corpus = open_corpus(data, config.build(DataSettings, choices.group("data")))
    by_character = has_character_tags(islice(read_tagged(corpus), INSPECTED_ROWS))
    kind, unit = ("char", "character") if by_character else ("word", "word")
    choices.choose("tokenizer.kind", kind, f"the data has one tag per {unit}")


# --- classifiers -------------------------------------------------------------------------------------------

# Number of texts in a batch.
ROWS_PER_BATCH = 64
# Maximum number of bigram embeddings.
MAX_BIGRAMS = 1 << 20


def choose_classifier(choices: Choices, data: str, tokenizer: Tokenizer | None) -> None:
    """Choose the settings of a deep averaging network, unless some of its model settings are given."""
    settings = choices.settings()
    given = set(choices.tree["model"]) - {"kind"}
    if settings.model.kind != "dan" or given or data == "-":
        return
    corpus = open_corpus(data, settings.data)
    texts = [example.text for example in islice(read_examples(corpus), INSPECTED_ROWS)]
    characters, inspected = _characters(corpus), max(1, sum(map(len, texts)))
    has_words = sum(text.count(" ") for text in texts) > inspected / MAX_WORD_LENGTH
    if tokenizer is None and "tokenizer" not in choices.tree and has_words:
        choices.choose("tokenizer.kind", "word", "embeddings of words and bigrams")
        choices.choose("tokenizer.split", "punctuation", "a word has the same embedding before punctuation")
    for key, value, reason in averaging(round(characters * len(texts) / inspected), characters):
        if key != "training.epochs" or not choices.is_set("training.steps"):
            choices.choose(key, value, reason)


def averaging(rows: int, characters: int) -> Iterator[Choice]:
    """Return the settings of a deep averaging network for a number of texts and their characters.

    Narrow embeddings, few epochs and a large learning rate; measured on film reviews with 3,000 to 30,000 rows.
    """
    tokens = characters / characters_per_token("word", 0)
    bigrams = 2 ** math.ceil(math.log2(max(2.0, tokens)))
    words = max(1, round(tokens / max(1, rows)))
    yield "model.width", 16, "narrow embeddings generalise better here"
    yield "model.layers", 0, "a linear classifier of the mean embedding"
    yield "model.average", "root", "longer texts get larger logits"
    yield "model.bigrams", min(MAX_BIGRAMS, max(1 << 15, bigrams)), f"about {tokens:,.0f} bigrams in the data"
    yield "training.batch_tokens", ROWS_PER_BATCH * words, f"{ROWS_PER_BATCH} texts of about {words:,} words"
    yield "training.learning_rate", 5e-3, "few epochs"
    yield "training.weight_decay", 0.0, "weight decay would shrink the embeddings of rare words"
    yield "training.epochs", 4.0, "more epochs overfit"


# --- translators -------------------------------------------------------------------------------------------

# Minimum number of epochs within the budget; a larger network would be trained on fewer.
PAIR_EPOCHS = 8
# Maximum number of parameters per target token of the data.
PAIR_PARAMETERS = 64
PAIR_SHAPES = tuple(
    Shape(*size) for size in ((64, 2, 4), (96, 2, 4), (128, 3, 4), (192, 3, 4), (256, 3, 4), (384, 4, 6), (512, 6, 8))
)
PAIR_BATCH = 2048


def choose_embeddings(choices: Choices) -> None:
    """Choose separate source and target embeddings for separate tokenizers."""
    if not choices.group("tokenizer").get("joint", True):
        choices.choose("model.shared", False, "source and target have different tokenizers")


def choose_translator(choices: Choices, data: str, tokenizer: Tokenizer | None) -> None:
    """Choose vocabulary, regularisation and shape by the number of pairs and the budget."""
    settings = choices.settings()
    if data in DATASETS or data == "-":
        return
    # The pairs are read, as a table may have other columns; tables of pairs are small.
    pairs = read_pairs(open_corpus(data, settings.data))
    characters = sum(len(pair.source) + len(pair.target) for pair in pairs)
    kind, vocabulary = _choose_vocabulary(choices, characters, tokenizer)
    tokens = characters / 2 / characters_per_token(kind, vocabulary)
    choices.choose("training.batch_tokens", PAIR_BATCH, "many small steps")
    for key in ("training.label_smoothing", "model.dropout"):
        choices.choose(key, 0.1, "small data, many epochs")
    if kind == "bpe":
        choices.choose("training.merge_dropout", 0.1, "BPE-dropout: words are split in varying ways")
    if settings.model.kind in ATTENTION_KINDS:
        shape = pair_shape(_budget(choices.settings().training, tokens), vocabulary, tokens)
        _choose_shape(choices, shape, f"largest size for this data with {PAIR_EPOCHS} epochs within the budget")


def pair_shape(budget: Budget, vocabulary: int, tokens: float) -> Shape:
    """Return the shape of a Transformer for pairs with this number of target tokens."""

    def fits(shape: Shape) -> bool:
        parameters = shape.pair_parameters(vocabulary)
        has_epochs = budget.training_tokens(parameters) >= PAIR_EPOCHS * max(1.0, tokens)
        return parameters <= PAIR_PARAMETERS * tokens and has_epochs

    return max(filter(fits, PAIR_SHAPES), default=PAIR_SHAPES[0])
