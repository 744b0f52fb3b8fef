// Drawings as lists of SVG shapes: the page renders them as elements, and saved files are made of the same shapes.

import { h } from './lib.js';

/**
 * A shape: the name of an SVG element and its attributes. `text` is the content of text elements, `title` a tooltip,
 * `onClick` makes the shape a control.
 * @typedef {{tag: string, text?: string, title?: string, onClick?: () => void, [attribute: string]: any}} Shape
 * @typedef {{width: number, height: number, shapes: Shape[]}} Drawing
 */

const FONTS = {
  sans: 'system-ui, -apple-system, "Segoe UI", Inter, Roboto, "Noto Sans", "DejaVu Sans", sans-serif',
  serif: 'Charter, "Iowan Old Style", "Charis SIL", Georgia, "Noto Serif", "DejaVu Serif", serif',
  mono: 'ui-monospace, "SF Mono", Consolas, "DejaVu Sans Mono", monospace',
};

/** @param {number} x @param {number} y @param {number} width @param {number} height @param {string} fill @param {object} [more] @returns {Shape} */
export const rect = (x, y, width, height, fill, more = {}) =>
  ({ tag: 'rect', x: tidy(x), y: tidy(y), width: tidy(Math.max(0, width)), height: tidy(Math.max(0, height)), fill, ...more });

/** @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {string} stroke @param {object} [more] @returns {Shape} */
export const line = (x1, y1, x2, y2, stroke, more = {}) =>
  ({ tag: 'line', x1: tidy(x1), y1: tidy(y1), x2: tidy(x2), y2: tidy(y2), stroke, ...more });

/** @param {string} d @param {string} stroke @param {object} [more] @returns {Shape} */
export const path = (d, stroke, more = {}) => ({ tag: 'path', d, stroke, fill: 'none', ...more });

/** @param {number} cx @param {number} cy @param {number} r @param {string} fill @param {object} [more] @returns {Shape} */
export const circle = (cx, cy, r, fill, more = {}) => ({ tag: 'circle', cx: tidy(cx), cy: tidy(cy), r: tidy(r), fill, ...more });

/**
 * @param {number} x @param {number} y baseline @param {string} content @param {string} fill
 * @param {{size?: number, font?: keyof FONTS, anchor?: 'start' | 'middle' | 'end', weight?: number, [more: string]: any}} [options]
 * @returns {Shape}
 */
export const write = (x, y, content, fill, { size = 12, font = 'sans', anchor = 'start', weight = 400, ...more } = {}) => ({
  tag: 'text', x: tidy(x), y: tidy(y), text: content, fill, 'font-size': size, 'font-family': FONTS[font],
  'text-anchor': anchor, 'font-weight': weight, 'xml:space': 'preserve', ...more,
});

/** @param {number} value */
const tidy = (value) => Math.round(value * 100) / 100;

/** A curve from one point to another that is vertical or horizontal at its ends. */
export const curveDown = (/** @type {number} */ x1, /** @type {number} */ y1, /** @type {number} */ x2, /** @type {number} */ y2) =>
  `M${tidy(x1)},${tidy(y1)}C${tidy(x1)},${tidy((y1 + y2) / 2)} ${tidy(x2)},${tidy((y1 + y2) / 2)} ${tidy(x2)},${tidy(y2)}`;
export const curveAcross = (/** @type {number} */ x1, /** @type {number} */ y1, /** @type {number} */ x2, /** @type {number} */ y2) =>
  `M${tidy(x1)},${tidy(y1)}C${tidy((x1 + x2) / 2)},${tidy(y1)} ${tidy((x1 + x2) / 2)},${tidy(y2)} ${tidy(x2)},${tidy(y2)}`;

const ruler = document.createElement('canvas').getContext('2d');

/** The width of a text in pixels. @param {string} content @param {number} size @param {keyof FONTS} font @param {number} [weight] */
export function measure(content, size, font, weight = 400) {
  if (!ruler) return content.length * size * 0.6;
  ruler.font = `${weight} ${size}px ${FONTS[font]}`;
  return ruler.measureText(content).width;
}

/** The beginning of a text that fits into a width. @param {string} content @param {number} width @param {number} size @param {keyof FONTS} font */
export function shorten(content, width, size, font) {
  if (measure(content, size, font) <= width) return content;
  let length = content.length;
  while (length > 1 && measure(`${content.slice(0, length)}…`, size, font) > width) length -= 1;
  return `${content.slice(0, length)}…`;
}

/**
 * Render a drawing. `label` describes it for screen readers.
 * @param {{drawing: Drawing, label: string, class?: string}} properties
 */
export function Picture({ drawing, label, ...more }) {
  const { width, height, shapes } = drawing;
  return h('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label, ...more }, shapes.map(element));
}

/** @param {Shape} shape */
function element({ tag, text, title, onClick, ...attributes }) {
  const children = [text ?? null, title ? h('title', null, title) : null];
  const control = onClick ? { onClick, class: 'control' } : {};
  return h(tag, { ...attributes, ...control }, children);
}

/** @param {unknown} value */
const escape = (value) =>
  String(value).replace(/[&<>"'\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, (each) =>
    ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[each] ?? '\ufffd');

/** A drawing as an SVG file. @param {Drawing} drawing @param {string} background */
export function svgText({ width, height, shapes }, background) {
  const content = shapes.map(({ tag, text, title, onClick: _, ...attributes }) => {
    const named = Object.entries(attributes).map(([name, value]) => ` ${name}="${escape(value)}"`).join('');
    return `<${tag}${named}>${escape(text ?? '')}${title ? `<title>${escape(title)}</title>` : ''}</${tag}>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`
    + `<rect width="100%" height="100%" fill="${background}"/>${content.join('\n')}</svg>\n`;
}

/** A drawing as a self-contained HTML page with the command that makes its numbers. @param {string} svg @param {string} title @param {string} command */
export const htmlText = (svg, title, command) =>
  `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>${escape(title)}</title></head>\n`
  + `<body>\n${svg}<footer><pre>${escape(command)}</pre></footer>\n</body></html>\n`;

/** A drawing as a PNG file of twice its size. @param {Drawing} drawing @param {string} background @returns {Promise<Blob>} */
export async function pngFile(drawing, background) {
  const image = new Image();
  const loaded = new Promise((resolve, reject) => {
    image.onload = resolve;
    image.onerror = reject;
  });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(drawing, background))}`;
  await loaded;
  const canvas = document.createElement('canvas');
  canvas.width = 2 * drawing.width;
  canvas.height = 2 * drawing.height;
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('the picture is too large'))), 'image/png');
  });
}

/** Put drawings above each other. @param {Drawing[]} parts @param {number} [gap] @returns {Drawing} */
export function stack(parts, gap = 24) {
  let y = 0;
  const shapes = parts.flatMap((part) => {
    const moved = part.shapes.map((shape) => moveDown(shape, y));
    y += part.height + gap;
    return moved;
  });
  return { width: Math.max(...parts.map((part) => part.width)), height: Math.max(0, y - gap), shapes };
}

/** @param {Shape} shape @param {number} y */
function moveDown(shape, y) {
  return y === 0 ? shape : { ...shape, transform: `translate(0,${y})${shape.transform ? ` ${shape.transform}` : ''}` };
}

/** Ticks at round numbers between two values. @param {number} low @param {number} high @param {number} number */
export function ticks(low, high, number = 5) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / number));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => span / each <= number) ?? 10 * power;
  const found = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + 1e-9 * span; index += 1) {
    found.push(Math.round(index * step * 1e9) / 1e9);
  }
  return found;
}
