// Attention weights as curves between two columns of tokens.

import { curveAcross, measure, path, shorten, write } from '../drawing.js';
import { fixed, label } from '../format.js';

const MAX_CURVES = 400;

/**
 * @param {{rows: string[], columns: string[], values: number[][], size: number, top: number, at: number | null}} data
 * @param {import('../theme.js').Theme} look
 * @param {(row: number) => void} [onSelect]
 * @returns {import('../drawing.js').Drawing}
 */
export function linesDrawing({ rows, columns, values, size, top, at }, look, onSelect) {
  const font = Math.min(14, size + 2);
  const width = (/** @type {string[]} */ texts) => Math.min(110, Math.max(...texts.map((text) => measure(label(text), font, 'serif', 700)), 20));
  const left = Math.ceil(width(rows)) + 8;
  const [start, end] = [left + 8, left + 104];
  const middle = (/** @type {number} */ index) => top + (index + 0.5) * size;
  const { ink, ink2, ink3, pos } = look.colours;
  const quiet = values.flatMap((row, i) => row.flatMap((weight, j) => (i === at || weight < 0.04 ? [] : [{ i, j, weight }])));
  quiet.sort((a, b) => b.weight - a.weight);
  const shapes = quiet.slice(0, MAX_CURVES).map(({ i, j, weight }) => path(curveAcross(start, middle(i), end, middle(j)), ink3, {
    'stroke-width': 0.5 + 1.5 * weight, 'stroke-opacity': Math.min(at === null ? 0.4 : 0.15, 0.6 * weight),
  }));
  const selected = at === null ? [] : values[at];
  selected.forEach((weight, j) => {
    if (weight < 0.01) return;
    shapes.push(path(curveAcross(start, middle(/** @type {number} */ (at)), end, middle(j)), pos, {
      'stroke-width': 0.8 + 7 * weight, 'stroke-opacity': Math.min(1, 0.25 + 1.4 * weight), title: `${rows[/** @type {number} */ (at)]} → ${columns[j]} ${fixed(weight)}`,
    }));
  });
  const name = (/** @type {string} */ text, /** @type {number} */ x, /** @type {number} */ index, /** @type {boolean} */ isRow) => {
    const isBoundary = /^<\w+>$/.test(text);
    const isStrong = isRow ? index === at : (selected[index] ?? 0) >= 0.01;
    return write(x, middle(index) + font * 0.32, shorten(label(text), 110, font, 'serif'), isStrong ? ink : isRow && !isBoundary ? ink2 : ink3, {
      size: isBoundary ? 11 : font, font: isBoundary ? 'sans' : 'serif', anchor: isRow ? 'end' : 'start', weight: isRow && index === at ? 700 : 400,
      ...(isRow && onSelect ? { onClick: () => onSelect(index) } : {}),
    });
  };
  rows.forEach((text, index) => shapes.push(name(text, left, index, true)));
  columns.forEach((text, index) => shapes.push(name(text, end + 8, index, false)));
  return { width: end + 16 + Math.ceil(width(columns)), height: top + Math.max(rows.length, columns.length) * size + 6, shapes };
}
