// The text strip: the text as tokens, which can be selected and edited.

import { html, useEffect, useRef, useState } from '../lib.js';
import { useRequest } from '../api.js';
import { examplesOf } from '../examples.js';
import { count, tokenLabel, visible } from '../format.js';
import { pieceOf, placeTokens } from '../pieces.js';
import { openRun, set, subject, tokens } from '../state.js';
import { Key, Link } from './controls.js';
import { Menu } from './menu.js';

// Texts with at most so many tokens are applied while they are edited, after a pause in milliseconds.
const SHORT = 200;
const PAUSE = 300;

/**
 * Tokens as running text. One token is in the tab order; arrow keys move between tokens.
 * @param {{tokens: any[], at: number | null, onSelect: (at: number | null) => void, label: string,
 *   decorate?: (token: any, index: number) => {class?: string, style?: object, name?: string}, children?: any}} properties
 */
export function TokenText({ tokens: list, at, onSelect, label, decorate, children }) {
  const holder = useRef(/** @type {HTMLElement | null} */ (null));
  const move = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      const index = Number(/** @type {HTMLElement} */ (event.target).dataset.index);
      onSelect(index === at ? null : index);
    } else if (step) {
      event.preventDefault();
      event.stopPropagation();
      const next = Math.max(0, Math.min(list.length - 1, (at ?? (step > 0 ? -1 : list.length)) + step));
      onSelect(next);
      /** @type {HTMLElement | undefined} */ (holder.current?.querySelectorAll('[role=option]')[next])?.focus();
    }
  };
  const stop = at ?? 0;
  return html`<div class="token-text" role="listbox" aria-label=${label} aria-orientation="horizontal" ref=${holder} onKeyDown=${move}>
    ${list.map((token, index) => {
      const look = decorate?.(token, index) ?? {};
      return html`<span role="option" key=${index} data-index=${index} aria-selected=${index === at} style=${look.style}
        tabindex=${index === stop ? 0 : -1} class=${`piece ${look.class ?? ''}${index === at ? ' selected' : ''}`}
        aria-label=${`${tokenLabel(token.text).text || 'space'}${look.name ? `, ${look.name}` : ''}, token ${index + 1} of ${list.length}`}
        onClick=${() => onSelect(index === at ? null : index)}>${pieceText(token)}</span>`;
    })}${children}</div>`;
}

/** The text of a token in running text: line breaks are marked and kept. @param {any} token */
function pieceText(token) {
  const { role } = token;
  const text = pieceOf(token);
  if (role === 'start' || role === 'end') return html`<span class="boundary">${token.text}</span>`;
  if (!text.includes('\n') && !text.includes('\t')) return visible(text);
  return text.split(/(\n+|\t)/).map((/** @type {string} */ part) => {
    if (part === '\t') return html`<span class="space">⇥</span>${'\t'}`;
    return part.startsWith('\n') ? html`<span class="space">${part.length > 1 ? '¶' : '↵'}</span>${part}` : visible(part);
  });
}

/** The strip below the tabs. @param {{label?: string}} properties */
export function TextStrip({ label = 'Text' }) {
  const run = openRun.value;
  const text = subject.text.value;
  const request = useRequest('tokenize', text && run ? { run: run.run, text } : null);
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  useEffect(() => { tokens.value = request.data && text ? placeTokens(text, request.data.tokens) : []; }, [request.data, text]);
  useEffect(() => { setDraft(null); }, [text]);
  useEffect(() => {
    if (!text && run) set({ text: examplesOf(run)[0] });
  }, [text, run?.run]);
  useEffect(() => {
    if (draft === null || draft === text || tokens.value.length > SHORT || !draft.trim()) return undefined;
    const timer = setTimeout(() => apply(draft), PAUSE);
    return () => clearTimeout(timer);
  }, [draft]);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const isOpen = useRef(false);
  const apply = (/** @type {string} */ next) => { if (next.trim()) set({ text: next, at: null, target: '', versus: '' }); };
  const close = () => {
    isOpen.current = false;
    setDraft(null);
  };
  const edit = () => {
    isOpen.current = true;
    setDraft(text);
    requestAnimationFrame(() => field.current?.focus());
  };
  const isEditing = draft !== null || isOpen.current;
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Escape') {
      event.stopPropagation();
      close();
    } else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.stopPropagation();
      apply(draft ?? text);
      close();
    }
  };
  const choices = examplesOf(run).map((each) => ({ key: each, text: each, serif: true, onChoose: () => apply(each) }));
  return html`<section aria-label=${`${label} of the view`} class=${`strip${draft !== null && draft !== text ? ' stale-line' : ''}`}>
    <span class="strip-label">${label}</span>
    <div class="strip-text">${isEditing
      ? html`<textarea ref=${field} aria-label=${label} rows="2" spellcheck=${false} value=${draft ?? text} onKeyDown=${keys}
          onInput=${(/** @type {any} */ event) => setDraft(event.target.value)}></textarea>`
      : !tokens.value.length && text ? html`<div class="token-text">${visible(text.slice(0, 2000))}</div>`
      : html`<${TokenText} tokens=${tokens.value} at=${subject.at.value} label=${`${label}, as tokens`}
          onSelect=${(/** @type {number | null} */ at) => set({ at })} />`}</div>
    <div class="strip-actions"><span class="caption">${request.error ? request.error.message : `${count(request.data?.tokens?.length ?? 0)} tokens`}</span>
      <${Menu} label="Examples" entries=${choices} />
      ${isEditing
        ? html`<${Link} onClick=${() => { apply(draft ?? text); close(); }}>Done <${Key}>Ctrl ↵<//><//>`
        : html`<${Link} data-key="t" onClick=${edit}>Edit text <${Key}>T<//><//>`}</div>
  </section>`;
}
