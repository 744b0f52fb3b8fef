"""Precision of matrix products: bfloat16 where the processor or GPU has instructions for it, otherwise float32.

The choice depends on the instruction sets only, not on timing. `torch.ops.mkldnn._is_mkldnn_bf16_supported` is not
used: it is also true where oneDNN emulates bfloat16.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Literal

import torch

Precision = Literal["float32", "bfloat16"]

# Instruction sets of a CPU, in ascending order, and the name for a GPU with bfloat16 instructions.
AVX2, AVX512, AVX512_BF16, AMX, GPU_BF16 = "avx2", "avx512", "avx512_bf16", "amx", "bf16"
# Instruction sets that multiply matrices in bfloat16 faster than in float32.
NATIVE_BFLOAT16 = frozenset({AVX512_BF16, AMX, GPU_BF16})


def chosen_device(setting: str) -> str:
    """Return the device of the setting `training.device`; `auto` is the best one of this machine."""
    if setting != "auto":
        return setting
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def instruction_sets(device: str) -> tuple[str, ...]:
    """Return the instruction sets of a device (cpu, cuda or mps) that the kernels of torch and oneDNN may use."""
    if device == "cuda":
        return (GPU_BF16,) if torch.cuda.is_bf16_supported(including_emulation=False) else ()
    if device != "cpu":
        return ()
    supported = {
        AVX2: torch.cpu._is_avx2_supported(),
        AVX512: torch.cpu._is_avx512_supported(),
        AVX512_BF16: torch.cpu._is_avx512_bf16_supported(),
        AMX: torch.cpu._is_amx_tile_supported(),
    }
    return limit([name for name, is_supported in supported.items() if is_supported], os.environ)


def limit(names: list[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the instruction sets of a CPU that remain under ONEDNN_MAX_CPU_ISA and ATEN_CPU_CAPABILITY."""
    isa = environment.get("ONEDNN_MAX_CPU_ISA", environment.get("DNNL_MAX_CPU_ISA", "")).upper()
    excluded: set[str] = set()
    if isa.startswith(("SSE", "AVX512", "AVX10")) and "AMX" not in isa:
        excluded |= {AMX}
    if isa in ("AVX512_CORE", "AVX512_CORE_VNNI"):
        excluded |= {AVX512_BF16}
    if isa.startswith(("SSE", "AVX2")) or isa == "AVX" or environment.get("ATEN_CPU_CAPABILITY") in ("avx2", "default"):
        excluded |= {AVX512, AVX512_BF16, AMX}
    if isa.startswith("SSE") or isa == "AVX" or environment.get("ATEN_CPU_CAPABILITY") == "default":
        excluded |= {AVX2}
    return tuple(name for name in names if name not in excluded)


def has_bfloat16(names: tuple[str, ...]) -> bool:
    """Return whether a device with these instruction sets multiplies matrices in bfloat16 natively."""
    return not NATIVE_BFLOAT16.isdisjoint(names)


def resolve(setting: Literal["auto"] | Precision, names: tuple[str, ...]) -> Precision:
    """Return the precision of a setting on a device with these instruction sets."""
    if setting != "auto":
        return setting
    return "bfloat16" if has_bfloat16(names) else "float32"


def explain(setting: Literal["auto"] | Precision, device: str, names: tuple[str, ...]) -> str:
    """Return the precision of a setting on a device, and the reason for it."""
    precision = resolve(setting, names)
    native = ", ".join(name for name in names if name in NATIVE_BFLOAT16)
    if setting == "auto":
        reason = f"{device} with {native}" if native else f"{device} without native bfloat16"
    elif precision == "bfloat16" and not native:
        reason = f"slow: {device} without native bfloat16 emulates it; float32 is up to 15 times as fast"
    else:
        reason = "as set"
    return f"training.precision={precision}: {reason}"


def autocast(device: str, precision: Precision) -> AbstractContextManager[object]:
    """Return a context in which matrix products use the precision; parameters stay float32."""
    return torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16")


@contextlib.contextmanager
def without_autocast(device: str) -> Iterator[None]:
    """Run the block in the precision of its inputs."""
    with torch.autocast(device, enabled=False):
        yield
