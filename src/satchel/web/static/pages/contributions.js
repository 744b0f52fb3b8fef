// Which sense of which word raised a logit? The terms, their sum, and the logit of the forward pass.

import { html, useMemo, useState } from '../lib.js';
import { useRequest } from '../api.js';
import { Link, Section, Segmented, Token } from '../components/controls.js';
import { Distribution } from '../components/distribution.js';
import { Matrix, matrixDrawing } from '../components/matrix.js';
import { useReproduction } from '../components/reproduce.js';
import { Failure, Result } from '../components/states.js';
import { waterfallDrawing } from '../components/waterfall.js';
import { useWidth } from '../components/width.js';
import { Picture, stack } from '../drawing.js';
import { fixed, label, percent, signed } from '../format.js';
import { go, openRun, set, subject, tokens } from '../state.js';
import { theme } from '../theme.js';

const MOST_WORDS = 24;
const TOLERANCE = 1e-4;

/** The text that is explained, and its next tokens, labels or tags as possible targets. @param {any} run @param {string} text */
function useTargets(run, text) {
  const at = subject.at.value;
  const isLm = run.task === 'lm';
  // With a selected token, the text before it is explained, and the token is the default target.
  const isBefore = isLm && at !== null && at > 0 && at < tokens.value.length;
  const prefix = isBefore ? tokens.value.slice(0, at).map((token) => token.piece ?? token.text).join('') : text;
  const next = useRequest('next', isLm && prefix ? { run: run.run, text: prefix, top: 8 } : null);
  const labels = useRequest('classify', run.task === 'classify' && text ? { run: run.run, text, contributions: false } : null);
  const tags = useRequest('tag', run.task === 'tag' && text ? { run: run.run, text } : null);
  if (isLm) return { prefix, request: next, entries: next.data?.tokens ?? [], present: isBefore ? tokens.value[at].text : null };
  if (run.task === 'classify') {
    const probabilities = labels.data?.predictions[0].probabilities ?? {};
    const entries = Object.entries(probabilities).map(([name, probability]) => ({ text: name, probability })).sort((a, b) => b.probability - a.probability);
    return { prefix: text, request: labels, entries, present: null };
  }
  const tagged = tags.data?.predictions[0];
  const entries = tagged ? tagged.tokens.map((/** @type {string} */ _, /** @type {number} */ index) => ({ text: `${index}:${tagged.tags[index]}`, probability: tagged.probabilities[index] })).slice(0, 40) : [];
  return { prefix: text, request: tags, entries, present: at !== null && entries[at] ? entries[at].text : null };
}

/** @param {{modes: any}} properties */
export function Contributions({ modes: Modes }) {
  const run = openRun.value;
  const [isRaw, setRaw] = useState(false);
  const [typed, setTyped] = useState('');
  const { prefix, request: listed, entries, present } = useTargets(run, subject.text.value);
  const target = subject.target.value || present || entries[0]?.text || '';
  const versus = subject.versus.value;
  // The text of a token can also be that of a word with a space before it: the id is exact.
  const exact = (/** @type {string} */ text) => {
    const entry = entries.find((/** @type {any} */ each) => each.text === text);
    return entry?.id !== undefined && !text.startsWith(' ') ? `id:${entry.id}` : text;
  };
  const body = { run: run.run, text: prefix, target: exact(target), ...(versus ? { versus: exact(versus) } : {}) };
  const request = useRequest('contributions', prefix && target ? body : null);
  const name = target.trim() || label(target);
  const choose = (/** @type {any} */ entry) => set({ target: entry.text, versus: entry.text === versus ? '' : versus });
  const title = run.task === 'lm' ? 'Next token' : run.task === 'classify' ? 'Label' : 'Token and tag';
  return html`<div class="view-head"><h1>Contributions to <span class="serif">${name}</span>${versus ? html` over <span class="serif">${versus.trim()}</span>` : null}</h1><${Modes} />
      <span class="summary">Every logit of a Backpack is an exact sum over (word, sense).</span><span class="spacer"></span>
      <${Segmented} label="Values" value=${isRaw ? 'raw' : 'centred'} options=${[['centred', 'centred'], ['raw', 'raw']]} onChange=${(/** @type {string} */ value) => setRaw(value === 'raw')} /></div>
    <div class="columns context-columns"><div><${Section} class="bare" title=${title} note="probability"><div class="reserved"><${Failure} error=${listed.error} />
        <${Distribution} entries=${entries} chosen=${target} label=${title} onChoose=${choose} /></div>
        ${run.task === 'lm' ? html`<form class="other-token" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); if (typed.trim()) set({ target: typed }); }}>
          <label><span class="caption">Other token</span><input type="text" value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} /></label></form>` : null}<//>
      <${Section} title="Compare with"><p class="caption">Explain the lead of <span class="serif">${name}</span> over another one instead.</p>
        <select aria-label="Compare with" value=${versus} onChange=${(/** @type {any} */ event) => set({ versus: event.target.value })}><option value="">nothing</option>
          ${entries.filter((/** @type {any} */ entry) => entry.text !== target).map((/** @type {any} */ entry) => html`<option key=${entry.text} value=${entry.text}>versus ${label(entry.text)}</option>`)}</select><//></div>
    <${Result} request=${request} rows=${14}>${(/** @type {any} */ data) => html`<${Sum} data=${data} isRaw=${isRaw} name=${name} body=${body} />`}<//>
    <div class="detail">${request.data ? html`<${SensePanel} data=${request.data} isRaw=${isRaw} />` : null}</div></div>`;
}

/** The selected cell: word and sense. @param {any} data @param {number[][]} values */
function selectedCell(data, values) {
  const sense = subject.sense.value;
  let best = [0, 0];
  values.forEach((row, i) => row.forEach((value, j) => { if (Math.abs(value) > Math.abs(values[best[0]][best[1]])) best = [i, j]; }));
  if (sense === null || sense >= values[0].length) return best;
  const row = subject.word.value ? data.words.findIndex((/** @type {string} */ word) => word.trim() === subject.word.value) : best[0];
  return [row < 0 ? best[0] : row, sense];
}

/** @param {any} properties */
function Sum({ data, isRaw, name, body }) {
  const [holder, width] = useWidth(600);
  const [shown, setShown] = useState(8);
  const [cell, setCell] = useState(/** @type {[number, number] | null} */ (null));
  const values = /** @type {number[][]} */ (isRaw ? data.values : data.centred);
  const first = isRaw ? { name: 'bias of the head', value: data.constant } : { name: 'mean over vocabulary', value: data.bias };
  const selected = cell && cell[0] < data.words.length ? cell : selectedCell(data, values);
  const parts = useMemo(() => {
    const sums = values.map((row) => row.reduce((sum, value) => sum + value, 0));
    const order = sums.map((_, index) => index).sort((a, b) => Math.abs(sums[b]) - Math.abs(sums[a]));
    const kept = order.slice(0, MOST_WORDS).sort((a, b) => a - b);
    const others = order.slice(MOST_WORDS);
    const senses = values[0].map((_, sense) => sense);
    const rest = senses.map((sense) => others.reduce((sum, index) => sum + values[index][sense], 0));
    const rows = [...kept.map((index) => values[index]), ...(others.length ? [rest] : [])];
    const matrix = {
      rows: [...kept.map((index) => data.words[index]), ...(others.length ? ['others'] : [])], columns: senses.map(String), values: rows, causal: false,
      scale: /** @type {const} */ ('signed'), largest: Math.max(...rows.flat().map(Math.abs)), decimals: 2, cell: 31,
      wide: Math.max(33, Math.min(52, Math.floor((width - 200) / senses.length))),
    };
    const terms = values.flatMap((row, index) => row.map((value, sense) => ({ key: `${index}:${sense}`, name: label(data.words[index]), sense, value })));
    return { matrix, kept, rowSums: rows.map((row) => row.reduce((sum, value) => sum + value, 0)), columnSums: senses.map((sense) => rows.reduce((sum, row) => sum + row[sense], 0)), terms };
  }, [data, isRaw, width]);
  const sum = parts.terms.reduce((total, term) => total + term.value, 0) + first.value;
  const select = (/** @type {number} */ row, /** @type {number} */ sense) => {
    setCell([row, sense]);
    set({ sense, word: data.words[row].trim() });
  };
  const waterfall = (/** @type {import('../theme.js').Theme} */ look) => waterfallDrawing({ terms: parts.terms, first, logit: data.logit, target: name, shown, selected: `${selected[0]}:${selected[1]}` }, look, Math.max(320, width), (key) => select(.../** @type {[number, number]} */ (key.split(':').map(Number))));
  useReproduction({ name: 'contributions', terminal: data.terminal, python: data.python, http: ['contributions', body], json: data, drawing: (look) => stack([matrixDrawing(parts.matrix, look), waterfall(look)]) }, [data, isRaw, width, shown]);
  const isWrong = Math.abs(sum - data.logit) > TOLERANCE;
  const row = parts.kept.indexOf(selected[0]);
  return html`<div ref=${holder}>${data.notes.map((/** @type {string} */ note) => html`<p class="caption" key=${note}>${note}</p>`)}
    <${Section} class="bare" title="Contributions" note="word × sense; blue raises the logit, orange lowers it">
      <div class="sum-matrix"><${Matrix} data=${parts.matrix} at=${null} chosen=${row < 0 ? null : [row, selected[1]]} name="Contributions" verb="sense" onSelect=${() => {}}
        onCell=${(/** @type {number} */ i, /** @type {number} */ j) => { if (i < parts.kept.length) select(parts.kept[i], j); }} />
        <${Sums} matrix=${parts.matrix} rowSums=${parts.rowSums} /></div>
      <p class="column-sums caption">sums by sense: ${parts.columnSums.map((value, sense) => html`<span key=${sense}>${sense}: <strong>${signed(value, 2)}</strong></span> `)} all: <strong>${signed(parts.rowSums.reduce((total, value) => total + value, 0), 2)}</strong></p><//>
    <${Section} title="Adding up" note=${`largest ${Math.min(shown, parts.terms.length)} first`} actions=${html`<button type="button" class="small" aria-label="Fewer terms" disabled=${shown <= 4} onClick=${() => setShown(shown - 2)}>−</button> <button type="button" class="small" aria-label="More terms" disabled=${shown >= 20} onClick=${() => setShown(shown + 2)}>+</button>`}>
      <div class="scroll"><${Picture} drawing=${waterfall(theme.value)} label=${`Terms that add up to the logit ${fixed(data.logit)} of ${name}`} /></div>
      <p class=${`sum-line caption${isWrong ? ' wrong' : ''}`}>${isWrong ? 'The sum differs from the logit: this is a bug. ' : ''}sum of ${parts.terms.length} terms and the ${isRaw ? 'bias' : 'mean'}: ${fixed(sum, 6)}; logit from the forward pass: ${fixed(data.logit, 6)}</p><//></div>`;
}

/** The sums of the rows, beside the matrix. @param {any} properties */
const Sums = ({ matrix, rowSums }) => html`<ul class="row-sums" aria-label="Sums of the words" style=${{ lineHeight: `${matrix.cell}px` }}>
  ${rowSums.map((/** @type {number} */ value, /** @type {number} */ row) => html`<li key=${row}><span class="hidden">${matrix.rows[row]}</span>${signed(value, 2)}</li>`)}</ul>`;

/** The selected sense of the selected word. @param {any} properties */
function SensePanel({ data, isRaw }) {
  const run = openRun.value;
  const values = isRaw ? data.values : data.centred;
  const [row, sense] = selectedCell(data, values);
  const word = data.words[row];
  const isWord = !data.word_roles[row] && /\S/.test(word);
  const request = useRequest('senses', isWord ? { run: run.run, words: [word], sense, top: 8 } : null);
  const described = request.data?.words[0]?.senses[0];
  const value = values[row][sense];
  return html`<h1 class="panel-title"><span class="serif">${word.trim() || label(word)}</span> <span class="note">· sense ${sense}</span></h1>
    <p>adds <strong class=${value < 0 ? 'neg-text' : 'pos-text'}>${signed(value)}</strong> here.${described?.share ? html` ${percent(described.share)} of what <span class="serif">${word.trim()}</span> adds to the training text.` : null}</p>
    ${described ? html`<div class="two-lists"><div><span class="caption">promotes</span>${described.promotes.map(listed)}</div><div><span class="caption">suppresses</span>${described.suppresses.slice(0, 5).map(listed)}</div></div>` : html`<div class="two-lists reserved"></div>`}
    <section><div class="buttons links">${isWord ? html`<${Link} onClick=${() => go('senses', { word: word.trim() })}>All senses of <span class="serif">${word.trim()}</span><//>` : null}<${Link} onClick=${() => go('edit')}>Open in Edit<//></div></section>`;
}

/** @param {any} each */
const listed = (each) => html`<div class="listed" key=${each.word}><${Token} text=${each.word} role=${each.role} /><span class="caption">${signed(each.score, 2)}</span></div>`;
