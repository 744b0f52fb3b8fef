// The senses of a word as a drawing, for files.

import { line, rect, shorten, write } from '../drawing.js';
import { label, percent } from '../format.js';

/** @param {string} word @param {any[]} senses @param {import('../theme.js').Theme} look @returns {import('../drawing.js').Drawing} */
export function sensesDrawing(word, senses, look) {
  const { ink, ink3, rule } = look.colours;
  const largest = Math.max(...senses.map((each) => each.share ?? 0), 1e-9);
  const list = (/** @type {any[]} */ words) => words.map((each) => label(each.word)).join('  ');
  const shapes = [write(0, 22, `Senses of ${word}`, ink, { size: 18, font: 'serif', weight: 700 })];
  senses.forEach((each, index) => {
    const y = 40 + index * 40;
    shapes.push(line(0, y, 900, y, rule), write(0, y + 24, String(each.sense), ink, { weight: 600 }));
    if (each.share !== null && each.share !== undefined) {
      shapes.push(write(30, y + 18, percent(each.share), ink), rect(30, y + 24, (80 * each.share) / largest, 6, look.step(5)));
    }
    shapes.push(write(140, y + 24, shorten(list(each.promotes), 460, 14, 'serif'), ink, { size: 14, font: 'serif' }));
    shapes.push(write(620, y + 24, shorten(list(each.suppresses.slice(0, 4)), 280, 14, 'serif'), look.colours['neg-text'], { size: 14, font: 'serif' }));
  });
  shapes.push(write(140, 22, 'promotes', ink3), write(620, 22, 'suppresses', ink3));
  return { width: 900, height: 48 + senses.length * 40, shapes: shapes.filter((shape) => !(shape.tag === 'text' && shape.text === 'promotes' && word.length > 6)) };
}
