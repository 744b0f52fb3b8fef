"""Write the token files of a language model."""

from collections.abc import Callable, Iterator
from dataclasses import asdict

from satchel import durable
from satchel.data.splits import HeldOutSplit
from satchel.data.tokens import TokenCounts, TokenWriter, write_tokens
from satchel.errors import DataError
from satchel.progress import Progress
from satchel.runs import folder as runs
from satchel.text.reading import Corpus, DocumentRule, Piece
from satchel.text.tokenizer import Tokenizer
from satchel.text.tokenizer_training import train_tokenizer
from satchel.training.examples.common import Examples, fraction, valid_corpus
from satchel.training.plan import Plan


def write_text(folder: durable.NewFolder, corpus: Corpus, plan: Plan, progress: Progress) -> Examples:
    """Write the training tokens, and the held-out tokens if there are any."""
    sha256, rule = corpus.identity(), plan.settings.data.documents
    split = HeldOutSplit(fraction(plan), plan.settings.training.seed)
    # Training a tokenizer and splitting a stream require the number of characters.
    characters = 0
    for piece in corpus.pieces(rule):
        characters += len(piece.text)
        progress("reading", None)
    if not characters:
        raise DataError("found no text, expected at least one token", "give a file with text in it", where=corpus.name)

    def part(*, is_valid: bool) -> Iterator[Piece]:
        return (piece for is_held_out, piece in split.pieces(corpus, rule, characters) if is_held_out == is_valid)

    def report(done: int) -> None:
        progress("tokenizing", min(1.0, done / characters))

    tokenizer = plan.tokenizer
    if tokenizer is None:
        progress("learning the tokenizer", None)
        texts = (piece.text for piece in part(is_valid=False))
        tokenizer = train_tokenizer(plan.settings.tokenizer, texts, characters)
    counts = _write(folder, runs.TRAIN_TOKENS, tokenizer, part(is_valid=False), rule, sha256, report)
    if other := valid_corpus(plan):
        _write(folder, runs.VALID_TOKENS, tokenizer, other.pieces(rule), rule, other.identity(), report)
    elif split.fraction:
        _write(folder, runs.VALID_TOKENS, tokenizer, part(is_valid=True), rule, sha256, report)
    return Examples(tokenizer, sha256, {"counts": asdict(counts), "repaired": dict(corpus.repaired)})


def _write(
    folder: durable.NewFolder,
    name: str,
    tokenizer: Tokenizer,
    pieces: Iterator[Piece],
    rule: DocumentRule,
    sha256: str,
    report: Callable[[int], None],
) -> TokenCounts:
    with folder.create(name) as handle:
        writer = TokenWriter(handle, tokenizer, rule)
        counts = write_tokens(writer, pieces, report)
        writer.finish(sha256)
    if not counts.tokens:
        part = "validation" if name == runs.VALID_TOKENS else "training"
        raise DataError(
            f"the {part} part contains no tokens", "give more text, another fraction, or a file with --valid"
        )
    return counts
