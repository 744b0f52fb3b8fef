"""Lessons as HTML: one page that needs nothing else, and the same steps in a notebook."""

from collections.abc import Iterable, Sequence
from html import escape

from satchel.lessons.steps import Cell, Matrix, Step, Steps, format_cell
from satchel.lessons.tints import Tint, red_green_blue, tints
from satchel.text.display import visible

# Style of the steps in any page; text and background colours are inherited.
STEPS_STYLE = """
.lesson { line-height: 1.5; }
.lesson p { margin: .5em 0; max-width: 44em; }
.lesson .question { font-weight: 600; }
.lesson summary { cursor: pointer; width: max-content; padding: .1em 0; }
.lesson figure { display: inline-block; vertical-align: top; max-width: 100%; margin: .6em 1.8em .4em 0; }
.lesson figcaption { font-style: italic; margin: 0 0 .2em; padding: 0 2px; }
.lesson .scroll { overflow-x: auto; }
.lesson table { border-collapse: separate; border-spacing: 2px; margin: 0; border: 0;
  font-size: 1em; font-variant-numeric: tabular-nums; }
.lesson tr, .lesson tr:hover { background: none !important; }
.lesson th, .lesson td { padding: .25em .6em; white-space: pre; border: 0; }
.lesson th { font-weight: 400; opacity: .8; text-align: center; }
.lesson tbody th { text-align: right; }
.lesson tbody td { text-align: center; min-width: 1.4em; border-radius: 3px;
  box-shadow: inset 0 0 0 1px rgba(128, 128, 128, .25); }
"""

PAGE_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1a1a1a; --soft: #555555; --line: #dddddd; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #15171a; --ink: #e8e8e8; --soft: #a8a8a8; --line: #3a3d42; }
}
body { margin: 0 auto; padding: 1.5em 1.2em 3em; max-width: 60em; background: var(--paper); color: var(--ink);
  font: 17px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
  overflow-wrap: break-word; -webkit-text-size-adjust: 100%; }
h1 { font-size: 1.7em; line-height: 1.2; margin: .2em 0; }
header p, footer { color: var(--soft); }
header p { margin: 0; }
section { border-top: 1px solid var(--line); margin-top: 1.4em; padding-top: .2em; }
h2 { font-size: 1.2em; margin: .7em 0 .3em; }
.lesson th { opacity: 1; color: var(--soft); }
.lesson tbody th { position: sticky; left: 0; background: var(--paper); }
summary { color: var(--soft); }
footer { border-top: 1px solid var(--line); margin-top: 2em; padding-top: .8em; font-size: .9em; }
footer code { display: block; white-space: pre-wrap; overflow-wrap: anywhere; margin-top: .3em; }
@media (max-width: 40em) { body { font-size: 16px; padding: 1em .8em 2em; } }
@media print {
  :root { --paper: #ffffff; --ink: #000000; --soft: #444444; --line: #bbbbbb; }
  body { font-size: 10.5pt; max-width: none; padding: 0; }
  .lesson td { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h2, .question { break-after: avoid; }
  figure, tr { break-inside: avoid; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
  summary { display: none; }
}
"""


def page(steps: Steps) -> str:
    """Return a page that asks for nothing: no network, no other file, no script."""
    title = _text(steps.lesson.title)
    sections = "\n".join(f"<section>\n{_step(step, 'h2')}\n</section>" for step in steps)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{STEPS_STYLE}{PAGE_STYLE}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p>{_text(steps.lesson.source)}</p>
</header>
<main class="lesson">
{sections}
</main>
<footer>Command for this lesson with these settings:<code>{_text(steps.command)}</code></footer>
</body>
</html>
"""


def fragment(steps: Sequence[Step]) -> str:
    """Return the steps as a part of another page, with the style they need."""
    return f'<style>{STEPS_STYLE}</style>\n<div class="lesson">\n{_joined(_step(step, "h3") for step in steps)}\n</div>'


def _step(step: Step, heading: str) -> str:
    """Return a step; where it has a question, the rest is folded away until it is asked for."""
    body = _joined([*(f"<p>{_text(part)}</p>" for part in step.text.split("\n") if part), *map(_figure, step.matrices)])
    if step.question:
        asked = f'<p class="question">{_text(step.question)}</p>'
        body = f"{asked}\n<details>\n<summary>Answer</summary>\n{body}\n</details>"
    return f"<{heading}>{_text(step.title)}</{heading}>\n{body}"


def _figure(matrix: Matrix) -> str:
    """Return a matrix as a table, its name above it."""
    corner = "<td></td>" if matrix.rows else ""
    heads = "".join(f'<th scope="col">{_text(word)}</th>' for word in matrix.columns)
    words = [f'<th scope="row">{_text(word)}</th>' for word in matrix.rows] or [""] * len(matrix.values)
    rows = [
        f"<tr>{word}{''.join(map(_cell, row, colours))}</tr>"
        for word, row, colours in zip(words, matrix.values, tints(matrix), strict=True)
    ]
    return _joined(
        [
            "<figure>",
            f"<figcaption>{_text(matrix.name)}</figcaption>" if matrix.name else "",
            '<div class="scroll"><table>',
            f"<thead><tr>{corner}{heads}</tr></thead>" if heads else "",
            "<tbody>",
            *rows,
            "</tbody>",
            "</table></div>",
            "</figure>",
        ]
    )


def _cell(cell: Cell, tint: Tint) -> str:
    colour, share = tint
    red, green, blue = red_green_blue(colour)
    # Of the background the rest is seen through it, so that zero is white on a white page and black on a black one.
    style = f' style="background: rgba({red}, {green}, {blue}, {share:.3f})"' if share else ""
    return f"<td{style}>{_text(format_cell(cell))}</td>"


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(part for part in parts if part)


def _text(text: str) -> str:
    return escape(visible(text))
