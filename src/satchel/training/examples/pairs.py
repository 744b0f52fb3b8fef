"""Write pairs of source and target texts."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from satchel import durable
from satchel.data.bpe_dropout import merge_parts
from satchel.data.examples import write_examples
from satchel.data.samples import sample_rows
from satchel.data.splits import held_out_pairs
from satchel.data.tokens import TokenCounts
from satchel.errors import DataError, RunError
from satchel.progress import Progress
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.text.reading import Corpus, DataSettings, lines
from satchel.text.tables import Row, TextPair, column_text, read_json_lines, read_pairs
from satchel.text.tokenizer import Tokenizer
from satchel.training.examples.common import (
    Examples,
    choose_tokenizer,
    learn_tokenizer,
    require_rows,
    split,
    valid_corpus,
)
from satchel.training.plan import Plan

# Maximum size in bytes of the file of held-out pairs.
LARGEST_PAIRS = 1 << 32


def write_pairs(folder: durable.NewFolder, corpus: Corpus, plan: Plan, progress: Progress) -> Examples:
    """Write the tokens of the training pairs, and the texts of the held-out pairs if there are any.

    Pairs with an empty side, or with a side longer than the context, are dropped and counted.
    """
    settings: Any = plan.settings
    context: int = settings.model.context
    progress("reading", None)
    all_pairs = list(read_pairs(corpus))
    pairs = [pair for pair in all_pairs if pair.source.strip() and pair.target.strip()]
    if not pairs:
        raise DataError(
            f"found {len(all_pairs):,} pairs, none of them with both a source and a target",
            "check the columns with `satchel data`",
            where=corpus.name,
        )
    train, valid = split(pairs, partial(held_out_pairs, pairs), plan, "pair")
    tokenizer, source_tokenizer = _tokenizers(train, plan, corpus.name, progress)
    if settings.training.merge_dropout:
        merge_parts(tokenizer)  # raises an error if the tokenizer has no merges
    progress("tokenizing", None)
    short = _short(train, source_tokenizer or tokenizer, tokenizer, context)
    if not short:
        raise DataError(
            f"found no pair with at most {context:,} tokens on each side", "increase model.context", where=corpus.name
        )
    sha256 = corpus.identity()

    def write(name: str, tokenizer: Tokenizer, texts: Sequence[str]) -> TokenCounts:
        with folder.create(name) as handle:
            return write_examples(handle, tokenizer, texts, sha256)

    counts = write(runs.TRAIN_TOKENS, tokenizer, [pair.target for pair in short])
    source_counts = write(runs.TRAIN_SOURCES, source_tokenizer or tokenizer, [pair.source for pair in short])
    if other := valid_corpus(plan):
        valid = require_rows(read_pairs(other), other.name, "pairs")
    if valid:
        folder.write(runs.VALID_PAIRS, b"".join(map(_json_line, valid)))
    facts = {
        "counts": asdict(counts),
        "source_counts": asdict(source_counts),
        "left_out": {"empty": len(all_pairs) - len(pairs), "long": len(train) - len(short)},
        "repaired": dict(corpus.repaired),
    }
    return Examples(tokenizer, sha256, facts, source_tokenizer=source_tokenizer)


def read_valid_pairs(run: RunFolder) -> list[TextPair]:
    """Return the held-out pairs of a run, or a sample of them if `held_out_limit` is less; empty if there are none."""
    where = str(run.path / runs.VALID_PAIRS)
    if not (run.path / runs.VALID_PAIRS).exists():
        return []
    try:
        text = durable.read_verified(run.path, runs.VALID_PAIRS, LARGEST_PAIRS).decode()
    except UnicodeDecodeError as error:
        raise RunError(f"is not UTF-8: {error}", where=where) from None
    rows = read_json_lines(lines([text]), where)

    def value(row: Row, setting: str) -> str:
        return column_text(row, setting, DataSettings(), where)

    pairs = [TextPair(value(row, "source_column"), value(row, "target_column"), row.line) for row in rows]
    if run.held_out_limit is None:
        return pairs
    lengths_R = np.array([max(lengths) for lengths in _lengths(pairs, run.source_tokenizer, run.tokenizer)])
    chosen = sample_rows(lengths_R, run.held_out_limit, run.config.settings["training"]["seed"])
    return [pairs[row] for row in chosen]


def _json_line(pair: TextPair) -> bytes:
    return json.dumps({"source": pair.source, "target": pair.target}, ensure_ascii=False).encode() + b"\n"


def _tokenizers(
    pairs: Sequence[TextPair], plan: Plan, where: str, progress: Progress
) -> tuple[Tokenizer, Tokenizer | None]:
    """Return the tokenizer of targets, and that of sources if it is a different one."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if plan.tokenizer is not None or plan.settings.tokenizer.joint:
        return choose_tokenizer([*sources, *targets], plan, where, progress), None
    return choose_tokenizer(targets, plan, where, progress), learn_tokenizer(sources, plan, where)


def _short(pairs: Sequence[TextPair], sources: Tokenizer, targets: Tokenizer, context: int) -> list[TextPair]:
    """Return the pairs with at most `context` tokens on each side, including the boundary."""
    return [pair for pair, both in zip(pairs, _lengths(pairs, sources, targets), strict=True) if max(both) < context]


def _lengths(pairs: Sequence[TextPair], sources: Tokenizer, targets: Tokenizer) -> list[tuple[int, int]]:
    """Return the numbers of tokens of both sides of each pair."""
    source_lengths, target_lengths = (
        [len(encoding.ids) for encoding in tokenizer.encode_pieces(texts, [True] * len(texts))]
        for texts, tokenizer in (
            ([pair.source for pair in pairs], sources),
            ([pair.target for pair in pairs], targets),
        )
    )
    return list(zip(source_lengths, target_lengths, strict=True))
