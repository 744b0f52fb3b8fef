"""`satchel generate`: samples, JSON keys, log-probabilities and options of the sampler."""

import math
import re
from itertools import pairwise
from pathlib import Path

import pytest

import satchel
from tests.cli.conftest import SMALL, Cli, json_of, train_ngram


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


def test_log_probabilities_are_those_of_score_and_next(cli: Cli, ngram: Path) -> None:
    options = ("--tokens", 4, "--seed", 2, "--temperature", 2, "--logprobs", 3)
    (sample,) = json_of(cli, "generate", ngram, "The ca", *options)["samples"]
    assert set(sample) == {"text", "tokens", "finish", "token_texts", "logprobs", "top_logprobs"}
    assert "".join(sample["token_texts"]) == sample["text"]
    scored = json_of(cli, "score", ngram, "The ca" + sample["text"])["tokens"][-4:]
    assert sample["logprobs"] == pytest.approx([token["logprob"] for token in scored], rel=1e-9)
    most_probable = json_of(cli, "next", ngram, "The ca", "--top", 3)["tokens"]
    assert [set(token) for token in sample["top_logprobs"][0]] == [{"text", "id", "logprob"}] * 3
    for token, expected in zip(sample["top_logprobs"][0], most_probable, strict=True):
        assert (token["text"], token["id"]) == (expected["text"], expected["id"])
        assert math.exp(token["logprob"]) == pytest.approx(expected["probability"], rel=1e-9)


def test_log_probabilities_are_printed_as_a_table_after_the_text(cli: Cli, ngram: Path) -> None:
    for samples in (1, 2):
        options = ("--tokens", 3, "--greedy", "--samples", samples)
        _, text, _ = cli("generate", ngram, "The", *options)
        for count, heading in ((0, "probability"), (2, "most probable")):
            code, printed, _ = cli("generate", ngram, "The", *options, "--logprobs", count)
            assert code == 0
            assert printed.startswith(text.splitlines()[0])
            assert printed.count(heading) >= samples
            assert len(printed.splitlines()) == samples * 5


def test_a_bias_names_a_token_by_its_text_or_id(cli: Cli, ngram: Path) -> None:
    options = ("--tokens", 4, "--greedy")
    for bias in ("z=1000", "\\n=1000", "==1000", "id:0=1000", "<end>=1000"):
        code, printed, messages = cli("generate", ngram, "The", *options, "--logit-bias", bias)
        known = bias not in ("z=1000", "==1000")
        assert (code == 0) == known, messages
        assert bias != "\\n=1000" or printed == "The\n\n\n\n\n"
    text = json_of(cli, "generate", ngram, "The", *options)["samples"][0]["text"]
    biased = json_of(cli, "generate", ngram, "The", *options, "--logit-bias", f"{text[0]}=-1000")["samples"][0]["text"]
    assert text[0] not in biased


def test_the_token_of_a_bias_may_contain_an_equals_sign(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a=b, c=d\n" * 30, encoding="utf-8")
    run = train_ngram(cli, tmp_path / "text.txt", tmp_path / "run", "--tokenizer", "char")
    assert cli("generate", run, "a", "--tokens", 3, "--greedy", "--logit-bias", "==1000")[1] == "a===\n"


def test_a_bias_of_several_tokens_is_refused(cli: Cli, verse: Path, tmp_path: Path) -> None:
    run = train_ngram(cli, verse, tmp_path / "bpe", "--tokenizer", "bpe:270")
    code, _, messages = cli("generate", run, "The", "--logit-bias", "unusual words=1")
    assert code == 2
    assert "tokens (" in messages
    assert "expected one" in messages
    model = satchel.load(run, task="lm")
    token = model.next("The", top=1).tokens[0]
    for key in (token, token.id, str(token), f"id:{token.id}"):
        result = model.generate("The", tokens=5, greedy=True, logit_bias={key: -1000.0})
        assert token.id not in result.samples[0].ids


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--logit-bias", "the"], "--logit-bias the: expected TOKEN=X"),
        (["--logit-bias", "=3"], "--logit-bias =3: expected TOKEN=X"),
        (["--logit-bias", "a=b"], "--logit-bias a=b: 'b' is not a number"),
        (["--logit-bias", "a=nan"], "logit_bias: found NaN"),
        (["--logit-bias", "a=1e9"], "logit_bias: found 1000000000.0, expected a number of at most 1000"),
        (["--logit-bias", "id:99999=1"], "token id 99999 does not exist"),
        (["--typical-p", "0"], "typical_p: found 0.0"),
        (["--repetition-penalty", "0"], "repetition_penalty: found 0.0"),
        (["--presence-penalty", "1000"], "presence_penalty: found 1000.0"),
        (["--frequency-penalty", "nan"], "frequency_penalty: found NaN"),
        (["--no-repeat-ngram", "-1"], "no_repeat_ngram: found -1"),
        (["--logprobs", "-1"], "logprobs: found -1"),
        (["--speculative", "maybe"], "speculative: found \"maybe\", expected 'auto', 'on' or 'off'"),
        (["--speculative", "on"], "the run has no n-gram model"),
    ],
)
def test_invalid_options_are_refused_with_the_reason(options: list[str], message: str, cli: Cli, ngram: Path) -> None:
    code, printed, messages = cli("generate", ngram, "The", *options)
    assert (code, printed) == (2, "")
    assert message in messages


def test_penalties_change_the_text(cli: Cli, ngram: Path) -> None:
    def text(*options: object) -> str:
        (sample,) = json_of(cli, "generate", ngram, "The", "--tokens", 30, "--greedy", *options)["samples"]
        return str(sample["text"])

    plain = text()
    for option, value in (
        ("--repetition-penalty", 1.5), ("--presence-penalty", 5), ("--frequency-penalty", 2), ("--no-repeat-ngram", 2)
    ):  # fmt: skip
        assert text(option, value) != plain, option
    bigrams = list(pairwise(text("--no-repeat-ngram", 2)))
    assert len(set(bigrams)) == len(bigrams)


def test_json_states_whether_speculative_decoding_was_used(cli: Cli, verses: Path, ngram: Path) -> None:
    run = verses.parent / "gated"
    settings = {**SMALL, "model.ngram": 4}
    satchel.train(verses, model="transformer", tokenizer="char", steps=20, settings=settings, out=run, valid=0.1)
    for mode, expected in (("auto", True), ("on", True), ("off", False)):
        result = json_of(cli, "generate", run, "The", "--tokens", 10, "--greedy", "--speculative", mode)
        assert result["speculative"] is expected
    assert json_of(cli, "generate", ngram, "The")["speculative"] is False


def test_the_loss_of_int8_on_held_out_text_is_printed(cli: Cli, verses: Path, ngram: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    satchel.train(verses, model="transformer", tokenizer="char", steps=5, settings=SMALL, out=run, valid=0.1)
    code, printed, messages = cli("generate", run, "The", "--tokens", 5, "--greedy", "--precision", "int8")
    assert code == 0
    assert printed.startswith("The")
    bits = [float(each) for each in re.findall(r"int8: ([0-9.]+) bits per byte .* float32: ([0-9.]+)", messages)[0]]
    assert bits[0] == pytest.approx(bits[1], rel=0.05)
    assert cli("generate", run, "The", "--precision", "int4")[0] == 2
    assert cli("generate", ngram, "The", "--precision", "int8")[0] == 2
