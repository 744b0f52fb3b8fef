// A button that opens a list of choices.

import { html, useEffect, useRef, useState } from '../lib.js';

/**
 * @param {{label: any, name?: string, class?: string, align?: 'left' | 'right',
 *   entries: {key: string, text: any, serif?: boolean, heading?: boolean, onChoose?: () => void}[]}} properties
 */
export function Menu({ label, name, class: className = '', align = 'right', entries }) {
  const [isOpen, setOpen] = useState(false);
  const holder = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!isOpen) return undefined;
    const close = (/** @type {Event} */ event) => {
      if (!holder.current?.contains(/** @type {Node} */ (event.target))) setOpen(false);
    };
    document.addEventListener('pointerdown', close);
    /** @type {HTMLElement | null | undefined} */ (holder.current?.querySelector('[role=menuitem]'))?.focus();
    return () => document.removeEventListener('pointerdown', close);
  }, [isOpen]);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (!isOpen) return;
    const items = /** @type {HTMLElement[]} */ ([...(holder.current?.querySelectorAll('[role=menuitem]') ?? [])]);
    const present = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Escape') {
      setOpen(false);
      /** @type {HTMLElement | null | undefined} */ (holder.current?.querySelector('button'))?.focus();
    } else if (step) {
      items[(present + step + items.length) % items.length]?.focus();
    } else if (event.key !== 'Tab') {
      return;
    } else {
      setOpen(false);
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<span class=${`menu ${className}`} ref=${holder} onKeyDown=${keys}>
    <button type="button" class="link menu-button" aria-haspopup="menu" aria-expanded=${isOpen} aria-label=${name}
      onClick=${() => setOpen(!isOpen)}>${label} <span aria-hidden="true" class="chevron">⌄</span></button>
    ${isOpen ? html`<div class=${`popover ${align}`} role="menu" aria-label=${name ?? label}>${entries.map((entry) => entry.heading
      ? html`<div class="menu-heading" role="presentation" key=${entry.key}>${entry.text}</div>`
      : html`<button type="button" role="menuitem" tabindex="-1" key=${entry.key} class=${entry.serif ? 'serif' : ''}
          onClick=${() => { setOpen(false); entry.onChoose?.(); }}>${entry.text}</button>`)}</div>` : null}</span>`;
}
