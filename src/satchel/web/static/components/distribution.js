// A list of tokens with their probabilities.

import { html } from '../lib.js';
import { fixed, probability } from '../format.js';
import { Bar, Token } from './controls.js';

/**
 * @param {{entries: {text: string, role?: string | null, probability: number}[], present?: string | null, hasBits?: boolean,
 *   numbered?: boolean, onChoose?: (entry: any) => void, chosen?: string | null, label: string}} properties
 */
export function Distribution({ entries, present = null, hasBits = false, numbered = false, onChoose, chosen = null, label }) {
  const largest = Math.max(...entries.map((entry) => entry.probability), 1e-9);
  const row = (/** @type {any} */ entry, /** @type {number} */ index) => {
    const isPresent = entry.text === present;
    const cells = html`
      ${numbered ? html`<span class="number">${index < 9 ? index + 1 : ''}</span>` : null}
      <span class="name"><${Token} ...${entry} /></span>
      <${Bar} share=${entry.probability / largest} class=${isPresent ? 'pos' : ''} />
      <span class="value">${probability(entry.probability)}</span>
      ${hasBits ? html`<span class="bits">${fixed(-Math.log2(entry.probability), 1)}</span>` : null}`;
    const name = `distribution-row${isPresent ? ' present' : ''}${entry.text === chosen ? ' chosen' : ''}`;
    return html`<li key=${entry.text}>${onChoose
      ? html`<button type="button" class=${name} aria-pressed=${entry.text === chosen} onClick=${() => onChoose(entry)}>${cells}</button>`
      : html`<span class=${name}>${cells}</span>`}</li>`;
  };
  return html`<ol class=${`distribution${numbered ? ' numbered' : ''}${hasBits ? ' with-bits' : ''}`} aria-label=${label}>${entries.map(row)}</ol>`;
}
