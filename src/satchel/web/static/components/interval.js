// Values with their intervals, and the documents of two runs as points.

import { circle, line, ticks, write } from '../drawing.js';

/**
 * @param {{rows: {low: number, value: number, high: number}[], rowHeight: number}} data
 * @param {import('../theme.js').Theme} look
 * @param {number} width
 * @returns {import('../drawing.js').Drawing}
 */
export function intervalDrawing({ rows, rowHeight }, look, width) {
  const { ink, ink2, ink3, rule } = look.colours;
  const [low, high] = [Math.min(...rows.map((row) => row.low)), Math.max(...rows.map((row) => row.high))];
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  const x = (/** @type {number} */ value) => 24 + ((value - low + margin) / (high - low + 2 * margin)) * (width - 48);
  const bottom = rows.length * rowHeight;
  const shapes = ticks(low - margin, high + margin, 6).flatMap((tick) => [line(x(tick), 0, x(tick), bottom, rule), write(x(tick), bottom + 18, String(tick), ink3, { size: 11, anchor: 'middle' })]);
  rows.forEach((row, index) => {
    const y = (index + 0.5) * rowHeight;
    shapes.push(line(x(row.low), y, x(row.high), y, ink2, { 'stroke-width': 2 }));
    for (const end of [row.low, row.high]) shapes.push(line(x(end), y - 5, x(end), y + 5, ink2, { 'stroke-width': 2 }));
    shapes.push(circle(x(row.value), y, 6, ink));
  });
  return { width, height: bottom + 26, shapes };
}

/** A difference with its interval around zero. @param {{difference: number, low: number, high: number}} pair @param {number} largest @param {import('../theme.js').Theme} look @param {boolean} isBetter @returns {import('../drawing.js').Drawing} */
export function differenceDrawing({ difference, low, high }, largest, look, isBetter) {
  const x = (/** @type {number} */ value) => 60 + (value / (largest || 1)) * 52;
  return { width: 120, height: 20, shapes: [
    line(x(0), 2, x(0), 18, look.colours.rule2, { 'stroke-width': 2 }), line(x(low), 10, x(high), 10, look.colours.ink2, { 'stroke-width': 2 }),
    circle(x(difference), 10, 4.5, isBetter ? look.colours.pos : look.colours.neg)] };
}

/**
 * Documents as points: the value of one run across, that of another one upwards; the area is the length.
 * @param {{points: {x: number, y: number, bytes: number, key: number}[], names: [string, string], isSmallerBetter: boolean, chosen: number | null, unit: string}} data
 * @param {import('../theme.js').Theme} look @param {number} size @param {(key: number) => void} [onSelect] @returns {import('../drawing.js').Drawing}
 */
export function scatterDrawing({ points, names, isSmallerBetter, chosen, unit }, look, size, onSelect) {
  const { ink, ink3, pos, neg, rule } = look.colours;
  const most = Math.max(...points.flatMap((point) => [point.x, point.y]), 1e-9) * 1.04;
  const least = Math.min(0, ...points.flatMap((point) => [point.x, point.y]));
  const [left, bottom] = [36, size - 36];
  const x = (/** @type {number} */ value) => left + ((value - least) / (most - least)) * (size - left - 8);
  const y = (/** @type {number} */ value) => bottom - ((value - least) / (most - least)) * (bottom - 8);
  const longest = Math.max(...points.map((point) => point.bytes), 1);
  const shapes = [];
  for (const tick of ticks(least, most, 5)) {
    shapes.push(line(x(tick), 8, x(tick), bottom, rule), line(left, y(tick), size - 8, y(tick), rule));
    shapes.push(write(x(tick), bottom + 16, String(tick), ink3, { size: 11, anchor: 'middle' }), write(left - 6, y(tick) + 4, String(tick), ink3, { size: 11, anchor: 'end' }));
  }
  shapes.push(line(x(least), y(least), x(most), y(most), ink3));
  for (const point of points) {
    const isSecond = isSmallerBetter ? point.y < point.x : point.y > point.x;
    shapes.push(circle(x(point.x), y(point.y), 2 + 5 * Math.sqrt(point.bytes / longest), isSecond ? pos : neg, { 'fill-opacity': 0.45, ...(onSelect ? { onClick: () => onSelect(point.key) } : {}) }));
    if (point.key === chosen) shapes.push(circle(x(point.x), y(point.y), 9, 'none', { stroke: ink, 'stroke-width': 2 }));
  }
  shapes.push(write((left + size) / 2, size - 4, `${names[0]}, ${unit}`, ink3, { size: 11, anchor: 'middle' }));
  shapes.push(write(10, size / 2, `${names[1]}, ${unit}`, ink3, { size: 11, anchor: 'middle', transform: `rotate(-90 10 ${size / 2})` }));
  shapes.push(write(left + 8, 22, `${names[isSmallerBetter ? 0 : 1]} better`, isSmallerBetter ? look.colours['neg-text'] : look.colours['pos-text']));
  shapes.push(write(size - 14, bottom - 8, `${names[isSmallerBetter ? 1 : 0]} better`, isSmallerBetter ? look.colours['pos-text'] : look.colours['neg-text'], { anchor: 'end' }));
  return { width: size, height: size, shapes };
}
