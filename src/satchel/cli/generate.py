"""`satchel generate`: sample continuations of a prompt."""

import math
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from satchel.cli.options import (
    AsJson,
    DecodingPrecisionOption,
    Run,
    SamplingSeed,
    Temperature,
    TopK,
    TopP,
    read_text,
    use_decoding_precision,
)
from satchel.cli.output import TEXT, TOKEN, Progress, emit_json, message, print, print_table
from satchel.errors import SettingsError
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.api import LanguageModel
    from satchel.api.language import Generation
    from satchel.generation.decoding import Sample


def generate(
    run: Run,
    prompt: Annotated[str, Argument(metavar="PROMPT", help="Text to continue, or - to read standard input.")] = "",
    tokens: Annotated[int, Option(help="Maximum number of tokens to generate.")] = 100,
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: Annotated[
        float | None, Option(help="Sample from tokens with at least P times the probability of the most probable one.")
    ] = None,
    typical_p: Annotated[
        float | None,
        Option(help="Sample from the tokens whose surprisal is closest to the entropy, with the probability mass P."),
    ] = None,
    repetition_penalty: Annotated[
        float,
        Option(help="Divide positive logits of tokens that have occurred by this factor, multiply negative ones."),
    ] = 1.0,
    presence_penalty: Annotated[float, Option(help="Subtract this from the logit of every generated token.")] = 0.0,
    frequency_penalty: Annotated[
        float, Option(help="Subtract this from the logit of a token for each time it was generated.")
    ] = 0.0,
    no_repeat_ngram: Annotated[
        int, Option(metavar="N", help="Exclude tokens that repeat an n-gram of this length; 0: none.")
    ] = 0,
    logit_bias: Annotated[
        list[str] | None,
        Option(metavar="TOKEN=X", help="Add X to the logit of a token, given as text or id:N; repeatable."),
    ] = None,
    stop: Annotated[list[str] | None, Option(help="Stop at this text; repeatable.")] = None,
    samples: Annotated[int, Option(help="Number of continuations.")] = 1,
    seed: SamplingSeed = 0,
    greedy: Annotated[bool, Option("--greedy", help="Choose the most probable token at every step.")] = False,
    logprobs: Annotated[
        int | None,
        Option(metavar="N", help="Print the log-probability of each token and those of the N most probable tokens."),
    ] = None,
    speculative: Annotated[
        str, Option(metavar="MODE", help="Speculative decoding with the n-gram model of the run: auto, on or off.")
    ] = "auto",
    precision: DecodingPrecisionOption = "float32",
    as_json: AsJson = False,
) -> None:
    """Print one or more continuations of a prompt.

    The log-probabilities are those of the model, before temperature, penalties and the restriction to probable tokens.
    """
    from satchel import api

    prompt = read_text(prompt, "PROMPT")
    options: dict[str, Any] = {
        "tokens": tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p,
        "typical_p": typical_p, "repetition_penalty": repetition_penalty, "presence_penalty": presence_penalty,
        "frequency_penalty": frequency_penalty, "no_repeat_ngram": no_repeat_ngram,
        "logit_bias": dict(map(_bias, logit_bias or [])), "stop": stop or [], "samples": samples, "seed": seed,
        "greedy": greedy, "logprobs": logprobs, "speculative": speculative,
    }  # fmt: skip
    model = api.load(run, task="lm")
    use_decoding_precision(model, precision)
    if samples == 1 and not as_json:
        _stream(model, prompt, options)
        return
    with Progress() as progress:
        result = model.generate(prompt, progress=progress, **options)
    if as_json:
        emit_json(result.document())
        message(*result.notes)
        return
    message(*_notes(result))
    for number, sample in enumerate(result.samples, start=1):
        message(f"--- sample {number} ({sample.finish})")
        print(prompt + sample.text)
        if logprobs is not None:
            _print_logprobs(model, sample)


def _stream(model: "LanguageModel", prompt: str, options: dict[str, Any]) -> None:
    """Print a continuation while it is generated."""
    printed: str | None = None  # the prompt is printed with the first token, after the options have been checked

    def show(text: str) -> None:
        nonlocal printed
        new = prompt + text if printed is None else text[len(printed) :]
        print(new, end="", flush=True)
        printed = text

    result = model.generate(prompt, on_text=show, **options)
    show(result.text)
    print()
    message(*_notes(result))
    if options["logprobs"] is not None:
        _print_logprobs(model, result.samples[0])


def _bias(assignment: str) -> tuple[str, float]:
    """Return the token and the value of TOKEN=X; the token may contain `=`."""
    token, equals, value = assignment.rpartition("=")
    if not equals or not token:
        raise SettingsError(f"--logit-bias {assignment}: expected TOKEN=X", "for example --logit-bias the=-2")
    try:
        return token, float(value)
    except ValueError:
        raise SettingsError(f"--logit-bias {assignment}: {value!r} is not a number", "expected TOKEN=X") from None


def _print_logprobs(model: "LanguageModel", sample: "Sample") -> None:
    """Print a table of the tokens of a sample with their log-probabilities and the most probable tokens."""
    text_of = model.tokenizer.text_of
    columns = [("token", TOKEN), ("log-probability", ".4f"), ("probability", ".4g"), ("most probable", TEXT)]
    rows = []
    for id_, logprob, alternatives in zip(sample.ids, sample.logprobs, sample.alternatives, strict=True):
        most_probable = "  ".join(
            f"{visible(text_of(other), spaces=True)} {value:.4f}" for other, value in alternatives
        )
        rows.append((text_of(id_), logprob, math.exp(logprob), most_probable))
    count = 4 if any(sample.alternatives) else 3
    print_table(columns[:count], [row[:count] for row in rows])


def _notes(result: "Generation") -> list[str]:
    return [*(f"prompt: {note}" for note in result.window.notes), *result.notes]
