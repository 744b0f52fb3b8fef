"""Choice of the precision by instruction sets, and inference in bfloat16."""

import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from satchel.models.costs import core_rate
from satchel.nn.inference import inference
from satchel.nn.linear import Linear
from satchel.nn.precision import AMX, AVX2, AVX512, AVX512_BF16, GPU_BF16, explain, has_bfloat16, limit, resolve

CLASSES: dict[str, tuple[str, ...]] = {
    "no AVX": (),
    "AVX2": (AVX2,),
    "AVX512": (AVX2, AVX512),
    "AVX512_BF16": (AVX2, AVX512, AVX512_BF16),
    "AMX": (AVX2, AVX512, AVX512_BF16, AMX),
    "GPU": (GPU_BF16,),
}
ALL = list(CLASSES["AMX"])


@pytest.mark.parametrize("name", CLASSES)
def test_auto_is_bfloat16_only_with_instructions_for_it(name: str) -> None:
    is_native = name in ("AVX512_BF16", "AMX", "GPU")
    assert has_bfloat16(CLASSES[name]) == is_native
    assert resolve("auto", CLASSES[name]) == ("bfloat16" if is_native else "float32")
    assert resolve("float32", CLASSES[name]) == "float32"
    assert resolve("bfloat16", CLASSES[name]) == "bfloat16"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "AMX"),
        ({"ONEDNN_MAX_CPU_ISA": "default"}, "AMX"),
        ({"ONEDNN_MAX_CPU_ISA": "AVX10_1_512_AMX"}, "AMX"),
        ({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}, "AVX512_BF16"),
        ({"ONEDNN_MAX_CPU_ISA": "avx512_core_fp16"}, "AVX512_BF16"),
        ({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"}, "AVX512"),
        ({"DNNL_MAX_CPU_ISA": "AVX512_CORE"}, "AVX512"),
        ({"ONEDNN_MAX_CPU_ISA": "AVX2_VNNI_2"}, "AVX2"),
        ({"ONEDNN_MAX_CPU_ISA": "SSE41"}, "no AVX"),
        ({"ATEN_CPU_CAPABILITY": "avx2"}, "AVX2"),
        ({"ATEN_CPU_CAPABILITY": "default"}, "no AVX"),
    ],
)
def test_environment_variables_limit_the_instruction_sets(environment: dict[str, str], expected: str) -> None:
    assert limit(ALL, environment) == CLASSES[expected]


def test_auto_is_float32_in_a_process_limited_to_avx2() -> None:
    code = "from satchel.nn.precision import *; print(resolve('auto', instruction_sets('cpu')))"
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "float32\n"


def test_the_explanation_names_the_instructions_and_warns_of_emulation() -> None:
    assert explain("auto", "cpu", CLASSES["AMX"]) == "training.precision=bfloat16: cpu with avx512_bf16, amx"
    assert explain("auto", "cpu", CLASSES["AVX512"]) == "training.precision=float32: cpu without native bfloat16"
    assert "slow" in explain("bfloat16", "cpu", CLASSES["AVX512"])
    assert explain("bfloat16", "cuda", CLASSES["GPU"]) == "training.precision=bfloat16: as set"


def test_expected_rates_follow_the_instruction_sets() -> None:
    for name in ("AVX512_BF16", "AMX"):
        assert core_rate(CLASSES[name], "bfloat16") > core_rate(CLASSES[name], "float32")
    for name in ("no AVX", "AVX2", "AVX512"):
        assert core_rate(CLASSES[name], "bfloat16") < core_rate(CLASSES[name], "float32")
    assert core_rate(CLASSES["AVX2"], "float32") < core_rate(CLASSES["AVX512"], "float32")


def test_inference_multiplies_in_bfloat16_only_if_asked() -> None:
    network, x = Linear(4, 3), torch.ones(2, 4)
    dtypes: dict[Any, torch.dtype] = {}
    for options in ({}, {"precision": "float32"}, {"precision": "bfloat16"}):
        with inference(network, **options):  # type: ignore[arg-type]
            dtypes[options.get("precision")] = network(x).dtype
    assert dtypes == {None: torch.float32, "float32": torch.float32, "bfloat16": torch.bfloat16}
