// What the user is looking at. It is shared by all pages and stored in the fragment of the address.

import { batch, computed, effect, signal, untracked } from './lib.js';
import { call } from './api.js';
import { loadText, storeText } from './storage.js';

/** The page: `attention`, or with a part such as `senses/context` or `lessons/scaling`. */
export const page = signal('models');

const text = () => signal('');
const number = () => signal(/** @type {number | null} */ (null));

/** The fields of the subject, which follow the user from page to page. */
export const subject = {
  run: text(), // id of a run
  text: text(), text2: text(),
  target: text(), versus: text(), // token or label that is explained, and its alternative
  word: text(), // word whose senses are shown
  runs: text(), data: text(), // runs and data of Compare
  step: number(), // step of a lesson
  at: number(), // index of the selected token
  layer: number(), head: number(), sense: number(),
};

/** @typedef {keyof typeof subject} Field */

const NUMBERS = new Set(['step', 'at', 'layer', 'head', 'sense']);
// Changes of these fields replace the entry in the history.
const REPLACED = new Set(['at', 'layer', 'head', 'sense']);
// Pages of a run, and the fields that each page has in its address.
export const RUN_PAGES = ['write', 'classify', 'tag', 'translate', 'attention', 'senses', 'edit', 'tokens', 'training'];
const LONG_TEXT = 4000;
const REPLACE_MILLISECONDS = 250;

/** The parts of the page: name of the page and name of its part. */
export const place = computed(() => {
  const [name, ...rest] = page.value.split('/');
  return { name, part: rest.join('/') };
});

/** Runs and bundled models, as listed by the server; null until they are known. */
export const runs = signal(/** @type {any[] | null} */ (null));
/** The training of the server. */
export const training = signal(/** @type {any} */ (null));
/** Parts of the address that were dropped. */
export const dropped = signal(/** @type {string[]} */ ([]));
/** The text as tokens of the run, as shown in the text strip. */
export const tokens = signal(/** @type {any[]} */ ([]));

/** The entry of the open run. */
export const openRun = computed(() => runs.value?.find((each) => each.run === subject.run.value) ?? null);

/** Read the list of runs again. */
export async function loadRuns() {
  const [listed, bundled] = await Promise.all([
    call('runs/list', {}, { fresh: true }), call('models', {}, { fresh: true }),
  ]);
  batch(() => {
    runs.value = [...bundled.models, ...listed.runs];
    training.value = listed.training;
  });
}

/** The page on which a run opens. @param {any} run */
export const firstPage = (run) => (run?.task === 'lm' || !run?.task ? 'write' : run.task);

/**
 * Change the page and fields of the subject.
 * @param {string} target page
 * @param {Partial<Record<Field, any>>} [fields]
 */
export function go(target, fields = {}) {
  batch(() => {
    page.value = target;
    set(fields);
  });
}

/** Change fields of the subject. @param {Partial<Record<Field, any>>} fields */
export function set(fields) {
  batch(() => {
    for (const [name, value] of Object.entries(fields)) subject[/** @type {Field} */ (name)].value = value;
  });
}

/** Open a run on its first page, or on the present page if the run has it. @param {any} run */
export function open(run) {
  const keeps = RUN_PAGES.includes(place.value.name) && !['write', 'classify', 'tag', 'translate'].includes(place.value.name);
  const other = openRun.value?.task !== run.task;
  go(keeps ? page.value : firstPage(run), {
    run: run.run, target: '', versus: '', layer: null, head: null, sense: null, at: null,
    ...(other && openRun.value ? { text: '' } : {}),
  });
}

// --- address -----------------------------------------------------------------------------------------------

/** The fields that the address of a page holds. @param {string} name @returns {Field[]} */
function fieldsOf(name) {
  if (name === 'lessons') return ['step'];
  if (name === 'compare') return ['runs', 'data'];
  if (name === 'models') return [];
  if (name === 'train') return [];
  return ['run', 'text', 'text2', 'at', 'target', 'versus', 'word', 'layer', 'head', 'sense'];
}

/** The fragment of the address, and the part of it that makes an entry in the history. */
const fragment = computed(() => {
  /** @type {string[]} */
  const all = [];
  /** @type {string[]} */
  const pushed = [];
  for (const name of fieldsOf(place.value.name)) {
    const value = subject[name].value;
    if (value === '' || value === null) continue;
    const long = (name === 'text' || name === 'text2') && String(value).length > LONG_TEXT;
    const part = long ? `${name}.doc=${storeText(String(value))}` : `${name}=${encodeURIComponent(String(value))}`;
    all.push(part);
    if (!REPLACED.has(name)) pushed.push(part);
  }
  const address = (/** @type {string[]} */ parts) => `#/${page.value}${parts.length ? '?' : ''}${parts.join('&')}`;
  return { all: address(all), pushed: address(pushed) };
});

/** Read the fragment of the address. */
async function readAddress() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  /** @type {string[]} */
  const problems = [];
  /** @type {Record<string, any>} */
  const fields = { target: '', versus: '', word: '', text2: '', at: null, layer: null, head: null, sense: null, step: null };
  for (const part of query.split('&').filter(Boolean)) {
    const [name, raw = ''] = part.split('=');
    const field = name.replace(/\.doc$/, '');
    try {
      const value = decodeURIComponent(raw);
      if (!(field in subject)) problems.push(name);
      else if (name !== field) {
        const stored = await loadText(value);
        if (stored === null) problems.push(`${field} (a long text that was stored by another browser)`);
        else fields[field] = stored;
      } else if (!NUMBERS.has(field)) fields[field] = value;
      else if (/^\d{1,9}$/.test(value)) fields[field] = Number(value);
      else problems.push(name);
    } catch {
      problems.push(name);
    }
  }
  dropped.value = problems;
  go(path || 'models', fields);
}

/** Keep the address and the state equal. */
export async function followAddress() {
  await readAddress();
  let { pushed } = fragment.value;
  history.replaceState(null, '', fragment.value.all);
  let timer = 0;
  effect(() => {
    const next = fragment.value;
    clearTimeout(timer);
    if (next.pushed !== pushed) {
      pushed = next.pushed;
      if (location.hash !== next.all) history.pushState(null, '', next.all);
    } else {
      timer = setTimeout(() => history.replaceState(null, '', next.all), REPLACE_MILLISECONDS);
    }
  });
  addEventListener('popstate', async () => {
    clearTimeout(timer);
    await readAddress();
    pushed = untracked(() => fragment.value.pushed);
  });
}
