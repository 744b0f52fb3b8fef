"""`satchel translate`, and what `evaluate`, `score` and `look alignment` say of translators."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from satchel.cli.classify import Jsonl, Out, Source, Text, check_question
from satchel.cli.evaluate import AsJson, Run
from satchel.cli.options import Columns, Delimiter, Encoding, SourceColumn, reading
from satchel.cli.output import Progress, emit_json, print_pairs, print_table, say, text_argument
from satchel.cli.rows import answer_file, answer_stream

if TYPE_CHECKING:
    from satchel.api import Alignment, Translation, Translator
    from satchel.charts.figures import Figure
    from satchel.cli.look.views import Asked
    from satchel.evaluation.translation import Bucket, Quality, TranslationMetrics

# Shades of a table of weights, from nothing to all, and the least weight that is told.
SHADES = " ░▒▓█"
FAINTEST = 0.05
# Between two columns of an alignment.
GAP = 1
EXACT = "what the senses of each source word add to the score of a target word, above the mean of all words"


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(translate)


Beam = Annotated[int, Option(help="Translations that are followed at once; 1 is greedy.")]
LengthPenalty = Annotated[float, Option(help="Above 1 likes longer translations, below 1 shorter ones.")]


def translate(
    run: Run,
    text: Text = None,
    source: Source = None,
    out: Out = None,
    jsonl: Jsonl = False,
    beam: Beam = 4,
    best: Annotated[int, Option(help="How many translations are told, best first.")] = 1,
    length_penalty: LengthPenalty = 1.0,
    sample: Annotated[bool, Option("--sample", help="Draw translations by chance.")] = False,
    temperature: Annotated[float, Option(help="Of --sample: below 1 sharper, above 1 flatter.")] = 1.0,
    top_k: Annotated[int | None, Option(help="Of --sample: only the K likeliest tokens.")] = None,
    top_p: Annotated[float | None, Option(help="Of --sample: only the likeliest tokens that reach this mass.")] = None,
    seed: Annotated[int, Option(help="Of --sample: what the draws depend on.")] = 0,
    encoding: Encoding = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    source_column: SourceColumn = None,
    as_json: AsJson = False,
) -> None:
    """Translate a text, or every row of a file: as many rows come out as went in, in the same order."""
    from satchel import api
    from satchel.config import build
    from satchel.errors import SettingsError
    from satchel.generation.sampling import Sampling

    check_question(text, source, out, jsonl)
    if not sample and (temperature != 1.0 or top_k is not None or top_p is not None):
        raise SettingsError("--temperature, --top-k, --top-p: a search draws nothing", "give --sample too")
    options: dict[str, Any] = {"beam": beam, "best": best, "length_penalty": length_penalty}
    if sample:
        drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "samples": best}
        options["sampling"] = build(Sampling, {key: value for key, value in drawing.items() if value is not None})
    changes = reading(columns, delimiter, encoding=encoding, source_column=source_column)
    content = text_argument(text) if source is None and not jsonl else ""
    model = api.load_translator(run)
    if jsonl:
        answer_stream(model, changes, _objects, options)
    elif source is not None:
        answer_file(
            model,
            source,
            out,
            changes,
            cells=_cells,
            objects=_objects,
            as_json=as_json,
            key="translations",
            options=options,
        )
    else:
        _show(model, content, options, as_json)


def _cells(translated: "Translation") -> dict[str, Any]:
    _say_if_cut(translated)
    return {"target": translated.target, "score": round(translated.score, 4)}


def _objects(translated: "Translation") -> dict[str, Any]:
    others = [asdict(each) for each in translated.translations[1:]]
    return {**_cells(translated), **({"others": others} if others else {})}


def _say_if_cut(translated: "Translation") -> None:
    if translated.pieces > 1:
        begins = translated.source[:40].replace("\n", " ")
        say(f"'{begins}...' is longer than the model's context: it was translated in {translated.pieces} pieces")


def _show(model: "Translator", text: str, options: dict[str, Any], as_json: bool) -> None:
    from satchel.text.display import safe

    found = model.translate(text, **options)
    if as_json:
        _say_if_cut(found)
        told: dict[str, Any] = {"source": found.source, **_objects(found)}
        if found.pieces == 1 and text.strip() and can_align(model):
            told["alignment"] = alignment_json(model.align(text, found.target))
        emit_json({"translations": [told]})
        return
    _say_if_cut(found)
    for each in found.translations:
        print(safe(each.target) if len(found.translations) == 1 else f"{each.score:8.4f}  {safe(each.target)}")


def can_align(model: "Translator") -> bool:
    """Return whether there is something to see: a network without attention looks at nothing."""
    return getattr(model.settings.model, "attention", "") != "none"


# --- evaluate ----------------------------------------------------------------------------------------------


def evaluation_json(model: "Translator", found: "TranslationMetrics") -> dict[str, Any]:
    """Return the keys of `evaluate --json` for translators."""
    return {
        "task": "translate",
        "model": model.settings.model.kind,
        "sentences": found.sentences,
        **asdict(found.quality),
        "signature": found.signature,
        "chrf_signature": found.chrf_signature,
        "perplexity": found.perplexity,
        "nats_per_token": found.nats_per_token,
        "unknown": found.unknown,
        "looks_swapped": found.looks_swapped,
        "baselines": {name: asdict(quality) for name, quality in found.baselines.items()},
    }


def show_evaluation(model: "Translator", found: "TranslationMetrics", as_json: bool) -> None:
    """Print how good a translator is."""
    if found.looks_swapped:
        say("the sources look like what this model writes, and the targets like what it reads: are they swapped?")
    if as_json:
        emit_json(evaluation_json(model, found))
        return
    unknown = f", {found.unknown:,} unknown tokens in the sources" if found.unknown else ""
    print_pairs(
        [
            ("sentences", f"{found.sentences:,}{unknown}"),
            ("perplexity", f"{found.perplexity:,.2f} of the references' tokens"),
            ("BLEU", found.signature),
            ("chrF", found.chrf_signature),
        ]
    )
    print()
    rows = [("this model", found.quality), *((NAMES[name], own) for name, own in found.baselines.items())]
    print_table(
        ["", "BLEU", "lower-cased", "chrF", "exact"],
        [[name, *_numbers(own)] for name, own in rows],
        right=(1, 2, 3, 4),
    )


NAMES = {"copy": "copying the source", "memory": "the most similar training pair"}


def _numbers(quality: "Quality") -> list[str]:
    values = (quality.bleu, quality.bleu_lowercase, quality.chrf)
    return [*(f"{value:.2f}" for value in values), f"{quality.exact_match:.2%}"]


def show_buckets(found: "list[Bucket]", by: str, as_json: bool) -> None:
    """Print how good translations are by something."""
    if as_json:
        emit_json({"by": by, "rows": [asdict(each) for each in found]})
        return
    qualities = ["BLEU", "lower-cased", "chrF", "exact"] if by == "length" else []
    print_table(
        [f"by {by}", "sentences" if by == "length" else "tokens", *qualities, "nats/token"],
        [
            [
                each.name,
                f"{each.count:,}",
                *(_numbers(each.quality) if each.quality else []),
                f"{each.nats_per_token:.3f}",
            ]
            for each in found
        ],
        right=range(1, 3 + len(qualities)),
    )


def result_line(found: "TranslationMetrics") -> str:
    """Return how good translations are, in one line."""
    memory = found.baselines["memory"]
    swapped = "; they look swapped" if found.looks_swapped else ""
    return (
        f"BLEU {found.quality.bleu:.2f}, chrF {found.quality.chrf:.2f}, {found.quality.exact_match:.2%} exact, "
        f"perplexity {found.perplexity:.2f} (the most similar training pair: BLEU {memory.bleu:.2f}){swapped}"
    )


# --- alignment ---------------------------------------------------------------------------------------------


def alignment(asked: "Asked") -> None:
    """Show which words of a source a translation looked at."""
    from satchel import api
    from satchel.cli.look import views

    model = api.load_translator(asked.run)
    with Progress() as progress:
        progress("aligning", None)
        found = model.align(asked.content(), asked.target, layer=asked.layer, head=asked.head)

    def picture() -> "Figure":
        from satchel import charts

        return charts.alignment(found.source, found.target, found.values, signed=found.is_exact)

    views.tell(
        asked,
        picture=picture,
        document=lambda: {"alignment": alignment_json(found)},
        draw=lambda: _show_alignment(found),
    )


def alignment_json(found: "Alignment") -> dict[str, Any]:
    """Return an alignment as JSON."""
    told: dict[str, Any] = {
        "source": found.source,
        "target": found.target,
        "values": [[round(float(value), 6) for value in row] for row in found.values],
        "exact": found.is_exact,
    }
    if found.others is not None:
        told["others"] = [round(float(value), 6) for value in found.others]
    return told


def _show_alignment(found: "Alignment") -> None:
    """Print a row for each target word; source words that do not fit beside each other come in parts."""
    from rich.cells import cell_len

    from satchel.charts.terminal import terminal_width
    from satchel.text.display import visible

    def width(column: Sequence[str]) -> int:
        return max(map(cell_len, column))

    names = [visible(word.strip() or word) for word in found.source]
    beside = [
        [visible(word.strip() or word), names[values.argmax()]]
        for word, values in zip(found.target, found.values, strict=True)
    ]
    cells = [[_told(float(value), found.is_exact) for value in values] for values in found.values]
    widths = [width(column) for column in zip(names, *cells, strict=True)]
    room = terminal_width() - sum(width(column) + GAP for column in zip(("target", "most"), *beside, strict=True))
    for number, part in enumerate(_parts(widths, room)):
        if number:
            print()
        rows = [[*row, *values[part]] for row, values in zip(beside, cells, strict=True)]
        print_table(["target", "most", *names[part]], rows, right=range(2, 2 + len(names)), gap=GAP)
    say(EXACT if found.is_exact else "how much each target word looked at each source word, in per cent from 5 on")


def _told(value: float, is_exact: bool) -> str:
    if is_exact:
        return f"{value:+.1f}"
    shade = SHADES[min(len(SHADES) - 1, round(value * (len(SHADES) - 1)))]
    return f"{shade}{value:.0%}"[:-1] if value >= FAINTEST else ""


def _parts(widths: Sequence[int], room: int) -> Iterator[slice]:
    """Return columns that fit beside each other, one part after another; each has one at least."""
    start, used = 0, 0
    for number, width in enumerate(widths):
        if number > start and used + width > room:
            yield slice(start, number)
            start, used = number, 0
        used += width + GAP
    yield slice(start, len(widths))
