"""Lessons as pages, figures, LaTeX and notebooks."""

import html
import json
import math
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from satchel import config
from satchel.errors import SettingsError
from satchel.lessons import LESSONS, Matrix, Step, Steps, files, latex, notebook, page
from satchel.lessons.arithmetic import format_cell

SVG = "{http://www.w3.org/2000/svg}"
# Characters with a special meaning in one of the formats, and a letter that pdfLaTeX does not support.
HOSTILE = "<script>alert(1)</script> a&b 100% _under_ \\end{document} $x$ #1 ~^ \"q' {} ]]> 中"


@cache
def steps_of(name: str) -> Steps:
    return LESSONS[name].run()


def hostile() -> Steps:
    return LESSONS["masking"].run(words=HOSTILE)


def matrices(steps: Steps) -> list[Matrix]:
    return [matrix for step in steps for matrix in step.matrices]


class Page(HTMLParser):
    """Parses a page: its tags, attribute names and texts; raises if a tag is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]][-1] += data


def drawn(steps: Sequence[Step], title: str = "title") -> tuple[list[str], ET.Element]:
    """Return the texts of the figure of a lesson, and the root of its SVG."""
    root = ET.fromstring(files.figure(steps, title).svg("slides"))
    return [text.text or "" for text in root.iter(f"{SVG}text")], root


def assert_balanced(text: str) -> None:
    """Check that every brace and every environment of a LaTeX document is closed."""
    plain = "\n".join(line for line in text.split("\n") if not line.startswith("%"))
    depth = 0
    for character in re.sub(r"\\[{}\\]", "", plain):
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", plain):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []


def code(document: dict[str, Any]) -> list[str]:
    return [cell["source"] for cell in document["cells"] if cell["cell_type"] == "code"]


# --- every lesson in every format ------------------------------------------------------------------------


@pytest.mark.parametrize("name", LESSONS)
def test_a_page_contains_every_number_and_loads_no_resources(name: str) -> None:
    steps = steps_of(name)
    text = page.page(steps)
    parsed = Page(text)
    cells = [format_cell(cell) for matrix in matrices(steps) for row in matrix.values for cell in row]
    assert [each for each in parsed.texts["td"] if each] == [cell for cell in cells if cell]
    assert parsed.texts["h2"] == [step.heading for step in steps]
    assert parsed.texts["summary"] == ["Answer"] * sum(bool(step.question) for step in steps)
    assert not {"script", "link", "img", "iframe", "object", "base"} & set(parsed.tags)
    assert not {"src", "href", "srcset", "onclick", "onload"} & parsed.names
    assert not re.search(r"https?:|url\(|@import", text)


@pytest.mark.parametrize("name", LESSONS)
def test_a_figure_contains_every_number_and_has_the_format_of_a_slide(name: str) -> None:
    steps = steps_of(name)
    texts, root = drawn(steps, steps.lesson.title)
    cells = [format_cell(cell) for matrix in matrices(steps) for row in matrix.values for cell in row]
    remaining = iter(texts)
    assert all(cell in remaining for cell in cells if cell)  # in this order
    assert 1 < float(root.get("width", 0)) / float(root.get("height", 0)) < 2.7


@pytest.mark.parametrize("name", LESSONS)
def test_latex_is_balanced_and_its_rows_have_equal_lengths(name: str) -> None:
    steps = steps_of(name)
    text = latex.document(steps)
    assert_balanced(text)
    questions = sum(bool(step.question) for step in steps)
    assert text.count(r"\section*{") == len(steps) + 1
    assert text.count(r"\subsection*{") == questions
    assert text.count(r"\fitted{") == len(matrices(steps))
    for matrix in matrices(steps):
        body = latex.matrix_body(matrix)
        assert body in text
        words = bool(matrix.rows or matrix.columns)
        rows = [line for line in body.split("\n") if line.startswith("  ")]
        assert len(rows) == len(matrix.values) + words
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(matrix.values[0]) + words - 1}


@pytest.mark.parametrize("name", LESSONS)
def test_a_notebook_has_the_format_version_4_5(name: str) -> None:
    steps = steps_of(name)
    document = json.loads(json.dumps(notebook.notebook(steps), allow_nan=False))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert set(document) == {"nbformat", "nbformat_minor", "metadata", "cells"}
    names = [cell["id"] for cell in document["cells"]]
    assert len(set(names)) == len(names) == len(steps) + 3
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in names)
    assert set(document["cells"][0]) == {"cell_type", "id", "metadata", "source"}
    for count, cell in enumerate(document["cells"][1:], start=1):
        assert set(cell) == {"cell_type", "id", "metadata", "execution_count", "source", "outputs"}
        compile(cell["source"], "cell", "exec")
        for output in cell["outputs"]:
            assert output["output_type"] == "execute_result"
            assert output["execution_count"] == cell["execution_count"] == count
            Page(output["data"]["text/html"])


@pytest.mark.parametrize(
    ("ending", "begins"),
    [
        (".html", b"<!DOCTYPE html>"),
        (".svg", b"<svg "),
        (".png", b"\x89PNG\r\n"),
        (".pdf", b"%PDF-"),
        (".tex", b"% satchel lesson attention"),
        (".ipynb", b"{"),
    ],
)
def test_the_suffix_selects_the_format(ending: str, begins: bytes, tmp_path: Path) -> None:
    assert ending in files.WRITERS
    steps_of("attention").save(tmp_path / f"lesson{ending}")
    assert (tmp_path / f"lesson{ending}").read_bytes().startswith(begins)


def test_an_unknown_suffix_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"unsupported file extension '.docx'\nexpected .html, .svg, .png, .pdf, .tex, .ipynb"
    ):
        steps_of("attention").save(str(tmp_path / "lesson.docx"))
    assert list(tmp_path.iterdir()) == []


# --- contents ------------------------------------------------------------------------------------------


def test_fractions_are_in_every_format() -> None:
    steps = LESSONS["attention"].run()
    assert page.page(steps).count(">1/6</td>") == 3
    assert drawn(steps)[0].count("1/6") == 3
    text = latex.document(steps)
    assert (
        "\\wordmatrix{\n"
        r"   & \text{A} & \text{A} & \text{B} & \text{A} \cr"
        "\n"
        r"   & \frac{1}{6} & \frac{1}{6} & \frac{1}{2} & \frac{1}{6} \cr"
        "\n}"
    ) in text
    # Rounded in the terminal, exact in LaTeX.
    assert r"\frac{1}{59052} & \frac{1}{59052} & \frac{19683}{19684}" in text
    assert r"\begin{bmatrix}" + "\n" + r"  \frac{1}{2} & \frac{1}{2} \\[5pt]" in text


def test_numbers_in_latex_are_in_math_mode() -> None:
    cells = (Fraction(-1, 3), Fraction(1, 10**9), -float("inf"), 1.5, -2, "a_b", Fraction(4), 1e300)
    body = latex.matrix_body(Matrix("", (cells,)))
    assert body.split("\n")[1] == (
        r"  -\frac{1}{3} & 1.0 \cdot 10^{-9} & -\infty & 1.5 & -2 & \text{a\_b} & 4 & 1 \cdot 10^{300} \\[5pt]"
    )


def test_names_of_matrices_in_latex_are_symbols_or_text() -> None:
    text = latex.document(steps_of("self-attention"))
    assert "\\fitted{W^{Q} = \\;\n\\begin{bmatrix}" in text
    assert "\\fitted{E' = " in text
    assert "\\fitted{\\text{mean of y} = " in text
    assert "\\fitted{\\alpha_{i} = " in latex.document(steps_of("encoder-decoder"))


def test_latex_does_not_join_the_dashes_of_options() -> None:
    assert r"-{}-set model.scale=none" in latex.document(steps_of("scaling"))


def test_only_the_answers_of_questions_are_collapsed() -> None:
    asked = Step("Title", "The answer.", (Matrix("m", ((1, 2),)),), "What is it?")
    before, details = page.fragment([asked]).split("<details>")
    assert "What is it?" in before
    assert "The answer." in details
    assert "<table>" in details
    told = page.fragment([Step("Title", "First.\nSecond.", (Matrix("m", ((1, 2),)),))])
    assert "<details>" not in told
    assert "<p>First.</p>\n<p>Second.</p>" in told


def test_the_command_of_a_file_gives_the_same_steps() -> None:
    settings = {"words": "it's a <dog>, a cat", "seed": 3}
    steps = LESSONS["masking"].run(**settings)
    assert Page(page.page(steps)).texts["code"] == [steps.command]
    satchel, verb, name, *options = shlex.split(steps.command)
    assert (satchel, verb, name) == ("satchel", "lesson", "masking")
    assert LESSONS[name].run(**dict(map(config.split_assignment, options[1::2]))) == steps
    exact = LESSONS["perplexity"].run(probabilities=(1 / 3, 0.1))
    again = dict(map(config.split_assignment, shlex.split(exact.command)[4:]))
    assert dict(LESSONS["perplexity"].run(**again).settings) == dict(exact.settings)


# --- formulas and questions ----------------------------------------------------------------------------


def test_formulas_in_latex_are_in_math_mode() -> None:
    text = latex.document(steps_of("attention"))
    assert r"$\alpha_{i} = \frac{e^{s_{i}}}{\sum_{j} e^{s_{j}}}$" in text
    assert r"$s_{i} = k_{i} \cdot q$" in text
    title = r"\operatorname{softmax}\left(\frac{Q K^{T}}{\sqrt{d_{k}}}\right) V$}"
    assert title in latex.document(steps_of("scaling"))
    assert r"\cos\left(\frac{p - q}{10000^{2 i / k}}\right)" in latex.document(steps_of("positions"))
    assert r"3 k^{2} / h + k^{2}" in latex.document(steps_of("heads"))


@pytest.mark.parametrize("name", LESSONS)
def test_no_formula_is_written_as_escaped_text(name: str) -> None:
    text = latex.document(steps_of(name)).partition(r"\begin{document}")[2]
    outside = re.sub(r"\$[^$]*\$", "", text)
    # Underscores and powers of formulas are in math mode; the settings of commands are not formulas.
    outside = re.sub(r"[\w-]*(?:model|training|data|batch)\.\w+\\_\w+|batch\\_tokens", "", outside)
    # Names of code are between backticks.
    outside = re.sub(r"\\textasciigrave\{\}.*?\\textasciigrave\{\}", "", outside)
    assert not re.search(r"\\textasciicircum|[A-Za-z]\\_[A-Za-z0-9]", outside)


@pytest.mark.parametrize("name", LESSONS)
def test_questions_and_answers_are_in_separate_parts(name: str) -> None:
    steps = steps_of(name)
    questions, answers = latex.document(steps).split(r"\section*{Answers}")
    shown = page.page(steps)
    for step in steps:
        if step.question:
            label = f"answer-{step.number}}}"
            assert (questions.count(rf"\pageref{{{label}"), answers.count(rf"\label{{{label}")) == (1, 1)
            heading = html.escape(step.heading)
            section = shown[shown.index(f"<h2>{heading}") :].partition("</section>")[0]
            before, details = section.split("<details>")
            assert html.escape(step.question) in before
            assert "<table>" not in before
            assert "<table>" in details
        for matrix in step.matrices:
            assert latex.matrix_body(matrix) in (answers if step.question else questions)
    assert questions.count(r"\fitted{") == sum(len(step.matrices) for step in steps if not step.question)


@pytest.mark.item(22, 27)
@pytest.mark.parametrize(
    ("name", "number", "labels"), [("attention", 8, ["b", "ln 3 = 1.0986"]), ("self-attention", 9, ["n", "MB"])]
)
def test_line_charts_are_in_pages_and_figures(name: str, number: int, labels: list[str]) -> None:
    steps = steps_of(name).only(number)
    text = page.page(steps)
    for curves in steps[0].curves:
        assert html.escape(curves.name) in text
        for _, points in curves.series:
            assert any(len(line.split()) == len(points) for line in re.findall(r'points="([^"]*)"', text))
    texts, root = drawn(steps)
    assert {curves.name for curves in steps[0].curves} <= set(texts)
    assert set(labels) <= set(texts)
    assert any("mark-line" in (element.get("class") or "") for element in root.iter())


# --- colours -------------------------------------------------------------------------------------------


def test_colours_are_relative_to_the_largest_magnitude() -> None:
    shares = page.share_of_largest(Matrix("", ((2, 0), (Fraction(-1), -math.inf))))
    assert shares[0] == [1, 0]
    assert shares[1][0] == -0.5
    assert shares[1][1] is not None
    assert math.isnan(shares[1][1])
    assert page.share_of_largest(Matrix("", ((0, 0),))) == [[0, 0]]


@pytest.mark.parametrize(
    "matrix",
    [
        Matrix("", ((5,),)),
        Matrix("", (("a", 1), ("b", 2))),
        Matrix("", ((4, 16), (8, 64)), columns=("n", "cost")),
    ],
    ids=["one number", "words", "records"],
)
def test_values_that_are_not_comparable_have_no_colour(matrix: Matrix) -> None:
    assert {share for row in page.share_of_largest(matrix) for share in row} == {None}
    assert "rgba" not in page.fragment([Step("", "", (matrix,))])


# --- hostile text --------------------------------------------------------------------------------------


def test_hostile_words_are_text_in_a_page_and_a_notebook() -> None:
    steps = hostile()
    for text in (page.page(steps), steps._repr_html_(), steps[0]._repr_html_()):
        parsed = Page(text)
        assert "script" not in parsed.tags
        assert "<script>" not in text
        assert set(HOSTILE.split()) <= set(parsed.texts["th"])


def test_hostile_words_are_text_in_a_figure() -> None:
    texts, root = drawn(hostile(), HOSTILE)
    assert set(HOSTILE.split()) <= set(texts)
    assert HOSTILE in " ".join(texts)
    assert f"{SVG}script" not in {element.tag for element in root.iter()}


def test_hostile_words_are_text_in_latex() -> None:
    text = latex.document(hostile())
    assert_balanced(text)
    assert text.count(r"\end{document}") == 2  # in the comment, and at the end
    assert text.endswith("\\end{document}\n")
    for escaped in (r"a\&b", r"100\%", r"\_under\_", r"\$x\$", r"\#1", r"\{\}", r"\textbackslash{}end\{document\}"):
        assert rf"\text{{{escaped}}}" in text
    assert r"\text{\textasciitilde{}\textasciicircum{}}" in text
    assert r"\text{[U+4E2D]}" in text
    assert latex.escaped("-- << ,, '' ---") == "-{}- <{}< ,{}, '{}' -{}-{}-"


def test_a_setting_cannot_leave_the_comment_of_a_document() -> None:
    text = latex.document(LESSONS["masking"].run(words="a b\n\\input{secret}\r\x00\u202e"))
    first, second, *_ = text.split("\n")
    assert first.startswith("% satchel lesson masking")
    assert r"a b\n\input{secret}" in first
    assert second == r"\documentclass{article}"
    assert "\x00" not in text
    assert "\u202e" not in text


def test_invisible_characters_are_escaped() -> None:
    steps = LESSONS["masking"].run(words="a\x00b c\u202ed")
    texts, _ = drawn(steps)  # XML cannot contain \x00
    for text in (page.page(steps), "".join(texts), latex.document(steps)):
        assert "\x00" not in text
        assert "\u202e" not in text
    assert r"<th scope=" + '"col">a\\x00b</th>' in page.page(steps)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize(
    "name",
    ["hostile", "attention", "encoder-decoder", *(pytest.param(name, marks=pytest.mark.slow) for name in LESSONS)],
)
def test_latex_compiles(name: str, tmp_path: Path) -> None:
    steps = hostile() if name == "hostile" else steps_of(name)
    steps.save(tmp_path / "lesson.tex")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "lesson.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-2000:]


# --- notebooks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("attention", {"q": (0, 10), "sequence": "ABAA"}),
        ("masking", {"words": HOSTILE, "seed": 2}),
        ("perplexity", {"probabilities": (0.1, 1 / 3)}),
        ("sense-selection", {"scale": False}),
    ],
)
def test_a_notebook_runs_from_top_to_bottom_without_jupyter(
    name: str, settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    steps = LESSONS[name].run(**settings)
    document = notebook.notebook(steps)
    space: dict[str, Any] = {}
    first, second, *rest = code(document)
    exec(first, space)
    assert {name: space[name] for name in settings} == settings
    assert set(dict(steps.settings)) <= set(space)
    exec(second, space)
    assert space["steps"] == steps
    shows = [eval(source, space) for source in rest]
    assert shows == steps
    # The stored outputs are the outputs of the cells.
    stored = [cell["outputs"][0]["data"]["text/html"] for cell in document["cells"][3:]]
    assert stored == [shown_step._repr_html_() for shown_step in shows]
    exec(first, space)  # a second run
    exec(second, space)
    assert space["steps"] == steps


def test_changed_settings_are_used_by_the_same_cells() -> None:
    document = notebook.notebook(LESSONS["attention"].run())
    first, second, *_ = code(document)
    assert first.split("\n")[1] == "q = (0, 1)"
    space: dict[str, Any] = {}
    exec(first.replace("q = (0, 1)", "q = (0, 10)"), space)
    exec(second, space)
    assert "0.9999" in space["steps"][2]._repr_html_()


def test_steps_are_a_list_with_an_html_representation() -> None:
    steps = steps_of("attention")
    assert isinstance(steps, list)
    assert [step.title for step in steps] == [step.title for step in LESSONS["attention"].function()]
    assert Page(steps._repr_html_()).texts["h3"] == [step.heading for step in steps]
    texts, _ = drawn(steps[2:3], "The weights")
    assert sorted(texts) == sorted(
        ["The weights", "3. Softmax", "attention weights", *"AABA", "1/6", "1/6", "1/2", "1/6"]
    )
    assert drawn([], "no matrix")[0] == ["no matrix"]
