r"""Lessons as LaTeX documents whose matrices can be copied into slides.

A matrix without labels is a bmatrix, a matrix with labels a \wordmatrix, which the preamble defines.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from satchel.lessons.arithmetic import Cell, format_cell
from satchel.lessons.formulas import formula_latex, is_formula
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.lessons.steps import Matrix, Step, Steps

# Largest denominator that is written as a fraction rather than as a decimal.
LARGEST_DENOMINATOR = 99_999

SPECIAL = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "`": r"\textasciigrave{}",
    '"': r"\textquotedbl{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
# Characters beyond Latin-1 and Latin Extended-A that pdfLaTeX supports without further packages.
SUPPORTED = "‘’“”–—…€•"

# Names of matrices that are one letter, such as E and E'.
SYMBOL = re.compile(r"[A-Za-z]'?")

PREAMBLE = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{amsmath}
\usepackage{graphicx}
\usepackage[margin=2.5cm]{geometry}
\setlength{\parindent}{0pt}
\setlength{\parskip}{0.5\baselineskip}
\raggedright
% A matrix with row and column labels. Slides that use it need this definition.
\newcommand{\wordmatrix}[1]{{\delcode`\(=\delcode`\[\delcode`\)=\delcode`\]\openup2pt\bordermatrix{#1}}}
% Scales a formula down to the line width if it is wider.
\newcommand{\fitted}[1]{\par\smallskip\sbox0{$\displaystyle #1$}%
  \ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi\par}
"""


def document(steps: "Steps") -> str:
    """Return a document with one section per step, and the answers of all questions after the last section."""
    # `visible` escapes line breaks, which would end the comment.
    lines = [
        f"% {visible(steps.command)}",
        PREAMBLE,
        f"\\title{{{escaped(steps.lesson.title)}}}",
        f"\\author{{{escaped(steps.lesson.source)}}}",
        r"\date{}",
        r"\begin{document}",
        r"\maketitle",
        *(line for step in steps for line in _section(step)),
        *_answers([step for step in steps if step.question]),
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


def _section(step: "Step") -> list[str]:
    title = f"\\section*{{{_text(step, step.heading)}}}"
    if not step.question:
        return ["", title, *_content(step)]
    reference = f"The answer is on page~\\pageref{{answer-{step.number}}}."
    return ["", title, f"\\label{{question-{step.number}}}", f"\\textbf{{{_text(step, step.question)}}}", "", reference]


def _answers(steps: "Sequence[Step]") -> list[str]:
    """Return the answers of all questions on pages of their own."""
    lines = ["", r"\clearpage", r"\section*{Answers}"] if steps else []
    for step in steps:
        heading = f"\\subsection*{{{_text(step, step.heading)}}}"
        question = f"\\textit{{{_text(step, step.question)}}} (page~\\pageref{{question-{step.number}}})"
        lines += ["", heading, f"\\label{{answer-{step.number}}}", question, "", *_content(step)]
    return lines


def _content(step: "Step") -> list[str]:
    return [
        *(f"{_text(step, part)}\n" for part in step.text.split("\n") if part),
        *(f"\\fitted{{{_name(matrix.name)}\n{matrix_body(matrix)}\n}}" for matrix in step.matrices),
    ]


def _text(step: "Step", text: str) -> str:
    """Return a text of a step with its formulas in math mode."""
    formulas = dict(step.formulas)
    # A formula that is part of a word, such as the f of `of`, is not one; longer formulas take precedence.
    names = "|".join(map(re.escape, sorted(formulas, key=len, reverse=True)))
    parts = re.split(rf"(?<![\w^])({names})(?![\w^])", text) if names else [text]
    return "".join(f"${formulas[part]}$" if place % 2 else escaped(part) for place, part in enumerate(parts))


def matrix_body(matrix: "Matrix") -> str:
    """Return the LaTeX code of a matrix, for use in math mode."""
    rows = [[_number(cell) for cell in row] for row in matrix.values]
    if not matrix.rows and not matrix.columns:
        lines = [f"  {' & '.join(row)} \\\\{'[5pt]' * any('frac' in each for each in row)}" for row in rows]
        return "\n".join([r"\begin{bmatrix}", *lines, r"\end{bmatrix}"])
    header = ["", *map(_word, matrix.columns or [""] * len(rows[0]))]
    labels = list(map(_word, matrix.rows)) or [""] * len(rows)
    all_rows = [header, *([label, *row] for label, row in zip(labels, rows, strict=True))]
    return "\n".join([r"\wordmatrix{", *(f"  {' & '.join(row)} \\cr" for row in all_rows), "}"])


def _name(name: str) -> str:
    r"""Return the name of a matrix and an equals sign: formulas in math mode, other names as text."""
    return f"{name if SYMBOL.fullmatch(name) else _word(name)} = \\;" if name else ""


def _word(word: str) -> str:
    """Return a label for math mode: a formula, or text in which formulas are in math mode."""
    if is_formula(word):
        return formula_latex(word)
    parts = [f"${formula_latex(part)}$" if is_formula(part) else escaped(part) for part in word.split(" ")]
    return f"\\text{{{' '.join(parts)}}}" if word else ""


def _number(cell: Cell) -> str:
    """Return a number in math mode: fractions as \\frac, small numbers with a power of ten."""
    if isinstance(cell, str):
        return formula_latex(cell) if "^" in cell and is_formula(cell) else f"\\text{{{escaped(cell)}}}" if cell else ""
    if isinstance(cell, Fraction) and 1 < cell.denominator <= LARGEST_DENOMINATOR:
        sign = "-" if cell < 0 else ""
        return f"{sign}\\frac{{{abs(cell.numerator)}}}{{{cell.denominator}}}"
    digits, _, exponent = format_cell(cell).partition("e")
    power = f" \\cdot 10^{{{int(exponent)}}}" if exponent else ""
    return f"{digits}{power}".replace("inf", r"\infty")


def escaped(text: str) -> str:
    """Return the text with LaTeX special characters escaped."""
    # Separate the characters of ligatures: -- becomes a dash, << a quotation mark.
    return re.sub(r"([-<>,'])(?=\1)", r"\1{}", "".join(map(_character, visible(text))))


def _character(character: str) -> str:
    if character.isascii():
        return SPECIAL.get(character, character)
    # Other characters are written as code points, because the fonts of pdfLaTeX may not contain them.
    return character if "\u00a1" <= character <= "\u017e" or character in SUPPORTED else f"[U+{ord(character):04X}]"
