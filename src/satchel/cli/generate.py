"""`satchel generate`: sample continuations of a prompt."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from satchel.cli.options import AsJson, Run, SamplingSeed, Temperature, TopK, TopP, read_text
from satchel.cli.output import Progress, emit_json, message, print

if TYPE_CHECKING:
    from satchel.api import LanguageModel
    from satchel.api.language import Generation


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
    stop: Annotated[list[str] | None, Option(help="Stop at this text; repeatable.")] = None,
    samples: Annotated[int, Option(help="Number of continuations.")] = 1,
    seed: SamplingSeed = 0,
    greedy: Annotated[bool, Option("--greedy", help="Choose the most probable token at every step.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print one or more continuations of a prompt."""
    from satchel import api

    prompt = read_text(prompt, "PROMPT")
    options: dict[str, Any] = {
        "tokens": tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p,
        "stop": stop or [], "samples": samples, "seed": seed, "greedy": greedy,
    }  # fmt: skip
    model = api.load(run, task="lm")
    if samples == 1 and not as_json:
        _stream(model, prompt, options)
        return
    with Progress() as progress:
        result = model.generate(prompt, progress=progress, **options)
    if as_json:
        rows = [{"text": each.text, "tokens": len(each.ids), "finish": each.finish} for each in result.samples]
        rate = round(result.tokens_per_second, 1)
        emit_json({"prompt": prompt, "samples": rows, "tokens_per_second": rate, "window": result.window.document()})
        return
    message(*_notes(result))
    for number, sample in enumerate(result.samples, start=1):
        message(f"--- sample {number} ({sample.finish})")
        print(prompt + sample.text)


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


def _notes(result: "Generation") -> list[str]:
    return [f"prompt: {note}" for note in result.window.notes]
