// Senses: of a word, and in context.

import { html } from '../lib.js';
import { Segmented } from '../components/controls.js';
import { go, place } from '../state.js';
import { Contributions } from './contributions.js';
import { Word } from './word.js';

/** The switch between the two modes. */
export const Modes = () => html`<${Segmented} label="Senses" hidden value=${place.value.part === 'context' ? 'context' : 'word'} options=${[['word', 'Word'], ['context', 'In context']]}
  onChange=${(/** @type {string} */ mode) => go(mode === 'context' ? 'senses/context' : 'senses')} />`;

export const Page = () => (place.value.part === 'context' ? html`<${Contributions} modes=${Modes} />` : html`<${Word} modes=${Modes} />`);
