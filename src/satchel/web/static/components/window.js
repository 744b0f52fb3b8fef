// Long texts: an overview of the whole text, and the window of tokens that a view shows.

import { html, useEffect } from '../lib.js';
import { count } from '../format.js';
import { viewKeys } from '../keys.js';
import { subject, tokens } from '../state.js';

/** Number of tokens in a window. */
export const LONG = 256;

/** @param {{start: number, onStart: (start: number) => void, values?: number[]}} properties */
export function WindowStrip({ start, onStart, values }) {
  const total = tokens.value.length;
  const most = Math.max(0, total - LONG);
  const move = (/** @type {number} */ next) => onStart(Math.max(0, Math.min(most, Math.round(next))));
  useEffect(() => {
    Object.assign(viewKeys, { PageDown: () => move(start + LONG), PageUp: () => move(start - LONG) });
    return () => { delete viewKeys.PageDown; delete viewKeys.PageUp; };
  });
  const at = subject.at.value;
  useEffect(() => { if (at !== null && (at < start || at >= start + LONG)) move(at - LONG / 2); }, [at]);
  const bars = 200;
  const per = Math.ceil(total / bars);
  const height = (/** @type {number} */ bar) => {
    if (!values) return 6;
    const part = values.slice(bar * per, (bar + 1) * per);
    return Math.max(1, Math.min(24, (2.4 * part.reduce((sum, each) => sum + each, 0)) / Math.max(1, part.length)));
  };
  return html`<div class="window-strip"><svg width="100%" height="28" viewBox=${`0 0 ${bars} 28`} preserveAspectRatio="none" aria-hidden="true">
      ${Array.from({ length: Math.ceil(total / per) }, (_, bar) => html`<rect key=${bar} x=${bar} y=${26 - height(bar)} width="0.8" height=${height(bar)} fill="var(--s4)" />`)}
      <rect x=${start / per} y="0" width=${LONG / per} height="28" fill="none" stroke="var(--accent)" stroke-width="2" vector-effect="non-scaling-stroke" /></svg>
    <label><span class="hidden">First token of the window</span><input type="range" min="0" max=${most} step="16" value=${start} onInput=${(/** @type {any} */ event) => move(Number(event.target.value))} /></label>
    <p class="caption">Tokens ${count(start + 1)} to ${count(Math.min(total, start + LONG))} of ${count(total)}. Move the window with the slider or <kbd>PgUp</kbd> <kbd>PgDn</kbd>.</p></div>`;
}
