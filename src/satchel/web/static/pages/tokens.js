// The tokens of a text: ids, offsets, bytes; and the tokens of another run beside them.

import { html, useState } from '../lib.js';
import { useRequest } from '../api.js';
import { Section } from '../components/controls.js';
import { useReproduction } from '../components/reproduce.js';
import { Result } from '../components/states.js';
import { TokenText } from '../components/strip.js';
import { tokenDrawing } from '../components/tokentext.js';
import { count, fixed, label } from '../format.js';
import { pieceOf, placeTokens } from '../pieces.js';
import { openRun, runs, set, subject } from '../state.js';

const encoder = new TextEncoder();

/** Tokens with the offsets of their first character and of their end. @param {string} text @param {any[]} tokens */
function withOffsets(text, tokens) {
  let end = 0;
  return placeTokens(text, tokens).map((token) => {
    end += pieceOf(token).length;
    return { ...token, start: end - Math.min(pieceOf(token).length, token.role ? pieceOf(token).trimStart().length : token.text.length), end };
  });
}

export function Page() {
  const run = openRun.value;
  const text = subject.text.value;
  const [other, setOther] = useState('');
  const request = useRequest('tokenize', text ? { run: run.run, text } : null);
  const second = useRequest('tokenize', text && other ? { run: other, text } : null);
  const choices = (runs.value ?? []).filter((each) => each.run !== run.run && each.status !== 'damaged');
  return html`<div class="view-head"><h1>Tokens</h1><span class="summary">${request.data ? `${request.data.kind} tokenizer with ${count(request.data.size)} tokens` : ''}</span><span class="spacer"></span>
      <label class="caption">Beside it <select value=${other} onChange=${(/** @type {any} */ event) => setOther(event.target.value)}><option value="">no other run</option>
        ${choices.map((each) => html`<option key=${each.run}>${each.run}</option>`)}</select></label></div>
    <${Result} request=${request} rows=${6}>${(/** @type {any} */ data) => html`<${Tokens} data=${data} text=${text} run=${run.run} other=${other} second=${other ? second.data : null} error=${second.error} />`}<//>`;
}

/** @param {any} properties */
function Tokens({ data, text, run, other, second }) {
  const tokens = withOffsets(text, data.tokens);
  const others = second ? withOffsets(text, second.tokens) : [];
  const at = subject.at.value !== null && subject.at.value < tokens.length ? subject.at.value : null;
  const words = text.split(/\s+/).filter(Boolean).length;
  const ends = new Set(tokens.map((token) => token.end));
  const otherEnds = new Set(others.map((token) => token.end));
  const decorate = (/** @type {any} */ token, /** @type {number} */ index) => ({ class: `tile ${index % 2 ? 'odd' : ''} ${second && !otherEnds.has(token.end) ? 'differs' : ''}`, name: `id ${token.id}` });
  const decorateOther = (/** @type {any} */ token, /** @type {number} */ index) => ({ class: `tile ${index % 2 ? 'odd' : ''} ${ends.has(token.end) ? '' : 'differs'}`, name: `id ${token.id}` });
  useReproduction({ name: 'tokens', terminal: data.terminal, python: data.python, http: ['tokenize', { run, text }], json: data, drawing: (look) => tokenDrawing(tokens, look, false) }, [data]);
  const token = at === null ? null : tokens[at];
  return html`<div class="columns tokens-columns"><div><${Section} class="bare" title=${run} note=${`${count(tokens.length)} tokens, ${fixed(tokens.length / Math.max(1, words), 2)} per word, ${fixed(data.bytes / Math.max(1, tokens.length), 2)} bytes each${data.unknown ? `, ${data.unknown} unknown` : ''}`}>
        <div class="tiles"><${TokenText} tokens=${tokens} at=${at} label=${`Tokens of ${run}`} decorate=${decorate} onSelect=${(/** @type {number | null} */ next) => set({ at: next })} /></div><//>
      ${second ? html`<${Section} title=${other} note=${`${count(others.length)} tokens, ${fixed(others.length / Math.max(1, words), 2)} per word; tokens that end elsewhere are underlined`}>
        <div class="tiles"><${TokenText} tokens=${others} at=${null} label=${`Tokens of ${other}`} decorate=${decorateOther} onSelect=${() => {}} /></div><//>` : null}</div>
    <div class="detail"><h2>Selected token</h2>${token ? html`<table class="facts"><tbody>
        <tr><th scope="row">token</th><td class="serif">${label(token.text)}</td></tr><tr><th scope="row">id</th><td>${token.id}</td></tr>
        <tr><th scope="row">place</th><td>${/** @type {number} */ (at) + 1} of ${tokens.length}</td></tr><tr><th scope="row">characters</th><td>${token.start} to ${token.end}</td></tr>
        <tr><th scope="row">bytes</th><td><code>${[...encoder.encode(token.text)].map((byte) => byte.toString(16).padStart(2, '0')).join(' ')}</code></td></tr></tbody></table>`
      : html`<p class="caption">Select a token to see its id, its place and its bytes.</p>`}
      <section><h2>All tokens</h2><div class="all-tokens scroll" tabindex="0" role="region" aria-label="All tokens"><table><thead><tr><th scope="col">token</th><th scope="col" class="right">id</th><th scope="col" class="right">from</th></tr></thead>
        <tbody>${tokens.slice(0, 1000).map((each, index) => html`<tr key=${index} class=${index === at ? 'chosen' : ''}><td class="dense serif">${label(each.text)}</td><td class="dense right">${each.id}</td><td class="dense right">${each.start}</td></tr>`)}</tbody></table></div></section></div></div>`;
}
