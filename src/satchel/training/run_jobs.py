"""What a run trains: its network and its batches; and what it writes by the way, to show how it gets on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from satchel import tensors
from satchel.data.batches import NO_TARGET
from satchel.data.bpe_dropout import merge_parts
from satchel.data.examples import read_classes
from satchel.data.gate_split import split_for_gate
from satchel.data.tokens import TokenFile, open_tokens
from satchel.generation import beam
from satchel.generation.decoding import continue_text
from satchel.generation.sampling import Sampling
from satchel.nn.inference import inference
from satchel.predictor import Ids
from satchel.runs import folder as runs
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from satchel.tasks.tagging import TaggingNetwork
from satchel.text.tables import TextPair
from satchel.text.tokenizer import Tokenizer
from satchel.training.jobs import Aside, LabelJob, LanguageJob
from satchel.training.networks import (
    NetworkSettings,
    TrainedSettings,
    TranslationSettings,
    load_network,
    load_translator,
)
from satchel.training.pair_job import PairJob, Side
from satchel.training.pairs import read_held_out

SAMPLE_TOKENS = 60

Job = LanguageJob | LabelJob | PairJob
# What is written at a step: some text; of a translator, with what it translates.
Sampler = Callable[[int], dict[str, str]]


def build_job(
    run: Path,
    tokens: TokenFile,
    tokenizer: Tokenizer,
    settings: TrainedSettings,
    described: runs.RunConfig,
    arrays: dict[str, tensors.Array],
    own: Any,
) -> Job:
    """Return what is trained: the batches of the run's tokens, and what the network makes of them."""
    training, boundary = settings.training, tokenizer.boundary
    device = described.facts["arithmetic"]["device"]
    if isinstance(settings, TranslationSettings):
        return _pair_job(run, tokens, tokenizer, settings, described, arrays)
    assert isinstance(settings, NetworkSettings)
    network = load_network(run, settings, tokenizer, len(described.labels), arrays, own)
    network.to(device)
    if training.compile:
        # Shadows the method of the class, for this one encoder.
        network.encoder.contextualise = torch.compile(network.encoder.contextualise)  # type: ignore[method-assign]
    held = open_tokens(run / runs.VALID_TOKENS, tokenizer=tokenizer) if (run / runs.VALID_TOKENS).exists() else None
    if isinstance(network, LanguageNetwork):
        stream = settings.data.documents == "stream"
        ids, aside = tokens.ids, None
        if network.ngram is not None:
            ids, end = split_for_gate(ids, boundary)
            aside = Aside(end, tensors.read(run / runs.ASIDE)[0]["logprobs"])
        return LanguageJob(
            network, ids, boundary, training, stream=stream, valid=held.ids if held else None, aside=aside
        )
    names = len(described.labels) + len(described.facts["labels_only_held_out"])
    is_tagger = isinstance(network, TaggingNetwork)

    def classes(name: str, file: TokenFile) -> Any:
        rows = len(file.ids) if is_tagger else file.counts.documents
        return read_classes(run / name, rows, names, NO_TARGET if is_tagger else 0)

    gold = classes(runs.TRAIN_CLASSES, tokens)
    valid = (held.ids, classes(runs.VALID_CLASSES, held)) if held else None
    return LabelJob(network, tokens.ids, gold, boundary, training, valid)


def _pair_job(
    run: Path,
    tokens: TokenFile,
    tokenizer: Tokenizer,
    settings: TranslationSettings,
    described: runs.RunConfig,
    arrays: dict[str, tensors.Array],
) -> PairJob:
    reader = runs.read_source_tokenizer(run, described) or tokenizer
    network = load_translator(run, settings, (reader, tokenizer), arrays)
    network.to(described.facts["arithmetic"]["device"])
    drops = bool(settings.training.merge_dropout)

    def side(ids: Ids, own: Tokenizer) -> Side:
        return Side(ids, own.boundary, merge_parts(own) if drops else None)

    sources = side(open_tokens(run / runs.TRAIN_SOURCES, tokenizer=reader).ids, reader)
    valid = None
    if pairs := _held_out(run):
        longest = settings.model.context - 1
        valid = (
            _short_side([pair.source for pair in pairs], reader, longest),
            _short_side([pair.target for pair in pairs], tokenizer, longest),
        )
    return PairJob(network, sources, side(tokens.ids, tokenizer), settings.training, valid)


def _short_side(texts: list[str], tokenizer: Tokenizer, longest: int) -> Side:
    """Return one side of pairs; of a text that is too long, its beginning."""
    end = np.array([tokenizer.boundary])
    ids = np.concatenate([end, *(np.append(tokenizer.encode(text).ids[:longest], end) for text in texts)])
    return Side(ids, tokenizer.boundary)


def _held_out(run: Path) -> list[TextPair]:
    path = run / runs.VALID_PAIRS
    return read_held_out(path) if path.exists() else []


def sampler(run: Path, job: Job, tokenizer: Tokenizer) -> Sampler | None:
    """Return what shows how a network gets on, in text; None where it writes none."""
    if isinstance(job, LanguageJob):
        predictor = NetworkPredictor(job.network, tokenizer.boundary)

        def written(step: int) -> dict[str, str]:
            sampling = Sampling(tokens=SAMPLE_TOKENS, temperature=0.8, seed=step)
            with inference(job.network):
                (sample,) = continue_text(predictor, tokenizer, "", sampling, lambda done: None)
            return {"text": sample.text}

        return written
    pairs = _held_out(run) if isinstance(job, PairJob) else []
    if not isinstance(job, PairJob) or job.valid is None or not pairs:
        return None
    sources, targets = job.valid
    first, ids = pairs[0].source, sources.texts()[0]

    def translated(step: int) -> dict[str, str]:
        del step
        ends = sources.boundary, targets.boundary
        (best,) = beam.translate(job.network, [ids], ends, beam.BeamSettings(beam=1), unknown=tokenizer.unknown)
        return {"source": first, "text": tokenizer.decode(best[0].ids)}

    return translated
