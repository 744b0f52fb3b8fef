// The clipboard, files, and the text that is spoken by screen readers.

import { signal } from './lib.js';

/** Text of the live region. */
export const announced = signal('');

/** @param {string} text */
export const announce = (text) => { announced.value = text; };

/** Copy a text. @param {string} text */
export async function copy(text) {
  await navigator.clipboard.writeText(text);
  announce('Copied');
}

/** Save a file. @param {string} name @param {Blob | string} content @param {string} [type] */
export function save(name, content, type = 'text/plain') {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
  announce(`Saved ${name}`);
}
