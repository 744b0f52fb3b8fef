// How was a run trained? Curves, senses over time, samples, settings.

import { html, useState } from '../lib.js';
import { useRequest } from '../api.js';
import { Section } from '../components/controls.js';
import { curveDrawing } from '../components/curve.js';
import { useReproduction } from '../components/reproduce.js';
import { Empty, Failure } from '../components/states.js';
import { curveOf, useInfo } from '../components/trainingview.js';
import { useWidth } from '../components/width.js';
import { Picture } from '../drawing.js';
import { count, fixed } from '../format.js';
import { useMeasurements } from '../measurements.js';
import { go, openRun, runs, training } from '../state.js';
import { theme } from '../theme.js';

/** A tree of settings as a flat list of keys. @param {any} tree @param {string} [prefix] @returns {[string, any][]} */
function flat(tree, prefix = '') {
  return Object.entries(tree ?? {}).flatMap(([key, value]) => (value !== null && typeof value === 'object' && !Array.isArray(value)
    ? flat(value, `${prefix}${key}.`) : /** @type {[string, any][]} */ ([[prefix + key, value]])));
}

/** @param {any} value */
const shown = (value) => (value === null || value === undefined ? '–' : typeof value === 'object' ? JSON.stringify(value) : String(value));

export function Page() {
  const run = openRun.value;
  const [holder, width] = useWidth(820);
  const [other, setOther] = useState('');
  const isRunning = training.value?.run === run.run && ['running', 'stopping'].includes(training.value.status);
  const measured = useMeasurements(run.run, isRunning);
  const info = useInfo(run.run, run.status === 'complete' || run.status === 'interrupted');
  const curve = curveOf(measured, info, run);
  const last = measured.metrics.at(-1);
  useReproduction({
    name: 'training', terminal: measured.terminal, http: ['runs/metrics', { run: run.run }], json: { metrics: measured.metrics, samples: measured.samples, settings: info },
    drawing: curve.isEmpty ? null : (look) => curve.drawing(look, Math.max(320, width)),
  }, [measured.metrics.length, info, width]);
  const seconds = (/** @type {any} */ each) => each.wall_seconds ?? each.seconds;
  const senses = measured.metrics.filter((each) => each.senses);
  const sensesDrawing = (/** @type {import('../theme.js').Theme} */ look) => curveDrawing({
    series: senses[0].senses.cost_without.map((/** @type {number} */ _, /** @type {number} */ sense) => ({ name: `sense ${sense}`, kind: 'quiet', points: senses.map((each) => [seconds(each), each.senses.cost_without[sense]]) })),
    end: seconds(senses.at(-1)), unit: (value) => `${value} s`,
  }, look, Math.max(320, width), 170);
  return html`<div class="view-head"><h1>Training</h1><span class="summary">${last ? `${count(last.step)} steps in ${fixed(seconds(last) / 60, 1)} minutes` : ''}</span><span class="spacer"></span>
      <button type="button" onClick=${() => go('train', { run: run.run })}>Train another like it</button></div>
    <${Failure} error=${measured.error} />
    <div class="columns training-columns"><div ref=${holder}><${Section} class="bare" title="Loss" note=${curve.unit}><div class="curve-holder">${curve.isEmpty
        ? html`<${Empty} title="No measurements">${run.model === 'ngram' ? 'An n-gram model is counted, not trained in steps.' : 'Nothing has been measured yet.'}<//>`
        : html`<${Picture} drawing=${curve.drawing(theme.value, Math.max(320, width))} label="Loss on held-out and training data over time" />`}</div><//>
      ${senses.length > 1 ? html`<${Section} title="Senses over time" note="nats per token on held-out text when a sense is set to zero"><${Picture} drawing=${sensesDrawing(theme.value)} label="Cost without each sense over time" /><//>` : null}
      ${measured.samples.length ? html`<${Section} title="Samples"><ol class="samples">${measured.samples.filter((each) => each.text.trim()).map((each) => html`<li key=${each.step}><span class="caption">step ${count(each.step)}</span><span class="serif">${each.text.trim()}</span></li>`)}</ol><//>` : null}</div>
    <div class="detail"><h2>Figures</h2><table class="facts"><tbody>${[['parameters', count(info?.parameters)], ['data', run.data], ['tokens', count(info?.facts?.counts?.tokens)], ['tokenizer', info ? `${info.tokenizer.kind}, ${count(info.tokenizer.size)} tokens` : null], ['size', `${fixed(run.size / 1e6, 1)} MB`], ['checkpoints', String(run.checkpoints.number)], ['status', run.status]]
        .map(([name, value]) => html`<tr key=${name}><th scope="row">${name}</th><td>${value ?? '–'}</td></tr>`)}</tbody></table>
      <${Section} title="Settings" actions=${html`<label class="caption">Compare with <select value=${other} onChange=${(/** @type {any} */ event) => setOther(event.target.value)}><option value="">…</option>${(runs.value ?? []).filter((each) => each.run !== run.run && each.status !== 'damaged').map((each) => html`<option key=${each.run}>${each.run}</option>`)}</select></label>`}>
        ${other ? html`<${SettingsDifference} info=${info} run=${run.run} other=${other} />` : html`<${SettingsList} info=${info} />`}<//></div></div>`;
}

/** The settings of a run; those that differ from the default are bold. @param {any} properties */
function SettingsList({ info }) {
  const schema = useRequest('settings', {});
  const defaults = new Map((schema.data?.groups ?? []).flatMap((/** @type {any} */ group) => (group.models.includes(info?.model?.kind) ? group.settings.map((/** @type {any} */ each) => [each.key, each.default]) : [])));
  if (!info) return html`<p class="caption">Reading the settings …</p>`;
  return html`<table class="settings"><tbody>${flat({ model: info.model }).map(([key, value]) => {
    const differs = defaults.has(key) && JSON.stringify(defaults.get(key)) !== JSON.stringify(value);
    return html`<tr key=${key}><th scope="row">${key}</th><td class="dense right">${differs ? html`<strong>${shown(value)}</strong>` : shown(value)}</td></tr>`;
  })}</tbody></table>`;
}

/** The settings that differ between two runs. @param {any} properties */
function SettingsDifference({ info, run, other }) {
  const request = useRequest('info', { run: other });
  if (!info || !request.data) return html`<${Failure} error=${request.error} />`;
  const chosen = (/** @type {any} */ each) => new Map(flat({ task: each.task, model: each.model, tokenizer: { kind: each.tokenizer.kind, size: each.tokenizer.size }, data: each.data, parameters: each.parameters }));
  const [own, others] = [chosen(info), chosen(request.data)];
  const keys = [...new Set([...own.keys(), ...others.keys()])].filter((key) => JSON.stringify(own.get(key)) !== JSON.stringify(others.get(key)));
  return html`<div class="scroll"><table class="settings"><thead><tr><th scope="col">setting</th><th scope="col" class="right">${run}</th><th scope="col" class="right">${other}</th></tr></thead>
    <tbody>${keys.map((key) => html`<tr key=${key}><th scope="row">${key}</th><td class="dense right">${shown(own.get(key)).slice(0, 24)}</td><td class="dense right">${shown(others.get(key)).slice(0, 24)}</td></tr>`)}</tbody></table></div>
    ${keys.length ? null : html`<p class="caption">All settings are equal.</p>`}`;
}

