// Curves of a training: held-out and training loss, and the n-gram baseline.

import { circle, line, measure, path, ticks, write } from '../drawing.js';
import { fixed } from '../format.js';

const MOST_POINTS = 2000;

/** The points of a series, at most two per pixel: smallest and largest value of each part. @param {[number, number][]} points @returns {[number, number][]} */
function decimate(points) {
  if (points.length <= MOST_POINTS) return points;
  const size = Math.ceil((2 * points.length) / MOST_POINTS);
  /** @type {[number, number][]} */
  const kept = [];
  for (let start = 0; start < points.length; start += size) {
    const part = points.slice(start, start + size).sort((a, b) => a[1] - b[1]);
    kept.push(...[part[0], part[part.length - 1]].sort((a, b) => a[0] - b[0]));
  }
  return kept;
}

/**
 * @param {{series: {name: string, kind: 'main' | 'quiet' | 'baseline', points: [number, number][], digits?: number}[], end: number,
 *   unit: (value: number) => string}} data `end` is the right end of the horizontal axis
 * @param {import('../theme.js').Theme} look
 * @param {number} width
 * @param {number} [height]
 * @returns {import('../drawing.js').Drawing}
 */
export function curveDrawing({ series, end, unit }, look, width, height = 190) {
  const { ink, ink3, rule, pos } = look.colours;
  const shown = series.filter(({ points }) => points.length);
  const values = shown.flatMap(({ points }) => points.map(([, y]) => y));
  const labelWidth = Math.max(60, ...shown.map(({ name }) => measure(`${name} 0.000`, 12, 'sans', 600) + 12));
  const [left, right, top, bottom] = [34, width - labelWidth, 12, height - 26];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const margin = (high - low || Math.abs(high) || 1) * 0.08;
  const x = (/** @type {number} */ value) => left + (value / (end || 1)) * (right - left);
  const y = (/** @type {number} */ value) => bottom - ((value - low + margin) / (high - low + 2 * margin)) * (bottom - top);
  const shapes = [];
  for (const tick of ticks(low - margin, high + margin, 4)) {
    shapes.push(line(left, y(tick), right, y(tick), rule), write(left - 8, y(tick) + 4, String(tick), ink3, { size: 11, anchor: 'end' }));
  }
  for (const tick of ticks(0, end, 4)) shapes.push(write(x(tick), height - 8, unit(tick), ink3, { size: 11, anchor: 'middle' }));
  const labels = /** @type {{at: number, x: number, text: string, colour: string, weight: number}[]} */ ([]);
  const order = { baseline: 0, quiet: 1, main: 2 };
  for (const { name, kind, points, digits = 3 } of [...shown].sort((a, b) => order[a.kind] - order[b.kind])) {
    const [lastX, lastY] = points[points.length - 1];
    const colour = kind === 'main' ? pos : kind === 'quiet' ? look.step(4) : ink;
    if (kind === 'baseline') shapes.push(line(left, y(lastY), right, y(lastY), ink, { 'stroke-dasharray': '4 3' }));
    else {
      const d = decimate(points).map(([a, b], index) => `${index ? 'L' : 'M'}${x(a).toFixed(1)},${y(b).toFixed(1)}`).join('');
      shapes.push(path(d, colour, { 'stroke-width': kind === 'main' ? 2.2 : 1.5, 'stroke-linejoin': 'round' }));
      if (kind === 'main') shapes.push(circle(x(lastX), y(lastY), 4.5, colour));
    }
    labels.push({
      at: y(lastY) + 4, x: (kind === 'baseline' ? right : x(lastX)) + 8, text: `${name} ${fixed(lastY, digits)}`,
      colour: kind === 'main' ? look.colours['pos-text'] : kind === 'quiet' ? ink3 : ink, weight: kind === 'main' ? 600 : 400,
    });
  }
  // Labels that would overlap are moved apart, those at the bottom upwards.
  labels.sort((a, b) => a.at - b.at);
  for (let index = 1; index < labels.length; index += 1) labels[index].at = Math.max(labels[index].at, labels[index - 1].at + 14);
  for (let index = labels.length - 1, most = height - 22; index >= 0; index -= 1, most -= 14) labels[index].at = Math.min(labels[index].at, most);
  for (const each of labels) shapes.push(write(each.x, each.at, each.text, each.colour, { weight: each.weight }));
  return { width, height, shapes };
}
