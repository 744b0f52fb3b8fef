// A matrix of a lesson as a table, and as shapes for files.

import { html } from '../lib.js';
import { measure, rect, write } from '../drawing.js';
import { fraction, visible } from '../format.js';
import { rgb, theme } from '../theme.js';

/** A cell of a matrix as text. @param {any} value */
const cellText = (value) => (typeof value === 'number' ? fraction(value) : value === null ? '–' : visible(String(value)));

/** The background of a cell: weights and scores are tinted by their size. @param {any} matrix @param {any} value @param {import('../theme.js').Theme} look */
function background(matrix, value, look) {
  if (typeof value !== 'number' || !Number.isFinite(value)) return null;
  if (matrix.role === 'weight') return rgb(look.cell(Math.max(0, Math.min(1, value))));
  if (matrix.role !== 'score' && matrix.role !== 'output') return null;
  const largest = Math.max(...matrix.values.flat().filter((/** @type {any} */ each) => Number.isFinite(each)).map(Math.abs), 1e-9);
  return rgb(look.cell((0.7 * value) / largest));
}

/** @param {{matrix: any}} properties */
export function LessonMatrix({ matrix }) {
  const look = theme.value;
  const hasRows = matrix.rows.length > 0;
  return html`<figure class="lesson-matrix"><figcaption><strong>${matrix.name}</strong>${matrix.formula ? html` <span class="caption">${matrix.formula}</span>` : null}</figcaption>
    <div class="scroll"><table><caption class="hidden">${matrix.name}</caption>${matrix.columns.length ? html`<thead><tr>${hasRows ? html`<td></td>` : null}${matrix.columns.map((/** @type {string} */ text, /** @type {number} */ index) => html`<th scope="col" key=${index}>${text}</th>`)}</tr></thead>` : null}
      <tbody>${matrix.values.map((/** @type {any[]} */ row, /** @type {number} */ i) => html`<tr key=${i}>${hasRows ? html`<th scope="row">${matrix.rows[i]}</th>` : null}
        ${row.map((value, j) => html`<td key=${j} class=${typeof value === 'number' ? 'number cell-ink' : 'word'} style=${{ background: background(matrix, value, look) ?? 'none' }}>${cellText(value)}</td>`)}</tr>`)}</tbody></table></div></figure>`;
}

/** @param {any} matrix @param {import('../theme.js').Theme} look @returns {import('../drawing.js').Drawing} */
export function lessonMatrixDrawing(matrix, look) {
  const { ink, ink2, rule } = look.colours;
  const wide = Math.max(46, ...matrix.values.flat().map((/** @type {any} */ value) => measure(cellText(value), 13, 'sans') + 16), ...matrix.columns.map((/** @type {string} */ text) => measure(text, 12, 'sans') + 12));
  const left = Math.max(0, ...matrix.rows.map((/** @type {string} */ text) => measure(text, 14, 'serif') + 14));
  const [top, high] = [matrix.columns.length ? 50 : 28, 32];
  const shapes = [write(0, 16, matrix.name + (matrix.formula ? `   ${matrix.formula}` : ''), ink, { weight: 600, size: 13 })];
  matrix.columns.forEach((/** @type {string} */ text, /** @type {number} */ j) => shapes.push(write(left + (j + 0.5) * wide, top - 8, text, ink2, { anchor: 'middle' })));
  matrix.values.forEach((/** @type {any[]} */ row, /** @type {number} */ i) => {
    if (matrix.rows[i] !== undefined) shapes.push(write(left - 8, top + i * high + 21, matrix.rows[i], ink, { size: 14, font: 'serif', anchor: 'end' }));
    row.forEach((value, j) => {
      shapes.push(rect(left + j * wide, top + i * high, wide, high, background(matrix, value, look) ?? 'none', { stroke: rule }));
      shapes.push(write(left + (j + 0.5) * wide, top + i * high + 21, cellText(value), look.colours['cell-ink'], { size: 13, anchor: 'middle' }));
    });
  });
  const columns = Math.max(...matrix.values.map((/** @type {any[]} */ row) => row.length), 1);
  return { width: Math.ceil(left + columns * wide + 4), height: top + matrix.values.length * high + 6, shapes };
}
