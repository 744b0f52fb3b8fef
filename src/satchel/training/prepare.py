"""Training networks: a run folder that can be gone on with at any moment."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from satchel import durable, tensors
from satchel.data.bpe_dropout import merge_parts
from satchel.data.gate_split import split_for_gate
from satchel.data.tokens import TokenFile, open_tokens
from satchel.errors import MachineError, SettingsError
from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.ngram.tables import Table
from satchel.progress import Progress
from satchel.runs import folder as runs
from satchel.text.reading import Corpus
from satchel.text.tokenizer import Tokenizer
from satchel.training import saving
from satchel.training.distributed import Team
from satchel.training.networks import (
    Network,
    NetworkSettings,
    TrainedSettings,
    TranslationSettings,
    build_network,
    build_translator,
)
from satchel.training.pairs import write_pairs
from satchel.training.plan import Plan
from satchel.training.rows import Rows, write_labelled, write_tagged_rows
from satchel.training.settings import TrainingSettings
from satchel.training.token_files import write_token_files

# A step of less work than this is quicker on one thread.
SMALL_STEP = 2e9


def prepare(folder: durable.NewFolder, corpus: Corpus, planned: Plan, progress: Progress, team: Team) -> None:
    """Write the run of a network that has not been trained yet: tokens, settings, and the weights it begins with."""
    settings = planned.settings
    if isinstance(settings, TranslationSettings):
        _prepare_translator(folder, corpus, planned, settings, progress, team)
        return
    assert isinstance(settings, NetworkSettings)
    rows: Rows | None = None
    if settings.task == "lm":
        sha256 = corpus.identity()
        tokenizer = write_token_files(folder, corpus, sha256, planned, progress)
    else:
        write = write_labelled if settings.task == "classify" else write_tagged_rows
        rows = write(folder, corpus, planned, progress)
        tokenizer, sha256 = rows.tokenizer, rows.sha256
    tokens = open_tokens(folder.path / runs.TRAIN_TOKENS)
    names = rows.names if rows else ()
    ngram = _write_ngram(folder, settings, tokens, tokenizer, progress) if settings.model.ngram else None
    network = build_network(settings, tokenizer.size + 1, len(names), planned.own, ngram)
    if planned.start is not None:
        _begin_with(network, planned.start, tokenizer)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    facts: dict[str, Any] = {
        "counts": asdict(tokens.counts),
        "repaired": dict(corpus.repaired),
        "parameters": parameters,
        "arithmetic": arithmetic(settings.training, parameters, team),
    }
    if ngram is not None:
        facts |= {"ngrams": ngram.sizes}
    if rows is not None:
        facts |= {
            "rows_by_label": np.bincount(rows.classes, minlength=len(names)).tolist(),
            "labels_only_held_out": list(rows.others),
            **({"unit": rows.unit} if rows.unit else {}),
        }
    described = runs.describe(settings, tokenizer, corpus.name, sha256, facts, names)
    runs.write_model(folder, described, tokenizer, saving.weights(network))
    folder.write(runs.METRICS, b"")
    folder.write(runs.SAMPLES, b"")


def _prepare_translator(
    folder: durable.NewFolder,
    corpus: Corpus,
    planned: Plan,
    settings: TranslationSettings,
    progress: Progress,
    team: Team,
) -> None:
    """Write the run of a network that is to translate."""
    pairs = write_pairs(folder, corpus, planned, settings.model.context, progress)
    if settings.training.merge_dropout:
        merge_parts(pairs.tokenizer)  # which refuses what has no merges
    network = build_translator(settings, pairs.of_sources.size + 1, pairs.tokenizer.size + 1)
    if planned.start is not None:
        _begin_with(network, planned.start, pairs.tokenizer)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    facts: dict[str, Any] = {
        "counts": asdict(pairs.counts),
        "source_counts": asdict(pairs.source_counts),
        "left_out": pairs.left_out,
        "repaired": dict(corpus.repaired),
        "parameters": parameters,
        "arithmetic": arithmetic(settings.training, parameters, team),
    }
    described = runs.describe(
        settings, pairs.tokenizer, corpus.name, pairs.sha256, facts, source_tokenizer=pairs.source_tokenizer
    )
    runs.write_model(folder, described, pairs.tokenizer, saving.weights(network), pairs.source_tokenizer)
    folder.write(runs.METRICS, b"")
    folder.write(runs.SAMPLES, b"")


def _write_ngram(
    folder: durable.NewFolder,
    settings: NetworkSettings,
    tokens: TokenFile,
    tokenizer: Tokenizer,
    progress: Progress,
) -> Table:
    """Write the n-gram that a network is to stand on; and, of what is set aside for the gate, what the others say."""
    own, size = NgramSettings(order=settings.model.ngram), tokenizer.size + 1
    ends = settings.data.documents != "stream"
    progress(f"counting {own.order}-grams", None)
    table = estimate(tokens.ids, size, own, ends=ends).table
    with folder.create(runs.NGRAM) as handle:
        tensors.write(handle, table.arrays(), {"format": "satchel", "tokenizer": tokenizer.sha256})
    progress("counting without what is set aside", None)
    rest, aside = split_for_gate(tokens.ids, tokenizer.boundary)
    logprobs = estimate(rest, size, own, ends=ends).table.score(aside).logprobs
    logprobs[aside[1:] == tokenizer.boundary] = 0  # where one piece ends and another begins, nothing is asked
    with folder.create(runs.ASIDE) as handle:
        tensors.write(handle, {"logprobs": logprobs}, {})
    return table


def _begin_with(network: Network, start: Path, tokenizer: Tokenizer) -> None:
    """Give a network the weights of another run; a head that does not fit stays new."""
    other = runs.read_run_tokenizer(start, runs.read_config(start))
    if other.sha256 != tokenizer.sha256:
        raise SettingsError("has another tokenizer: its weights are for other tokens", where=str(start))
    arrays = saving.current_names(tensors.read(start / runs.MODEL)[0])
    own = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
    fitting = {name: array for name, array in arrays.items() if own.get(name) == array.shape}
    missing = [name for name in own if name.startswith(("encoder.", "pair.")) and name not in fitting]
    if missing:
        raise SettingsError(
            f"its encoder is another one: {', '.join(missing[:4])} do not fit",
            "leave the settings of the model as they are there",
            where=str(start),
        )
    saving.load_weights(network, saving.weights(network) | fitting, str(start))


def arithmetic(training: TrainingSettings, parameters: int, team: Team) -> dict[str, Any]:
    """Return what decides the last bit of every sum; a run is gone on with under the same."""
    small = 6.0 * parameters * training.batch_tokens < SMALL_STEP
    threads = training.threads or (1 if small else max(1, (os.cpu_count() or 1) // team.local_size))
    device = training.device if training.device != "auto" else _best_device()
    return {"threads": threads, "processes": team.size, "torch": torch.__version__, "device": device}


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def check_machine(settings: TrainedSettings) -> None:
    """Refuse what this machine cannot do, before anything is written."""
    device = settings.training.device
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(device, True):
        raise MachineError(f"training.device={device}: this machine has none", "take --device auto")
