// A cell with a number that can be typed, dragged sideways, and changed with the arrow keys.

import { html, useEffect, useRef, useState } from '../lib.js';
import { fraction, parseNumber } from '../format.js';

const PER_PIXEL = 0.05;

/**
 * @param {{value: number, label: string, minimum?: number | null, maximum?: number | null, isInteger?: boolean, onChange: (value: number) => void}} properties
 */
export function NumberCell({ value, label, minimum = null, maximum = null, isInteger = false, onChange }) {
  const [typed, setTyped] = useState(/** @type {string | null} */ (null));
  const drag = useRef(/** @type {{x: number, value: number, isMoved: boolean} | null} */ (null));
  useEffect(() => { setTyped(null); }, [value]);
  const change = (/** @type {number} */ next) => {
    const rounded = isInteger ? Math.round(next) : Math.round(next * 1e6) / 1e6;
    const bounded = Math.max(minimum ?? -Infinity, Math.min(maximum ?? Infinity, rounded));
    if (Number.isFinite(bounded) && bounded !== value) onChange(bounded);
  };
  const input = (/** @type {any} */ event) => {
    setTyped(event.target.value);
    const parsed = parseNumber(event.target.value);
    if (Number.isFinite(parsed)) change(parsed);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (step) {
      event.preventDefault();
      change(value + step * (isInteger ? 1 : 0.1));
    } else if (event.key === 'Escape') setTyped(null);
  };
  const start = (/** @type {PointerEvent} */ event) => { drag.current = { x: event.clientX, value, isMoved: false }; };
  const move = (/** @type {PointerEvent} */ event) => {
    if (!drag.current || !event.buttons) return;
    const distance = event.clientX - drag.current.x;
    if (!drag.current.isMoved && Math.abs(distance) < 4) return;
    drag.current.isMoved = true;
    /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
    const factor = event.altKey ? 0.5 : event.shiftKey ? 0.01 : PER_PIXEL;
    change(drag.current.value + Math.round(distance) * (isInteger ? Math.max(factor, 0.1) : factor));
  };
  return html`<input type="text" inputmode="decimal" class="number-cell" aria-label=${label} value=${typed ?? fraction(value).replace('−', '-')} onInput=${input} onKeyDown=${keys}
    onBlur=${() => setTyped(null)} onPointerDown=${start} onPointerMove=${move} onPointerUp=${() => { drag.current = null; }} />`;
}
