// A dialog: the element of the browser, which keeps the focus and closes with Esc.

import { html, useEffect, useRef } from '../lib.js';

/** @param {{title: string, onClose: () => void, children?: any, class?: string}} properties */
export function Dialog({ title, onClose, children, class: name = '' }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => { if (!element.current?.open) element.current?.showModal(); }, []);
  const outside = (/** @type {MouseEvent} */ event) => { if (event.target === element.current) onClose(); };
  return html`<dialog ref=${element} class=${name} aria-label=${title} onClose=${onClose} onClick=${outside}>
    <div class="dialog-body"><div class="dialog-head"><h2>${title}</h2>
      <button type="button" class="link" onClick=${onClose}>Close <kbd>Esc</kbd></button></div>${children}</div></dialog>`;
}
