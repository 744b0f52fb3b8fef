"""Write the token files of a language model."""

from collections.abc import Iterator
from dataclasses import asdict

from satchel import durable
from satchel.data.splits import HeldOutSplit
from satchel.data.tokens import TokenCounts, TokenWriter, write_tokens
from satchel.errors import DataError
from satchel.progress import Progress
from satchel.runs import folder as runs
from satchel.text.reading import Corpus, Piece
from satchel.text.tokenizer import Tokenizer
from satchel.text.tokenizer_training import train_tokenizer
from satchel.training.examples.common import Examples, fraction, valid_corpus
from satchel.training.plan import Plan

# Number of characters below which a text is not split by default, and below which the parts of a stream are checked.
SHORTEST_SPLIT, SHORT_TEXT = 200, 10_000


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

    def can_split() -> bool:
        if rule == "stream" and characters >= SHORT_TEXT:
            return True
        parts = (part(is_valid=is_valid) for is_valid in (True, False))
        return characters >= SHORTEST_SPLIT and all(any(piece.text.strip() for piece in pieces) for pieces in parts)

    # A text that is too short for the default fraction is not split.
    if "data.valid" in plan.chosen and not can_split():
        split = HeldOutSplit(0.0, split.seed)

    def new_tokenizer() -> Tokenizer:
        progress("learning the tokenizer", None)
        return train_tokenizer(plan.settings.tokenizer, (piece.text for piece in part(is_valid=False)), characters)

    tokenizer = plan.tokenizer or new_tokenizer()

    def write(name: str, noun: str, pieces: Iterator[Piece], sha256: str) -> TokenCounts:
        with folder.create(name) as handle:
            writer = TokenWriter(handle, tokenizer, rule)
            counts = write_tokens(writer, pieces, lambda done: progress("tokenizing", min(1.0, done / characters)))
            writer.finish(sha256)
        if not counts.tokens:
            remedy = "give more text, another fraction, or a file with --valid"
            raise DataError(f"the {noun} part contains no tokens, expected at least one", remedy, where=corpus.name)
        return counts

    counts = write(runs.TRAIN_TOKENS, "training", part(is_valid=False), sha256)
    if other := valid_corpus(plan):
        write(runs.VALID_TOKENS, "validation", other.pieces(rule), other.identity())
    elif split.fraction:
        write(runs.VALID_TOKENS, "validation", part(is_valid=True), sha256)
    return Examples(tokenizer, sha256, {"counts": asdict(counts), "repaired": dict(corpus.repaired)})
