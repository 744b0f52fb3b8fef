"""Default settings by amount of data, task and budget.

`bench/defaults.py` measures these rules. They do not depend on timing: the same data, budget and number of cores always
give the same settings.
"""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from satchel import config
from satchel.data.tagged import has_character_tags
from satchel.datasets.corpora import open_corpus
from satchel.datasets.registry import DATASETS
from satchel.runs.folder import RunConfig
from satchel.text.reading import Corpus, DataSettings
from satchel.text.tables import read_examples, read_pairs, read_tagged
from satchel.text.tokenizer import Tokenizer
from satchel.text.tokenizer_training import default_size
from satchel.training.clock import LEAST_TRAINING
from satchel.training.counting import counting_seconds
from satchel.training.task import NETWORK_KINDS, Choices

# Training time if no budget is given.
DEFAULT_MINUTES = 5.0
# Settings that limit the length of a training.
BUDGETS = frozenset({"steps", "epochs", "minutes"})
# Kinds of models with attention.
ATTENTION_KINDS = ("transformer", "backpack")
# Fraction of the expected rate of a device (`costs.training_rate`) for which the sizes within a time limit were tuned.
RATE_SHARE = 3 / 7
# Number of training tokens per parameter that gives the lowest loss for a given amount of computation.
TOKENS_PER_PARAMETER = 6
# Numbers of epochs above which regularisation is increased.
FEW_EPOCHS, SEVERAL_EPOCHS, MANY_EPOCHS = 2, 8, 20
# Maximum number of tokens for which an n-gram model is counted by default, as counting takes time and memory.
MOST_COUNTED = 20_000_000
# Approximate number of optimizer steps of a training.
UPDATES = 2000
# Number of validations of a training, the fraction of the training time that they may take together, and the smallest
# number of held-out tokens of a validation.
VALIDATIONS, VALIDATION_SHARE, LEAST_VALIDATION = 20, 0.1, 8192
# Assumed number of characters of standard input.
STDIN_CHARACTERS = 1_000_000
# Assumed compression ratio of .gz files.
GZIP_RATIO = 3
# Maximum number of words of a network's vocabulary, and the number assumed in estimates.
NETWORK_WORDS, TYPICAL_WORDS = 50_000, 20_000
# Seconds of starting a process with torch, and of reading and tokenizing a character.
START_SECONDS, CHARACTER_SECONDS = 3.0, 7e-7
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


# Sizes of networks without attention: width, and number of recurrent layers.
WIDTHS = (64, 96, 128, 192, 256, 384, 512)
RECURRENT_SIZES = (*((width, 1) for width in WIDTHS[:5]), (384, 2), (512, 2), (650, 2), (1024, 2))
# Number of matrices per direction of a recurrent cell that multiply the input, and of those that multiply the state.
CELL_MATRICES = {"rnn": 1, "gru": 3, "lstm": 4}
# Minimum number of epochs of a classifier or tagger within the time; a larger network would be trained on fewer.
LABEL_EPOCHS = 4
# Smallest batch in rows, and in tokens.
LEAST_ROWS, LEAST_BATCH = 16, 1 << 10
# Number of tokens of a text that a training step of a classifier or tagger uses at most within a time limit.
LONGEST_ROW = 1 << 12


class Size(NamedTuple):
    """A size of a network: its model settings, and the number of parameters without those of the vocabulary."""

    settings: dict[str, int]
    parameters: int

    def with_logits(self, vocabulary: int) -> int:
        """Return the number of parameters with those of the logits."""
        return self.parameters + vocabulary * self.settings["width"]


def network_sizes(kind: str) -> list[Size]:
    """Return the sizes of a kind of network in ascending order."""
    if kind in ATTENTION_KINDS:
        return [Size(shape._asdict(), shape.parameters(0)) for shape in SHAPES]
    if kind in CELL_MATRICES:
        matrices = 2 * CELL_MATRICES[kind]
        return [
            Size({"width": width, "layers": layers}, matrices * layers * width**2) for width, layers in RECURRENT_SIZES
        ]
    return [Size({"width": width}, 4 * width**2) for width in WIDTHS]


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

    def size(self, kind: str, vocabulary: int) -> Size:
        """Return the size of a language model whose number of parameters is nearest to the best one."""

        def distance(size: Size) -> float:
            return abs(math.log(size.with_logits(vocabulary) / self.parameters))

        return min(network_sizes(kind), key=distance)


def time_budget(minutes: float, rate: float) -> Budget:
    """Return the budget of a number of minutes on a device with a rate of floating point operations per second."""
    return Budget(operations=60 * minutes * RATE_SHARE * rate)


def _budget(training: Any, tokens: float) -> Budget:
    """Return the budget of training settings; `tokens` is the size of the training data."""
    if training.minutes is not None:
        return time_budget(training.minutes, _rate(training))
    if training.epochs is not None:
        return Budget(tokens=training.epochs * tokens)
    return Budget(tokens=training.steps * training.batch_tokens)


def _rate(training: Any) -> float:
    """Return the expected rate of the device of training settings, with their threads and precision."""
    from satchel.models.costs import training_rate
    from satchel.nn.precision import chosen_device, instruction_sets, resolve

    device = chosen_device(training.device)
    precision = resolve(training.precision, instruction_sets(device))
    return training_rate(device, training.threads or os.cpu_count() or 1, precision)


def characters_per_token(kind: str, size: int) -> float:
    """Return the approximate number of characters per token of English text."""
    if kind in ("char", "byte"):
        return 1.0
    return 5.5 if kind == "word" else 1.9 + 0.45 * math.log2(max(1.0, size / 500))


def ngram_order(kind: str) -> int:
    """Return the default n-gram order for a kind of tokenizer."""
    return 7 if kind in ("char", "byte") else 5


def baseline_seconds(run: RunConfig, tokenizer_kind: str) -> float:
    """Return the expected time of counting the n-gram model that a language model or classifier is compared with."""
    if run.task not in ("lm", "classify") or run.settings["model"].get("ngram"):
        return 0.0
    return counting_seconds(run.facts["counts"]["tokens"], ngram_order(tokenizer_kind))


def preparation_seconds(characters: int) -> float:
    """Return the expected time before the first step: starting a process with torch, reading and tokenizing."""
    return START_SECONDS + CHARACTER_SECONDS * characters


def check_time(choices: Choices, data: str) -> None:
    """Add a note if the preparation of the data takes longer than the time limit permits."""
    settings: Any = choices.settings()
    minutes, size = settings.training.minutes, _size(choices, data)
    if minutes is None:
        return
    seconds = preparation_seconds(size) + LEAST_TRAINING * 60 * minutes
    if seconds > 1.15 * 60 * minutes + 15:
        choices.reasons.append(
            f"--minutes {minutes:g} cannot be met: reading and tokenizing about {size:,} characters and a few training "
            f"steps take about {seconds:,.0f} s; use more minutes or less text"
        )


def _characters(corpus: Corpus) -> int:
    """Return the approximate number of characters of a corpus from its file sizes."""
    return sum(source.size * (GZIP_RATIO if source.name.endswith(".gz") else 1) for source in corpus.sources)


def _size(choices: Choices, data: str) -> int:
    """Return the approximate number of characters of data; generated data is generated once."""
    if data not in choices.sizes:
        settings = config.build(DataSettings, choices.group("data"))
        choices.sizes[data] = STDIN_CHARACTERS if data == "-" else _characters(open_corpus(data, settings))
    return choices.sizes[data]


def _choose_vocabulary(choices: Choices, characters: int, tokenizer: Tokenizer | None) -> tuple[str, int]:
    """Choose the size of a subword tokenizer; return the kind and the approximate size of the tokenizer."""
    if tokenizer is not None:
        return tokenizer.kind, tokenizer.size
    kind = choices.settings().tokenizer.kind
    if kind in ("bpe", "unigram"):
        choices.choose("tokenizer.size", default_size(characters), f"for a text of {characters:,} characters")
    return kind, _vocabulary(choices, kind, None)


def _vocabulary(choices: Choices, kind: str, tokenizer: Tokenizer | None) -> int:
    """Return the approximate size of the tokenizer."""
    if tokenizer is not None:
        return tokenizer.size
    if kind == "word":
        return min(choices.group("tokenizer").get("size") or NETWORK_WORDS, TYPICAL_WORDS)
    return choices.group("tokenizer").get("size") or {"char": 100, "byte": 256}.get(kind, TYPICAL_WORDS)


def _choose_size(choices: Choices, size: dict[str, int], reason: str) -> None:
    """Choose width, layers and heads, unless one of them is set."""
    if not any(choices.is_set(f"model.{name}") for name in Shape._fields):
        for name, value in size.items():
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


def choose_validation(choices: Choices, data: str, tokenizer: Tokenizer | None) -> None:
    """Limit the held-out tokens of a validation, if all of them would take too much of the training time."""
    settings: Any = choices.settings()
    valid, training = settings.data.valid, settings.training
    if not valid or (training.evaluate_every is not None and training.minutes is None):
        return
    kind = tokenizer.kind if tokenizer else settings.tokenizer.kind
    vocabulary = _vocabulary(choices, kind, tokenizer)

    def tokens(name: str) -> float:
        return _size(choices, name) / characters_per_token(kind, vocabulary)

    held_out = tokens(valid) if isinstance(valid, str) else valid * tokens(data)
    if held_out <= LEAST_VALIDATION:
        return
    is_windowed = settings.task == "lm" and settings.model.kind in ATTENTION_KINDS
    # A forward pass is a third of a training step; windows overlap by half.
    cost = (2 if is_windowed else 1) / 3
    limit = VALIDATION_SHARE / VALIDATIONS / cost * _training_tokens(choices, vocabulary, lambda: tokens(data))
    limit = max(LEAST_VALIDATION, int(limit))
    if held_out > limit:
        choices.choose("training.validation_tokens", limit, f"of about {held_out:,.0f} held-out tokens")


def _training_tokens(choices: Choices, vocabulary: int, epoch: Callable[[], float]) -> float:
    """Return the expected number of tokens of all training steps; `epoch` returns that of the training data."""
    settings: Any = choices.settings()
    training = settings.training
    limits: list[float] = []
    if training.minutes is not None:
        limits.append(60 * training.minutes * choices.task.network().tokens_per_second(settings, vocabulary))
    if training.steps is not None:
        limits.append(training.steps * training.batch_tokens)
    if training.epochs is not None:
        limits.append(training.epochs * epoch())
    return min(limits)


def choose_tokens(choices: Choices, data: str, tokenizer: Tokenizer | None) -> None:
    """Choose the tokenizer of a built-in data set, and the order of n-grams of single characters."""
    builtin, task = DATASETS.get(data), choices.task
    if builtin and tokenizer is None and builtin.tokenizer != "bpe":
        choices.choose("tokenizer.kind", builtin.tokenizer, f"default for {data}")
    settings = choices.settings()
    kind = tokenizer.kind if tokenizer else settings.tokenizer.kind
    if settings.model.kind != "ngram" and kind == "word" and tokenizer is None:
        choices.choose("tokenizer.size", NETWORK_WORDS, "the most frequent words; others are <unk>")
    if settings.model.kind == "ngram" and task.counting and kind in ("char", "byte"):
        unit = "characters" if kind == "char" else "bytes"
        choices.choose("model.order", task.counting.character_order, f"n-grams of {unit} need a longer context")


# --- language models ---------------------------------------------------------------------------------------


def choose_language(choices: Choices, data: str, tokenizer: Tokenizer | None) -> None:
    """Choose vocabulary, shape, regularisation and n-gram order for prose, by its length and the budget."""
    settings = choices.settings()
    training: Any = settings.training
    is_prose = data not in DATASETS or DATASETS[data].tokenizer == "bpe"
    # Other networks have a fixed default size, unless their time is limited.
    has_size = settings.model.kind in ATTENTION_KINDS or (
        settings.model.kind in NETWORK_KINDS and training.minutes is not None
    )
    if not has_size or not is_prose:
        return
    kind, vocabulary = _choose_vocabulary(choices, _size(choices, data), tokenizer)
    tokens = _size(choices, data) / characters_per_token(kind, vocabulary)
    budget = _budget(training, tokens)
    if training.steps is not None:
        choices.give("training.batch_tokens", training.batch_tokens)  # a number of steps implies a batch size
    limit = "time" if budget.operations is not None else "number of tokens"
    size = budget.size(settings.model.kind, vocabulary)
    _choose_size(choices, size.settings, f"lowest expected loss for this {limit}")
    model = choices.settings().model
    parameters: float
    if model.kind in ATTENTION_KINDS:
        parameters = Shape(model.width, model.layers, model.heads).parameters(vocabulary)
    else:
        parameters = choices.task.network().costs(choices.settings(), vocabulary).training_operations / 6
    for choice in language_reading(tokens, budget.training_tokens(parameters)):
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


def choose_tagger(choices: Choices, data: str, tokenizer: Tokenizer | None) -> None:
    """Choose the size and the batches of a tagger within a time limit."""
    if data not in DATASETS and data != "-":
        corpus = open_corpus(data, config.build(DataSettings, choices.group("data")))
        texts = [row.text for row in islice(read_tagged(corpus), INSPECTED_ROWS)]
        _choose_label_size(choices, data, tokenizer, texts)


def _choose_label_size(choices: Choices, data: str, tokenizer: Tokenizer | None, texts: list[str]) -> None:
    """Choose the largest size, up to the default, with several epochs within a time limit; and the batch size.

    `texts` are the first texts of the data.
    """
    settings: Any = choices.settings()
    training = settings.training
    if settings.model.kind not in NETWORK_KINDS or training.minutes is None:
        return
    kind = tokenizer.kind if tokenizer else settings.tokenizer.kind
    per_token = characters_per_token(kind, _vocabulary(choices, kind, tokenizer))
    tokens = _size(choices, data) / per_token
    budget = _budget(training, tokens)
    sizes = [size for size in network_sizes(settings.model.kind) if size.settings["width"] <= settings.model.width]

    def has_epochs(size: Size) -> bool:
        return budget.training_tokens(size.parameters) >= LABEL_EPOCHS * tokens

    if sizes:
        size = max(filter(has_epochs, sizes), default=sizes[0], key=lambda size: size.parameters)
        if size.settings["width"] < settings.model.width:
            _choose_size(choices, size.settings, f"largest size with {LABEL_EPOCHS} epochs within the time")
    longest = max(LONGEST_ROW, training.batch_tokens)
    if _size(choices, data) / per_token > longest:
        choices.choose("training.max_length", longest, "longer texts are truncated in training steps")
    if training.steps is not None:
        return
    costs = choices.task.network().costs(choices.settings(), 1)
    row = sum(map(len, texts)) / max(1, len(texts)) / per_token
    least = max(LEAST_BATCH, 2 ** round(math.log2(max(1.0, LEAST_ROWS * row))))
    batch = 2 ** round(math.log2(max(1.0, budget.training_tokens(costs.training_operations / 6) / UPDATES)))
    choices.choose(
        "training.batch_tokens", min(training.batch_tokens, max(least, batch)), f"texts of about {row:,.0f} tokens"
    )


# --- classifiers -------------------------------------------------------------------------------------------

# Number of texts in a batch.
ROWS_PER_BATCH = 64
# Maximum number of bigram embeddings.
MAX_BIGRAMS = 1 << 20


def choose_classifier(choices: Choices, data: str, tokenizer: Tokenizer | None) -> None:
    """Choose the settings of a deep averaging network, unless some of its model settings are given.

    Of other networks, choose the size and the batches within a time limit.
    """
    settings = choices.settings()
    given = set(choices.tree["model"]) - {"kind"}
    if data == "-":
        return
    corpus = open_corpus(data, settings.data)
    texts = [example.text for example in islice(read_examples(corpus), INSPECTED_ROWS)]
    if settings.model.kind != "dan" and data not in DATASETS:
        _choose_label_size(choices, data, tokenizer, texts)
    if settings.model.kind != "dan" or given:
        return
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
# Number of characters from which a BPE tokenizer has merges in any case.
LEAST_MERGED = 1000
# Parameters of a recurrent encoder, decoder and attention, as a multiple of those of the recurrent layers of one.
RECURRENT_PAIR = 4


def choose_embeddings(choices: Choices) -> None:
    """Choose separate source and target embeddings for separate tokenizers."""
    if not choices.group("tokenizer").get("joint", True):
        choices.choose("model.shared", False, "source and target have different tokenizers")


def choose_translator(choices: Choices, data: str, tokenizer: Tokenizer | None) -> None:
    """Choose vocabulary, regularisation and shape by the number of pairs and the budget."""
    settings: Any = choices.settings()
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
    if kind == "bpe" and characters >= LEAST_MERGED:
        choices.choose("training.merge_dropout", 0.1, "BPE-dropout: words are split in varying ways")
    if settings.model.kind in ATTENTION_KINDS:
        shape = pair_shape(_budget(choices.settings().training, tokens), vocabulary, tokens)
        _choose_size(
            choices, shape._asdict(), f"largest size for this data with {PAIR_EPOCHS} epochs within the budget"
        )
    elif settings.training.minutes is not None:
        budget = _budget(choices.settings().training, tokens)
        default = settings.model.width
        sizes = [size for size in network_sizes(settings.model.kind) if size.settings["width"] <= default]

        def has_epochs(size: Size) -> bool:
            parameters = RECURRENT_PAIR * size.parameters + vocabulary * size.settings["width"]
            return budget.training_tokens(parameters) >= PAIR_EPOCHS * max(1.0, tokens)

        size = max(filter(has_epochs, sizes), default=sizes[0], key=lambda size: size.parameters)
        _choose_size(choices, size.settings, f"largest size with {PAIR_EPOCHS} epochs within the budget")


def pair_shape(budget: Budget, vocabulary: int, tokens: float) -> Shape:
    """Return the shape of a Transformer for pairs with this number of target tokens."""

    def fits(shape: Shape) -> bool:
        parameters = shape.pair_parameters(vocabulary)
        has_epochs = budget.training_tokens(parameters) >= PAIR_EPOCHS * max(1.0, tokens)
        return parameters <= PAIR_PARAMETERS * tokens and has_epochs

    return max(filter(fits, PAIR_SHAPES), default=PAIR_SHAPES[0])
