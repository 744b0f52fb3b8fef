// Go to a run, a view, a word, a token of the text, or a lesson.

import { call } from '../api.js';
import { html, useEffect, useState } from '../lib.js';
import { label } from '../format.js';
import { go, open, openRun, runs, set, tokens } from '../state.js';
import { Dialog } from './dialog.js';
import { missing, tabsOf } from './shell.js';

/** @param {{onClose: () => void}} properties */
export function GoTo({ onClose }) {
  const [typed, setTyped] = useState('');
  const [index, setIndex] = useState(0);
  const [lessons, setLessons] = useState(/** @type {any[]} */ ([]));
  useEffect(() => { call('lessons', {}).then((document) => setLessons(document.lessons), () => {}); }, []);
  const found = find(typed.trim(), lessons);
  const choose = (/** @type {any} */ entry) => {
    onClose();
    entry?.act();
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length) setIndex((index + step + found.length) % found.length);
    else if (event.key === 'Enter') choose(found[index]);
    else return;
    event.preventDefault();
  };
  return html`<${Dialog} title="Go to" class="goto" onClose=${onClose}>
    <input type="text" role="combobox" aria-label="Go to a run, view, word or lesson" aria-expanded="true" aria-controls="goto-list" autocomplete="off"
      aria-activedescendant=${found.length ? `goto-${index}` : null} value=${typed} autofocus onKeyDown=${keys}
      onInput=${(/** @type {any} */ event) => { setTyped(event.target.value); setIndex(0); }} />
    <ul id="goto-list" role="listbox" aria-label="Results">${found.map((entry, number) => html`
      <li id=${`goto-${number}`} key=${entry.kind + entry.text} role="option" aria-selected=${number === index}
        onClick=${() => choose(entry)}><span class="caption">${entry.kind}</span><span class=${entry.serif ? 'serif' : ''}>${entry.text}</span></li>`)}</ul>
    ${found.length ? null : html`<p class="caption">Nothing found.</p>`}<//>`;
}

/** Entries whose text contains the typed letters in their order. @param {string} typed @param {any[]} lessons */
function find(typed, lessons) {
  const run = openRun.value;
  const entries = [
    ...(run?.model === 'backpack' && typed ? [{ kind: 'sense', text: typed, serif: true, act: () => go('senses', { word: typed }) }] : []),
    ...tokens.value.map((token, at) => ({ kind: 'token', text: `${label(token.text)}, token ${at + 1}`, serif: true, act: () => set({ at }) })),
    ...(run ? tabsOf(run).filter(([name]) => !missing(name, run)).map(([name, text]) => ({ kind: 'view', text: `${text} of ${run.run}`, serif: false, act: () => go(name) })) : []),
    ...['Models', 'Compare', 'Lessons'].map((text) => ({ kind: 'place', text, serif: false, act: () => go(text.toLowerCase()) })),
    ...(runs.value ?? []).map((each) => ({ kind: 'run', text: each.run, serif: false, act: () => open(each) })),
    ...lessons.map((lesson) => ({ kind: 'lesson', text: lesson.title, serif: false, act: () => go(`lessons/${lesson.name}`, { step: 1 }) })),
  ];
  const letters = typed.toLowerCase();
  const matches = (/** @type {string} */ text) => {
    let place = -1;
    for (const letter of letters) {
      place = text.indexOf(letter, place + 1);
      if (place < 0) return false;
    }
    return true;
  };
  return entries.filter((entry) => matches(entry.text.toLowerCase())).slice(0, 12);
}
