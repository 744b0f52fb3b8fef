"""`satchel translate`: translate texts by beam search or sampling."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from satchel.cli.options import Run, SamplingSeed, Temperature, TopK, TopP
from satchel.cli.output import print
from satchel.cli.predict import Predictor, predicts
from satchel.errors import SettingsError

if TYPE_CHECKING:
    from satchel.api import Translation


@predicts("source_column")
def translate(
    run: Run,
    beam: Annotated[int, Option(help="Beam size; 1 is greedy.")] = 4,
    best: Annotated[int, Option(help="Number of translations of each text, best first.")] = 1,
    length_penalty: Annotated[
        float, Option(help="Exponent of the length in the score; above 1 prefers longer translations.")
    ] = 1.0,
    sample: Annotated[bool, Option("--sample", help="Sample translations instead of searching.")] = False,
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: SamplingSeed = 0,
) -> Predictor:
    """Print the translation of a text, or write the translations of every row of a file, in the same order."""
    from satchel import api
    from satchel.config import build
    from satchel.generation.sampling import Sampling

    if not sample and (temperature != 1.0 or top_k is not None or top_p is not None):
        raise SettingsError("--temperature, --top-k and --top-p have no effect on beam search", "add --sample")
    options: dict[str, Any] = {"beam": beam, "best": best, "length_penalty": length_penalty}
    if sample:
        sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "samples": best}
        options["sampling"] = build(Sampling, {key: value for key, value in sampling.items() if value is not None})
    model = api.load(run, task="translate")
    return Predictor(
        model,
        lambda translation: translation.cells(),
        lambda translation: translation.document(),
        _show,
        lambda translation: translation.document(alignment=True),
        _note,
        options=options,
        columns=("source",),
        key="translations",
    )


def _note(translation: "Translation") -> str:
    if translation.pieces == 1:
        return ""
    start = translation.source[:40].replace("\n", " ")
    return f"'{start}...' exceeds the model's context and was translated in {translation.pieces} parts"


def _show(translation: "Translation") -> None:
    translations = translation.translations
    for each in translations:
        print(each.target if len(translations) == 1 else f"{each.score:8.4f}  {each.target}")
