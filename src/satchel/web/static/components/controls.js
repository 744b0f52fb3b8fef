// Buttons, switches, sliders, tokens, bars.

import { html } from '../lib.js';
import { tokenLabel } from '../format.js';

/** A token in a list: serif, with a mark for the leading space. @param {{text: string, role?: string | null}} properties */
export function Token({ text, role }) {
  if (role === 'start' || role === 'end') return html`<span class="token boundary">${text}</span>`;
  const shown = tokenLabel(text);
  return html`<span class="token">${shown.mark ? html`<span class="mark">${shown.mark}</span>` : null}<bdi>${shown.text}</bdi></span>`;
}

/**
 * A choice among few values, as a row of radio buttons.
 * @param {{label: string, hidden?: boolean, value: string, options: [string, any][], onChange: (value: string) => void}} properties
 */
export function Segmented({ label, hidden = false, value, options, onChange }) {
  return html`<div class="segmented-field" role="radiogroup" aria-label=${label}>
    ${hidden ? null : html`<span class="caption" aria-hidden="true">${label}</span>`}
    <div class="segmented">${options.map(([key, text]) => html`
      <button type="button" role="radio" aria-checked=${key === value} class=${key === value ? 'on' : ''} key=${key}
        tabindex=${key === value ? 0 : -1} onClick=${() => onChange(key)} onKeyDown=${moveChoice}>${text}</button>`)}
    </div></div>`;
}

/** Move between the buttons of a radio group with the arrow keys. @param {KeyboardEvent} event */
function moveChoice(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const button = /** @type {HTMLElement} */ (event.currentTarget);
  if (!step || !button.parentElement) return;
  event.preventDefault();
  event.stopPropagation();
  const buttons = [...button.parentElement.children];
  const next = /** @type {HTMLElement} */ (buttons[(buttons.indexOf(button) + step + buttons.length) % buttons.length]);
  next.focus();
  next.click();
}

/**
 * A slider with its value as text.
 * @param {{label: string, value: number, minimum: number, maximum: number, step: number, shown: string,
 *   onChange: (value: number) => void}} properties
 */
export function Slider({ label, value, minimum, maximum, step, shown, onChange }) {
  return html`<label class="slider"><span>${label}</span>
    <input type="range" min=${minimum} max=${maximum} step=${step} value=${value} aria-label=${label} aria-valuetext=${shown}
      onInput=${(/** @type {any} */ event) => onChange(Number(event.target.value))} />
    <output>${shown}</output></label>`;
}

/** A bar from zero. @param {{share: number, class?: string}} properties */
export const Bar = ({ share, class: name = '' }) =>
  html`<span class="bar-track"><span class=${`bar ${name}`} style=${{ width: `${100 * Math.max(0, Math.min(1, share))}%` }}></span></span>`;

/** A key of the keyboard. @param {{children: any}} properties */
export const Key = ({ children }) => html`<kbd>${children}</kbd>`;

/** A button that looks like a link. @param {any} properties */
export const Link = ({ children, ...more }) => html`<button type="button" class="link" ...${more}>${children}</button>`;

/** A section with a heading and an explanation beside it. @param {any} properties */
export const Section = ({ title, note, children, actions, class: name = '' }) => html`
  <section class=${name}><div class="section-head"><h2>${title}</h2>${note ? html`<span class="note">${note}</span>` : null}
    ${actions ? html`<span class="actions">${actions}</span>` : null}</div>${children}</section>`;
