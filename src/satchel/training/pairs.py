"""Tables of pairs: read, split, tokenized, and written into a run."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from satchel import durable
from satchel.data.examples import write_examples
from satchel.data.pairs import held_out_pairs
from satchel.data.tokens import TokenCounts
from satchel.datasets.corpora import open_corpus
from satchel.errors import DataError
from satchel.progress import Progress
from satchel.runs import folder as runs
from satchel.text.reading import Corpus, file_source, lines, text_pieces
from satchel.text.tables import TextPair, column_text, read_json_lines, read_pairs
from satchel.text.tokenizer import Tokenizer, train_tokenizer
from satchel.training.plan import Plan


@dataclass(frozen=True)
class Pairs:
    """What was read and written."""

    tokenizer: Tokenizer
    source_tokenizer: Tokenizer | None  # where it is another one
    sha256: str
    counts: TokenCounts  # of the targets
    source_counts: TokenCounts
    left_out: dict[str, int]  # pairs that are not learned from, and why

    @property
    def of_sources(self) -> Tokenizer:
        """The tokenizer of sources."""
        return self.source_tokenizer or self.tokenizer


def write_pairs(folder: durable.NewFolder, corpus: Corpus, planned: Plan, context: int, progress: Progress) -> Pairs:
    """Write the tokens of the training pairs, and the texts of the held-out pairs if there are any.

    Pairs with an empty side, or one of more tokens than the context, are left out, and counted.
    """
    progress("reading", None)
    everything = list(read_pairs(corpus))
    whole = [pair for pair in everything if pair.source.strip() and pair.target.strip()]
    if not whole:
        raise DataError(
            f"found {len(everything):,} pairs, none of which has a source and a target",
            "check the columns with `satchel data`",
            where=corpus.name,
        )
    train, held = _parted(whole, planned)
    tokenizer, source_tokenizer = _tokenizers(train, planned, progress)
    progress("tokenizing", None)
    fits = _fitting(train, source_tokenizer or tokenizer, tokenizer, context)
    if not fits:
        raise DataError(
            f"found no pair of at most {context:,} tokens on either side",
            "give a larger model.context",
            where=corpus.name,
        )
    sha256 = corpus.identity()
    counts = _write(folder, runs.TRAIN_TOKENS, tokenizer, [pair.target for pair in fits], sha256)
    sources = [pair.source for pair in fits]
    source_counts = _write(folder, runs.TRAIN_SOURCES, source_tokenizer or tokenizer, sources, sha256)
    other = planned.settings.data.valid
    if isinstance(other, str):
        held = list(
            read_pairs(open_corpus(other, planned.settings.data, planned.settings.training.seed, split="valid"))
        )
        if not held:
            raise DataError("found no pairs, expected at least one", where=other)
    if held:
        folder.write(runs.VALID_PAIRS, b"".join(_line(pair) for pair in held))
    left_out = {"empty": len(everything) - len(whole), "long": len(train) - len(fits)}
    return Pairs(tokenizer, source_tokenizer, sha256, counts, source_counts, left_out)


def read_held_out(path: Path) -> list[TextPair]:
    """Return the pairs that a run holds out, from the file it keeps them in."""
    source, where = file_source(path), str(path)
    rows = read_json_lines(lines(Corpus(where, (source,)).texts(source)), where)
    return [TextPair(column_text(row, "source", where), column_text(row, "target", where), row.line) for row in rows]


def _line(pair: TextPair) -> bytes:
    return json.dumps({"source": pair.source, "target": pair.target}, ensure_ascii=False).encode() + b"\n"


def _parted(pairs: Sequence[TextPair], planned: Plan) -> tuple[list[TextPair], list[TextPair]]:
    valid, seed = planned.settings.data.valid, planned.settings.training.seed
    if isinstance(valid, str) or not valid:
        return list(pairs), []
    chosen = held_out_pairs(pairs, valid, seed)
    if not chosen.any() and "data.valid" not in planned.chosen:
        raise DataError(f"the fraction {valid} of the pairs is none", "give a larger fraction, or a file with --valid")
    parts: tuple[list[TextPair], list[TextPair]] = ([], [])
    for pair, is_held_out in zip(pairs, chosen, strict=True):
        parts[int(is_held_out)].append(pair)
    return parts


def _tokenizers(pairs: Sequence[TextPair], planned: Plan, progress: Progress) -> tuple[Tokenizer, Tokenizer | None]:
    """Return the tokenizer of targets, and that of sources where it is another one."""
    if planned.tokenizer is not None:
        return planned.tokenizer, None
    progress("learning the tokenizer", None)
    settings = planned.settings.tokenizer
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]

    def learned(texts: Sequence[str]) -> Tokenizer:
        return train_tokenizer(settings, (piece.text for piece in text_pieces(texts)), sum(map(len, texts)))

    if settings.joint:
        return learned([*sources, *targets]), None
    return learned(targets), learned(sources)


def _fitting(pairs: Sequence[TextPair], sources: Tokenizer, targets: Tokenizer, context: int) -> list[TextPair]:
    """Return the pairs that are no longer than the context, with the end of each side."""
    lengths = [
        [len(found.ids) for found in tokenizer.encode_pieces(texts, [True] * len(texts))]
        for texts, tokenizer in (
            ([pair.source for pair in pairs], sources),
            ([pair.target for pair in pairs], targets),
        )
    ]
    return [pair for pair, *both in zip(pairs, *lengths, strict=True) if max(both) < context]


def _write(
    folder: durable.NewFolder, name: str, tokenizer: Tokenizer, texts: Sequence[str], sha256: str
) -> TokenCounts:
    with folder.create(name) as handle:
        return write_examples(handle, tokenizer, texts, sha256, lambda done: None)
