"""`satchel generate`: samples and JSON keys."""

from pathlib import Path

from tests.cli.conftest import (
    Cli,
    json_of,
    train_ngram,
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


def test_a_word_continuation_is_separated_from_the_prompt_in_all_outputs(cli: Cli, verse: Path, tmp_path: Path) -> None:
    run = train_ngram(cli, verse, tmp_path / "run", "--tokenizer", "word")
    options = ("--tokens", 3, "--greedy")
    (sample,) = json_of(cli, "generate", run, "The cat", *options)["samples"]
    assert sample["text"].startswith(" ")
    assert not sample["text"].startswith("  ")
    assert cli("generate", run, "The cat", *options)[1] == f"The cat{sample['text']}\n"
    assert cli("generate", run, "The cat ", *options)[1] == f"The cat{sample['text']}\n"
    assert f"The cat{sample['text']}\n" in cli("generate", run, "The cat", *options, "--samples", 2)[1]
