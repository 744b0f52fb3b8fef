// Which tokens does a head attend to? One text, or two texts side by side.

import { html, useEffect, useMemo, useState } from '../lib.js';
import { useRequest } from '../api.js';
import { Link, Section, Segmented, Token } from '../components/controls.js';
import { bestPatterns, HeadGrid, readThumbnails } from '../components/heads.js';
import { linesDrawing } from '../components/lines.js';
import { Matrix, matrixDrawing, matrixLayout } from '../components/matrix.js';
import { useReproduction } from '../components/reproduce.js';
import { Result } from '../components/states.js';
import { Distribution } from '../components/distribution.js';
import { Picture } from '../drawing.js';
import { bits, fixed, label, signed } from '../format.js';
import { viewKeys } from '../keys.js';
import { firstPage, go, openRun, set, subject } from '../state.js';
import { theme } from '../theme.js';
import { LONG, WindowStrip } from '../components/window.js';
import { align } from '../align.js';

const KINDS = /** @type {[string, string][]} */ ([['source', 'Encoder'], ['own', 'Decoder'], ['cross', 'Cross']]);

export function Page() {
  const run = openRun.value;
  const text = subject.text.value;
  const [which, setWhich] = useState('');
  const [start, setStart] = useState(0);
  const [isPaired, setPaired] = useState(subject.text2.value !== '');
  const isLong = useLength(run, text);
  const scored = useRequest('score', isLong && run.task === 'lm' ? { run: run.run, text } : null);
  const base = { run: run.run, text, ...(which ? { which } : {}), ...(isLong ? { start, length: LONG } : {}) };
  const overview = useRequest('attention', text ? { ...base, thumbnails: true } : null);
  const patterns = useRequest('patterns', text && !isLong && run.task !== 'translate' ? { run: run.run, text } : null);
  const chosen = overview.data?.chosen ?? overview.data?.maps[0];
  const layer = subject.layer.value ?? chosen?.layer ?? 0;
  const head = subject.head.value ?? chosen?.head ?? 0;
  const place = overview.data ? { layer, head } : {};
  const isOverview = overview.data?.maps.some((/** @type {any} */ map) => map.layer === layer && map.head === head && map.weights);
  const single = useRequest('attention', text && overview.data && !isOverview ? { ...base, ...place } : null);
  const shown = isOverview ? overview : single;
  const thumbnails = useMemo(() => (overview.data?.thumbnails ? readThumbnails(overview.data.thumbnails) : null), [overview.data]);
  const best = useMemo(() => bestPatterns(patterns.data?.heads ?? []), [patterns.data]);
  const select = (/** @type {number} */ nextLayer, /** @type {number} */ nextHead) => set({ layer: nextLayer, head: nextHead });

  useEffect(() => {
    if (!thumbnails) return undefined;
    const { layers, heads } = thumbnails;
    const move = (/** @type {number} */ down, /** @type {number} */ across) => () =>
      select((layer + down + layers) % layers, (head + across + heads) % heads);
    Object.assign(viewKeys, { ArrowLeft: move(0, -1), ArrowRight: move(0, 1), ArrowUp: move(-1, 0), ArrowDown: move(1, 0) });
    return () => { for (const key of ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown']) delete viewKeys[key]; };
  }, [thumbnails, layer, head]);

  const pattern = best.get(`${layer}·${head}`);
  const kinds = run.task === 'translate' ? KINDS : run.model === 'backpack' ? /** @type {[string, string][]} */ ([['', 'Attention'], ['senses', 'Sense weights']]) : [];
  const unit = which === 'senses' ? 'sense' : 'head';
  return html`<div class="view-head"><h1>${which === 'senses' ? `Sense ${head}` : `Layer ${layer}, head ${head}`}</h1>
      <${Segmented} label="Texts" hidden value=${isPaired ? 'two' : 'one'} options=${[['one', 'One text'], ['two', 'Two texts']]} onChange=${(/** @type {string} */ value) => { setPaired(value === 'two'); if (value === 'one') set({ text2: '' }); }} />
      ${kinds.length ? html`<${Segmented} label="Weights" hidden value=${which || kinds[0][0]} options=${kinds} onChange=${(/** @type {string} */ value) => { setWhich(value); set({ layer: null, head: null }); }} />` : null}
      <span class="summary">${isPaired ? 'Aligned by common tokens; B minus A where both have the pair'
        : pattern ? `Pattern: ${pattern.pattern}, mean weight ${fixed(pattern.weight, 2)} (uniform attention would give ${fixed(pattern.chance, 2)})` : 'No pattern has a high mean weight in this text'}</span>
      <span class="spacer"></span><span class="caption keys-note"><kbd>←</kbd> <kbd>→</kbd> ${unit} <kbd>↑</kbd> <kbd>↓</kbd> layer <kbd>J</kbd> <kbd>K</kbd> token</span></div>
    ${isLong ? html`<${WindowStrip} start=${start} onStart=${setStart} values=${scored.data?.tokens.map((/** @type {any} */ token) => bits(token.logprob))} />` : null}
    ${isPaired ? html`<${TwoTexts} base=${base} layer=${layer} head=${head} />` : html`
    <${Result} request=${shown.data ? shown : { ...shown, error: overview.error ?? shown.error }} rows=${18}>${(/** @type {any} */ data) => html`
      <${OneText} data=${data} layer=${layer} head=${head} offset=${isLong ? start : 0} thumbnails=${thumbnails} best=${best} largest=${overview.data?.thumbnails?.largest ?? null} onHead=${select} body=${{ ...base, layer, head }} />`}<//>`}`;
}

/** Whether a text has more tokens than one window shows. @param {any} run @param {string} text */
function useLength(run, text) {
  const request = useRequest('tokenize', text ? { run: run.run, text } : null);
  return (request.data?.tokens.length ?? 0) > LONG;
}

/** The map of one head in a reply. @param {any} data @param {number} layer @param {number} head */
const mapOf = (data, layer, head) => data.maps.find((/** @type {any} */ map) => map.layer === layer && map.head === head) ?? data.maps[0];

/** @param {any} properties */
function OneText({ data, layer, head, offset, thumbnails, best, largest, onHead, body }) {
  const [pins, setPins] = useState(/** @type {[number, number][]} */ ([]));
  const map = mapOf(data, layer, head);
  const isOwn = data.which !== 'cross';
  const causal = useMemo(() => isOwn && data.rows.length === data.columns.length && map.weights.every((/** @type {number[]} */ row, /** @type {number} */ i) => row.every((weight, j) => j <= i || weight === 0)), [map]);
  const matrix = useMemo(() => ({ rows: data.rows, columns: data.columns, values: map.weights, causal, scale: /** @type {const} */ ('weight') }), [map]);
  const first = (data.row_roles?.[0] === 'start' ? 1 : 0) - offset;
  const selected = subject.at.value === null ? null : subject.at.value + first;
  const at = selected !== null && selected >= 0 && selected < data.rows.length ? selected : null;
  const select = (/** @type {number | null} */ row) => set({ at: row === null || row - first < 0 ? null : row - first });
  const layout = matrixLayout(matrix);
  const lines = (/** @type {import('../theme.js').Theme} */ look) => linesDrawing({ ...matrix, size: layout.size, top: layout.top, at }, look, select);
  const word = at === null ? '' : data.rows[at].trim() || label(data.rows[at]);
  const strongest = at === null ? [] : map.weights[at].map((/** @type {number} */ weight, /** @type {number} */ j) => ({ text: data.columns[j], role: data.column_roles?.[j], probability: weight, j }))
    .sort((/** @type {any} */ a, /** @type {any} */ b) => b.probability - a.probability).slice(0, 5);
  const togglePin = (/** @type {[number, number]} */ cell) => setPins(pins.some((pin) => String(pin) === String(cell)) ? pins.filter((pin) => String(pin) !== String(cell)) : [...pins, cell]);
  useEffect(() => {
    viewKeys.p = () => { if (at !== null) togglePin([at, strongest[0].j]); };
    return () => { delete viewKeys.p; };
  });
  useEffect(() => { setPins([]); }, [body.text]);
  useReproduction({
    name: `attention-${layer}-${head}`, terminal: data.terminal, python: data.python, http: ['attention', body], json: data, drawing: (look) => matrixDrawing(matrix, look, at),
  }, [data, layer, head, at]);
  const hasLines = layout.size >= 11;
  return html`<div class=${`columns attention-columns${hasLines ? '' : ' no-lines'}`}>
    <${Section} class="bare" title="Attention weights" note="row: query token, column: key token">
      <${Matrix} data=${matrix} at=${at} onSelect=${select} name="Attention weights" pins=${pins} onPin=${togglePin} />
      <div class="legend"><span>0</span><span class="ramp"></span><span>1</span><span>rows sum to 1${causal ? '; blank cells are masked' : ''}</span></div>
      ${pins.length ? html`<ul class="pins" aria-label="Pinned">${pins.map((pin) => html`<li key=${pin}><${Token} text=${data.rows[pin[0]]} /> → <${Token} text=${data.columns[pin[1]]} /> ${fixed(map.weights[pin[0]][pin[1]])} <${Link} onClick=${() => togglePin(pin)}>Remove<//></li>`)}</ul>` : null}
    <//>
    ${hasLines ? html`<${Section} class="bare" title="From the query" note=${word ? html`<span class="serif">${word}</span>` : 'select a token'}>
      <div class="scroll lines"><${Picture} drawing=${lines(theme.value)} label=${`Lines from ${word || 'all tokens'} to the tokens attended to`} /></div><//>` : null}
    <div>${thumbnails ? html`<${Section} class="bare" title="All heads" note="layer · head, pattern">
        <div class="scroll"><${HeadGrid} thumbnails=${thumbnails} patterns=${best} layer=${layer} head=${head} largest=${largest} onSelect=${onHead} /></div><//>` : null}
      <${Section} title=${html`Query ${word ? html`<span class="serif">${word}</span>` : ''}`} note=${word ? 'attends to' : ''}>
        <div class="query-list">${at === null ? html`<p class="caption">Select a token in the text, in the matrix, or with J and K.</p>` : html`<${Distribution} entries=${strongest} label="Largest weights" />
          <div class="buttons">${subject.at.value === null ? null : html`<${Link} onClick=${() => go(firstPage(openRun.value))}>Show in ${firstPage(openRun.value) === 'write' ? 'Write' : 'the first view'}<//>
          ${openRun.value.model === 'backpack' ? html`<${Link} onClick=${() => go('senses', { word: word })}>Senses of <span class="serif">${word}</span><//><${Link} onClick=${() => go('senses/context')}>What it contributes<//>` : null}`}</div>`}</div><//></div></div>`;
}

/** @param {any} properties */
function TwoTexts({ base, layer, head }) {
  const text2 = subject.text2.value;
  const [draft, setDraft] = useState(text2);
  const body = { ...base, layer, head, versus: text2 };
  const request = useRequest('attention', base.text && text2 ? body : null);
  useEffect(() => {
    const timer = setTimeout(() => { if (draft.trim() && draft !== text2) set({ text2: draft }); }, 300);
    return () => clearTimeout(timer);
  }, [draft]);
  return html`<label class="second-text"><span class="caption">Text B</span><input type="text" class="serif" value=${draft} placeholder="A second text, for example with one word changed"
      onInput=${(/** @type {any} */ event) => setDraft(event.target.value)} /></label>
    ${text2 ? html`<${Result} request=${request} rows=${18}>${(/** @type {any} */ data) => html`<${Pair} data=${data} layer=${layer} head=${head} body=${body} />`}<//>`
      : html`<p class="caption">Type a second text. The page shows A, B, and B minus A.</p>`}`;
}

/** @param {any} properties */
function Pair({ data, layer, head, body }) {
  const look = theme.value;
  const parts = useMemo(() => {
    const [a, b] = [data, data.versus];
    const [left, right] = [mapOf(a, layer, head).weights, mapOf(b, layer, head).weights];
    const size = Math.max(a.rows.length, b.rows.length);
    const cell = size <= 18 ? 21 : Math.max(4, Math.floor(390 / size));
    const matrix = (/** @type {any} */ each, /** @type {number[][]} */ values) => ({ rows: each.rows, columns: each.columns, values, causal: true, scale: /** @type {const} */ ('weight'), cell, hasColumns: false });
    const pairs = align(a.rows, b.rows);
    const difference = pairs.map(([i, k]) => pairs.map(([j, l]) => right[k][l] - left[i][j]));
    const names = pairs.map(([i, k]) => (a.rows[i] === b.rows[k] ? a.rows[i] : `${a.rows[i].trim()}/${b.rows[k].trim()}`));
    const largest = pairs.flatMap(([i, k], row) => pairs.slice(0, row + 1).map(([j, l], column) => ({ i, j, k, l, value: difference[row][column] })))
      .sort((x, y) => Math.abs(y.value) - Math.abs(x.value)).slice(0, 6);
    return {
      a: matrix(a, left), b: matrix(b, right), largest, differing: pairs.filter(([i, k]) => a.rows[i] !== b.rows[k]).length,
      difference: { rows: names, columns: names, values: difference, causal: true, scale: /** @type {const} */ ('signed'), largest: 0.6, cell: Math.max(4, Math.floor(cell / 2)), hasColumns: false },
    };
  }, [data, layer, head]);
  useReproduction({ name: `attention-two-${layer}-${head}`, terminal: data.terminal, python: data.python, http: ['attention', body], json: data, drawing: (each) => matrixDrawing(parts.difference, each) }, [data]);
  const at = subject.at.value === null ? null : subject.at.value + 1;
  const select = (/** @type {number | null} */ row) => set({ at: row === null || row === 0 ? null : row - 1 });
  return html`<div class="columns pair-columns">
    <${Section} class="bare" title="A"><${Matrix} data=${parts.a} at=${at !== null && at < parts.a.rows.length ? at : null} onSelect=${select} name="Attention weights of text A" /><//>
    <${Section} class="bare" title="B" note=${`${parts.differing} tokens differ`}><${Matrix} data=${parts.b} at=${at !== null && at < parts.b.rows.length ? at : null} onSelect=${select} name="Attention weights of text B" /><//>
    <div><${Section} class="bare" title="B − A" note="blue: more in B"><div class="scroll"><${Picture} drawing=${matrixDrawing(parts.difference, look)} label="Differences of the weights, B minus A" /></div><//>
      <${Section} title="Largest differences"><table><tbody>${parts.largest.map((each, index) => html`<tr key=${index}>
        <td><div><${Token} text=${data.rows[each.i]} /> → <${Token} text=${data.rows[each.j]} /></div><div><${Token} text=${data.versus.rows[each.k]} /> → <${Token} text=${data.versus.rows[each.l]} /></div></td>
        <td class="right caption"><div>${fixed(parts.a.values[each.i][each.j])}</div><div>${fixed(parts.b.values[each.k][each.l])}</div></td>
        <td class=${`right ${each.value < 0 ? 'neg-text' : 'pos-text'}`}>${signed(each.value)}</td></tr>`)}</tbody></table><//></div></div>`;
}
