// Keys that act on the whole page.

import { signal } from './lib.js';
import { firstPage, go, openRun, set, subject, tokens } from './state.js';
import { toggleTheme } from './theme.js';

const STORED = 'satchel-keys';

/** Whether single letters act. */
export const shortcutsEnabled = signal(localStorage.getItem(STORED) !== 'off');

/** Switch single-letter keys on or off. */
export function toggleShortcuts() {
  shortcutsEnabled.value = !shortcutsEnabled.value;
  localStorage.setItem(STORED, shortcutsEnabled.value ? 'on' : 'off');
}

/** Keys and what they do, for the keys dialog. @type {[string[], string][]} */
export const SHORTCUTS = [
  [['/'], 'go to'],
  [['G', 'W'], 'Write, Classify, Tag or Translate; A Attention, S Senses, E Edit, K Tokens, T Training, C Compare, L Lessons, M Models'],
  [['J', 'K'], 'next, previous token'],
  [['←', '→', '↑', '↓'], 'head, layer; cell in a focused matrix'],
  [['P'], 'pin the token or cell'],
  [['T'], 'edit the text'],
  [['1', '9'], 'take an alternative (Write)'],
  [['B'], 'bookmark the branch (Write)'],
  [['Ctrl ↵'], 'continue, apply'],
  [['Z', '⇧Z'], 'undo, redo'],
  [['W'], 'another word (Senses)'],
  [['[', ']'], 'previous, next step (Lessons)'],
  [['C'], 'copy the command'],
  [['D'], 'light or dark'],
  [['?'], 'these keys'],
  [['Esc'], 'stop, close, unselect'],
];

/** @type {Record<string, string>} */
const PLACES = { a: 'attention', s: 'senses', e: 'edit', k: 'tokens', t: 'training', c: 'compare', l: 'lessons', m: 'models' };

/**
 * Handlers of the present view by key, such as `ArrowLeft` or `z`; `Z` with Shift.
 * @type {Record<string, (event: KeyboardEvent) => void>}
 */
export const viewKeys = {};

let isGoing = false;

/** @param {{openGoTo: () => void, openKeys: () => void, hasDialog: () => boolean}} actions */
export function listen({ openGoTo, openKeys, hasDialog }) {
  addEventListener('keydown', (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const isTyping = target.matches('input:not([type=range], [type=checkbox], [type=radio]), textarea, select, [contenteditable]');
    if (hasDialog() || document.querySelector('dialog[open]')) return;
    if ((event.ctrlKey || event.metaKey) && event.key === 'Enter' && viewKeys['Ctrl+Enter']) {
      event.preventDefault();
      viewKeys['Ctrl+Enter'](event);
      return;
    }
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.matches('input[type=range]') && event.key.startsWith('Arrow')) return;
    const key = event.key.length === 1 && !event.shiftKey ? event.key.toLowerCase() : event.key;
    if (event.key.length === 1 && !shortcutsEnabled.value) return;
    if (isGoing) {
      isGoing = false;
      if (key === 'w') go(firstPage(openRun.value));
      else if (PLACES[key]) go(PLACES[key]);
      event.preventDefault();
      return;
    }
    /** @type {Record<string, () => void>} */
    const general = {
      g: () => { isGoing = true; },
      '/': openGoTo, '?': openKeys, d: toggleTheme,
      j: () => move(1), k: () => move(-1),
      t: () => press('t'), c: () => press('c'), w: () => press('w'),
      Escape: () => set({ at: null }),
    };
    const action = viewKeys[key] ?? general[key];
    if (!action) return;
    event.preventDefault();
    action(event);
  });
}

/** Click the button or focus the field of the view with this key. @param {string} key */
function press(key) {
  const found = /** @type {HTMLElement | null} */ (document.querySelector(`[data-key="${key}"]`));
  if (found?.matches('input')) found.focus();
  else found?.click();
}

/** Select the next or previous token. @param {number} step */
function move(step) {
  const last = tokens.value.length - 1;
  const at = subject.at.value;
  if (last >= 0) set({ at: at === null ? (step > 0 ? 0 : last) : Math.max(0, Math.min(last, at + step)) });
}
