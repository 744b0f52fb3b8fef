"""The interface by which planning, training and loading use the network of a task."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from satchel import tensors
from satchel.errors import SettingsError
from satchel.inspection.sites import site_paths
from satchel.models.build import SIZES, size_tree
from satchel.models.costs import Costs
from satchel.ngram.tables import Table
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.training import fit, saving
from satchel.training.distributed import process_group
from satchel.training.loop import Job
from satchel.training.networks import CustomSettings, NetworkRunSettings, Sampler, Sizes, read_ngram
from satchel.training.plan import Plan
from satchel.training.report import Hooks, TrainReport


@dataclass(frozen=True)
class NetworkTask:
    """Builds, trains and loads the network of a task."""

    settings: type[NetworkRunSettings]
    # Returns a network with randomly initialised parameters; called with settings, sizes, custom encoder and n-grams.
    network: Callable[[Any, Sizes, Any, Table | None], nn.Module]
    # Returns the parameters and operations by component for settings and a vocabulary size, without allocating memory.
    costs: Callable[[Any, int], Costs]
    # Returns the predictor used by evaluation and generation.
    predictor: Callable[[Any, RunFolder], Any]
    # Returns the batches and losses of a run.
    job: Callable[[RunFolder, Any, Any], Job]
    # Returns a function that samples text from the network, or None.
    sampler: Callable[[RunFolder, Any, Any], Sampler | None] = lambda run, settings, network: None

    def build(self, settings: Any, sizes: Sizes, custom_encoder: Any = None, ngram: Table | None = None) -> nn.Module:
        """Return a new network, initialised by the seed of the settings alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.training.seed)
            return self.network(settings, sizes, custom_encoder, ngram)

    def load_network(
        self, run: RunFolder, settings: Any, arrays: dict[str, tensors.Array], custom_encoder: Any = None
    ) -> nn.Module:
        """Return the network of a run with these parameters, in evaluation mode."""
        sizes = Sizes(run.tokenizer.size + 1, run.source_tokenizer.size + 1, len(run.config.labels))
        ngram = read_ngram(run, settings.model.ngram) if settings.model.ngram else None
        network = self.build(settings, sizes, custom_encoder, ngram)
        saving.load_parameters(network, arrays, str(run.path / runs.MODEL))
        return network.eval()

    def load(self, run: RunFolder, settings: Any, custom_encoder: Any = None) -> Any:
        """Return the predictor of a trained run."""
        return self.predictor(self.load_network(run, settings, run.arrays(), custom_encoder), run)

    def site_names(self, settings: Any, vocabulary: int, labels: int) -> list[str]:
        """Return the names of the network's sites as used by traces, without allocating the network."""
        if isinstance(settings.model, CustomSettings):
            return []
        with torch.device("meta"):
            network = self.build(settings, Sizes(vocabulary, vocabulary, labels))
        return list(site_paths(network))

    def size_settings(self, kind: str, size: str) -> dict[str, int]:
        """Return the model settings of a named size."""
        if size not in SIZES:
            raise SettingsError(f"--size {size}: unknown size", f"expected {', '.join(SIZES)}")
        return size_tree(kind, size)

    def estimates(self, settings: Any, vocabulary: int, tokens: int, characters: int) -> dict[str, int]:
        """Return the expected numbers of parameters, operations, bytes of memory and seconds of the training."""
        del tokens, characters
        costs, training = self.costs(settings, vocabulary), settings.training
        width = getattr(settings.model, "width", 0)
        return {
            "parameters": costs.parameters,
            "training_flops_per_token": costs.training_operations,
            # Parameters, gradients and two optimizer moments in float32; then activations.
            "memory_bytes": 16 * costs.parameters + 200 * training.batch_tokens * width,
            **({"seconds": int(60 * training.minutes)} if training.minutes else {}),
        }

    def train(self, plan: Plan, target: Path, hooks: Hooks, *, force: bool) -> tuple[TrainReport, None]:
        """Write a new run, train its network, and return a report; the best parameters are in the run."""
        return fit.train(self, plan, target, hooks, force=force), None

    def resume(self, run: Path, settings: NetworkRunSettings, hooks: Hooks, custom_encoder: Any = None) -> TrainReport:
        """Continue the training of a run."""
        with process_group() as team:
            return fit.fit(self, run, settings, hooks, team, custom_encoder)
