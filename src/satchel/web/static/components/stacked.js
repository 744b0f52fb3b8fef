// Contributions of senses to a label, stacked per word; words, bias and logit add up.

import { line, measure, rect, shorten, write } from '../drawing.js';
import { fixed, signed } from '../format.js';

const [HEIGHT, LABELLED, TOP] = [180, 13, 12];

/** @typedef {{word: string, role?: string | null, at?: number, parts: {sense: number, value: number}[]}} Word */

const MOST_WORDS = 24;

/** The words with the largest sums in the order of the text, and one entry for all others. @param {Word[]} words @returns {Word[]} */
export function largestWords(words) {
  const placed = words.map((word, at) => ({ ...word, at, sum: word.parts.reduce((sum, part) => sum + part.value, 0) }));
  if (placed.length <= MOST_WORDS) return placed;
  const sorted = [...placed].sort((a, b) => Math.abs(b.sum) - Math.abs(a.sum));
  const others = sorted.slice(MOST_WORDS);
  const parts = others[0].parts.map(({ sense }, index) => ({ sense, value: others.reduce((sum, word) => sum + word.parts[index].value, 0) }));
  return [...sorted.slice(0, MOST_WORDS).sort((a, b) => a.at - b.at), { word: `${others.length} others`, role: 'others', at: -1, parts }];
}

/**
 * @param {{words: Word[], bias: number, logit: number}} data
 * @param {import('../theme.js').Theme} look
 * @param {number} width
 * @param {number | null} at selected word
 * @param {(word: number) => void} [onSelect]
 * @returns {import('../drawing.js').Drawing}
 */
export function stackedDrawing({ words, bias, logit }, look, width, at, onSelect) {
  const { ink, ink2, ink3, edge } = look.colours;
  const sums = words.map(({ parts }) => parts.reduce((sum, part) => sum + part.value, 0));
  const above = (/** @type {{value: number}[]} */ parts) => parts.reduce((sum, { value }) => sum + Math.max(0, value), 0);
  const below = (/** @type {{value: number}[]} */ parts) => parts.reduce((sum, { value }) => sum - Math.min(0, value), 0);
  const high = Math.max(logit, bias, 0, ...words.map(({ parts }) => above(parts)));
  const low = Math.max(-logit, -bias, 0, ...words.map(({ parts }) => below(parts)));
  const scale = HEIGHT / (high + low || 1);
  const zero = TOP + high * scale;
  const columns = words.length + 2;
  const step = Math.max(56, Math.min(122, width / columns));
  const bar = Math.min(84, step - 16);
  const left = (/** @type {number} */ column) => column * step + (step - bar) / 2;
  const middle = (/** @type {number} */ column) => (column + 0.5) * step;
  const shapes = [];
  words.forEach(({ word, role, parts }, column) => {
    for (const sign of [1, -1]) {
      let reached = zero;
      for (const part of parts.filter((each) => each.value * sign > 0).sort((a, b) => Math.abs(b.value) - Math.abs(a.value))) {
        const size = Math.abs(part.value) * scale;
        const y = sign > 0 ? reached - size : reached;
        reached += -sign * size;
        const isLabelled = size >= LABELLED && bar >= 60;
        const fill = look.step(sign * (isLabelled ? look.block : 3));
        shapes.push(rect(left(column), y, bar, Math.max(0.5, size - 1), fill, { title: `${word}, sense ${part.sense}: ${signed(part.value)}` }));
        if (!isLabelled) continue;
        shapes.push(write(left(column) + 8, y + size / 2 + 4, String(part.sense), look.colours['block-ink'], { size: 11 }));
        shapes.push(write(left(column) + bar - 8, y + size / 2 + 4, signed(part.value, 2), look.colours['block-ink'], { size: 11, anchor: 'end' }));
      }
    }
  });
  const [biasColumn, logitColumn] = [words.length, words.length + 1];
  shapes.push(rect(left(biasColumn), Math.min(zero, zero - bias * scale), bar, Math.max(1, Math.abs(bias) * scale), ink3));
  shapes.push(rect(left(logitColumn), Math.min(zero, zero - logit * scale), bar, Math.max(1, Math.abs(logit) * scale), ink));
  shapes.push(line(0, zero, columns * step, zero, edge, { 'stroke-width': 1.5 }));
  const base = TOP + HEIGHT + 34;
  const size = measure('m', 20, 'serif') * 8 > step ? 15 : 20;
  words.forEach(({ word, role }, column) => {
    const font = role ? 'sans' : 'serif';
    shapes.push(write(middle(column), base, shorten(word.trim() || word, step - 6, role ? 12 : size, font), role ? ink3 : ink, { size: role ? 12 : size, font, anchor: 'middle', weight: words[column].at === at ? 700 : 400 }));
    shapes.push(write(middle(column), base + 26, signed(sums[column]), look.colours[sums[column] < 0 ? 'neg-text' : 'pos-text'], { size: 13, anchor: 'middle' }));
    if (onSelect) shapes.push(rect(column * step, 0, step, base + 34, 'transparent', { onClick: () => onSelect(words[column].at ?? column), title: `${word} ${signed(sums[column])}` }));
  });
  shapes.push(write(middle(biasColumn), base, 'bias', ink2, { anchor: 'middle' }), write(middle(biasColumn), base + 26, signed(bias), ink2, { size: 13, anchor: 'middle' }));
  shapes.push(write(middle(logitColumn) - step / 2, base + 26, '=', ink2, { size: 13, anchor: 'middle' }));
  shapes.push(write(middle(logitColumn), base, 'logit', ink, { anchor: 'middle', weight: 600 }), write(middle(logitColumn), base + 26, fixed(logit), ink, { size: 14, anchor: 'middle', weight: 600 }));
  return { width: Math.ceil(columns * step), height: base + 36, shapes };
}
