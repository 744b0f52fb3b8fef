"""Write the run folder of a new network: examples, configuration and initial parameters."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from satchel import durable, tensors
from satchel.data.splits import split_for_gate
from satchel.data.tokens import open_tokens
from satchel.errors import MachineError, SettingsError
from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.ngram.tables import Table
from satchel.nn.precision import chosen_device, has_bfloat16, instruction_sets, resolve
from satchel.progress import Progress
from satchel.runs import folder as runs
from satchel.text.reading import Corpus
from satchel.text.tokenizer import Tokenizer
from satchel.training import saving
from satchel.training.distributed import Team
from satchel.training.networks import NetworkRunSettings, Sizes
from satchel.training.plan import Plan
from satchel.training.settings import TrainingSettings

# Steps with fewer floating point operations than this are faster on one thread.
SMALL_STEP = 2e9


def prepare(folder: durable.NewFolder, corpus: Corpus, plan: Plan, progress: Progress, team: Team) -> None:
    """Write the run of a network before its first step."""
    settings, task = plan.settings, plan.task.network()
    assert isinstance(settings, NetworkRunSettings)
    examples = plan.task.write_examples(folder, corpus, plan, progress)
    tokenizer, source_tokenizer = examples.tokenizer, examples.source_tokenizer
    facts = dict(examples.facts)
    ngram = None
    if settings.model.ngram:
        ngram = _write_ngram(folder, settings, tokenizer, progress)
        facts["ngrams"] = ngram.sizes
    sizes = Sizes(tokenizer.size + 1, (source_tokenizer or tokenizer).size + 1, len(examples.labels))
    network = task.build(settings, sizes, plan.custom_encoder, ngram)
    if plan.start is not None:
        _load_start(network, plan.start, tokenizer)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    facts |= {"parameters": parameters, "arithmetic": arithmetic(settings.training, parameters, team)}
    config = runs.new_config(
        settings, tokenizer, corpus.name, examples.sha256, facts, examples.labels, source_tokenizer
    )
    runs.write_model(folder, config, tokenizer, saving.parameters(network), source_tokenizer)
    folder.write(runs.METRICS, b"")
    folder.write(runs.SAMPLES, b"")


def _write_ngram(
    folder: durable.NewFolder, settings: NetworkRunSettings, tokenizer: Tokenizer, progress: Progress
) -> Table:
    """Write the n-gram model to interpolate with, and the log-probabilities that the gate is fitted to.

    The latter are those of the text excluded from training, under n-grams counted without it.
    """
    ids = open_tokens(folder.path / runs.TRAIN_TOKENS).ids
    ngram, size = NgramSettings(order=settings.model.ngram), tokenizer.size + 1
    ends = settings.data.documents != "stream"
    progress(f"counting {ngram.order}-grams", None)
    table = estimate(ids, size, ngram, ends=ends).table
    runs.write_ngram(folder, table.arrays(), tokenizer)
    progress(f"counting {ngram.order}-grams for the gate", None)
    rest, gate_text = split_for_gate(ids, tokenizer.boundary)
    logprobs = estimate(rest, size, ngram, ends=ends).table.score(gate_text).logprobs
    logprobs[gate_text[1:] == tokenizer.boundary] = 0  # boundaries between excerpts are not predicted
    with folder.create(runs.GATE_LOGPROBS) as handle:
        tensors.write(handle, {"logprobs": logprobs}, {})
    return table


def _load_start(network: nn.Module, start: Path, tokenizer: Tokenizer) -> None:
    """Load the parameters of another run; parameters of a head with another shape stay as initialised."""
    run = runs.open_run(start)
    if run.tokenizer.sha256 != tokenizer.sha256:
        raise SettingsError("has a different tokenizer: its parameters belong to other tokens", where=str(start))
    arrays = saving.current_names(run.arrays())
    shapes = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
    matching = {name: array for name, array in arrays.items() if shapes.get(name) == array.shape}
    missing = [name for name in shapes if name.startswith(("encoder.", "pair.")) and name not in matching]
    if missing:
        raise SettingsError(
            f"has a different encoder: the shapes of {', '.join(missing[:4])} differ",
            "use the model settings of that run",
            where=str(start),
        )
    saving.load_parameters(network, saving.parameters(network) | matching, str(start))


def arithmetic(training: TrainingSettings, parameters: int, team: Team) -> dict[str, Any]:
    """Return the properties on which the rounding of sums depends; a run can be resumed only with the same ones."""
    is_small = 6.0 * parameters * training.batch_tokens < SMALL_STEP
    threads = training.threads or (1 if is_small else max(1, (os.cpu_count() or 1) // team.local_size))
    device = chosen_device(training.device)
    names = instruction_sets(device)
    precision = resolve(training.precision, names)
    facts = {"threads": threads, "processes": team.size, "torch": torch.__version__, "device": device}
    facts["precision"] = precision
    if precision == "bfloat16":
        facts["bfloat16"] = "native" if has_bfloat16(names) else "emulated"
    return facts


def check_device(training: TrainingSettings) -> None:
    """Raise an error if the device of the settings is not available."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(training.device, True):
        raise MachineError(f"training.device={training.device}: this machine has no such device", "use --device auto")
