// The width of an element, for drawings that fill a column.

import { useEffect, useRef, useState } from '../lib.js';

/** A reference for an element, and its width in pixels. @param {number} initial @returns {[any, number]} */
export function useWidth(initial) {
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, setWidth] = useState(initial);
  useEffect(() => {
    if (!element.current) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}
