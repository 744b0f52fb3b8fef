// Which run is better on this data, is the difference clear, and where do they differ?

import { html, useState } from '../lib.js';
import { useRequest } from '../api.js';
import { Link, Section } from '../components/controls.js';
import { differenceDrawing, intervalDrawing, scatterDrawing } from '../components/interval.js';
import { Menu } from '../components/menu.js';
import { useReproduction } from '../components/reproduce.js';
import { Empty, Result } from '../components/states.js';
import { useWidth } from '../components/width.js';
import { Picture, stack } from '../drawing.js';
import { count, fixed, kindName, parameters, signed } from '../format.js';
import { firstPage, go, runs, set, subject } from '../state.js';
import { theme } from '../theme.js';

const SMALLER = new Set(['bits_per_byte', 'perplexity', 'nats_per_token', 'bits_per_character']);
const LISTED = 4;

export function Page() {
  const all = (runs.value ?? []).filter((run) => run.status !== 'damaged');
  const chosen = subject.runs.value ? subject.runs.value.split(',') : [];
  const data = subject.data.value;
  const listed = useRequest('data', {});
  const body = { runs: chosen, ...(data ? { data } : {}) };
  const request = useRequest('compare', chosen.length >= 2 ? body : null);
  const task = all.find((run) => run.run === chosen[0])?.task;
  const choices = all.filter((run) => !chosen.includes(run.run) && (!task || run.task === task)).map((run) => ({ key: run.run, text: `${run.run} (${kindName(run.model)}, ${run.task})`, onChoose: () => set({ runs: [...chosen, run.run].join(',') }) }));
  const sources = (listed.data?.data ?? []).filter((/** @type {any} */ each) => !each.task || each.task === task).map((/** @type {any} */ each) => ({ key: each.name, text: each.name, onChoose: () => set({ data: each.name }) }));
  return html`<div class="compare-bar"><h1 class="hidden">Compare</h1>${chosen.map((run) => html`<button type="button" key=${run} class="small" aria-label=${`Remove ${run}`} onClick=${() => set({ runs: chosen.filter((each) => each !== run).join(',') })}>${run} <span aria-hidden="true">×</span></button>`)}
      <${Menu} label="+ Add run" align="left" entries=${choices} /><span class="spacer"></span>
      <span class="caption">on ${data ? html`<strong>${data}</strong>` : 'the held-out data of the runs'}${request.data ? `, ${count(request.data.units)} documents` : ''}</span>
      <${Menu} label="Other data" entries=${[...(data ? [{ key: '', text: 'the held-out data of the runs', onChoose: () => set({ data: '' }) }] : []), ...sources]} /></div>
    ${chosen.length < 2 ? html`<${Empty} title="Choose two runs" command="satchel compare RUN RUN">Add runs of the same task to see their values on the same data, with intervals.<//>`
      : html`${request.isLoading && !request.data ? html`<p class="caption" role="status">Evaluating ${chosen.length} runs; this takes seconds to minutes …</p>` : null}
        <${Result} request=${request} rows=${12}>${(/** @type {any} */ reply) => html`<${Comparison} data=${reply} body=${body} key=${subject.runs.value} />`}<//>`}`;
}

/** A short name of a run. @param {string} run */
const short = (run) => run.split('/').at(-1) ?? run;

/** @param {any} properties */
function Comparison({ data, body }) {
  const [holder, width] = useWidth(820);
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const [second, setSecond] = useState(1);
  const look = theme.value;
  const isSmaller = SMALLER.has(data.metric);
  const sign = isSmaller ? 1 : -1;
  const rows = [...data.rows].sort((a, b) => sign * (a.value - b.value));
  const names = /** @type {[string, string]} */ ([short(data.rows[0].run), short(data.rows[Math.min(second, data.rows.length - 1)].run)]);
  const column = Math.min(second, data.rows.length - 1);
  const differing = data.documents.map((/** @type {any} */ each) => ({ ...each, x: each.values[0], y: each.values[column], difference: each.values[0] - each.values[column], key: each.index })).sort((/** @type {any} */ a, /** @type {any} */ b) => a.difference - b.difference);
  const ends = differing.length <= 2 * LISTED ? differing : [...differing.slice(0, LISTED), null, ...differing.slice(-LISTED)];
  const chosen = differing.find((/** @type {any} */ each) => each.index === (at ?? differing[0]?.index));
  const largest = Math.max(...data.pairs.flatMap((/** @type {any} */ pair) => [Math.abs(pair.low), Math.abs(pair.high)]), 1e-9);
  const wide = Math.max(300, width - 300);
  const intervals = (/** @type {import('../theme.js').Theme} */ each) => intervalDrawing({ rows, rowHeight: 51 }, each, wide);
  const scatter = (/** @type {import('../theme.js').Theme} */ each) => scatterDrawing({ points: differing, names, isSmallerBetter: isSmaller, chosen: chosen?.index ?? null, unit: data.metric.replaceAll('_', ' ') }, each, 470, setAt);
  useReproduction({
    name: 'compare', terminal: data.terminal, python: data.python, http: ['compare', body], json: data, drawing: (each) => (differing.length ? stack([intervals(each), scatter(each)]) : intervals(each)),
    files: [['CSV', 'csv', () => table(data, ',')], ['MD', 'md', () => markdown(data)], ['TeX', 'tex', () => tex(data)]],
  }, [data, width, at, second]);
  const better = (/** @type {any} */ pair) => (sign * pair.difference > 0 ? pair.b : pair.a);
  const isClear = (/** @type {any} */ pair) => pair.low > 0 || pair.high < 0;
  return html`${data.warnings.map((/** @type {string} */ warning) => html`<p class="dropped" key=${warning}>${warning}</p>`)}
    <div class="columns compare-columns"><div ref=${holder}><${Section} class="bare" title=${data.metric.replaceAll('_', ' ').replace(/^./, (/** @type {string} */ each) => each.toUpperCase())} note=${`${isSmaller ? 'lower' : 'higher'} is better; bars are 95 % bootstrap intervals`}>
        <div class="interval-rows"><ul>${rows.map((row) => html`<li key=${row.run}><span><strong>${row.run}</strong><span class="caption">${row.parameters ? `${parameters(row.parameters)} parameters` : 'no parameters'}</span></span><span class="right"><strong>${fixed(row.value, 4)}</strong><span class="caption">${fixed(row.low, 3)} to ${fixed(row.high, 3)}</span></span></li>`)}</ul>
          <${Picture} drawing=${intervals(look)} label="Values of the runs with their intervals" /></div><//>
      <${Section} title="Paired differences" note="same documents, paired bootstrap; intervals that exclude 0 are clear"><div class="scroll"><table class="pairs"><tbody>${data.pairs.map((/** @type {any} */ pair) => html`<tr key=${pair.a + pair.b}>
        <td>${short(pair.a)} − ${short(pair.b)}</td><td><${Picture} drawing=${differenceDrawing(pair, largest, look, sign * pair.difference > 0)} label=${`Difference ${signed(pair.difference, 4)}`} /></td><td class="right">${signed(pair.difference, 4)}</td>
        <td class="caption">${signed(pair.low, 3)} to ${signed(pair.high, 3)}</td><td>${isClear(pair) ? html`clear: <strong>${short(better(pair))}</strong> is better` : 'not clear'}</td></tr>`)}</tbody></table></div><//>
      ${differing.length ? html`<${Section} title="Documents that differ most" note=${html`${names[0]} against ${data.rows.length > 2 ? html`<select aria-label="Second run" value=${column} onChange=${(/** @type {any} */ event) => setSecond(Number(event.target.value))}>${data.rows.slice(1).map((/** @type {any} */ row, /** @type {number} */ index) => html`<option key=${row.run} value=${index + 1}>${short(row.run)}</option>`)}</select>` : names[1]}`}>
        <table class="documents"><thead><tr><th scope="col">text</th><th scope="col" class="right">${names[0]}</th><th scope="col" class="right">${names[1]}</th><th scope="col" class="right">difference</th></tr></thead><tbody>${ends.map((/** @type {any} */ each, /** @type {number} */ index) => (each === null ? html`<tr key="gap"><td class="caption" colspan="4">…</td></tr>`
          : html`<tr key=${index} class=${each.index === chosen?.index ? 'chosen' : ''}><td><button type="button" class="plain serif document" onClick=${() => setAt(each.index)}>${each.text.replace(/\s+/g, ' ').slice(0, 200)}</button></td><td class="right">${fixed(each.x, 2)}</td><td class="right">${fixed(each.y, 2)}</td>
            <td class=${`right ${each.difference * sign < 0 ? 'neg-text' : 'pos-text'}`}>${signed(each.difference, 2)}</td></tr>`))}</tbody></table><//>` : null}</div>
    ${differing.length ? html`<div><${Section} class="bare" title="Each document" note=${`area: length${data.units > differing.length ? `; the ${differing.length} that differ most` : ''}`}><div class="scroll"><${Picture} drawing=${scatter(look)} label=${`Documents by their value under ${names[0]} and ${names[1]}`} /></div><//>
      ${chosen ? html`<${Section} title="Selected document"><p class="serif chosen-document">${chosen.text}</p><p class="caption">${names[0]} ${fixed(chosen.x, 2)}, ${names[1]} ${fixed(chosen.y, 2)} ${data.metric.replaceAll('_', ' ')}, ${count(chosen.bytes)} bytes
        <${Link} onClick=${() => openDocument(data.rows[column].run, chosen.text)}>Open in ${label(data.rows[column].run)}<//></p><//>` : null}</div>` : null}</div>`;
}

/** @param {string} name */
const entryOf = (name) => (runs.value ?? []).find((run) => run.run === name);

/** The name of the first page of a run. @param {string} name */
const label = (name) => firstPage(entryOf(name)).replace(/^./, (/** @type {string} */ each) => each.toUpperCase());

/** Open a document as the text of a run. @param {string} name @param {string} text */
const openDocument = (name, text) => go(firstPage(entryOf(name)), { run: name, text, at: null, target: '', versus: '' });

const COLUMNS = ['run', 'value', 'low', 'high'];

/** @param {any} data @param {string} separator */
const table = (data, separator) => `${[COLUMNS.join(separator), ...data.rows.map((/** @type {any} */ row) => COLUMNS.map((key) => (/^[=+\-@]/.test(String(row[key])) && typeof row[key] === 'string' ? `'${row[key]}` : row[key])).join(separator))].join('\n')}\n`;

/** @param {any} data */
const markdown = (data) => `| run | ${data.metric} | 95 % interval |\n| --- | --- | --- |\n${data.rows.map((/** @type {any} */ row) => `| ${row.run.replaceAll('|', '\\|')} | ${row.value.toFixed(4)} | ${row.low.toFixed(4)} to ${row.high.toFixed(4)} |\n`).join('')}`;

/** @param {any} data */
const tex = (data) => `\\begin{tabular}{lrl}\nrun & ${data.metric.replaceAll('_', '\\_')} & 95\\,\\% interval \\\\\n\\hline\n${data.rows.map((/** @type {any} */ row) => `${row.run.replace(/[&%$#_{}]/g, '\\$&')} & ${row.value.toFixed(4)} & ${row.low.toFixed(4)} to ${row.high.toFixed(4)} \\\\\n`).join('')}\\end{tabular}\n`;
