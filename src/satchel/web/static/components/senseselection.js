// "That trick was sick": the slide, the arithmetic, and a repair side by side.

import { html, useState } from '../lib.js';
import { fixed, percent } from '../format.js';
import { rgb, theme } from '../theme.js';
import { Bar, Segmented } from './controls.js';

/** @param {any} lesson @param {string} title @param {string} name */
function find(lesson, title, name) {
  const step = lesson.steps.find((/** @type {any} */ each) => each.title.startsWith(title));
  return step?.matrices.find((/** @type {any} */ matrix) => matrix.name === name);
}

/** Constructions that repair the example: label, title of the step, name of its weights, name of the sum. @type {[string, string, string, string][]} */
const REPAIRS = [
  ['diagonal gate', 'Solution: a diagonal gate', 'diagonal', 'A V, summed'],
  ['log weights', 'Solution: log sense weights', 'attention weights', 'times V, summed'],
  ['mask, scale b', 'Approximate solution: large scores', 'sick', 'times V, summed'],
  ['sink key', 'Approximate solution: a sink key', 'attention weights', 'times V, summed'],
  ['Backpack form', 'Solution: the Backpack', 'o of sick', 'sentiment of the first row'],
];
const TOPICS = ['positive', 'negative', 'skateboarding', 'health'];

/** @param {{lesson: any}} properties */
export function SenseSelection({ lesson }) {
  const [repair, setRepair] = useState('log weights');
  const [, title, weights, sum] = REPAIRS.find(([name]) => name === repair) ?? REPAIRS[0];
  const columns = [
    { name: 'Slide', note: 'Printed softmax', weights: find(lesson, 'The printed result', 'printed softmax'), sum: find(lesson, 'The printed result', 'printed, times V, summed'), isWrong: true },
    { name: 'Arithmetic', note: 'softmax(QKᵀ/√4) as computed', weights: find(lesson, 'Check: the softmax', 'attention weights'), sum: find(lesson, 'Check: the softmax', 'times V, summed'), isWrong: true },
    { name: 'Repair', note: title.split(': ')[1], weights: find(lesson, title, weights), sum: find(lesson, title, sum), isWrong: false },
  ];
  return html`<div class="three-columns">${columns.map((column) => html`<section class="bare" key=${column.name}><div class="section-head"><h2>${column.name}</h2><span class="note">${column.note}</span></div>
    ${column.weights ? html`<${Weights} matrix=${column.weights} />` : null}
    ${column.name === 'Repair' ? html`<${Segmented} label="Construction" hidden value=${repair} options=${REPAIRS.map(([name]) => [name, name])} onChange=${setRepair} />` : null}
    ${column.sum ? html`<${Sum} values=${column.sum.values[0]} isWrong=${column.isWrong} weights=${column.weights} />` : null}</section>`)}</div>`;
}

/** Weights with their row sums; a sum that is not 1 is marked. @param {{matrix: any}} properties */
function Weights({ matrix }) {
  const look = theme.value;
  const isSquare = matrix.values.length > 1;
  return html`<div class="scroll"><table class="sense-weights"><caption class="hidden">${matrix.name}</caption>${matrix.columns.length ? html`<thead><tr><td></td>${matrix.columns.map((/** @type {string} */ text, /** @type {number} */ index) => html`<th scope="col" key=${index}>${text}</th>`)}${isSquare ? html`<th scope="col">sum</th>` : null}</tr></thead>` : null}
    <tbody>${matrix.values.map((/** @type {number[]} */ row, /** @type {number} */ index) => {
    const sum = row.reduce((total, value) => total + value, 0);
    return html`<tr key=${index}><th scope="row" class="serif">${matrix.rows[index] ?? ''}</th>${row.map((value, place) => html`<td class="cell-ink" key=${place} style=${{ background: rgb(look.cell(Math.max(-1, Math.min(1, value)))) }}>${Math.abs(value) < 0.005 ? '' : fixed(value, Number.isInteger(value) ? 0 : 2).replace(/^0/, '')}</td>`)}
      ${isSquare ? html`<td class=${Math.abs(sum - 1) > 1e-6 ? 'neg-text' : ''}><strong>${fixed(sum, Number.isInteger(sum) ? 0 : 2)}</strong></td>` : null}</tr>`;
  })}</tbody></table></div>`;
}

/** The summed output with one sentence. @param {any} properties */
function Sum({ values, isWrong, weights }) {
  const numbers = values.slice(0, 4);
  const largest = Math.max(...numbers.map(Math.abs), 1);
  const off = (weights?.values ?? []).filter((/** @type {number[]} */ row) => Math.abs(row.reduce((sum, value) => sum + value, 0) - 1) > 1e-6).length;
  const share = numbers[0] / (numbers[0] + numbers[1] || 1);
  const text = `Gives (${numbers.map((/** @type {number} */ value) => fixed(value, Number.isInteger(value) ? 0 : 3)).join(', ')}): ${percent(share)} positive.${isWrong && off ? ` ${off} rows do not sum to 1, which no softmax can produce.` : ''}`;
  return html`<p class="caption">weights × V, summed over rows</p><ul class="attribution">${numbers.map((/** @type {number} */ value, /** @type {number} */ index) => html`<li key=${index}><span>${TOPICS[index]}</span><${Bar} share=${Math.abs(value) / largest} class=${`full ${index === 1 ? 'neg' : 'pos'}`} /><span>${fixed(value)}</span></li>`)}</ul>
    <p class=${`verdict ${isWrong ? 'wrong' : ''}`}>${text}</p>`;
}
