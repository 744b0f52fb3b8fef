"""A report: what a run is, how it went, what it writes and what is inside, on one page that needs no network."""

import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from satchel import charts, durable
from satchel.api.baseline import counting_baseline
from satchel.api.classification import Classifier
from satchel.api.language import LanguageModel, bits_by_step
from satchel.api.model import Model
from satchel.api.tagging import Tagger
from satchel.api.translation import Translator
from satchel.charts import figures, html
from satchel.charts.figures import Figure
from satchel.data.tokens import decode_documents, open_tokens
from satchel.errors import RunError, SettingsError
from satchel.progress import Progress, silent
from satchel.runs import folder as runs

# How much of the held-out text is looked at, in characters, and how many samples and words are shown.
EXCERPT, SAMPLES, WORDS = 200, 3, 4
# A word whose senses are shown has letters, and this many of them or more.
LETTERS = 3
MOST_FREQUENT = 500
NEEDS_NO_MODEL = {"copy": "copying the source", "memory": "that of the most similar training source"}


def write_report(model: Model, path: str | Path, progress: Progress = silent) -> Path:
    """Write the report of a run as a self-contained page, and return where it is."""
    path = Path(path)
    if path.suffix != ".html":
        raise SettingsError(f"found the ending {path.suffix!r}", "expected .html", where=str(path))
    parts = []
    for name, part in _parts(model, progress):
        progress(name, None)
        parts.append(part)
    title = f"{model.settings.model.kind}, {model.settings.task}: {model.folder}"
    body = f"<main>\n<h1>{html.escaped(title)}</h1>\n{''.join(parts)}</main>"
    durable.write_file(path, figures.chart_page(title, body).encode())
    return path


def _parts(model: Model, progress: Progress) -> Iterator[tuple[str, str]]:
    yield "describing", html.section("What it is", html.facts(_facts(model)))
    yield "measuring", html.section("How good it is", _quality(model, progress))
    if curve := _curve(model):
        yield "drawing", html.section("How it went", _chart(curve, "training"))
    if samples := runs.read_samples(model.folder)[-SAMPLES:]:
        texts = "".join(f"<p>After step {each['step']:,}:</p>{html.passage(each['text'])}" for each in samples)
        yield "reading", html.section("What it writes", texts)
    excerpt = _excerpt(model)
    if excerpt:
        yield "looking", _inside(model, excerpt)
    if model.has_senses and isinstance(model, (LanguageModel, Classifier)):
        yield "reading senses", _senses(model, excerpt)
    told = json.dumps(model.settings.model_dump(mode="json"), indent=2, ensure_ascii=False)
    yield "writing", html.section("All settings", html.folded("show", html.passage(told)))


def _facts(model: Model) -> list[tuple[str, str]]:
    described, facts = model.run, model.run.facts
    rows = [
        ("task", model.settings.task),
        ("model", model.settings.model.kind),
        ("tokenizer", f"{model.tokenizer.kind}, {model.tokenizer.size:,} tokens"),
        ("data", f"{described.data.name}, sha256 {described.data.sha256[:16]}…"),
    ]
    if "parameters" in facts:
        rows.insert(2, ("parameters", f"{facts['parameters']:,}"))
    if described.labels:
        rows.append(("labels", ", ".join(described.labels)))
    rows += [(name, str(value)) for name, value in described.versions.items()]
    return rows


def _quality(model: Model, progress: Progress) -> str:
    """Return how good it is on what was held out, beside what counting makes of the same data."""
    try:
        found = model.evaluate()  # type: ignore[attr-defined]
    except RunError:
        return "<p>Nothing was held out when it was trained.</p>"
    rows = [("this model", found.headline)]
    if isinstance(model, Translator):
        rows += [(NEEDS_NO_MODEL[name], each.headline) for name, each in found.baselines.items()]
    if isinstance(model, (LanguageModel, Classifier, Tagger)) and model.settings.model.kind != "ngram":
        counted = counting_baseline(model, progress)
        if counted is not None:
            rows.append(("counting n-grams", counted.headline))
    return html.facts(rows)


def _curve(model: Model) -> Figure | None:
    measure, curve = curve_of(model)
    return charts.training_curves({model.folder.name: curve}, measure=measure) if len(curve) > 1 else None


def curve_of(model: Model) -> tuple[str, list[tuple[int, float]]]:
    """Return what was measured at each validation, and what it is: bits per byte, or nats."""
    if isinstance(model, LanguageModel):
        try:
            bits = [(step, value) for step, value in bits_by_step(model) if value is not None]
        except RunError:  # nothing was held out
            bits = []
        if bits:
            return "bits per byte, held-out text", bits
    losses = [(each["step"], each.get("valid_loss")) for each in runs.read_metrics(model.folder)]
    return "nats, held out", [(step, loss) for step, loss in sorted(losses) if loss is not None]


def _excerpt(model: Model) -> str:
    """Return the beginning of what was held out; of translators, the first source."""
    if isinstance(model, Translator):
        try:
            return model.pairs()[0].source[:EXCERPT]
        except RunError:
            return ""
    path = model.folder / runs.VALID_TOKENS
    if not path.exists():
        path = model.folder / runs.TRAIN_TOKENS
    text = next(iter(decode_documents(open_tokens(path, tokenizer=model.tokenizer).ids[:1000], model.tokenizer)), "")
    return text[:EXCERPT]


def _inside(model: Model, excerpt: str) -> str:
    traced = model.trace(excerpt)
    shown = [f"<p>Looked at: <q>{html.escaped(excerpt, multiline=True)}</q></p>"]
    if isinstance(model, LanguageModel):
        bits = traced.surprise / math.log(2)
        shown.append(_chart(charts.surprise_strip(traced.told.tokens, bits.tolist()), "surprise"))
    if len(traced.attention):
        maps = (((layer, head), weights) for layer, head, weights in traced.attention.each())
        shown.append(_chart(charts.attention_maps(traced.tokens, traced.tokens, maps), "attention"))
    if isinstance(model, Translator):
        found = model.align(excerpt)
        shown.append(
            _chart(charts.alignment(found.source, found.target, found.values, signed=found.is_exact), "alignment")
        )
    return html.section("Inside", "".join(shown))


def _senses(model: LanguageModel | Classifier, excerpt: str) -> str:
    words = _frequent_words(model)
    shown = "".join(model.senses(word, top=6)._repr_html_() for word in words)
    if isinstance(model, LanguageModel):
        found = model.contributions(excerpt)
        shown += _chart(found.picture(), "contributions")
    return html.section("Senses", shown)


def _frequent_words(model: Model) -> list[str]:
    reader = model.vectors
    words = (model.tokenizer.text_of(id_).strip() for id_ in reader.frequent(MOST_FREQUENT))
    return list(islice((word for word in words if len(word) >= LETTERS and word.isalpha()), WORDS))


def _chart(picture: Figure, name: str) -> str:
    return figures.embedded(picture.spec(), name)
