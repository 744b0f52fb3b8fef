// Small images of all attention heads.

import { html, useEffect, useRef } from '../lib.js';
import { fixed } from '../format.js';
import { theme } from '../theme.js';

/** Short names of patterns. @type {Record<string, string>} */
const SHORT = { previous: 'prev' };

/** Thumbnails of a reply as arrays of bytes. @param {any} thumbnails @returns {{layers: number, heads: number, height: number, width: number, image: (layer: number, head: number) => Uint8Array}} */
export function readThumbnails({ shape, data }) {
  const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
  const [layers, heads, height, width] = shape;
  const size = height * width;
  return { layers, heads, height, width, image: (layer, head) => bytes.subarray((layer * heads + head) * size, (layer * heads + head + 1) * size) };
}

/**
 * The best pattern of each head, if its weight is at least 1.6 times that of uniform attention.
 * @param {any[]} entries `heads` of a reply of patterns
 */
export function bestPatterns(entries) {
  /** @type {Map<string, any>} */
  const best = new Map();
  for (const entry of entries) {
    const key = `${entry.layer}·${entry.head}`;
    if (entry.queries < 3 || entry.weight < 1.6 * entry.chance || entry.pattern === 'new') continue;
    if (!best.has(key) || best.get(key).weight < entry.weight) best.set(key, entry);
  }
  return best;
}

/**
 * @param {{thumbnails: ReturnType<typeof readThumbnails>, patterns: Map<string, any>, layer: number, head: number, largest: number[][] | null,
 *   onSelect: (layer: number, head: number) => void}} properties
 */
export function HeadGrid({ thumbnails, patterns, layer, head, largest, onSelect }) {
  const { layers, heads } = thumbnails;
  const size = Math.max(layers, heads) > 8 ? 40 : 83;
  return html`<div class="head-grid" role="group" aria-label="All heads">${Array.from({ length: layers }, (_, row) => html`
    <div class="head-row" key=${row}><span class="caption">${row}</span>${Array.from({ length: heads }, (__, column) => {
      const pattern = patterns.get(`${row}·${column}`);
      const caption = pattern ? `${SHORT[pattern.pattern] ?? pattern.pattern} ${fixed(pattern.weight, 2)}` : '';
      const isOn = row === layer && column === head;
      return html`<button type="button" class=${`head${isOn ? ' on' : ''}`} key=${column} aria-pressed=${isOn} title=${`layer ${row}, head ${column} ${caption}`}
        aria-label=${`Layer ${row}, head ${column}${caption ? `, ${caption}` : ''}`} onClick=${() => onSelect(row, column)}>
        <${Thumbnail} image=${thumbnails.image(row, column)} height=${thumbnails.height} width=${thumbnails.width} size=${size} largest=${largest?.[row]?.[column] ?? 1} />
        ${size > 40 ? html`<span class="head-caption"><span>${row}·${column}</span><span>${caption}</span></span>` : null}</button>`;
    })}</div>`)}</div>`;
}

/** @param {{image: Uint8Array, height: number, width: number, size: number, largest: number}} properties */
function Thumbnail({ image, height, width, size, largest }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const look = theme.value;
  useEffect(() => {
    const context = canvas.current?.getContext('2d');
    if (!context) return;
    const pixels = context.createImageData(width, height);
    image.forEach((value, index) => pixels.data.set([...look.weight((value / 255) * largest), 255], 4 * index));
    context.putImageData(pixels, 0, 0);
  }, [image, look]);
  return html`<canvas ref=${canvas} width=${width} height=${height} style=${{ width: `${size}px`, height: `${size}px` }}></canvas>`;
}
