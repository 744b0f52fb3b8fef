"""Clients of OpenAI's API use the server: openai, lm-evaluation-harness, llm, and the commands of the docs."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI, AuthenticationError, BadRequestError, NotFoundError, OpenAI

import satchel
from tests.conftest import VERSE
from tests.web import client
from tests.web.client import TOKEN, Server

DOCS = Path(__file__).resolve().parents[2] / "docs" / "serving.md"
PROMPT = "The cat sat"
GREEDY: dict[str, Any] = {"model": "gated", "prompt": PROMPT, "max_tokens": 12, "temperature": 0}
CONTEXT = 512


@pytest.fixture
def openai(server: Server) -> Iterator[OpenAI]:
    """A client of the server."""
    with OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0) as opened:
        yield opened


@pytest.fixture(scope="module")
def text(root: Path) -> str:
    """The greedy continuation of the prompt."""
    return satchel.load(root / "runs" / "gated", task="lm").generate(PROMPT, tokens=12, greedy=True).text


# --- openai ------------------------------------------------------------------------------------------


def test_openai_completes(openai: OpenAI, text: str) -> None:
    assert "gated" in {model.id for model in openai.models.list()}
    assert openai.models.retrieve("gated").owned_by == "satchel"
    completion = openai.completions.create(**GREEDY, logprobs=2, echo=True, n=2, stop=["\n\n\n"], seed=1)
    assert [choice.text for choice in completion.choices] == [PROMPT + text] * 2
    assert completion.usage is not None
    assert completion.usage.completion_tokens == 24
    logprobs = completion.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.token_logprobs is not None
    assert len(logprobs.token_logprobs) == completion.usage.total_tokens - 12


def test_openai_streams(openai: OpenAI, text: str) -> None:
    chunks = list(openai.completions.create(**GREEDY, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == text
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 12


def test_openai_streams_several_requests_at_the_same_time(server: Server, text: str) -> None:
    async def ask(opened: AsyncOpenAI) -> str:
        return "".join(
            [chunk.choices[0].text async for chunk in await opened.completions.create(**GREEDY, stream=True)]
        )

    async def main() -> list[str]:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0) as opened:
            completion = await opened.completions.create(**GREEDY)
            return [completion.choices[0].text, *await asyncio.gather(*(ask(opened) for _ in range(8)))]

    assert asyncio.run(main()) == [text] * 9


def test_openai_understands_errors(openai: OpenAI) -> None:
    with pytest.raises(BadRequestError) as refused:
        openai.completions.create(**{**GREEDY, "temperature": -1})
    assert refused.value.param == "temperature"
    with pytest.raises(BadRequestError) as too_long:
        openai.completions.create(model="transformer", prompt="the cat " * 100)
    assert too_long.value.code == "context_length_exceeded"
    with pytest.raises(NotFoundError, match="absent"):
        openai.completions.create(model="absent", prompt="a")
    with pytest.raises(NotFoundError, match="/v1/completions"):
        openai.chat.completions.create(model="gated", messages=[{"role": "user", "content": "a"}])
    with pytest.raises(AuthenticationError):
        openai.with_options(api_key="wrong").models.list()


def test_openai_receives_an_error_in_the_middle_of_a_stream(root: Path, tmp_path: Path) -> None:
    server = client.start(tmp_path, "--root", root / "runs")
    try:
        with OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0) as opened:
            chunks = opened.completions.create(model="ngram", prompt=PROMPT, max_tokens=100_000, stream=True)
            next(chunks)
            for pid in server.workers():
                os.kill(pid, 9)
            with pytest.raises(APIError, match="worker process ended"):
                list(chunks)
    finally:
        server.stop()


# --- lm-evaluation-harness ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reader(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, satchel.LanguageModel]]:
    """A server with a single model, whose context is long enough for passages."""
    folder = tmp_path_factory.mktemp("reader")
    text = folder / "verse.txt"
    text.write_text(VERSE * 20, encoding="utf-8")
    settings = {"model.width": 16, "model.layers": 1, "model.heads": 2, "model.context": CONTEXT, "training.threads": 1}
    satchel.train(
        text, model="transformer", tokenizer=root / "runs" / "ngram", steps=5, valid=0.1,
        settings=settings, out=folder / "reader",
    )  # fmt: skip
    server = client.start(folder, folder / "reader", "--root", folder / "absent")
    yield server, satchel.load(folder / "reader", task="lm")
    server.stop()


def test_lm_eval_computes_the_log_likelihoods_of_score(
    reader: tuple[Server, satchel.LanguageModel], shared: Path, tmp_path: Path
) -> None:
    server, model = reader
    rows = (shared / "lambada" / "lambada_test.jsonl").read_text(encoding="utf-8").split("\n")[:8]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    task = {
        "task": "passages", "dataset_path": "json", "output_type": "loglikelihood", "test_split": "test",
        "dataset_kwargs": {"data_files": {"test": str(tmp_path / "rows.jsonl")}},
        "doc_to_text": "{{text.split(' ')[:-1]|join(' ')}}", "doc_to_target": "{{' '+text.split(' ')[-1]}}",
        "metric_list": [{"metric": "perplexity", "aggregation": "perplexity", "higher_is_better": False}],
    }  # fmt: skip
    (tmp_path / "passages.yaml").write_text(json.dumps(task))
    arguments = [
        *("--model", "local-completions", "--tasks", "passages", "--include_path", tmp_path, "--log_samples"),
        *("--output_path", tmp_path / "results", "--model_args"),
        f"model=reader,base_url={server.url}/v1/completions,auth_token={TOKEN},max_length={CONTEXT},num_concurrent=4",
    ]
    environment = {**os.environ, "OPENAI_API_KEY": TOKEN, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    result = subprocess.run(
        [sys.executable, "-m", "lm_eval", "run", *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    (path,) = (tmp_path / "results").rglob("samples_passages_*.jsonl")
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(samples) == len(rows)
    for sample in samples:
        text = sample["doc"]["text"]
        context = text[: text.rindex(" ")]
        scored = model.score(text).logprobs[len(model.tokenizer.encode(context).ids) :]
        assert sum(scored) < -1
        assert float(sample["resps"][0][0][0]) == pytest.approx(sum(scored), abs=1e-4)


# --- llm ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [[], ["--no-stream"]])
def test_llm_completes(server: Server, text: str, tmp_path: Path, option: list[str]) -> None:
    (settings,) = _examples("yaml")
    settings = settings.replace("python-docs", "gated").replace("http://127.0.0.1:8765", server.url)
    (tmp_path / "extra-openai-models.yaml").write_text(settings)
    options = ["-m", "gated", "-o", "max_tokens", "12", "-o", "temperature", "0", "--key", TOKEN, "--no-log"]
    result = subprocess.run(
        [sys.executable, "-m", "llm", PROMPT, *options, *option],
        env={**os.environ, "LLM_USER_PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (result.returncode, result.stdout) == (0, f"{text}\n"), result.stderr


# --- documentation -----------------------------------------------------------------------------------


def _examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)


def _run(server: Server, code: str, *command: str) -> str:
    """Return the output of an example, for a model of the server."""
    code = code.replace("http://127.0.0.1:8765", server.url).replace("python-docs", "gated")
    result = subprocess.run(
        [*command, code], env={**os.environ, "SATCHEL_TOKEN": TOKEN}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("code", [code for code in _examples("sh") if code.startswith("curl")])
def test_the_curl_commands_of_the_documentation_are_answered(server: Server, code: str) -> None:
    printed = _run(server, code, "sh", "-c")
    assert '"error"' not in printed
    assert any(key in printed for key in ('"choices"', '"data"', '"tokens"', '"next"'))


def test_the_python_example_of_the_documentation_prints_text(server: Server) -> None:
    (code,) = _examples("python")
    assert len(_run(server, code, sys.executable, "-c")) > 40
