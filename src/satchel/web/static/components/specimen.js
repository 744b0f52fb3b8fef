// A bundled model with one real result, which opens its first page with that text.

import { html } from '../lib.js';
import { useRequest } from '../api.js';
import { figures } from './shell.js';
import { examplesOf } from '../examples.js';
import { fixed, kindName, label, signed } from '../format.js';
import { firstPage, go } from '../state.js';
import { Bar, Token } from './controls.js';

const TASKS = /** @type {Record<string, string>} */ ({ lm: 'language model', classify: 'classifier', tag: 'tagger', translate: 'translator' });
const REQUESTS = /** @type {Record<string, [string, object]>} */ ({ lm: ['next', { top: 4 }], classify: ['classify', {}], tag: ['tag', {}], translate: ['translate', {}] });

/** @param {{run: any}} properties */
export function Specimen({ run }) {
  const text = examplesOf(run)[0];
  const [name, options] = REQUESTS[run.task];
  const request = useRequest(name, { run: run.run, text, ...options });
  const short = run.run.replace('@model:', '');
  return html`<article class="specimen"><button type="button" class="specimen-button" onClick=${() => go(firstPage(run), { run: run.run, text, at: null, target: '', versus: '' })}>
    <span><strong>${short}</strong> <span class="caption">${kindName(run.model)} ${TASKS[run.task]}</span></span><span class="serif specimen-text">${text}</span></button>
    <div class="specimen-result">${request.data ? html`<${Outcome} task=${run.task} data=${request.data} />` : null}</div><p class="caption">${figures(run)}</p></article>`;
}

/** @param {{task: string, data: any}} properties */
function Outcome({ task, data }) {
  if (task === 'lm') return html`<ul>${data.tokens.map((/** @type {any} */ each) => html`<li key=${each.id} class="specimen-row"><${Token} ...${each} /><${Bar} share=${each.probability / data.tokens[0].probability} /><span class="caption">${fixed(each.probability)}</span></li>`)}</ul>`;
  if (task === 'tag') return html`<p class="specimen-tags">${data.predictions[0].tokens.map((/** @type {string} */ token, /** @type {number} */ index) => html`<span key=${index}><span class="serif">${label(token)}</span><span class="caption">${data.predictions[0].tags[index]}</span></span>`)}</p>`;
  if (task === 'translate') return html`<p class="serif specimen-target">${data.translations[0].target}</p>`;
  const prediction = data.predictions[0];
  const sums = new Map();
  for (const each of prediction.contributions ?? []) if (each.label === prediction.label) sums.set(each.position, { word: each.word, value: (sums.get(each.position)?.value ?? 0) + each.centred });
  const largest = Math.max(...[...sums.values()].map((each) => Math.abs(each.value)), 1e-9);
  return html`<p><strong>${prediction.label}</strong> <span class="caption">${fixed(prediction.probabilities[prediction.label])}</span></p><ul>${[...sums.values()].slice(0, 5).map((each, index) => html`<li key=${index} class="specimen-row"><${Token} text=${each.word} /><${Bar} share=${Math.abs(each.value) / largest} class=${each.value < 0 ? 'neg' : 'pos'} /><span class="caption">${signed(each.value, 2)}</span></li>`)}</ul>`;
}
