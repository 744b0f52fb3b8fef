"""What models and answers show of themselves in a notebook: numbers, words that harm nobody, pictures."""

import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel import api
from satchel.charts import html
from satchel.charts.figures import Figure
from satchel.errors import SettingsError
from satchel.inspection.trace import Targets, Trace

# A word that would run a program, if a page took it for more than a word.
HOSTILE = "<img/src=x/onerror=alert(1)>&amp;\"'"
TEXT = f"the cat {HOSTILE} sat"
TAGS = {"table", "caption", "tr", "th", "td", "div", "span", "small", "br", "pre", "details", "summary"}


class Page(HTMLParser):
    """Reads a part of a page: its tags, what it says, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.styles: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style"}
        self.styles += [value or "" for _, value in attrs]
        self.open += [tag] if tag != "br" else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data}|"


def shown(thing: Any) -> Page:
    return Page(thing._repr_html_())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("showing")


@pytest.fixture(scope="module")
def models(folder: Path) -> dict[str, Any]:
    """A model of every task, trained for a moment on a text that holds a hostile word, in hostile folders."""
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


# --- nothing but words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ask"),
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
def test_a_hostile_word_is_a_word(models: dict[str, Any], name: str, ask: Any) -> None:
    page = shown(ask(models[name]))
    assert page.tags <= TAGS
    assert HOSTILE in page.text or "<b>" in page.text


def test_letters_have_the_colour_of_the_page_and_grounds_let_it_through(models: dict[str, Any]) -> None:
    for thing in (models["backpack"], models["backpack"].contributions(TEXT), models["ngram"].score(TEXT)):
        styles = ";".join(shown(thing).styles)
        assert not re.search(r"(?<!-)color:|#[0-9a-f]{3}", styles)
        for ground in re.findall(r"background:([^;]+)", styles):
            found = re.fullmatch(r"rgba\(\d+,\d+,\d+,(0\.\d+)\)", ground)
            assert found is not None
            assert float(found[1]) <= html.STRONGEST_TINT


# --- numbers -----------------------------------------------------------------------------------------------


def test_a_model_tells_what_it_is_and_how_good(models: dict[str, Any]) -> None:
    model = models["backpack"]
    page = shown(model)
    for told in ("backpack", "lm", f"{model.report.parameters:,}", "word", model.report.valid.headline):
        assert told in page.text
    loaded = satchel.load(model.folder)
    assert f"{model.report.parameters:,}" in shown(loaded).text


def test_a_score_tells_the_bits_of_each_token(models: dict[str, Any]) -> None:
    found = models["ngram"].score(TEXT)
    page = shown(found)
    for logprob in found.logprobs:
        assert f"|{-logprob / math.log(2):.1f}|" in page.text
    assert f"{-found.total_logprob / math.log(2):.2f} bits" in page.text


def test_a_comparison_tells_values_and_intervals(models: dict[str, Any]) -> None:
    found = api.compare([models["ngram"].folder, models["backpack"].folder])
    page = shown(found)
    for row in found.rows:
        assert f"{row.value:.4f}|{row.low:.4f} to {row.high:.4f}" in page.text
    (pair,) = found.pairs
    assert f"{pair.difference:+.4f}|{pair.low:+.4f} to {pair.high:+.4f}" in page.text
    assert isinstance(found.picture(), Figure)


def test_an_explanation_tells_parts_that_add_up(models: dict[str, Any]) -> None:
    found = models["backpack"].contributions(TEXT, "sat", "dog")
    page = shown(found)
    assert "Contribution to the logit of sat minus that of dog" in page.text
    added = found.values.sum(axis=1)
    assert f"sum over words {added.sum():+.4f}, bias {found.constant:+.4f}, logit {found.logit:+.4f}" in page.text
    assert added.sum() + found.constant == pytest.approx(found.logit)
    word, sense, value = found.largest()[0]
    assert abs(value) == np.abs(found.values).max()
    assert f"|{sense}|{value:+.4f}|" in page.text
    assert word in found.words


def test_reports_tell_their_figures(models: dict[str, Any]) -> None:
    cost = models["ngram"].evaluate()
    assert f"{cost.perplexity:,.2f}" in shown(cost).text
    labels = models["classifier"].evaluate()
    page = shown(labels)
    assert f"accuracy {labels.accuracy:.2%} (95 % CI {100 * labels.low:.2f} to {100 * labels.high:.2f})" in page.text
    for each in labels.per_label:
        assert f"{each.precision:.3f}|{each.recall:.3f}|{each.f1:.3f}|{each.support}" in page.text
    translation = models["translator"].evaluate()
    page = shown(translation)
    for quality in (translation.quality, *translation.baselines.values()):
        assert f"{quality.bleu:.2f}|{quality.chrf:.2f}|{quality.exact_match:.2%}" in page.text


def test_a_trace_tells_what_can_be_asked(models: dict[str, Any]) -> None:
    trace = models["transformer"].trace("the cat sat")
    page = shown(trace)
    for cost in trace.surprise:
        assert f"|{cost / math.log(2):.1f}|" in page.text
    assert "trace.attention[layer, head]|2 layers" in page.text
    assert all(site in page.text for site in trace.sites)
    assert "trace.cross" not in page.text
    assert "trace.targets.notes['order']" in shown(models["ngram"].trace("the cat sat")).text


# --- words on grounds --------------------------------------------------------------------------------------


def test_the_largest_number_has_the_strongest_ground_and_no_number_is_grey() -> None:
    page = Page(html.tinted(["a", "b", "c", "d"], [2.0, -1.0, 0.0, math.inf], ["1", "2", "3", "4"]))
    grounds = re.findall(r"background:(rgba\([^)]*\))", ";".join(page.styles))
    assert grounds == ["rgba(0,114,178,0.60)", "rgba(213,94,0,0.30)", "rgba(0,114,178,0.00)", "rgba(135,142,148,0.30)"]


def test_what_cannot_be_seen_is_spelled_out() -> None:
    page = Page(html.tinted([" ", "a b", "\u202e", "\n"], [0.0] * 4, [""] * 4))
    assert [part for part in page.text.split("|") if part] == ["␣", "a b", "\\u{202e}", "\\n"]
    assert "br" in page.tags


def test_a_long_text_is_cut_and_says_so() -> None:
    count = html.MAX_WORDS + 7
    page = Page(html.tinted(["w"] * count, [1.0] * count, ["1.0"] * count))
    assert page.text.count("w|") == html.MAX_WORDS
    assert "and 7 more" in page.text


def test_columns_of_numbers_stand_on_the_right() -> None:
    page = html.table(["word", "adds"], [["12", "+1.5"], ["a", "-3"]])
    assert re.findall(r"text-align:(\w+)", page) == ["left", "right"] * 3


# --- pictures ----------------------------------------------------------------------------------------------


def test_a_trace_draws_one_head_or_all(models: dict[str, Any]) -> None:
    trace = models["transformer"].trace("the cat sat")
    one = trace.attention_map(layer=1, head=0)
    assert "layer 1, head 0" in one.title
    drawn = [row["value"] for rows in one.spec()["datasets"].values() for row in rows if "value" in row]
    np.testing.assert_allclose(drawn, [trace.attention[1, 0].reshape(-1)], atol=1e-3)
    names = {parameter["name"]: parameter for parameter in trace.attention_map().spec()["params"]}
    assert len(names["layer"]["bind"]["options"]) == 3
    assert len(names["head"]["bind"]["options"]) == 3
    assert "bind" not in {each["name"]: each for each in trace.attention_map(layer=1).spec()["params"]}["layer"]
    for picture in (trace.head_lines(), trace.head_lines(0, 1), trace.grid(), trace.grid(1), trace.surprise_strip()):
        assert isinstance(picture, Figure)


def test_a_translator_draws_where_it_looked_in_the_source(models: dict[str, Any]) -> None:
    trace = models["translator"].trace("the cat", "the dog")
    maps = trace.maps("cross")
    assert (maps.rows, maps.columns) == (trace.tokens, trace.source)
    for picture in (trace.attention_map(which="cross"), trace.head_lines(which="source"), trace.grid(which="own")):
        assert isinstance(picture, Figure)
    assert "image/svg+xml" in models["translator"].align("the cat", "the dog")._repr_mimebundle_()
    assert "image/svg+xml" in models["transformer"].lens("the cat")._repr_mimebundle_()


def test_what_cannot_be_drawn_is_told(models: dict[str, Any]) -> None:
    trace = models["transformer"].trace("the cat sat")
    for layer, head, said in ((None, 1, "give the layer too"), (7, None, "layers 0 to 1"), (0, 7, "heads 0 to 1")):
        with pytest.raises(SettingsError, match=said):
            trace.attention_map(layer, head)
    with pytest.raises(SettingsError, match="own, source or cross"):
        trace.attention_map(which="other")
    for draw in (Trace.attention_map, Trace.head_lines, Trace.grid):
        with pytest.raises(SettingsError, match="no self-attention"):
            draw(Trace(["a"], targets=Targets()))


# --- and no torch ------------------------------------------------------------------------------------------


def test_counted_models_show_themselves_without_torch(models: dict[str, Any]) -> None:
    asked = f"""
import sys, satchel
from satchel import api
model = satchel.load({str(models["ngram"].folder)!r})
for thing in (model, model.score("the cat"), model.evaluate(), model.generate("the"), api.compare([model.folder] * 2)):
    assert "<" in thing._repr_html_()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", asked], check=True)
