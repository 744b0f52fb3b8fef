"""Write a report of a run: a self-contained HTML page with its facts, metrics, samples and charts."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from satchel import charts, durable
from satchel.api.classification import Classifier
from satchel.api.language import LanguageModel
from satchel.api.model import Model
from satchel.api.translation import Translator
from satchel.charts import figures, html
from satchel.charts.figures import Figure
from satchel.errors import RunError, SettingsError
from satchel.progress import Progress, silent
from satchel.runs import folder as runs

# Number of characters of the excerpt that is inspected, and numbers of samples and words shown.
EXCERPT, SAMPLES, WORDS = 200, 3, 4
# Senses are shown of words with at least this many letters, among the most frequent tokens.
MIN_LETTERS = 3
MOST_FREQUENT = 500
# Names of the baselines of translators.
BASELINES = {"copy": "source copied unchanged", "memory": "translation of the most similar training source"}


def write_report(model: Model, path: str | Path, progress: Progress = silent) -> Path:
    """Write the report of a run as a self-contained HTML page and return its path."""
    path = Path(path)
    if path.suffix != ".html":
        raise SettingsError(f"found the extension {path.suffix!r}, expected .html", where=str(path))
    parts = []
    for name, part in _parts(model, progress):
        progress(name, None)
        parts.append(part)
    title = f"{model.settings.model.kind}, {model.task}: {model.folder}"
    body = f"<main>\n<h1>{html.escaped(title)}</h1>\n{''.join(parts)}</main>"
    durable.write_file(path, figures.chart_page(title, body).encode())
    return path


def _parts(model: Model, progress: Progress) -> Iterator[tuple[str, str]]:
    """Return the sections of the report, each with the name of the stage for the progress."""
    yield "facts", html.section("Model", html.facts(_facts(model).items()))
    yield "evaluating", html.section("Evaluation", _metrics(model, progress))
    measure, curve = model.validation_curve()
    if len(curve) > 1:
        figure = charts.training_curves({model.folder.name: curve}, measure=measure)
        yield "drawing the validation curve", html.section("Training", _chart(figure, "training"))
    if samples := runs.read_samples(model.folder)[-SAMPLES:]:
        texts = "".join(f"<p>After step {each['step']:,}:</p>{html.passage(each['text'])}" for each in samples)
        yield "reading samples", html.section("Samples", texts)
    excerpt = model.excerpt(EXCERPT)
    if excerpt:
        yield "tracing", _inspection(model, excerpt)
    if model.has_senses and isinstance(model, (LanguageModel, Classifier)):
        yield "computing senses", _senses(model, excerpt)
    settings = json.dumps(model.settings.model_dump(mode="json"), indent=2, ensure_ascii=False)
    yield "writing", html.section("Settings", html.folded("show", html.passage(settings)))


def _facts(model: Model) -> dict[str, str]:
    run = model.run
    data = f"{run.data.name}, sha256 {run.data.sha256[:16]}…"
    labels = {"labels": ", ".join(run.labels)} if run.labels else {}
    return {**model.facts(), **labels, "data": data, **run.versions}


def _metrics(model: Model, progress: Progress) -> str:
    """Return the metrics on the held-out data, beside those of the baselines."""
    try:
        metrics = model.evaluate()
    except RunError:
        return "<p>The run has no held-out data.</p>"
    rows = [("this model", metrics.headline)]
    rows += [(BASELINES[name], each.headline) for name, each in getattr(metrics, "baselines", {}).items()]
    baseline = model.ngram_baseline(progress) if model.settings.model.kind != "ngram" else None
    if baseline is not None:
        rows.append(("n-gram model", baseline.headline))
    return html.facts(rows)


def _inspection(model: Model, excerpt: str) -> str:
    traced = model.trace(excerpt)
    shown = [f"<p>Text: <q>{html.escaped(excerpt, multiline=True)}</q></p>"]
    if isinstance(model, LanguageModel):
        shown.append(_chart(traced.surprise_strip(), "surprise"))
    if len(traced.attention):
        shown.append(_chart(traced.attention_map(), "attention"))
    if isinstance(model, Translator):
        shown.append(_chart(model.align(excerpt).picture(), "alignment"))
    return html.section("Inspection", "".join(shown))


def _senses(model: LanguageModel | Classifier, excerpt: str) -> str:
    tokens = (model.tokenizer.text_of(id_).strip() for id_ in model.vectors.frequent(MOST_FREQUENT))
    words = islice((token for token in tokens if len(token) >= MIN_LETTERS and token.isalpha()), WORDS)
    vectors = model.sense_vectors
    shown = "".join(vectors.describe(word, top=6)._repr_html_() for word in words)
    if isinstance(model, LanguageModel) and not model.sees_targets:
        shown += _chart(model.contributions(excerpt).picture(), "contributions")
    return html.section("Senses", shown)


def _chart(figure: Figure, name: str) -> str:
    return figures.embedded(figure.spec(), name)
