// The form that starts a training. Its fields are generated from the settings of the server.

import { html, useEffect, useState } from '../lib.js';
import { call, useRequest } from '../api.js';
import { Section } from '../components/controls.js';
import { useReproduction } from '../components/reproduce.js';
import { Failure } from '../components/states.js';
import { count, duration, fixed } from '../format.js';
import { go, loadRuns, openRun } from '../state.js';

const KINDS = ['', 'ngram', 'dan', 'window', 'rnn', 'gru', 'lstm', 'transformer', 'backpack'];
const SIZES = ['', 'nano', 'tiny', 'micro', 'mini', 'small'];

/** The fields of the form that are not empty, as a request. @param {Record<string, string>} fields @param {Record<string, any>} settings */
function requestOf(fields, settings) {
  const texts = Object.fromEntries(['data', 'task', 'model', 'size', 'tokenizer'].filter((name) => fields[name]).map((name) => [name, fields[name].trim()]));
  const numbers = Object.fromEntries(['minutes', 'steps', 'seed'].filter((name) => fields[name]).map((name) => [name, Number(fields[name])]));
  const valid = fields.valid ? { valid: /^[\d.]+$/.test(fields.valid) ? Number(fields.valid) : fields.valid } : {};
  return { ...texts, ...numbers, ...valid, ...(Object.keys(settings).length ? { settings } : {}) };
}

export function Page() {
  const like = openRun.value;
  const [fields, setFields] = useState(/** @type {Record<string, string>} */ ({ run: '', data: like?.data?.startsWith('@') ? like.data : '@polysemy', task: '', model: like?.model && KINDS.includes(like.model) ? like.model : '', size: '', minutes: '2', steps: '', tokenizer: '', valid: '', seed: '' }));
  const [settings, setSettings] = useState(/** @type {Record<string, any>} */ ({}));
  const [error, setError] = useState(/** @type {any} */ (null));
  const listed = useRequest('data', {});
  const schema = useRequest('settings', {});
  const body = requestOf(fields, settings);
  const plan = useRequest('plan', fields.data ? body : null, 400);
  const described = useRequest('data', fields.data && listed.data?.data.some((/** @type {any} */ each) => each.name === fields.data) ? { data: fields.data } : null, 300);
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => { setFields({ ...fields, [name]: event.target.value }); setError(null); };
  const failure = error ?? plan.error;
  const fieldError = (/** @type {string} */ name) => (failure?.param === name ? html`<span class="field-error" role="alert">${failure.message}${failure.remedy ? `; ${failure.remedy}` : ''}</span>` : null);
  const kind = plan.data?.settings?.model?.kind ?? (fields.model || 'transformer');
  const task = plan.data?.settings?.task ?? fields.task;
  const name = fields.run || suggestion(fields.data, kind);
  useReproduction({ name: 'plan', terminal: plan.data?.terminal, python: plan.data?.python, http: ['plan', body], json: plan.data }, [plan.data]);
  const start = (/** @type {Event} */ event) => {
    event.preventDefault();
    call('runs/start', { run: name, ...body }, { fresh: true }).then(() => loadRuns().then(() => go('models')), setError);
  };
  const groups = groupsOf(schema.data?.groups ?? [], kind, task);
  const select = (/** @type {string} */ field, /** @type {string} */ text, /** @type {string[]} */ options, /** @type {string} */ automatic) => html`<label class="field"><span>${text}</span><select aria-label=${text} value=${fields[field]} onChange=${set(field)}>
    ${options.map((each) => html`<option key=${each} value=${each}>${each || automatic}</option>`)}</select>${fieldError(field)}</label>`;
  const input = (/** @type {string} */ field, /** @type {string} */ text, /** @type {string} */ note, /** @type {object} */ more = {}) => html`<label class="field"><span>${text}</span><input type="text" aria-label=${text} value=${fields[field]} onInput=${set(field)} placeholder=${note} ...${more} />${fieldError(field)}</label>`;
  return html`<form class="train" onSubmit=${start}><div class="view-head"><h1>Train a model</h1><span class="spacer"></span><button type="button" onClick=${() => go('models')}>Cancel</button><button type="submit" class="primary">Start training</button></div>
    <div class="columns train-columns"><div>
      <div class="fields"><label class="field"><span>Data</span><input type="text" aria-label="Data" list="data-names" value=${fields.data} onInput=${set('data')} required /><datalist id="data-names">${(listed.data?.data ?? []).map((/** @type {any} */ each) => html`<option key=${each.name} value=${each.name}>${each.title ?? ''}</option>`)}</datalist>${fieldError('data')}</label>
        ${input('run', 'Name of the run', name)}
        ${select('task', 'Task', ['', 'lm', 'classify', 'tag', 'translate'], task && !fields.task ? `${task} (from the data)` : 'from the data')}
        ${select('model', 'Model', KINDS, !fields.model && plan.data ? `${kind} (default)` : 'default of the task')}
        ${select('size', 'Size', SIZES, 'from the data')}
        ${input('minutes', 'Minutes', 'until it stops improving', { inputmode: 'decimal' })}</div>
      <p class="caption data-facts">${described.data ? dataFacts(described.data) : ''}</p>
      <details><summary>More: tokenizer, held-out data, steps, seed</summary><div class="fields">${input('tokenizer', 'Tokenizer', 'char, byte, word, bpe:N, unigram:N, or a run')}${input('valid', 'Held-out data', 'a share such as 0.05, or data')}${input('steps', 'Steps', 'from the minutes', { inputmode: 'numeric' })}${input('seed', 'Seed', '0', { inputmode: 'numeric' })}</div></details>
      ${groups.map((/** @type {any} */ group) => html`<${Group} key=${group.group} group=${group} settings=${settings} planned=${plan.data?.settings?.[group.group]} error=${failure} onChange=${(/** @type {Record<string, any>} */ next) => { setSettings(next); setError(null); }} />`)}</div>
    <div class="detail"><${Section} class="first" title="Estimate"><${Failure} error=${failure && !['data', 'run', 'task', 'model', 'size', 'minutes', 'tokenizer', 'valid', 'steps', 'seed'].includes(failure.param) ? failure : null} title="This training cannot start" />
        <div class="estimate">${plan.data ? html`<${Estimates} estimates=${plan.data.estimates} />` : html`<p class="caption">Planning …</p>`}</div><//>
      ${plan.data?.reasons?.length ? html`<${Section} title="Chosen automatically"><ul class="reasons">${plan.data.reasons.map((/** @type {string} */ reason) => html`<li key=${reason}>${reason}</li>`)}</ul><//>` : null}</div></div></form>`;
}

/** The groups of settings of a kind of model, with one entry per name. @param {any[]} listed @param {string} kind @param {string} task */
function groupsOf(listed, kind, task) {
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const each of listed) {
    if (!each.models.includes(kind) || (task && !each.tasks.includes(task))) continue;
    const known = groups.get(each.group) ?? [];
    groups.set(each.group, [...known, ...each.settings.filter((/** @type {any} */ setting) => known.every((other) => other.key !== setting.key))]);
  }
  return [...groups].map(([group, settings]) => ({ group, settings }));
}

/** A name for a run. @param {string} data @param {string} kind */
const suggestion = (data, kind) => `${data.replace(/^.*\//, '').replace(/\.\w+$/, '').replace(/[^A-Za-z0-9._-]/g, '') || 'run'}-${kind}`.replace(/^[^A-Za-z0-9]+/, '').slice(0, 60);

/** @param {any} report */
function dataFacts(report) {
  const parts = [['task', report.task], ['lines', count(report.lines)], ['rows', count(report.rows)], ['words', count(report.words)], ['characters', count(report.characters)]];
  return parts.filter(([, value]) => value && value !== '–').map(([name, value]) => (name === 'task' ? `${value} data` : `${value} ${name}`)).join(', ');
}

/** @param {{estimates: any}} properties */
const Estimates = ({ estimates }) => html`<table class="facts"><tbody>${[
  ['parameters', count(estimates.parameters)], ['training tokens', count(estimates.tokens)], ['vocabulary', count(estimates.vocabulary)], ['steps', count(estimates.steps)],
  ['memory', estimates.memory_bytes ? `${fixed(estimates.memory_bytes / 1e6, 0)} MB` : null], ['time', estimates.seconds ? duration(estimates.seconds) : null],
].filter(([, value]) => value && value !== '–').map(([name, value]) => html`<tr key=${name}><th scope="row">${name}</th><td>${value}</td></tr>`)}</tbody></table>`;

/** A group of settings, folded. @param {any} properties */
function Group({ group, settings, planned, error, onChange }) {
  const changed = group.settings.filter((/** @type {any} */ each) => each.key in settings).length;
  const isWrong = error?.param === 'settings';
  const [isOpen, setOpen] = useState(false);
  useEffect(() => { if (isWrong && changed) setOpen(true); }, [isWrong]);
  return html`<details open=${isOpen} onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}><summary>${group.group}${changed ? html` <span class="caption">${changed} changed</span>` : null}</summary>
    ${isOpen ? html`<div class="fields">${group.settings.map((/** @type {any} */ each) => html`<${Setting} key=${each.key} setting=${each} planned=${planned?.[each.key.split('.')[1]]} value=${settings[each.key]} onChange=${(/** @type {any} */ value) => {
      const { [each.key]: _, ...rest } = settings;
      onChange(value === undefined ? rest : { ...rest, [each.key]: value });
    }} />`)}</div>` : null}</details>`;
}

/** A field for a setting: a list for choices, a switch for booleans, else a text. @param {any} properties */
function Setting({ setting, planned, value, onChange }) {
  const automatic = planned === null || planned === undefined || typeof planned === 'object' ? 'automatic' : String(planned);
  const name = setting.key.split('.')[1].replaceAll('_', ' ');
  const convert = (/** @type {string} */ typed) => {
    if (typed === '') return undefined;
    if (setting.type === 'integer' || setting.type === 'number') return Number.isFinite(Number(typed)) ? Number(typed) : typed;
    return setting.type === 'array' ? typed.split(',').map((each) => each.trim()) : typed;
  };
  const choices = setting.enum ?? (setting.type === 'boolean' ? ['true', 'false'] : null);
  return html`<label class="field" title=${setting.description}><span>${name}</span>${choices
    ? html`<select aria-label=${name} value=${value === undefined ? '' : String(value)} onChange=${(/** @type {any} */ event) => onChange(event.target.value === '' ? undefined : setting.type === 'boolean' ? event.target.value === 'true' : event.target.value)}>
        <option value="">${automatic}</option>${choices.map((/** @type {string} */ each) => html`<option key=${each} value=${each}>${each}</option>`)}</select>`
    : html`<input type="text" aria-label=${name} value=${value ?? ''} placeholder=${automatic} onChange=${(/** @type {any} */ event) => onChange(convert(event.target.value))} />`}
    <span class="caption">${setting.description}</span></label>`;
}
