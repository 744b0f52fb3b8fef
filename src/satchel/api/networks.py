"""Networks: their settings, their runs, and training them. It needs torch: it is imported where one is asked for."""

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field

from satchel import durable, tensors
from satchel.api.language import LanguageModel, write_token_files
from satchel.api.loading import load_language_model, read_settings
from satchel.api.models import TrainReport
from satchel.api.planning import Plan
from satchel.api.settings import Progress, SharedSettings
from satchel.data.tokens import open_tokens
from satchel.errors import RunError
from satchel.evaluation.likelihood import likelihood
from satchel.models.build import EncoderSettings, build_encoder
from satchel.models.costs import Costs, count, weightless
from satchel.models.presets import PRESETS as PRESETS
from satchel.models.presets import Preset as Preset
from satchel.models.transformer import TransformerSettings
from satchel.runs import checkpoint
from satchel.runs import folder as runs
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from satchel.text.reading import Corpus
from satchel.text.tokenizer import Tokenizer, default_size
from satchel.training import loop, saving
from satchel.training.jobs import LanguageJob
from satchel.training.settings import TrainingSettings

# Where nobody said how many tokens there are: as many as a megabyte of text gets.
USUAL_SIZE = default_size(1 << 20)
# A step of less work than this is quicker on one thread.
SMALL_STEP = 2e9


class NetworkSettings(SharedSettings):
    """The whole tree of settings of a network."""

    task: Literal["lm"] = Field("lm", description="a language model")
    model: EncoderSettings = Field(default_factory=TransformerSettings)
    training: TrainingSettings = TrainingSettings()

    @property
    def vocabulary(self) -> int:
        """How many ids there are, the document boundary among them, as far as is known before there is a text."""
        return (self.tokenizer.size or USUAL_SIZE) + 1


def network_costs(settings: NetworkSettings, vocabulary: int) -> Costs:
    """Return what the network would cost, without making it."""
    length = getattr(settings.model, "context", 1)
    with weightless():
        encoder = build_encoder(settings.model, vocabulary, causal=True)
    return count(encoder, length, tied_logits=encoder.embedding)


def network_predictor(
    settings: NetworkSettings, tokenizer: Tokenizer, arrays: dict[str, tensors.Array], where: str
) -> NetworkPredictor:
    """Return the predictor of a network whose weights were saved."""
    with torch.random.fork_rng(devices=[]):  # the weights it begins with are random, and of no use
        network = LanguageNetwork(build_encoder(settings.model, tokenizer.size + 1, causal=True))
    saving.load_weights(network, arrays, where)
    return NetworkPredictor(network.eval(), tokenizer.boundary)


# --- training --------------------------------------------------------------------------------------


def prepare(folder: durable.NewFolder, corpus: Corpus, planned: Plan, progress: Progress) -> None:
    """Write the run of a network that has not been trained yet: tokens, settings, and the weights it begins with."""
    settings = planned.settings
    assert isinstance(settings, NetworkSettings)
    sha256 = corpus.identity()
    tokenizer = write_token_files(folder, corpus, sha256, planned, progress)
    tokens = open_tokens(folder.path / runs.TRAIN_TOKENS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.training.seed)
        network = LanguageNetwork(build_encoder(settings.model, tokenizer.size + 1, causal=True))
    parameters = sum(parameter.numel() for parameter in network.parameters())
    facts = {
        "counts": asdict(tokens.counts),
        "repaired": dict(corpus.repaired),
        "parameters": parameters,
        "arithmetic": _arithmetic(settings.training, parameters),
    }
    described = runs.describe(settings, tokenizer, corpus.name, sha256, facts)
    runs.write_model(folder, described, tokenizer, saving.weights(network))
    folder.write(runs.METRICS, b"")


def _arithmetic(training: TrainingSettings, parameters: int) -> dict[str, Any]:
    """Return what decides the last bit of every sum; a run is gone on with under the same."""
    small = 6.0 * parameters * training.batch_tokens < SMALL_STEP
    threads = training.threads or (1 if small else os.cpu_count() or 1)
    return {"threads": threads, "torch": torch.__version__}


def train_run(
    run: Path,
    *,
    progress: Progress,
    should_stop: Callable[[], bool],
    reasons: tuple[str, ...] = (),
) -> LanguageModel:
    """Train the network of a run from its beginning, or from its newest checkpoint, and return it."""
    with durable.locked(run):
        described = runs.read_config(run)
        settings = read_settings(described, run)
        assert isinstance(settings, NetworkSettings)
        _check_arithmetic(settings, described, run)
        tokenizer = runs.read_run_tokenizer(run, described)
        tokens = open_tokens(run / runs.TRAIN_TOKENS, tokenizer=tokenizer)
        valid = None
        if (run / runs.VALID_TOKENS).exists():
            valid = open_tokens(run / runs.VALID_TOKENS, tokenizer=tokenizer)
        arrays, metadata = tensors.read(run / runs.MODEL)
        predictor = network_predictor(settings, tokenizer, arrays, str(run / runs.MODEL))
        job = LanguageJob(
            predictor.network,
            tokens.ids,
            tokenizer.boundary,
            settings.training,
            stream=settings.data.documents == "stream",
            valid=valid.ids if valid else None,
        )
        trainer = loop.Trainer(job, settings.training, _events(run, progress, should_stop, tokenizer))
        if (run / checkpoint.FOLDER).exists():
            passed_over = saving.restore(run, trainer)
            reasons = (*reasons, *(f"damaged, and passed over: {fault}" for fault in passed_over))
        elif metadata.get("step") != "0":
            raise RunError("has no checkpoint to go on from", "train it again", where=str(run))
        if trainer.done() >= 1:
            raise RunError("is finished: there is nothing to go on with", where=str(run))
        stopped = _on_threads(described.facts["arithmetic"]["threads"], trainer)
    model = load_language_model(run)
    state = trainer.progress
    model.report = TrainReport(
        run=str(run),
        parameters=described.facts["parameters"],
        seconds=state.seconds,
        tokens_per_second=state.tokens / max(state.seconds, 1e-9),
        train_loss=state.loss,
        valid=likelihood(model.predictor, valid.ids, valid.counts) if valid else None,
        reasons=reasons,
        counts=tokens.counts,
        steps=state.step,
        stopped=stopped,
    )
    return model


def _check_arithmetic(settings: NetworkSettings, described: runs.RunConfig, run: Path) -> None:
    before = described.facts["arithmetic"]
    now = _arithmetic(settings.training, described.facts["parameters"]) | {"threads": before["threads"]}
    for name, value in before.items():
        if now[name] != value:
            raise RunError(
                f"was trained with {name} {value}, and this is {now[name]}: the bits would differ",
                "go on where it was begun, or train it again",
                where=str(run),
            )


def _on_threads(threads: int, trainer: loop.Trainer) -> loop.Stopped:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return trainer.run()
    finally:
        torch.set_num_threads(before)


def _events(run: Path, progress: Progress, should_stop: Callable[[], bool], tokenizer: Tokenizer) -> loop.Events:
    def stepped(state: loop.Progress, done: float) -> None:
        rate = state.tokens / max(state.seconds, 1e-9)
        left = state.seconds * (1 - done) / max(done, 1e-9)
        progress(f"step {state.step:,}, loss {state.loss:.3f}, {rate:,.0f} tokens/s, {left:,.0f} s left", done)

    def validated(state: loop.Progress, loss: float) -> None:
        measured = {"step": state.step, "seconds": state.seconds, "train_loss": state.loss, "valid_loss": loss}
        checkpoint.append_metrics(run, measured)

    return loop.Events(
        stepped=stepped,
        validated=validated,
        save=lambda trainer: saving.save(run, trainer, tokenizer.sha256),
        should_stop=should_stop,
    )
