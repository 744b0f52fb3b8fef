"""The limits of all requests in one table. The same values validate requests and appear in the OpenAPI schema."""

from typing import Any, NamedTuple

from pydantic import Field

KILOBYTE = 1 << 10
MEGABYTE = 1 << 20

# Bytes of a request body, of which text makes up most.
MAX_BODY = 4 * MEGABYTE
MAX_TEXT = 1_000_000  # characters of a text
MAX_NAME = 1000  # characters of the id of a run, of a data file, a label or a word
MAX_BATCH = 1000  # texts of one request
MAX_VALUES = 200  # settings of a training, and values of a setting
MAX_FILES = 10_000  # data files in a listing


class Bounds(NamedTuple):
    """Smallest and largest value of a number in a request."""

    least: float
    most: float


BOUNDS = {
    "epochs": Bounds(1e-6, 1_000_000),
    "beam": Bounds(1, 32),
    "best": Bounds(1, 32),
    "contexts": Bounds(0, 100),
    "frequency_penalty": Bounds(-100, 100),
    "head": Bounds(0, 1000),
    "heads": Bounds(0, 1000),
    "layer": Bounds(0, 1000),
    "length": Bounds(1, 100_000),
    "length_penalty": Bounds(0, 10),
    "listed": Bounds(1, 100),
    "logit_bias": Bounds(-1000, 1000),
    "max_tokens": Bounds(0, 100_000),
    "min_p": Bounds(0, 1),
    "minutes": Bounds(0.01, 100_000),
    "no_repeat_ngram": Bounds(0, 1_000_000),
    "offset": Bounds(0, 1 << 40),
    "presence_penalty": Bounds(-100, 100),
    "repetition_penalty": Bounds(0.01, 100),
    "samples": Bounds(1, 32),
    "score_top": Bounds(0, 100),
    "sense": Bounds(0, 1000),
    "seed": Bounds(0, (1 << 63) - 1),
    "size": Bounds(1, 128),
    "start": Bounds(0, 1 << 40),
    "steps": Bounds(1, 1 << 40),
    "step": Bounds(1, 1000),
    "temperature": Bounds(0, 100),
    "tokens": Bounds(1, 100_000),
    "token_id": Bounds(0, (1 << 31) - 1),
    "top": Bounds(1, 1000),
    "top_k": Bounds(1, 10_000_000),
    "probability": Bounds(0, 1),
}


def bounded(name: str, default: Any = ..., description: str | None = None) -> Any:
    """Return a field with the bounds of this name."""
    bounds = BOUNDS[name]
    return Field(default, ge=bounds.least, le=bounds.most, description=description)


def text(default: Any = ..., description: str | None = None) -> Any:
    """Return a field for a text."""
    return Field(default, max_length=MAX_TEXT, description=description)


def name(default: Any = ..., description: str | None = None) -> Any:
    """Return a field for a short text, such as the id of a run."""
    return Field(default, min_length=1, max_length=MAX_NAME, description=description)


# --- limits of operations -------------------------------------------------------------------------------

MAX_CHARACTERS = 200_000  # of all texts of a request
MAX_TRANSLATED = 20_000  # characters of all texts of a request for translations
MAX_WORDS = 50  # words of a request
MAX_RUNS = 10  # runs that are compared
MAX_LISTED = 100_000  # alternatives, or contributions of senses, in a reply
MAX_RANKED = 10_000  # tokens of a text with alternatives
MAX_READ = 4096  # tokens of a text whose layers or senses are inspected
MAX_ATTENDED = 2048  # tokens of a text whose attention weights are computed
MAX_EXPLAINED = 1024  # tokens of a text whose words are compared with reference embeddings
MAX_OCCLUDED = 1 << 20  # tokens of all texts in which a token is replaced
MAX_WEIGHTS = 1 << 18  # attention weights in a JSON document: all heads of a short text, or a head of a long one
MAX_BINARY_WEIGHTS = 1 << 22  # attention weights in a binary reply
MAX_PREDICTED = 1 << 26  # tokens of a text times tokens of the vocabulary
MAX_MAPPED = 1 << 26  # words of a map times tokens of the vocabulary


# --- limits of the server -------------------------------------------------------------------------------

MAX_PROMPTS = 128  # prompts of one completion request
MAX_CHOICES = 128  # prompts x best_of of one completion request
MAX_PROMPT_TOKENS = 200_000  # tokens of a prompt for models without a context window
MAX_STOPS = 4
MAX_STOP_LENGTH = 1000  # characters of a stop string
MAX_LOGPROBS = 100
MAX_ROWS = 32  # continuations that are generated together; further ones wait
MAX_WAITING = 64  # requests that wait for a worker process; further ones are refused at once
MAX_OPEN_REQUESTS = 400  # requests of all kinds; further ones are refused at once
MAX_EVENTS = 10_000  # events of a stream that its client has not read; then the request is cancelled
MAX_CONNECTIONS = 500  # further ones are closed at once
MAX_HEADER = 64 * KILOBYTE

HEADER_SECONDS = 10.0  # until the header of a request is complete
BODY_SECONDS = 30.0  # until the body of a request is complete
SEND_SECONDS = 30.0  # until a client reads a part of a response
KEEP_ALIVE_SECONDS = 15.0
QUEUE_SECONDS = 60.0  # until a waiting request starts
GENERATION_SECONDS = 600.0  # of one request, from its start
SHORT_SECONDS = 60.0  # of an operation on one text
LONG_SECONDS = 1800.0  # of an operation on a file
CANCEL_SECONDS = 2.0  # until a worker that does not react to a cancellation is ended
CLOSE_SECONDS = 30.0  # for a training to save after SIGTERM
DRAIN_SECONDS = 10.0  # for open requests after SIGTERM
RETRY_SECONDS = 2  # Retry-After of refused requests


def table() -> dict[str, Any]:
    """Return all limits as a JSON document: bounds of the numbers by field, and limits of the server."""
    names = (name for name in globals() if name.isupper() and name.endswith("_SECONDS"))
    sizes = (name for name in globals() if name.startswith("MAX_"))
    return {
        "fields": {name: {"minimum": each.least, "maximum": each.most} for name, each in BOUNDS.items()},
        "server": {name.lower(): globals()[name] for name in (*sizes, *names)},
    }
