r"""Lessons as LaTeX documents whose matrices can be copied into slides.

A matrix without labels is a bmatrix, a matrix with labels a \wordmatrix, which the preamble defines.
"""

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from satchel.lessons.arithmetic import Cell, format_cell
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
    """Return a document with one section per step."""
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
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


def _section(step: "Step") -> list[str]:
    return [
        "",
        f"\\section*{{{escaped(step.title)}}}",
        *([f"\\textbf{{{escaped(step.question)}}}", ""] if step.question else []),
        *(f"{escaped(part)}\n" for part in step.text.split("\n") if part),
        *(f"\\fitted{{{_name(matrix.name)}\n{matrix_body(matrix)}\n}}" for matrix in step.matrices),
    ]


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
    r"""Return the name of a matrix and an equals sign: symbols such as W^Q in math mode, other names as text."""
    if symbol := re.fullmatch(r"(alpha|[A-Za-z])(?:([_^])([A-Za-z]))?('?)", name):
        letter, script, index, prime = symbol.groups()
        letter = rf"\{letter}" if letter == "alpha" else letter
        return f"{letter}{f'{script}{{{index}}}' if script else ''}{prime} = \\;"
    return f"{_word(name)} = \\;" if name else ""


def _word(word: str) -> str:
    return f"\\text{{{escaped(word)}}}" if word else ""


def _number(cell: Cell) -> str:
    """Return a number in math mode: fractions as \\frac, small numbers with a power of ten."""
    if isinstance(cell, str):
        return _word(cell)
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
