r"""Lessons as LaTeX: a document that compiles by itself, with matrices to be copied into slides.

A matrix without words is a plain bmatrix; one with words is a \wordmatrix, which the first lines define.
"""

import re
from fractions import Fraction

from satchel.lessons.steps import Cell, Matrix, Step, Steps, format_cell
from satchel.text.display import visible

# A fraction with a larger denominator is read more easily as a decimal.
LARGEST_DENOMINATOR = 99_999

SPECIAL = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "`": r"\textasciigrave{}",
    '"': r"\textquotedbl{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
# What pdfLaTeX can set beside ASCII without being told how: the accented letters of Europe, and these.
KNOWN = "‘’“”–—…€•"

FIRST_LINES = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{amsmath}
\usepackage{graphicx}
\usepackage[margin=2.5cm]{geometry}
\setlength{\parindent}{0pt}
\setlength{\parskip}{0.5\baselineskip}
\raggedright
% A matrix with words above its columns and beside its rows. Slides that use one need this definition.
\newcommand{\wordmatrix}[1]{{\delcode`\(=\delcode`\[\delcode`\)=\delcode`\]\openup2pt\bordermatrix{#1}}}
% What is too wide for the line is made smaller.
\newcommand{\fitted}[1]{\par\smallskip\sbox0{$\displaystyle #1$}%
  \ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi\par}
"""


def document(steps: Steps) -> str:
    """Return a document with a section for each step."""
    # A comment ends with its line, so nothing in it may begin another.
    lines = [
        f"% {visible(steps.command)}",
        FIRST_LINES,
        f"\\title{{{escaped(steps.lesson.title)}}}",
        f"\\author{{{escaped(steps.lesson.source)}}}",
        r"\date{}",
        r"\begin{document}",
        r"\maketitle",
        *(line for step in steps for line in _section(step)),
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


def _section(step: Step) -> list[str]:
    return [
        "",
        f"\\section*{{{escaped(step.title)}}}",
        *([f"\\textbf{{{escaped(step.question)}}}", ""] if step.question else []),
        *(f"{escaped(part)}\n" for part in step.text.split("\n") if part),
        *(f"\\fitted{{{_name(matrix.name)}\n{matrix_body(matrix)}\n}}" for matrix in step.matrices),
    ]


def matrix_body(matrix: Matrix) -> str:
    """Return a matrix by itself, for anywhere where there is mathematics."""
    rows = [[_number(cell) for cell in row] for row in matrix.values]
    if not matrix.rows and not matrix.columns:
        lines = [f"  {' & '.join(row)} \\\\{'[5pt]' * any('frac' in each for each in row)}" for row in rows]
        return "\n".join([r"\begin{bmatrix}", *lines, r"\end{bmatrix}"])
    heads = ["", *map(_word, matrix.columns or [""] * len(rows[0]))]
    words = list(map(_word, matrix.rows)) or [""] * len(rows)
    all_rows = [heads, *([word, *row] for word, row in zip(words, rows, strict=True))]
    return "\n".join([r"\wordmatrix{", *(f"  {' & '.join(row)} \\cr" for row in all_rows), "}"])


def _name(name: str) -> str:
    r"""Return the name of a matrix and an equals sign: W^Q and alpha_i are mathematics, others are words."""
    if symbol := re.fullmatch(r"(alpha|[A-Za-z])(?:([_^])([A-Za-z]))?('?)", name):
        letter, place, index, prime = symbol.groups()
        letter = rf"\{letter}" if letter == "alpha" else letter
        return f"{letter}{f'{place}{{{index}}}' if place else ''}{prime} = \\;"
    return f"{_word(name)} = \\;" if name else ""


def _word(word: str) -> str:
    return f"\\text{{{escaped(word)}}}" if word else ""


def _number(cell: Cell) -> str:
    """Return a number as mathematics: a fraction as it is, a small number with its power of ten."""
    if isinstance(cell, str):
        return _word(cell)
    if isinstance(cell, Fraction) and 1 < cell.denominator <= LARGEST_DENOMINATOR:
        sign = "-" if cell < 0 else ""
        return f"{sign}\\frac{{{abs(cell.numerator)}}}{{{cell.denominator}}}"
    digits, _, exponent = format_cell(cell).partition("e")
    power = f" \\cdot 10^{{{int(exponent)}}}" if exponent else ""
    return f"{digits}{power}".replace("inf", r"\infty")


def escaped(text: str) -> str:
    """Return a text that LaTeX prints as it is."""
    # Two of these in a row would become one sign: -- a dash, << a quotation mark.
    return re.sub(r"([-<>,'])(?=\1)", r"\1{}", "".join(map(_character, visible(text))))


def _character(character: str) -> str:
    if character.isascii():
        return SPECIAL.get(character, character)
    # No engine is asked for letters that its fonts may not have: they are told by number.
    return character if "\u00a1" <= character <= "\u017e" or character in KNOWN else f"[U+{ord(character):04X}]"
