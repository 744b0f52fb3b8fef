"""Validation curves of several runs in one unit."""

from collections.abc import Sequence
from pathlib import Path

from satchel.api.load import load
from satchel.api.model import Model
from satchel.errors import RunError, SettingsError

Curve = list[tuple[int, float]]


def validation_curves(names: Sequence[str | Path]) -> tuple[str, dict[str, Curve]]:
    """Return the axis title and the (step, loss) pairs of each run, all in the same unit.

    Language models are drawn in bits per byte where all of them have it, otherwise in nats per token if they have the
    same tokenizer. Raises SettingsError if the losses of the runs have different units.
    """
    models = {str(name): load(name) for name in names}
    results = {name: model.validation_curve() for name, model in models.items()}
    for name, (_, curve) in results.items():
        if not curve:
            raise _no_curve(name, models[name])
    if len({measure for measure, _ in results.values()}) > 1:
        results = {name: model.validation_curve(convert=False) for name, model in models.items()}
    measures = {measure for measure, _ in results.values()}
    (measure, *others) = measures
    tokenizers = {model.tokenizer.sha256 for model in models.values()}
    if others or ("token" in measure and len(tokenizers) > 1):
        units = "; ".join(f"{name}: {_description(model)}" for name, model in models.items())
        raise SettingsError(
            f"the validation losses of these runs have different units: {units}",
            "give runs of one task and one tokenizer, or language models with char, byte, bpe or unigram tokenizers",
        )
    return measure, {name: curve for name, (_, curve) in results.items()}


def _description(model: Model) -> str:
    """Return the unit of the loss of a run and the tokenizer that it depends on."""
    measure, _ = model.validation_curve()
    return f"{measure} (task {model.task}, {model.tokenizer.kind} tokenizer with {model.tokenizer.size:,} tokens)"


def _no_curve(name: str, model: Model) -> RunError:
    if model.network is None:
        cause, remedy = "is not trained in steps and has no training curve", f"see `satchel evaluate {name}`"
        return RunError(f"model.kind={model.settings.model.kind} {cause}", remedy, where=name)
    return RunError("has no validation measurements", "train with --valid 0.05", where=name)
