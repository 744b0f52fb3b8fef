// Attention by hand in one table: a row per letter, and the columns of the steps reached so far.

import { html } from '../lib.js';
import { fraction } from '../format.js';
import { Bar } from './controls.js';
import { NumberCell } from './numbercell.js';

/** @param {any} lesson @param {number} step @param {string} name */
const find = (lesson, step, name) => lesson.steps[step - 1].matrices.find((/** @type {any} */ matrix) => matrix.name === name).values;

/** @param {{lesson: any, number: number, onChange: (name: string, value: any) => void}} properties */
export function AttentionTable({ lesson, number, onChange }) {
  const embeddings = find(lesson, 1, 'E');
  const letters = lesson.steps[0].matrices[0].rows;
  const [query] = find(lesson, 1, 'q');
  const [scores] = find(lesson, 2, 'scores');
  const [weights] = find(lesson, 3, 'attention weights');
  const [output] = find(lesson, 4, 'output');
  const base = lesson.inputs.find((/** @type {any} */ input) => input.name === 'base').values[0][0];
  const powers = scores.map((/** @type {number} */ score) => base ** score);
  const total = powers.reduce((/** @type {number} */ sum, /** @type {number} */ power) => sum + power, 0);
  const band = (/** @type {number} */ step) => (step === number ? 'now' : step > number ? 'later' : '');
  const value = (/** @type {number} */ step, /** @type {number} */ shown) => (step > number ? html`<span class="dashed"><span class="hidden">in a later step</span></span>` : fraction(shown));
  return html`<div class="query-row"><span class="caption">query</span> <em class="serif">q</em> = ${query.map((/** @type {number} */ each, /** @type {number} */ index) => html`<${NumberCell} key=${index} value=${each} label=${`q ${'AB'[index] ?? index}`}
      onChange=${(/** @type {number} */ next) => onChange('q', query.map((/** @type {number} */ other, /** @type {number} */ place) => (place === index ? next : other)))} />`)} <span class="caption">drag a number sideways, or type; <kbd>Tab</kbd> goes to the next</span></div>
    <div class="scroll"><table class="attention-table"><thead><tr><td></td><th scope="col" colspan="2">embedding = key</th><th scope="col" class=${band(2)}>score</th><th scope="col" class=${band(3)}>power</th><th scope="col" class=${band(3)} colspan="2">weight</th><th scope="col" class=${band(4)} colspan="2">weight × embedding</th></tr></thead>
    <tbody>${letters.map((/** @type {string} */ letter, /** @type {number} */ row) => html`<tr key=${row}><th scope="row" class="serif letter">${letter}</th>${embeddings[row].map((/** @type {number} */ each, /** @type {number} */ index) => html`<td class="number" key=${index}>${fraction(each)}</td>`)}
      <td class=${`number ${band(2)}`}>${value(2, scores[row])}</td><td class=${`number ${band(3)}`}>${value(3, powers[row])}</td><td class=${`bar-cell ${band(3)}`}>${number >= 3 ? html`<${Bar} share=${weights[row]} class="full" />` : null}</td><td class=${`number ${band(3)}`}>${value(3, weights[row])}</td>
      ${embeddings[row].map((/** @type {number} */ each, /** @type {number} */ index) => html`<td class=${`number ${band(4)}`} key=${index}>${value(4, weights[row] * each)}</td>`)}</tr>`)}
      <tr class="sums"><th scope="row">sum</th><td></td><td></td><td class=${band(2)}></td><td class=${`number ${band(3)}`}>${value(3, total)}</td><td class=${band(3)}></td><td class=${`number ${band(3)}`}>${value(3, weights.reduce((/** @type {number} */ sum, /** @type {number} */ each) => sum + each, 0))}</td>
        ${output.map((/** @type {number} */ each, /** @type {number} */ index) => html`<td class=${`number ${band(4)}`} key=${index}>${value(4, each)}</td>`)}</tr></tbody></table></div>`;
}
