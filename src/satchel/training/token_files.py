"""Write the token files of a run for a language model."""

from collections.abc import Callable, Iterator

from satchel import durable
from satchel.data.tokens import HeldOutSplit, TokenWriter, write_tokens
from satchel.datasets.corpora import open_corpus
from satchel.errors import DataError
from satchel.progress import Progress
from satchel.runs import folder as runs
from satchel.text.reading import Corpus, Piece
from satchel.text.tokenizer import Tokenizer, train_tokenizer
from satchel.training.plan import Plan
from satchel.training.run_settings import SharedSettings


def write_token_files(
    folder: durable.NewFolder, corpus: Corpus, sha256: str, planned: Plan, progress: Progress
) -> Tokenizer:
    """Write the train tokens, and the validation tokens if there are any; return the tokenizer."""
    settings = planned.settings
    rule, held_out = settings.data.documents, settings.data.valid
    split = HeldOutSplit(held_out if isinstance(held_out, float) else 0.0, settings.training.seed)
    # The tokenizer and a split of a stream need to know how much text there is.
    characters = 0
    for piece in corpus.pieces(rule):
        characters += len(piece.text)
        progress("reading", None)
    if not characters:
        raise DataError("found no text, expected at least one token", "give a file with text in it", where=corpus.name)

    def part(is_valid: bool) -> Iterator[Piece]:
        for is_held_out, piece in split.pieces(corpus, rule, characters):
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
        other = open_corpus(held_out, settings.data, settings.training.seed, split="valid")
        _write_part(folder, runs.VALID_TOKENS, tokenizer, other.pieces(rule), settings, other.identity(), report)
    elif held_out > 0:
        _write_part(folder, runs.VALID_TOKENS, tokenizer, part(is_valid=True), settings, sha256, report)
    return tokenizer


def _write_part(
    folder: durable.NewFolder,
    name: str,
    tokenizer: Tokenizer,
    pieces: Iterator[Piece],
    settings: SharedSettings,
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
