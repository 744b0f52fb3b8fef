"""`satchel generate`: samples and JSON keys."""

from pathlib import Path

from tests.cli.conftest import (
    Cli,
    json_of,
)


def test_generate_reports_the_promised_keys(cli: Cli, ngram: Path) -> None:
    result = json_of(cli, "generate", ngram, "The", "--tokens", 20, "--samples", 2, "--seed", 1)
    assert {"prompt", "samples", "tokens_per_second"} <= set(result)
    assert [set(sample) for sample in result["samples"]] == [{"text", "tokens", "finish"}] * 2
    assert [sample["tokens"] for sample in result["samples"]] == [20, 20]


def test_generate_prints_the_prompt_and_the_continuation(cli: Cli, ngram: Path) -> None:
    code, printed, _ = cli("generate", ngram, "The cat", "--tokens", 5, "--greedy")
    assert code == 0
    assert printed.startswith("The cat")
    assert len(printed) == len("The cat") + 5 + 1
