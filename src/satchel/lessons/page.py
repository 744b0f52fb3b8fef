"""Lessons as HTML: a page without external resources, and the same steps as output of a notebook."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from satchel.charts import html
from satchel.charts.palette import LIGHT
from satchel.lessons.arithmetic import format_cell

if TYPE_CHECKING:
    from satchel.lessons.steps import Curves, Matrix, Step, Steps

# Font size of line charts, in pixels.
PIXELS = 13
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
.lesson tbody td { text-align: center; min-width: 1.4em; border-radius: 2px;
  box-shadow: inset 0 0 0 1px color-mix(in srgb, currentColor 20%, transparent); }
"""
# Row labels stay visible when a wide matrix is scrolled.
PAGE_STYLE = """
.lesson th { opacity: 1; }
.lesson tbody th { position: sticky; left: 0; background: var(--paper); }
"""


def page(steps: "Steps") -> str:
    """Return the lesson as a page without scripts."""
    title = steps.lesson.title
    sections = "\n".join(f"<section>\n{_step(step, 'h2')}\n</section>" for step in steps)
    body = f"""<header>
<h1>{html.escaped(title)}</h1>
<p>{html.escaped(steps.lesson.source)}</p>
</header>
<main class="lesson">
{sections}
</main>
<footer>Command for this lesson with these settings:<code>{html.escaped(steps.command)}</code></footer>"""
    return html.page(title, body, style=STEPS_STYLE + PAGE_STYLE)


def fragment(steps: "Sequence[Step]") -> str:
    """Return the steps as part of another page, including their style."""
    return f'<style>{STEPS_STYLE}</style>\n<div class="lesson">\n{_joined(_step(step, "h3") for step in steps)}\n</div>'


def _step(step: "Step", heading: str) -> str:
    """Return a step; if it has a question, the text and the matrices are folded."""
    paragraphs = (f"<p>{html.escaped(part)}</p>" for part in step.text.split("\n") if part)
    body = _joined([*paragraphs, *map(_figure, step.matrices), *map(_plot, step.curves)])
    if step.question:
        body = f'<p class="question">{html.escaped(step.question)}</p>\n' + html.folded("Answer", f"\n{body}\n")
    return f"<{heading}>{html.escaped(step.heading)}</{heading}>\n{body}"


def _figure(matrix: "Matrix") -> str:
    """Return a matrix as a table, with its name above."""
    corner = "<td></td>" if matrix.rows else ""
    heads = "".join(f'<th scope="col">{html.escaped(label)}</th>' for label in matrix.columns)
    labels = [f'<th scope="row">{html.escaped(label)}</th>' for label in matrix.rows] or [""] * len(matrix.values)
    rows = [
        f"<tr>{label}{''.join(_cell(format_cell(cell), share) for cell, share in zip(row, shares, strict=True))}</tr>"
        for label, row, shares in zip(labels, matrix.values, share_of_largest(matrix), strict=True)
    ]
    return _joined(
        [
            "<figure>",
            f"<figcaption>{html.escaped(matrix.name)}</figcaption>" if matrix.name else "",
            '<div class="scroll"><table>',
            f"<thead><tr>{corner}{heads}</tr></thead>" if heads else "",
            "<tbody>",
            *rows,
            "</tbody>",
            "</table></div>",
            "</figure>",
        ]
    )


def _plot(curves: "Curves") -> str:
    """Return a line chart as an inline SVG in the colours of the page."""
    plot = curves.layout()
    colours = (LIGHT.pos, LIGHT.neg)
    parts = []
    for line in plot.lines:
        points = " ".join(f"{PIXELS * x:.1f},{PIXELS * y:.1f}" for x, y in line.points)
        is_series = line.series is not None and line.series >= 0
        colour = colours[(line.series or 0) % len(colours)] if is_series else "currentColor"
        dashes = ' stroke-dasharray="5 4"' if line.series in (-1, 1) else ""
        stroke = f'stroke="{colour}" stroke-width="{2 if is_series else 1}"{dashes}'
        parts.append(f'<polyline points="{points}" fill="none" {stroke}/>')
    for text in plot.texts:
        anchor = {"left": "start", "center": "middle", "right": "end"}[text.align]
        parts.append(
            f'<text x="{PIXELS * text.x:.1f}" y="{PIXELS * text.y:.1f}" text-anchor="{anchor}" '
            f'dominant-baseline="middle" fill="currentColor">{html.escaped(text.text)}</text>'
        )
    size = f'width="{PIXELS * plot.width:.0f}" height="{PIXELS * plot.height:.0f}"'
    label = html.escaped(f"{curves.name}: {curves.y} against {curves.x}")
    drawing = _joined([f'<svg {size} font-size="{PIXELS}" role="img" aria-label="{label}">', *parts, "</svg>"])
    caption = f"<figcaption>{html.escaped(curves.name)}</figcaption>"
    return _joined(["<figure>", caption, f'<div class="scroll">{drawing}</div>', "</figure>"])


def _cell(text: str, share: float | None) -> str:
    style = f' style="background: {html.tint(share, 1.0)}"' if share else ""
    return f"<td{style}>{html.escaped(text)}</td>"


def share_of_largest(matrix: "Matrix") -> list[list[float | None]]:
    """Return each value divided by the largest magnitude, nan if it is not finite: the strength of its colour.

    All are None if the values are not comparable: with words among them, a single number, or a table of records
    (labelled columns, unlabelled rows), whose columns have different units.
    """
    cells = [cell for row in matrix.values for cell in row]
    is_table = bool(matrix.columns) and not matrix.rows and len(matrix.values) > 1
    if is_table or len(cells) < 2 or any(isinstance(cell, str) for cell in cells):
        return [[None] * len(row) for row in matrix.values]
    values = [[float(cell) for cell in row] for row in matrix.values]
    largest = max((abs(value) for row in values for value in row if math.isfinite(value)), default=0.0) or 1.0
    return [[value / largest if math.isfinite(value) else math.nan for value in row] for row in values]


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(part for part in parts if part)
