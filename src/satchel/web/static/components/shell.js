// The bars at the top: places, go-to, theme, keys; run picker, tabs and figures of the open run.

import { html, signal, useEffect, useRef, useState } from '../lib.js';
import { connection, origin, useAddress } from '../api.js';
import { announced } from '../clipboard.js';
import { baselineName, kindName, metric, parameters } from '../format.js';
import { dropped, go, open, openRun, place, runs, subject } from '../state.js';
import { toggleTheme } from '../theme.js';
import { shortcutsEnabled, SHORTCUTS, toggleShortcuts } from '../keys.js';
import { Key } from './controls.js';
import { Dialog } from './dialog.js';
import { GoTo } from './goto.js';

export const isKeysOpen = signal(false);
export const isGoToOpen = signal(false);

/** Tabs of the pages of a run, by task. @type {Record<string, [string, string][]>} */
const FIRST = {
  lm: [['write', 'Write']], classify: [['classify', 'Classify']], tag: [['tag', 'Tag']], translate: [['translate', 'Translate']],
};
const OTHERS = /** @type {[string, string][]} */ ([
  ['attention', 'Attention'], ['senses', 'Senses'], ['edit', 'Edit'], ['tokens', 'Tokens'], ['training', 'Training'],
]);

/** Why a model has no such page; an empty text if it has. @param {string} name @param {any} run */
export function missing(name, run) {
  const kind = run?.model;
  if (kind === 'mix' && (name === 'attention' || name === 'senses')) return 'A mix combines several runs: open one of them';
  if (name === 'attention' && (kind === 'ngram' || kind === 'dan' || kind === 'window')) return `A ${kindName(kind)} model has no attention`;
  if (name === 'attention' && ['rnn', 'gru', 'lstm'].includes(kind) && run.task !== 'translate') return `A ${kindName(kind)} model has no attention`;
  if (name === 'senses' && kind !== 'backpack') return `A ${kindName(kind)} model has no senses`;
  return '';
}

/** The pages of a run. @param {any} run */
export const tabsOf = (run) => [...(FIRST[run?.task] ?? FIRST.lm), ...OTHERS];

/** The first bar. */
export function TopBar() {
  const places = /** @type {[string, string][]} */ ([['models', 'Models'], ['compare', 'Compare'], ['lessons', 'Lessons']]);
  const present = place.value.name;
  return html`<header class="bar1">
    <a class="brand" href="#/models" onClick=${follow('models')}><svg width="18" height="18" viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.6" aria-hidden="true"
      ><rect x="2.5" y="6.5" width="15" height="10.5" rx="2" /><path d="M7 6.5V4.5a1.5 1.5 0 0 1 1.5-1.5h3A1.5 1.5 0 0 1 13 4.5v2M2.5 11h15M8.5 11v2h3v-2" /></svg>Satchel</a>
    <nav aria-label="Places">${places.map(([name, text]) => html`<a key=${name} href=${`#/${name}`} onClick=${follow(name)}
      aria-current=${present === name || (name === 'models' && present === 'train') ? 'page' : null}>${text}</a>`)}</nav>
    <span class="spacer"></span>
    <button type="button" class="goto-button" onClick=${() => { isGoToOpen.value = true; }}><span>Go to a run, view, word or lesson</span><${Key}>/<//></button>
    <span class="caption host">${origin}</span>
    <button type="button" class="plain" title="Switch between light and dark" onClick=${toggleTheme}><span aria-hidden="true">◑</span><span class="hidden">Theme</span></button>
    <button type="button" class="plain" title="Keys" onClick=${() => { isKeysOpen.value = true; }}><span aria-hidden="true">?</span><span class="hidden">Keys</span></button>
  </header>`;
}

/** Follow a link without the default of the browser. @param {string} target */
const follow = (target) => (/** @type {MouseEvent} */ event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(target);
};

/** The second bar, for the open run. */
export function RunBar() {
  const run = openRun.value;
  const tabs = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const current = /** @type {HTMLElement | null | undefined} */ (tabs.current?.querySelector('[aria-current]'));
    if (tabs.current && current) tabs.current.scrollLeft = current.offsetLeft - tabs.current.offsetLeft - 40;
  }, [place.value.name]);
  return html`<section class="bar2" aria-label="Run"><${RunPicker} />
    <nav class="tabs" aria-label="Views" ref=${tabs}>${tabsOf(run).map(([name, text]) => html`<a key=${name} href=${`#/${name}`} onClick=${follow(name)}
      class=${missing(name, run) ? 'missing' : ''} title=${missing(name, run) || null}
      aria-current=${place.value.name === name ? 'page' : null}>${text}</a>`)}</nav>
    <span class="spacer"></span><span class="figures">${figures(run)}</span></section>`;
}

/** The figures of a run with its baseline. @param {any} run */
export function figures(run) {
  if (!run) return '';
  const parts = [];
  if (run.parameters !== null && run.model !== 'ngram') parts.push(`${parameters(run.parameters)} parameters`);
  if (run.value !== null) parts.push(metric(run.metric, run.value));
  if (run.baseline) parts.push(`${baselineName(run.baseline.name)} ${metric(run.metric, run.baseline.value).replace(/^[A-Za-z ]+ |\s?bits\/byte$/g, '')}`);
  return parts.join(' · ');
}

/** The menu of runs: bundled models first, then runs by date. */
function RunPicker() {
  const [isOpen, setOpen] = useState(false);
  const [search, setSearch] = useState('');
  const holder = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!isOpen) return undefined;
    const close = (/** @type {Event} */ event) => { if (!holder.current?.contains(/** @type {Node} */ (event.target))) setOpen(false); };
    document.addEventListener('pointerdown', close);
    holder.current?.querySelector('input')?.focus();
    return () => document.removeEventListener('pointerdown', close);
  }, [isOpen]);
  const run = openRun.value;
  const isBundled = (/** @type {any} */ each) => each.run.startsWith('@model:');
  const listed = (runs.value ?? [])
    .filter((each) => each.status !== 'damaged' && each.run.toLowerCase().includes(search.toLowerCase()))
    .sort((a, b) => Number(isBundled(b)) - Number(isBundled(a)) || b.created - a.created);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Escape' && isOpen) {
      event.stopPropagation();
      setOpen(false);
      holder.current?.querySelector('button')?.focus();
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !isOpen) return;
    event.preventDefault();
    event.stopPropagation();
    const items = /** @type {HTMLElement[]} */ ([...(holder.current?.querySelectorAll('.run-choice') ?? [])]);
    items[Math.max(0, Math.min(items.length - 1, items.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + step))]?.focus();
  };
  return html`<div class="run-picker" ref=${holder} onKeyDown=${keys}>
    <button type="button" class="run-button" aria-expanded=${isOpen} aria-haspopup="dialog" onClick=${() => setOpen(!isOpen)}>
      <strong>${run?.run ?? (subject.run.value || 'Choose a run')}</strong>${run ? html`<span class="caption">${kindName(run.model)}, ${run.task}</span>` : null}
      <span class="chevron" aria-hidden="true">⌄</span></button>
    ${isOpen ? html`<div class="popover left" role="dialog" aria-label="Runs">
      <input type="search" aria-label="Search runs" placeholder="Search" value=${search} onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} />
      ${listed.map((each) => html`<button type="button" key=${each.run} class="run-choice" onClick=${() => { setOpen(false); open(each); }}>
        <strong>${each.run}</strong><span class="caption">${kindName(each.model)}, ${each.task}</span><span class="caption">${metric(each.metric, each.value)}</span></button>`)}
      ${listed.length ? null : html`<p class="caption">No run has this name.</p>`}</div>` : null}</div>`;
}

/** What the page says when the server does not answer, or does not accept the token. */
export function ConnectionBand() {
  const [address, setAddress] = useState('');
  if (connection.value === 'ok') return null;
  if (connection.value === 'stopped') {
    return html`<div class="band" role="status"><strong>No answer from ${origin}.</strong> Results on the page remain; new ones need the server.
      Start it again with <code>satchel serve</code>. The page reconnects without a reload.</div>`;
  }
  return html`<form class="band" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); useAddress(address); }}>
    <p><strong>The server does not accept the token of this page.</strong> It has been started again, or the address was incomplete.
      Paste the address that <code>satchel serve</code> has printed. With SATCHEL_TOKEN set, the token stays the same.</p>
    <label>Address <input type="text" size="48" autocomplete="off" value=${address} onInput=${(/** @type {any} */ event) => setAddress(event.target.value)} /></label>
    <button type="submit" class="primary">Connect</button></form>`;
}

/** Parts of the address that could not be read. */
export const DroppedFields = () => (dropped.value.length
  ? html`<p class="dropped" role="status">Ignored in the address: ${dropped.value.join(', ')}.</p>` : null);

/** The dialogs and the live region of the page. */
export function Overlays() {
  return html`<div class="hidden" role="status" aria-live="polite">${announced.value}</div>
    ${isGoToOpen.value ? html`<${GoTo} onClose=${() => { isGoToOpen.value = false; }} />` : null}
    ${isKeysOpen.value ? html`<${Dialog} title="Keys" onClose=${() => { isKeysOpen.value = false; }}>
      <table class="keys"><tbody>${SHORTCUTS.map(([keys, action]) => html`<tr key=${action}><td>${keys.map((key) => html`<${Key} key=${key}>${key}<//> `)}</td><td>${action}</td></tr>`)}</tbody></table>
      <label class="check"><input type="checkbox" checked=${shortcutsEnabled.value} onChange=${toggleShortcuts} /> Use single-letter keys</label><//>` : null}`;
}
