// Editing is not available yet.

import { html } from '../lib.js';
import { Empty } from '../components/states.js';
import { go, openRun } from '../state.js';

export const Page = () => html`<${Empty} title="Editing is not available yet" buttons=${openRun.value?.model === 'backpack' ? html`
  <button type="button" onClick=${() => go('senses/context')}>Contributions of the text</button><button type="button" onClick=${() => go('senses')}>Senses of a word</button>` : null}>
  A later version changes senses, heads and vectors here, and shows what a change costs.<//>`;
