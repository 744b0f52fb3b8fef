"""HTML of models and results in notebooks: figures as text, and escaped words."""

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel import api
from satchel.charts import html
from satchel.charts.figures import Figure
from tests.charts.test_html import Page

# A word that runs a script unless it is escaped.
HOSTILE = "<img/src=x/onerror=alert(1)>&amp;\"'"
TEXT = f"the cat {HOSTILE} sat"
TAGS = {"table", "caption", "tr", "th", "td", "div", "span", "small", "br", "pre", "details", "summary"}


def shown(result: Any) -> Page:
    """Return the parsed HTML of a model or a result."""
    return Page(result._repr_html_())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("showing")


@pytest.fixture(scope="module")
def models(folder: Path) -> dict[str, Any]:
    """Models of every task whose data and run folders contain HTML."""
    (folder / "verse.txt").write_text(f"{TEXT}\nthe dog sat on {HOSTILE}\n" * 40, encoding="utf-8")
    rows = {
        "rows.tsv": ("label\ttext", f"{HOSTILE}\t{TEXT} {{0}}", "good\tthe dog sat {0}"),
        "pairs.tsv": ("source\ttarget", f"{TEXT} {{0}}\t{TEXT} {{0}}", "the dog {0}\tthe dog {0}"),
        "tags.tsv": ("text\ttags", f"{TEXT} {{0}}\tD N X {HOSTILE} X", "the dog {0}\tD N X"),
    }
    for name, (head, *each) in rows.items():
        body = "".join(f"{row.format(number)}\n" for number in range(20) for row in each)
        (folder / name).write_text(f"{head}\n{body}", encoding="utf-8")
    small: dict[str, Any] = {
        "model.width": 16,
        "model.layers": 2,
        "model.heads": 2,
        "model.context": 16,
        "training.threads": 1,
        "tokenizer.kind": "word",
    }
    lines = {"data.documents": "line", "tokenizer.kind": "word"}

    def trained(data: str, name: str, **options: Any) -> Any:
        return satchel.train(folder / data, out=folder / f"<b>{name}", valid=0.2, seed=0, **options)

    return {
        "ngram": trained("verse.txt", "ngram", model="ngram", settings=lines),
        "transformer": trained("verse.txt", "transformer", model="transformer", steps=3, settings={**small, **lines}),
        "backpack": trained("verse.txt", "backpack", model="backpack", steps=3, settings={**small, **lines}),
        "classifier": trained("rows.tsv", "classifier", model="backpack", task="classify", steps=3, settings=small),
        "tagger": trained("tags.tsv", "tagger", model="transformer", task="tag", steps=3, settings=small),
        "translator": trained(
            "pairs.tsv", "translator", model="transformer", task="translate", steps=3, settings=small
        ),
    }


# --- escaping -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "result_of"),
    [
        *((name, lambda model: model) for name in ("ngram", "backpack", "classifier", "tagger", "translator")),
        *((name, lambda model: model.trace(TEXT)) for name in ("ngram", "transformer", "tagger")),
        ("translator", lambda model: model.trace(TEXT, TEXT)),
        ("ngram", lambda model: model.score(TEXT)),
        ("ngram", lambda model: model.next("the cat", top=5)),
        ("ngram", lambda model: model.generate(TEXT, tokens=5)),
        ("ngram", lambda model: api.compare([model.folder, model.folder.with_name("<b>backpack")])),
        ("backpack", lambda model: model.senses(HOSTILE, top=50)),
        ("backpack", lambda model: model.similar("cat", top=50)[0]),
        ("backpack", lambda model: model.contributions(TEXT, HOSTILE)),
        ("backpack", lambda model: model.compare_attributions(TEXT)),
        ("backpack", lambda model: model.attributions(TEXT)),
        ("classifier", lambda model: model.classify(TEXT)),
        ("classifier", lambda model: model.evaluate()),
        ("tagger", lambda model: model.tag(TEXT)),
        ("translator", lambda model: model.translate(TEXT)),
    ],
)
def test_words_are_escaped(models: dict[str, Any], name: str, result_of: Any) -> None:
    page = shown(result_of(models[name]))
    assert page.tags <= TAGS
    assert HOSTILE in page.text or "<b>" in page.text


def test_text_has_the_colour_of_the_page_and_tints_are_translucent(models: dict[str, Any]) -> None:
    for result in (models["backpack"], models["backpack"].contributions(TEXT), models["ngram"].score(TEXT)):
        styles = ";".join(shown(result).styles)
        assert not re.search(r"(?<!-)color:|#[0-9a-f]{3}", styles)
        for tint in re.findall(r"background:([^;]+)", styles):
            rgba = re.fullmatch(r"rgba\(\d+,\d+,\d+,(0\.\d+)\)", tint)
            assert rgba is not None
            assert float(rgba[1]) <= html.STRONGEST_TINT


# --- figures --------------------------------------------------------------------------------------------


def test_a_model_shows_its_kind_size_and_metrics(models: dict[str, Any]) -> None:
    model = models["backpack"]
    page = shown(model)
    for text in ("backpack", "lm", f"{model.report.parameters:,}", "word", model.report.valid.headline):
        assert text in page.text
    loaded = satchel.load(model.folder)
    assert f"{model.report.parameters:,}" in shown(loaded).text


def test_a_score_shows_the_bits_of_each_token(models: dict[str, Any]) -> None:
    score = models["ngram"].score(TEXT)
    page = shown(score)
    for logprob in score.logprobs:
        assert f"|{-logprob / math.log(2):.1f}|" in page.text
    assert f"{-score.total_logprob / math.log(2):.2f} bits" in page.text


def test_a_comparison_shows_values_and_confidence_intervals(models: dict[str, Any]) -> None:
    comparison = api.compare([models["ngram"].folder, models["backpack"].folder])
    page = shown(comparison)
    for row in comparison.rows:
        assert f"{row.value:.4f}|{row.low:.4f} to {row.high:.4f}" in page.text
    (pair,) = comparison.pairs
    assert f"{pair.difference:+.4f}|{pair.low:+.4f} to {pair.high:+.4f}" in page.text
    assert isinstance(comparison.picture(), Figure)


def test_contributions_show_parts_that_sum_to_the_logit(models: dict[str, Any]) -> None:
    contributions = models["backpack"].contributions(TEXT, "sat", "dog")
    page = shown(contributions)
    assert "Contributions to the logit of sat minus that of dog" in page.text
    centred = contributions.decomposition()
    assert centred.summary in page.text
    assert f"centred contributions {contributions.centred.sum():+.4f} + bias {contributions.bias:+.4f}" in page.text
    assert contributions.centred.sum() + contributions.bias == pytest.approx(contributions.logit)
    word, position, sense, value = centred.largest()[0]
    assert abs(value) == np.abs(contributions.centred).max()
    assert f"|{position}|{sense}|{value:+.4f}|" in page.text
    assert word == contributions.words[position]


def test_metrics_show_their_values(models: dict[str, Any]) -> None:
    likelihood = models["ngram"].evaluate()
    assert f"{likelihood.perplexity:,.2f}" in shown(likelihood).text
    labels = models["classifier"].evaluate()
    page = shown(labels)
    assert f"accuracy {labels.accuracy:.2%} (95 % CI {100 * labels.low:.2f} to {100 * labels.high:.2f})" in page.text
    for each in labels.per_label:
        assert f"{each.precision:.3f}|{each.recall:.3f}|{each.f1:.3f}|{each.support}" in page.text
    translation = models["translator"].evaluate()
    page = shown(translation)
    for quality in (translation.quality, *translation.baselines.values()):
        assert f"{quality.bleu:.2f}|{quality.chrf:.2f}|{quality.exact_match:.2%}" in page.text


def test_a_trace_shows_surprisal_and_available_values(models: dict[str, Any]) -> None:
    trace = models["transformer"].trace("the cat sat")
    page = shown(trace)
    for cost in trace.surprise:
        assert f"|{cost / math.log(2):.1f}|" in page.text
    assert "trace.attention[layer, head]|2 layers" in page.text
    assert all(site in page.text for site in trace.sites)
    assert "trace.cross" not in page.text
    assert "trace.targets.notes['order']" in shown(models["ngram"].trace("the cat sat")).text


def test_ngram_models_and_their_results_do_not_import_torch(models: dict[str, Any]) -> None:
    code = f"""
import sys, satchel
from satchel import api
model = satchel.load({str(models["ngram"].folder)!r})
for result in (model, model.score("the cat"), model.evaluate(), model.generate("the"), api.compare([model.folder] * 2)):
    assert "<" in result._repr_html_()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
