// Terms that add up to a logit, as a waterfall.

import { line, measure, rect, shorten, write } from '../drawing.js';
import { fixed, signed } from '../format.js';

const [ROW, BAR] = [21, 12];

/**
 * @param {{terms: {key: string, name: string, sense?: number | null, value: number}[], first: {name: string, value: number},
 *   logit: number, target: string, shown: number, selected: string | null}} data
 * @param {import('../theme.js').Theme} look
 * @param {number} width
 * @param {(key: string) => void} [onSelect]
 * @returns {import('../drawing.js').Drawing}
 */
export function waterfallDrawing({ terms, first, logit, target, shown, selected }, look, width, onSelect) {
  const { ink, ink2, ink3, pos, neg, rule } = look.colours;
  const sorted = [...terms].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const rest = sorted.slice(shown);
  const rows = [
    { key: '', name: first.name, sense: null, value: first.value, isWord: false },
    ...sorted.slice(0, shown).map((term) => ({ ...term, isWord: true })),
    ...(rest.length ? [{ key: '', name: `${rest.length} others`, sense: null, value: rest.reduce((sum, term) => sum + term.value, 0), isWord: false }] : []),
  ];
  let total = 0;
  const sums = rows.map((row) => { total += row.value; return total; });
  const bounds = [0, logit, ...sums];
  const [low, high] = [Math.min(...bounds), Math.max(...bounds)];
  const [left, right] = [Math.min(140, width * 0.3), 64];
  const place = (/** @type {number} */ value) => left + 8 + ((value - low) / (high - low || 1)) * (width - left - right - 16);
  const shapes = [line(place(0), 0, place(0), rows.length * ROW + 8, rule, { 'stroke-width': 2 })];
  rows.forEach((row, index) => {
    const y = index * ROW;
    const before = index ? sums[index - 1] : 0;
    if (row.key && row.key === selected) shapes.push(rect(0, y, width, ROW, look.colours['accent-soft']));
    const colour = row.isWord || index === 0 ? (row.value < 0 ? neg : pos) : row.value < 0 ? look.step(-3) : look.step(4);
    shapes.push(rect(Math.min(place(before), place(sums[index])), y + (ROW - BAR) / 2, Math.max(1, Math.abs(place(sums[index]) - place(before))), BAR, colour));
    if (index < rows.length) shapes.push(line(place(sums[index]), y + ROW - 5, place(sums[index]), y + ROW + 5, ink3, { 'stroke-dasharray': '1 2' }));
    if (row.isWord) {
      const suffix = row.sense === null || row.sense === undefined ? '' : ` · ${row.sense}`;
      shapes.push(write(left, y + 15, suffix, ink3, { anchor: 'end' }));
      shapes.push(write(left - measure(suffix, 12, 'sans'), y + 15, shorten(row.name, left - 30, 14, 'serif'), ink, { size: 14, font: 'serif', anchor: 'end' }));
    } else shapes.push(write(left, y + 15, row.name, ink2, { anchor: 'end' }));
    shapes.push(write(width - 4, y + 15, signed(row.value), ink, { anchor: 'end' }));
    if (row.key && onSelect) shapes.push(rect(0, y, width, ROW, 'transparent', { onClick: () => onSelect(row.key), title: `${row.name} ${signed(row.value)}` }));
  });
  const base = rows.length * ROW + 8;
  shapes.push(line(0, base, width, base, ink));
  shapes.push(rect(Math.min(place(0), place(logit)), base + 10, Math.abs(place(logit) - place(0)), BAR + 2, ink));
  const name = shorten(target, left - 56, 14, 'serif');
  shapes.push(write(left, base + 22, name, ink, { size: 14, font: 'serif', weight: 700, anchor: 'end' }));
  shapes.push(write(left - measure(name, 14, 'serif', 700) - 5, base + 22, 'logit of', ink, { anchor: 'end', weight: 600 }));
  shapes.push(write(width - 4, base + 22, fixed(logit), ink, { anchor: 'end', weight: 600, size: 13 }));
  return { width, height: base + 34, shapes };
}
