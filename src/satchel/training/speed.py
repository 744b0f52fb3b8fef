"""Measured speed of training and decoding of language models with nearly equal numbers of parameters.

Shapes: B batch, T time.
"""

import contextlib
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter

from satchel import charts
from satchel.errors import SettingsError
from satchel.models.build import EncoderSettings, build_encoder, size_tree
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from satchel.training.optimizer import Optimizer
from satchel.training.settings import TrainingSettings
from satchel.training.task import NETWORK_KINDS

# Number of token ids: 256 bytes and the boundary.
VOCABULARY = 257
# Number of tokens of a training step, and number of tokens that are decoded one at a time in a measurement.
BATCH_TOKENS, DECODED_TOKENS = 2048, 32
MAX_LENGTH, MAX_PARAMETERS = 1 << 14, 1 << 28
# Assumed floating-point operations per second of a core and seconds per decoded token, for the expected time.
CORE_RATE, STEP_SECONDS = 2e10, 3e-3
# Kinds that process a sequence position by position, and kinds that process all positions at once by attention.
RECURRENT, ATTENTION = ("rnn", "gru", "lstm"), ("transformer", "backpack")
# Extensions of the processor that matrix products use, by their name in /proc/cpuinfo.
EXTENSIONS = ("avx", "avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "asimd", "sve")


@dataclass(frozen=True)
class MeasuredModel:
    """Size of a measured network."""

    kind: str
    width: int
    layers: int
    parameters: int


@dataclass(frozen=True)
class Speed:
    """Median tokens per second of a network on sequences of one length, in training and in decoding."""

    kind: str
    length: int
    training: float
    decoding: float


@dataclass(frozen=True)
class SpeedReport:
    """Measured speeds and the conditions of the measurement."""

    models: tuple[MeasuredModel, ...]
    speeds: tuple[Speed, ...]
    rounds: int
    threads: int
    processor: str
    extensions: tuple[str, ...]
    seconds: float

    @property
    def conditions(self) -> str:
        """Processor, threads and rounds in one line."""
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        rounds = f"median of {self.rounds} rounds" if self.rounds > 1 else "1 round"
        return f"{self.processor} ({', '.join(self.extensions)}), {threads}, {rounds}"

    @property
    def difference(self) -> float:
        """Largest relative difference between the numbers of parameters."""
        counts = [model.parameters for model in self.models]
        return max(counts) / min(counts) - 1

    def statements(self) -> list[str]:
        """Return the ratios of the speeds of attention and recurrence, and whether they agree with the lecture."""
        kinds = [model.kind for model in self.models]
        pairs = [(a, b) for a in kinds if a in ATTENTION for b in kinds if b in RECURRENT]
        return [self._statement(*pair, measure) for pair in pairs for measure in ("training", "decoding")]

    def _statement(self, attention: str, recurrent: str, measure: str) -> str:
        values = {(each.kind, each.length): getattr(each, measure) for each in self.speeds}
        lengths = sorted({each.length for each in self.speeds})
        ratios = {length: values[attention, length] / values[recurrent, length] for length in lengths}
        listed = ", ".join(f"{ratio:.2f} at length {length}" for length, ratio in ratios.items())
        faster = [str(length) for length, ratio in ratios.items() if ratio > 1]
        slower = [str(length) for length, ratio in ratios.items() if ratio <= 1]
        verdict = " and ".join(
            f"{word} the lecture's claim that networks without recurrence are more efficient "
            f"(length {', '.join(group)})"
            for word, group in (("agrees with", faster), ("contradicts", slower))
            if group
        )
        return f"{measure}: tokens per second of {attention} divided by {recurrent}: {listed}. This {verdict}."

    def document(self) -> dict[str, Any]:
        """Return the keys of `info speed --json`."""
        return {**asdict(self), "parameters_difference": self.difference, "statements": self.statements()}

    def picture(self) -> "charts.Figure":
        """Return the tokens per second by length: solid lines for training, dashed lines for decoding."""
        curves = {
            f"{model.kind}, {measure}": [
                (each.length, getattr(each, measure)) for each in self.speeds if each.kind == model.kind
            ]
            for model in self.models
            for measure in ("training", "decoding")
        }
        dashed = {f"{model.kind}, decoding": f"{model.kind}, training" for model in self.models}
        sizes = ", ".join(f"{model.kind} {model.parameters:,} parameters" for model in self.models)
        return charts.line_chart(
            curves,
            "length of the sequence (tokens, logarithmic)",
            "tokens per second (logarithmic)",
            "Measured speed of training and decoding",
            log_x=True,
            log_y=True,
            dashed=dashed,
            notes=[sizes, self.conditions],
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.picture()._repr_mimebundle_(include, exclude)


def measure_speed(
    kinds: Sequence[str] = ("lstm", "transformer"),
    lengths: Sequence[int] = (64, 256, 1024),
    *,
    parameters: int = 1_000_000,
    rounds: int = 3,
    threads: int | None = None,
    note: Callable[[str], None] = lambda text: None,
    progress: Callable[[float], None] = lambda done: None,
) -> SpeedReport:
    """Return the speed of networks of several kinds with about the same number of parameters.

    In each round every network is measured at every length, so that a change of the machine's load affects all of
    them. A training step has 2,048 tokens. Decoding is measured for the last tokens of a sequence of this length, one
    at a time. The first round is not counted. `note` receives the sizes and the expected time before the measurement.
    """
    _check(kinds, lengths, parameters, rounds)
    began = time.perf_counter()
    lengths = sorted(set(lengths))
    with _using_threads(threads) as used:
        models = equal_sizes(kinds, parameters, max(lengths))
        sizes = ", ".join(f"{each.kind} {each.parameters:,} (width {each.width})" for each in models)
        expected = (rounds + 1) * _round_seconds(models, lengths, used)
        note(f"parameters: {sizes}; expected time about {expected:.0f} s on an idle machine")
        networks = {each.kind: _network(_settings(each.kind, each.width, max(lengths))) for each in models}
        training: dict[tuple[str, int], list[float]] = {}
        decoding: dict[tuple[str, int], list[float]] = {}
        cells = [(length, each.kind) for length in lengths for each in models]
        for number in range(rounds + 1):
            for place, (length, kind) in enumerate(cells):
                measured = _training_speed(networks[kind], length), _decoding_speed(networks[kind], length)
                if number:
                    for store, speed in zip((training, decoding), measured, strict=True):
                        store.setdefault((kind, length), []).append(speed)
                progress((number * len(cells) + place + 1) / ((rounds + 1) * len(cells)))
    median = statistics.median
    speeds = tuple(
        Speed(kind, length, median(training[kind, length]), median(decoding[kind, length])) for length, kind in cells
    )
    return SpeedReport(models, speeds, rounds, used, *_processor(), time.perf_counter() - began)


def _check(kinds: Sequence[str], lengths: Sequence[int], parameters: int, rounds: int) -> None:
    for kind in kinds:
        if kind not in NETWORK_KINDS:
            raise SettingsError(f"models: found {kind!r}, expected networks: {', '.join(NETWORK_KINDS)}")
    if not kinds or len(set(kinds)) < len(kinds):
        raise SettingsError("models: expected one or more different kinds")
    if not lengths or not all(2 <= length <= MAX_LENGTH for length in lengths):
        raise SettingsError(f"lengths: expected one or more numbers of tokens from 2 to {MAX_LENGTH:,}")
    if not 10_000 <= parameters <= MAX_PARAMETERS:
        raise SettingsError(f"parameters: found {parameters:,}, expected 10,000 to {MAX_PARAMETERS:,}")
    if not 1 <= rounds <= 1000:
        raise SettingsError(f"rounds: found {rounds:,}, expected 1 to 1,000")


# --- sizes -------------------------------------------------------------------------------------------


def equal_sizes(kinds: Sequence[str], parameters: int, context: int) -> tuple[MeasuredModel, ...]:
    """Return a width of each kind of network such that the numbers of parameters are nearly equal.

    The width of a network with attention is a multiple of 8 (four heads of even width). The other widths are chosen
    for the number of parameters of the first network with attention.
    """
    found: dict[str, MeasuredModel] = {}
    target = parameters
    for kind in sorted(kinds, key=lambda kind: kind not in ATTENTION):
        found[kind] = _nearest_size(kind, target, context)
        target = next(iter(found.values())).parameters if kind in ATTENTION else target
    return tuple(found[kind] for kind in kinds)


def _nearest_size(kind: str, parameters: int, context: int) -> MeasuredModel:
    """Return the size whose number of parameters is nearest to a given one, by bisection over the width."""
    step = 8 if kind in ATTENTION else 1
    low, high = 1, 1 << 14
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _parameters(kind, middle * step, context) <= parameters else (low, middle)
    width = min((low * step, high * step), key=lambda each: abs(_parameters(kind, each, context) - parameters))
    layers = getattr(_settings(kind, width, context), "layers", 1)
    return MeasuredModel(kind, width, layers, _parameters(kind, width, context))


def _parameters(kind: str, width: int, context: int) -> int:
    with torch.device("meta"):
        encoder = build_encoder(_settings(kind, width, context), VOCABULARY, causal=True)
    return sum(parameter.numel() for parameter in encoder.parameters())


def _settings(kind: str, width: int, context: int) -> EncoderSettings:
    tree = {**size_tree(kind, "nano"), "kind": kind, "width": width}
    if kind in ATTENTION:
        tree["context"] = context
    settings: EncoderSettings = TypeAdapter(EncoderSettings).validate_python(tree)
    return settings


def _network(settings: EncoderSettings) -> LanguageNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LanguageNetwork(build_encoder(settings, VOCABULARY, causal=True))


def _round_seconds(models: Sequence[MeasuredModel], lengths: Sequence[int], threads: int) -> float:
    """Return the expected seconds of a round: six operations per parameter and token, and the decoding steps."""
    operations = sum(6 * each.parameters * max(BATCH_TOKENS, length) for each in models for length in lengths)
    return operations / (CORE_RATE * threads) + STEP_SECONDS * DECODED_TOKENS * len(models) * len(lengths)


# --- measurements ------------------------------------------------------------------------------------


def _training_speed(network: LanguageNetwork, length: int) -> float:
    """Return the tokens per second of one training step: loss, gradients and update."""
    rows = max(1, BATCH_TOKENS // length)
    ids_BT = torch.from_numpy(np.random.default_rng(0).integers(0, VOCABULARY - 1, (rows, length + 1)))
    network.train()
    # A learning rate this small does not change the network noticeably, so all steps cost the same.
    optimizer = Optimizer(network, TrainingSettings(learning_rate=1e-9))
    began = time.perf_counter()
    network.loss(ids_BT[:, :-1], ids_BT[:, 1:]).backward()
    optimizer.step(1.0)
    optimizer.zero_grad()
    return rows * length / (time.perf_counter() - began)


def _decoding_speed(network: LanguageNetwork, length: int) -> float:
    """Return the tokens per second of decoding the last tokens of a sequence of this length, one at a time."""
    network.eval()
    ids = np.random.default_rng(0).integers(0, VOCABULARY - 1, length)
    decoded = min(DECODED_TOKENS, length // 2)
    decoder = NetworkPredictor(network, VOCABULARY - 1).decoder()
    decoder.join([ids[:-decoded]])
    began = time.perf_counter()
    for position in range(length - decoded, length):
        decoder.step(ids[position : position + 1])
    return decoded / (time.perf_counter() - began)


@contextlib.contextmanager
def _using_threads(threads: int | None) -> Iterator[int]:
    """Use this number of threads in a block, by default as many as torch chooses; yield the number."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads or before)
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def _processor() -> tuple[str, tuple[str, ...]]:
    """Return the name of the processor and its extensions for matrix products, as far as they are known."""
    names: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n"):
            name, _, value = line.partition(":")
            names.setdefault(name.strip(), value.strip())
    flags = set(f"{names.get('flags', '')} {names.get('Features', '')}".split())
    known = tuple(name for name in EXTENSIONS if name in flags)
    name = names.get("model name") or platform.processor() or platform.machine()
    return name, known or (torch.backends.cpu.get_cpu_capability(),)
