// Which label, because of which words? And what if the text were different?

import { html, signal, useEffect, useMemo, useState } from '../lib.js';
import { useRequest } from '../api.js';
import { Bar, Link, Section, Segmented } from '../components/controls.js';
import { useReproduction } from '../components/reproduce.js';
import { Failure, Result } from '../components/states.js';
import { largestWords, stackedDrawing } from '../components/stacked.js';
import { useWidth } from '../components/width.js';
import { Picture } from '../drawing.js';
import { fixed, probability, signed } from '../format.js';
import { pieceOf } from '../pieces.js';
import { openRun, set, subject, tokens } from '../state.js';
import { rgb, theme } from '../theme.js';

const MOST_TERMS = 40;

/** Texts that were classified, by run: the rows of What if. */
const tried = signal(/** @type {Record<string, {text: string, label: string, probability: number, isPinned?: boolean}[]>} */ ({}));

export function Page() {
  const run = openRun.value;
  const text = subject.text.value;
  const [isRaw, setRaw] = useState(false);
  const body = { run: run.run, text };
  const request = useRequest('classify', text ? body : null);
  const prediction = request.data?.predictions[0];
  const names = prediction ? Object.keys(prediction.probabilities) : [];
  const target = names.includes(subject.target.value) ? subject.target.value : prediction?.label ?? '';
  useEffect(() => {
    if (!prediction) return;
    const rows = tried.value[run.run] ?? [];
    if (rows.some((row) => row.text === prediction.text)) return;
    tried.value = { ...tried.value, [run.run]: [...rows, { text: prediction.text, label: prediction.label, probability: prediction.probabilities[prediction.label] }] };
  }, [prediction]);
  const options = /** @type {[string, string][]} */ (names.slice(0, 6).map((name) => [name, name]));
  return html`<div class="view-head"><h1>${prediction?.label ?? '…'} <span class="note">${prediction ? `probability ${probability(prediction.probabilities[prediction.label])}` : ''}</span></h1><span class="spacer"></span>
      ${names.length > 6 ? html`<label class="caption">Explain <select value=${target} onChange=${(/** @type {any} */ event) => set({ target: event.target.value })}>${names.map((name) => html`<option key=${name}>${name}</option>`)}</select></label>`
        : options.length ? html`<${Segmented} label="Explain" value=${target} options=${options} onChange=${(/** @type {string} */ value) => set({ target: value })} />` : null}
      ${prediction?.contributions ? html`<${Segmented} label="Values" value=${isRaw ? 'raw' : 'centred'} options=${[['centred', 'centred'], ['raw', 'raw']]} onChange=${(/** @type {string} */ value) => setRaw(value === 'raw')} />` : null}</div>
    <${Result} request=${request} rows=${12}>${(/** @type {any} */ data) => html`<${Explanation} data=${data} target=${target} isRaw=${isRaw} body=${body} />`}<//>`;
}

/** The terms of a prediction by word. @param {any} prediction @param {string} label @param {boolean} isRaw */
function byWord(prediction, label, isRaw) {
  /** @type {Map<number, {word: string, role: string | null, parts: {sense: number, value: number}[]}>} */
  const words = new Map();
  for (const each of prediction.contributions) {
    if (each.label !== label) continue;
    const entry = words.get(each.position) ?? { word: each.word, role: each.role, parts: /** @type {any[]} */ ([]) };
    entry.parts.push({ sense: each.sense, value: isRaw ? each.value : each.centred });
    words.set(each.position, entry);
  }
  return [...words.entries()].sort(([a], [b]) => a - b).map(([, entry]) => entry);
}

/** @param {any} properties */
function Explanation({ data, target, isRaw, body }) {
  const [holder, width] = useWidth(720);
  const prediction = data.predictions[0];
  const words = useMemo(() => (prediction.contributions ? byWord(prediction, target, isRaw) : []), [data, target, isRaw]);
  const terms = words.flatMap((word) => word.parts);
  const bias = prediction.contributions ? (isRaw ? prediction.bias : prediction.centred_bias)[target] : 0;
  const logit = prediction.logits?.[target];
  const sum = terms.reduce((total, term) => total + term.value, bias);
  const at = subject.at.value;
  const select = (/** @type {number} */ word) => { if (word >= 0) set({ at: word === at ? null : word }); };
  const drawing = (/** @type {import('../theme.js').Theme} */ look) => stackedDrawing({ words: largestWords(words), bias, logit }, look, width, at, select);
  useReproduction({ name: 'classify', terminal: data.terminal, python: data.python, http: ['classify', body], json: data, drawing: prediction.contributions ? drawing : null }, [data, target, isRaw, width, at]);
  const sorted = Object.entries(prediction.probabilities).sort(([, a], [, b]) => /** @type {number} */ (b) - /** @type {number} */ (a));
  return html`<div class="columns classify-columns"><div ref=${holder}>${prediction.contributions ? html`
      <${Section} class="bare" title=${`Contribution to the logit of ${target}`} note="one block per sense; blue raises, orange lowers">
        <div class="scroll"><${Picture} drawing=${drawing(theme.value)} label=${`Contributions of the words to the logit ${fixed(logit)} of ${target}`} /></div>
        <p class="caption">sum of ${terms.length} terms and the bias: ${fixed(sum, 6)}; logit from the forward pass: ${fixed(logit, 6)}</p><//>`
      : html`<${Approximate} body=${body} target=${target} />`}
      <${WhatIf} /></div>
    <div><${Section} class="bare" title="Probabilities"><ul class="probabilities">${sorted.slice(0, 12).map(([name, value]) => html`<li key=${name}><span class=${name === prediction.label ? 'first' : ''}>${name}</span>
        <${Bar} share=${value} class=${`full ${name === prediction.label ? 'ink' : ''}`} /><span class="value">${probability(/** @type {number} */ (value))}</span></li>`)}</ul><//>
      ${prediction.contributions ? html`<${Terms} prediction=${prediction} isRaw=${isRaw} />` : null}</div></div>`;
}

/** Every term, with a colour per cell. @param {any} properties */
function Terms({ prediction, isRaw }) {
  const [isWhole, setWhole] = useState(false);
  const names = Object.keys(prediction.probabilities).slice(0, 6);
  const columns = names.map((name) => byWord(prediction, name, isRaw));
  const look = theme.value;
  const rows = columns[0].flatMap((word, index) => word.parts.map((part, each) => ({
    word: each === 0 ? word.word : '', sense: part.sense, role: word.role, values: columns.map((column) => column[index].parts[each].value) })));
  const largest = Math.max(...rows.flatMap((row) => row.values.map(Math.abs)), 1e-9);
  const shown = isWhole ? rows : rows.slice(0, MOST_TERMS);
  const bias = isRaw ? prediction.bias : prediction.centred_bias;
  const cell = (/** @type {number} */ value, /** @type {number} */ index) => html`<td class="dense right cell-ink" key=${index} style=${{ background: rgb(look.cell(value / largest)) }}>${signed(value)}</td>`;
  return html`<${Section} title="Every term" note="word, sense, label"><div class="scroll"><table class="terms"><thead><tr><th scope="col">word</th><th scope="col">sense</th>${names.map((name) => html`<th scope="col" class="right" key=${name}>${name}</th>`)}</tr></thead>
    <tbody>${shown.map((row, index) => html`<tr key=${index}><td class=${`dense ${row.role ? 'caption' : 'serif'}`}>${row.word}</td><td class="dense">${row.sense}</td>${row.values.map(cell)}</tr>`)}
      <tr><td class="dense">bias</td><td class="dense"></td>${names.map((name) => html`<td class="dense right" key=${name}>${signed(bias[name])}</td>`)}</tr>
      <tr><td class="dense"><strong>logit</strong></td><td class="dense"></td>${names.map((name) => html`<td class="dense right" key=${name}><strong>${fixed(prediction.logits[name])}</strong></td>`)}</tr></tbody></table></div>
    ${rows.length > MOST_TERMS ? html`<${Link} onClick=${() => setWhole(!isWhole)}>${isWhole ? 'Show fewer' : `Show all ${rows.length} terms`}<//>` : null}<//>`;
}

/** Attribution of a model whose logits are not sums over words. @param {any} properties */
function Approximate({ body, target }) {
  const run = openRun.value;
  const request = useRequest('attribution', run.model === 'ngram' ? null : { ...body, target, method: 'occlusion' });
  const entry = request.data?.methods?.[0];
  const values = /** @type {number[]} */ (entry?.values ?? entry?.scores ?? []);
  const largest = Math.max(...values.map(Math.abs), 1e-9);
  if (run.model === 'ngram') return html`<${Section} class="bare" title="No explanation"><p class="caption">An n-gram classifier compares the probabilities of the whole text under one model per label.</p><//>`;
  return html`<${Section} class="bare" title="Approximate attribution" note="change of the logit when a word is replaced by the mean embedding"><${Failure} error=${request.error} />
    <ul class="attribution">${values.map((value, index) => html`<li key=${index}><span class="serif">${request.data.words[index]}</span><${Bar} share=${Math.abs(value) / largest} class=${value < 0 ? 'neg' : 'pos'} /><span class=${value < 0 ? 'neg-text' : 'pos-text'}>${signed(value)}</span></li>`)}</ul><//>`;
}

/** Variants of the text, and words to replace the selected one with. */
function WhatIf() {
  const run = openRun.value;
  const rows = tried.value[run.run] ?? [];
  const [word, setWord] = useState('');
  const at = subject.at.value;
  const token = at === null ? null : tokens.value[at];
  const similar = useRequest('similar', token && !token.role && run.model !== 'ngram' ? { run: run.run, word: token.text.trim(), by: 'embedding', top: 10 } : null);
  const near = similar.data?.words ?? similar.data?.senses?.[0]?.words ?? [];
  const replace = (/** @type {string} */ next) => {
    if (at === null || !next.trim()) return;
    const space = /^\s*/.exec(pieceOf(tokens.value[at]))?.[0] ?? '';
    set({ text: tokens.value.map((each, index) => (index === at ? space + next.trim() : pieceOf(each))).join('') });
    setWord('');
  };
  const change = (/** @type {(rows: any[]) => any[]} */ edit) => { tried.value = { ...tried.value, [run.run]: edit(rows) }; };
  const first = (rows[0]?.text ?? '').split(/\s+/);
  const ordered = [...rows].sort((a, b) => Number(Boolean(b.isPinned)) - Number(Boolean(a.isPinned)));
  return html`<${Section} title="What if" note="edit the text above, or select a word to replace; every variant stays here"
      actions=${rows.length > 1 ? html`<${Link} onClick=${() => change((all) => all.filter((row) => row.isPinned || row.text === subject.text.value))}>Remove all but pinned<//>` : null}>
    <div class="replacements">${token && !token.role ? html`<form onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); replace(word); }}><label><span class="caption">instead of <span class="serif">${token.text.trim()}</span></span>
        <input type="text" value=${word} onInput=${(/** @type {any} */ event) => setWord(event.target.value)} /></label></form>
        ${near.map((/** @type {any} */ each) => html`<${Link} key=${each.word} class="link serif" onClick=${() => replace(each.word)}>${each.word.trim()}<//>`)}` : html`<p class="caption">Select a word in the text or in the drawing.</p>`}</div>
    <div class="scroll"><table class="variants"><thead class="hidden"><tr><th>text</th><th>label</th><th>probability</th><th>pin</th></tr></thead><tbody>${ordered.map((row) => html`<tr key=${row.text} class=${row.text === subject.text.value ? 'chosen' : ''}>
      <td><button type="button" class="plain serif" onClick=${() => set({ text: row.text, at: null })}>${row.text.slice(0, 300).split(/(\s+)/).map((part, index) => (part.trim() && !first.includes(part) ? html`<u key=${index}>${part}</u>` : part))}</button></td>
      <td>${row.label}</td><td class="right">${probability(row.probability)}</td>
      <td class="right"><${Link} aria-pressed=${Boolean(row.isPinned)} onClick=${() => change((all) => all.map((each) => (each.text === row.text ? { ...each, isPinned: !each.isPinned } : each)))}>${row.isPinned ? 'Unpin' : 'Pin'}<//></td></tr>`)}</tbody></table></div><//>`;
}
