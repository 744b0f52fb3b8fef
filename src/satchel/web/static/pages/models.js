// What can be opened, and what is being trained?

import { html, useState } from '../lib.js';
import { call } from '../api.js';
import { Link, Section } from '../components/controls.js';
import { Dialog } from '../components/dialog.js';
import { Menu } from '../components/menu.js';
import { useReproduction } from '../components/reproduce.js';
import { Specimen } from '../components/specimen.js';
import { Empty, Failure } from '../components/states.js';
import { RunningTraining } from '../components/trainingview.js';
import { baselineName, fixed, kindName, metric, parameters, shortDate } from '../format.js';
import { go, loadRuns, open, runs, training } from '../state.js';

/** Metrics that are better when they are smaller. */
const SMALLER = new Set(['bits_per_byte', 'perplexity', 'nats_per_token', 'bits_per_character']);

/** The relative difference of a run from its baseline, as a bar and a number. @param {{run: any}} properties */
function Against({ run }) {
  if (run.model === 'ngram') return html`<span class="against"><span class="axis"></span><span class="caption">is the n-gram</span></span>`;
  if (!run.baseline || run.value === null) return html`<span class="caption">–</span>`;
  const difference = run.value / run.baseline.value - 1;
  const isBetter = difference === 0 ? null : difference < 0 === SMALLER.has(run.metric);
  const width = Math.min(36, 450 * Math.abs(difference));
  return html`<span class="against"><span class="axis"><span class=${isBetter ? 'bar pos' : 'bar neg'} style=${{ width: `${width}px`, marginLeft: difference < 0 ? `${-width}px` : '0' }}></span></span>
    <span class=${isBetter ? 'pos-text' : 'neg-text'}>${difference > 0 ? '+' : ''}${fixed(100 * difference, 1)} %${run.baseline.name === 'ngram' ? null : html`<span class="caption"> over ${baselineName(run.baseline.name)}</span>`}</span></span>`;
}

export function Page() {
  const all = runs.value ?? [];
  const bundled = all.filter((run) => run.run.startsWith('@model:'));
  const own = all.filter((run) => !run.run.startsWith('@model:')).sort((a, b) => b.created - a.created);
  const [chosen, setChosen] = useState(/** @type {string[]} */ ([]));
  const [deleted, setDeleted] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  useReproduction({
    name: 'runs', terminal: training.value?.terminal ?? 'satchel runs', python: training.value?.python ?? '', http: ['runs/list', {}], json: all,
    files: [['CSV', 'csv', () => csv(own)]],
  }, [all, training.value]);
  const toggle = (/** @type {string} */ run) => setChosen(chosen.includes(run) ? chosen.filter((each) => each !== run) : [...chosen, run]);
  const resume = (/** @type {any} */ run) => call('runs/resume', { run: run.run }, { fresh: true }).then(() => loadRuns(), setError);
  const entries = (/** @type {any} */ run) => [
    { key: 'open', text: 'Open', onChoose: () => open(run) },
    { key: 'report', text: 'Report', onChoose: () => go('training', { run: run.run }) },
    ...(run.status === 'interrupted' ? [{ key: 'resume', text: 'Resume the training', onChoose: () => resume(run) }] : []),
    { key: 'delete', text: 'Delete …', onChoose: () => setDeleted(run) },
  ];
  return html`<div class="view-head models-head"><h1>Models</h1><span class="summary">${bundled.length ? 'Bundled models open at once. ' : ''}Your own runs are folders under <code>runs/</code>.</span><span class="spacer"></span>
      <button type="button" class="primary" onClick=${() => go('train')}>Train a model</button></div>
    <${Failure} error=${error} />
    ${bundled.length ? html`<div class="specimens">${bundled.map((run) => html`<${Specimen} run=${run} key=${run.run} />`)}</div>` : null}
    ${training.value ? html`<${RunningTraining} training=${training.value} key=${training.value.run} />` : null}
    ${own.length ? html`<${Section} class="own-runs" title="Your runs" note=${String(own.length)} actions=${html`<${Link} disabled=${chosen.length < 2} onClick=${() => go('compare', { runs: chosen.join(','), data: '' })}>Compare selected<//>`}>
      <div class="scroll"><table class="runs"><thead><tr><th><span class="hidden">compare</span></th><th scope="col">run</th><th scope="col">model</th><th scope="col">task</th><th scope="col" class="right">parameters</th><th scope="col" class="right">held-out</th><th scope="col">against the baseline</th><th scope="col">data</th><th scope="col" class="right">trained</th><th><span class="hidden">menu</span></th></tr></thead>
      <tbody>${own.map((run) => html`<tr key=${run.run}><td><input type="checkbox" aria-label=${`Compare ${run.run}`} checked=${chosen.includes(run.run)} disabled=${run.status === 'damaged'} onChange=${() => toggle(run.run)} /></td>
        <td><button type="button" class="plain" disabled=${run.status === 'damaged'} onClick=${() => open(run)}><strong>${run.run}</strong></button>${run.status === 'complete' ? null : html` <span class=${run.status === 'damaged' ? 'caption neg-text' : 'caption'} title=${run.reason}>${run.status}</span>`}</td>
        <td>${kindName(run.model)}</td><td>${run.task ?? '–'}</td><td class="right">${run.model === 'ngram' ? '–' : parameters(run.parameters)}</td><td class="right">${metric(run.metric, run.value)}</td>
        <td><${Against} run=${run} /></td><td>${run.data ?? '–'}</td><td class="right">${shortDate(run.date)}</td><td class="right"><${Menu} label="⋯" name=${`Actions for ${run.run}`} entries=${entries(run)} /></td></tr>`)}</tbody></table></div><//>`
    : html`<${Empty} title="No runs yet" command="satchel train my.txt --minutes 5" buttons=${html`<button type="button" class="primary" onClick=${() => go('train')}>Train a model</button>`}>Train on your own text${bundled.length ? ', or open one of the bundled models' : ''}.<//>`}
    ${deleted ? html`<${Delete} run=${deleted} onClose=${() => setDeleted(null)} />` : null}`;
}

/** The table as CSV. Cells that a spreadsheet would take for formulas begin with a quote. @param {any[]} rows */
function csv(rows) {
  const cell = (/** @type {unknown} */ value) => {
    const text = value === null ? '' : String(value);
    const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const keys = ['run', 'task', 'model', 'parameters', 'metric', 'value', 'data', 'date', 'status'];
  return `${[keys, ...rows.map((row) => keys.map((key) => row[key]))].map((row) => row.map(cell).join(',')).join('\n')}\n`;
}

/** Ask for the name of a run before it is deleted. @param {{run: any, onClose: () => void}} properties */
function Delete({ run, onClose }) {
  const [typed, setTyped] = useState('');
  const [error, setError] = useState(/** @type {any} */ (null));
  const remove = (/** @type {Event} */ event) => {
    event.preventDefault();
    call('runs/delete', { run: run.run, confirm: typed }, { fresh: true }).then(() => { loadRuns(); onClose(); }, setError);
  };
  return html`<${Dialog} title=${`Delete ${run.run}`} onClose=${onClose}><form onSubmit=${remove}><p>The folder with the model, its checkpoints and measurements is deleted. This cannot be undone.</p>
    <${Failure} error=${error} /><label class="field">Type <strong>${run.run}</strong> to confirm <input type="text" autocomplete="off" value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} /></label>
    <div class="buttons"><button type="submit" disabled=${typed !== run.run}>Delete</button></div></form><//>`;
}
