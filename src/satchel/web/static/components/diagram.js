// Diagrams of the Transformer block, the recurrent network and the encoder-decoder, with shapes and numbers of the lesson.

import { html, useState } from '../lib.js';
import { line, path, Picture, rect, write } from '../drawing.js';
import { fraction } from '../format.js';
import { theme } from '../theme.js';
import { LessonMatrix } from './lessonmatrix.js';

/**
 * @typedef {{id: string, text: string, note?: string, x: number, y: number, width?: number}} Box
 * @typedef {{from: string, to: string, text?: string, matrix?: any}} Arrow
 */

/** @param {{boxes: Box[], arrows: Arrow[], width: number, height: number}} graph @param {import('../theme.js').Theme} look @param {(arrow: Arrow) => void} onSelect @param {Arrow | null} selected */
function graphDrawing({ boxes, arrows, width, height }, look, onSelect, selected) {
  const { ink, ink2, ink3, edge, raised, accent } = look.colours;
  const high = 40;
  const wide = (/** @type {Box} */ box) => box.width ?? 112;
  const places = new Map(boxes.map((box) => [box.id, box]));
  const shapes = [];
  for (const arrow of arrows) {
    const [from, to] = [/** @type {Box} */ (places.get(arrow.from)), /** @type {Box} */ (places.get(arrow.to))];
    const isAcross = Math.abs(from.y - to.y) < high;
    const [x1, y1] = isAcross ? [from.x + wide(from) / 2, from.y + high / 2] : [from.x, from.y + (to.y > from.y ? high : 0)];
    const [x2, y2] = isAcross ? [to.x - wide(to) / 2, to.y + high / 2] : [to.x, to.y + (to.y > from.y ? 0 : high)];
    const colour = arrow === selected ? accent : edge;
    shapes.push(line(x1, y1, x2, y2, colour, { 'stroke-width': arrow === selected ? 2.5 : 1.5 }));
    const angle = Math.atan2(y2 - y1, x2 - x1);
    const corner = (/** @type {number} */ turn) => `${(x2 - 8 * Math.cos(angle + turn)).toFixed(1)},${(y2 - 8 * Math.sin(angle + turn)).toFixed(1)}`;
    shapes.push(path(`M${corner(0.4)}L${x2},${y2}L${corner(-0.4)}`, colour, { 'stroke-width': 1.5 }));
    if (arrow.text) shapes.push(write((x1 + x2) / 2 + (isAcross ? 0 : 8), (y1 + y2) / 2 + (isAcross ? -8 : 4), arrow.text, arrow.matrix ? ink : ink3, { size: 11, anchor: isAcross ? 'middle' : 'start' }));
    if (arrow.matrix) shapes.push(rect(Math.min(x1, x2) - 10, Math.min(y1, y2) - 14, Math.abs(x2 - x1) + 20, Math.abs(y2 - y1) + 28, 'transparent', { onClick: () => onSelect(arrow), title: `Show ${arrow.text ?? arrow.matrix.name}` }));
  }
  for (const box of boxes) {
    shapes.push(rect(box.x - wide(box) / 2, box.y, wide(box), high, raised, { stroke: edge, rx: 4 }));
    shapes.push(write(box.x, box.y + (box.note ? 17 : 24), box.text, ink, { anchor: 'middle', weight: 600 }));
    if (box.note) shapes.push(write(box.x, box.y + 32, box.note, ink2, { anchor: 'middle', size: 11 }));
  }
  return { width, height, shapes };
}

/** A matrix of the lesson with this name. @param {any} lesson @param {string} name */
const find = (lesson, name) => lesson.steps.flatMap((/** @type {any} */ step) => step.matrices).find((/** @type {any} */ matrix) => matrix.name === name);

/** @param {any} lesson */
function blockGraph(lesson) {
  const shapes = find(lesson, 'shapes');
  const shape = (/** @type {string} */ name) => {
    const row = shapes?.rows.indexOf(name) ?? -1;
    return row < 0 ? '' : shapes.values[row].join(' × ').replaceAll(',', ' ×');
  };
  const at = (/** @type {number} */ row) => 330 - row * 62;
  return {
    width: 640, height: 390,
    boxes: [
      { id: 'x', text: 'word vectors E', note: shape('E'), x: 250, y: at(0) }, { id: 'q', text: 'Q', note: shape('Q'), x: 130, y: at(1) }, { id: 'k', text: 'K', note: shape('K'), x: 250, y: at(1) }, { id: 'v', text: 'V', note: shape('V'), x: 370, y: at(1) },
      { id: 'a', text: 'softmax(QKᵀ/√d)', note: shape('A'), x: 190, y: at(2), width: 140 }, { id: 'av', text: 'A V', note: shape('AV') || shape('A V'), x: 250, y: at(3) }, { id: 'ff', text: 'feed-forward', x: 250, y: at(4) }, { id: 'o', text: 'output', note: shape('E'), x: 250, y: at(5) },
    ],
    arrows: [
      { from: 'x', to: 'q', text: 'W^Q' }, { from: 'x', to: 'k', text: 'W^K' }, { from: 'x', to: 'v', text: 'W^V' }, { from: 'q', to: 'a' }, { from: 'k', to: 'a' }, { from: 'a', to: 'av', text: 'A', matrix: find(lesson, 'A') }, { from: 'v', to: 'av' },
      { from: 'av', to: 'ff', text: '+ E' }, { from: 'ff', to: 'o', text: 'output', matrix: find(lesson, 'output, up to 10 columns') },
    ],
  };
}

/** @param {any} lesson */
function recurrentGraph(lesson) {
  const steps = find(lesson, 'steps');
  const rows = /** @type {number[][]} */ (steps?.values ?? []);
  const gap = Math.max(110, Math.min(150, 700 / (rows.length + 1)));
  /** @type {Box[]} */
  const boxes = [{ id: 'h0', text: 'h₀', note: rows.length ? fraction(rows[0][1]) : '0', x: 50, y: 30, width: 60 }];
  const arrows = /** @type {Arrow[]} */ ([]);
  rows.forEach((row, index) => {
    const x = 50 + (index + 1) * gap;
    boxes.push({ id: `h${index + 1}`, text: 'cell', note: `h = ${fraction(row[2])}`, x, y: 30, width: 76 }, { id: `x${index + 1}`, text: `x = ${fraction(row[0])}`, x, y: 130, width: 76 });
    arrows.push({ from: `h${index}`, to: `h${index + 1}`, text: fraction(row[1]), matrix: steps }, { from: `x${index + 1}`, to: `h${index + 1}`, text: fraction(row[0]) });
  });
  return { width: 100 + (rows.length + 1) * gap, height: 180, boxes, arrows };
}

/** @param {any} lesson */
function encoderGraph(lesson) {
  const states = find(lesson, 'h');
  const scores = find(lesson, 'a_i');
  const context = find(lesson, 'c');
  const words = /** @type {string[]} */ (states?.rows ?? []);
  const vector = (/** @type {number[]} */ values) => `(${values.map(fraction).join(', ')})`;
  const boxes = words.map((word, index) => ({ id: `h${index}`, text: word, note: vector(states.values[index]), x: 80 + index * 140, y: 130, width: 120 }));
  const middle = 80 + ((words.length - 1) * 140) / 2;
  return {
    width: 80 + words.length * 140 + 40, height: 200,
    boxes: [...boxes, { id: 'c', text: 'context vector c', note: context ? vector(context.values[0]) : '', x: middle, y: 20, width: 140 }],
    arrows: words.map((_, index) => ({ from: `h${index}`, to: 'c', text: scores ? `a = ${fraction(scores.values[0][index])}` : '', matrix: scores })),
  };
}

const GRAPHS = /** @type {Record<string, (lesson: any) => any>} */ ({ block: blockGraph, rnn: recurrentGraph, 'encoder-decoder': encoderGraph });
// Steps of a lesson with the diagram.
const STEPS = /** @type {Record<string, number>} */ ({ block: 4, rnn: 2, 'encoder-decoder': 6 });

/** @param {{lesson: any, step: any}} properties */
export function Diagram({ lesson, step }) {
  const [selected, setSelected] = useState(/** @type {Arrow | null} */ (null));
  const make = GRAPHS[lesson.name];
  if (!make || step.number > STEPS[lesson.name]) return null;
  const graph = make(lesson);
  const shown = graph.arrows.find((/** @type {Arrow} */ arrow) => arrow.from === selected?.from && arrow.to === selected?.to) ?? null;
  return html`<div class="scroll diagram"><${Picture} drawing=${graphDrawing(graph, theme.value, setSelected, shown)} label=${`Diagram of ${lesson.title}`} /></div>
    <p class="buttons">${graph.arrows.filter((/** @type {Arrow} */ arrow) => arrow.matrix).map((/** @type {Arrow} */ arrow) => html`<button type="button" class="small" key=${arrow.from + arrow.to} aria-pressed=${arrow === shown} onClick=${() => setSelected(arrow === shown ? null : arrow)}>${arrow.matrix.name}: ${arrow.from} to ${arrow.to}</button>`).slice(0, 6)}</p>
    ${shown?.matrix ? html`<${LessonMatrix} matrix=${shown.matrix} />` : null}`;
}
