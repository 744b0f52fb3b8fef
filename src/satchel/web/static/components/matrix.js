// A matrix of values between tokens: a canvas for the cells, and an SVG overlay for labels, selection and tooltip.

import { html, useEffect, useRef, useState } from '../lib.js';
import { announce } from '../clipboard.js';
import { line, measure, rect, shorten, write } from '../drawing.js';
import { fixed, label } from '../format.js';
import { rgb, theme } from '../theme.js';
import { Link } from './controls.js';

/**
 * @typedef {object} MatrixData
 * @property {string[]} rows labels of the rows
 * @property {string[]} columns labels of the columns
 * @property {number[][]} values
 * @property {boolean} causal whether cells right of the diagonal are masked
 * @property {'weight' | 'signed'} scale
 * @property {number} [largest] value with the strongest colour of a signed scale
 * @property {number} [cell] height of a cell in pixels
 * @property {number} [wide] width of a cell in pixels, if it is not the height
 * @property {boolean} [hasColumns] whether column labels are drawn
 * @property {number} [decimals] decimals of printed numbers; undefined: no numbers
 */

const LABEL = 14;
const SMALLEST_LABELLED = 11;
const NUMBER_FLOOR = 0.005;

/** Sizes of a matrix. @param {MatrixData} data */
export function matrixLayout({ rows, columns, causal, cell, wide: given, hasColumns = true }) {
  const size = cell ?? (Math.max(rows.length, columns.length) <= 18 ? 28 : Math.max(6, Math.floor(504 / Math.max(rows.length, columns.length))));
  const wide = given ?? size;
  const font = Math.min(LABEL, size + 2);
  const hasLabels = size >= SMALLEST_LABELLED;
  const width = (/** @type {string[]} */ texts) => Math.max(...texts.map((text) => measure(label(text), font, 'serif', 700)), 20);
  const left = Math.ceil(hasLabels ? Math.min(110, width(rows) + 12) : 44);
  const above = columns.map((text) => measure(label(text), font, 'serif'));
  const isRotated = !causal && above.some((each) => each > wide - 6);
  const top = causal || !hasColumns ? 4 : hasLabels ? Math.ceil(isRotated ? Math.min(80, Math.max(...above)) * 0.65 + 16 : 24) : 20;
  const right = causal && hasLabels && hasColumns ? Math.ceil(Math.min(110, width(columns)) + 12) : isRotated ? 60 : 6;
  return { size, wide, font, hasLabels, left, top, isRotated, width: left + columns.length * wide + right, height: top + rows.length * size + 6 };
}

/** The colour of a cell. @param {MatrixData} data @param {number} value @param {import('../theme.js').Theme} look */
function cellColour(data, value, look) {
  if (data.scale === 'weight') return data.decimals === undefined ? look.weight(value) : look.cell(Math.min(1, value));
  const share = Math.max(-1, Math.min(1, value / (data.largest || 1)));
  return data.decimals === undefined ? look.signed(share) : look.cell(share);
}

/** Whether a cell is masked. @param {MatrixData} data @param {number} row @param {number} column */
const isMasked = (data, row, column) => data.causal && column > row + data.columns.length - data.rows.length;

/**
 * Labels and grid of a matrix as shapes. @param {MatrixData} data @param {import('../theme.js').Theme} look @param {number | null} at selected row
 * @param {number | null} [hovered] highlighted column
 */
function frame(data, look, at, hovered = null) {
  const { size, wide, font, hasLabels, left, top, isRotated } = matrixLayout(data);
  const { ink, ink2, ink3, rule } = look.colours;
  const shapes = [];
  const shift = data.columns.length - data.rows.length;
  const isBoundary = (/** @type {string} */ text) => /^<\w+>$/.test(text);
  if (size >= SMALLEST_LABELLED) {
    for (let row = 0; row <= data.rows.length; row += 1) {
      const end = data.causal ? Math.min(data.columns.length, Math.max(1, row + 1 + shift)) : data.columns.length;
      shapes.push(line(left, top + row * size, left + Math.min(end, data.columns.length) * wide, top + row * size, rule));
    }
    for (let column = 0; column <= data.columns.length; column += 1) {
      const start = data.causal ? Math.max(0, column - 1 - shift) : 0;
      shapes.push(line(left + column * wide, top + start * size, left + column * wide, top + data.rows.length * size, rule));
    }
  }
  const every = hasLabels ? 1 : Math.ceil(60 / size);
  data.rows.forEach((text, row) => {
    if (row % every) return;
    const y = top + row * size + size / 2 + font * 0.32;
    const shown = hasLabels ? shorten(label(text), left - 12, font, 'serif') : String(row);
    const style = /** @type {any} */ ({ size: isBoundary(text) || !hasLabels ? 11 : font, font: isBoundary(text) || !hasLabels ? 'sans' : 'serif', anchor: 'end', weight: row === at ? 700 : 400 });
    shapes.push(write(left - 8, y, shown, row === at ? ink : isBoundary(text) ? ink3 : ink2, style));
  });
  if (data.hasColumns === false) return shapes;
  data.columns.forEach((text, column) => {
    if (column % every) return;
    const isMarked = column === hovered || (data.causal && column === at);
    const style = { size: isBoundary(text) || !hasLabels ? 11 : font, font: /** @type {any} */ (isBoundary(text) || !hasLabels ? 'sans' : 'serif'), weight: isMarked ? 700 : 400 };
    const colour = isMarked ? ink : isBoundary(text) ? ink3 : ink2;
    if (data.causal) {
      if (!hasLabels) return;
      const row = column - shift;
      if (row < 0 || row >= data.rows.length) return;
      shapes.push(write(left + (column + 1) * wide + 7, top + row * size + size / 2 + font * 0.32, shorten(label(text), 100, font, 'serif'), colour, style));
    } else {
      const x = left + (column + 0.5) * wide;
      const shown = hasLabels ? shorten(isRotated && text.trim() ? text.trim() : label(text), 110, font, 'serif') : String(column);
      shapes.push(isRotated && hasLabels
        ? write(x, top - 8, shown, colour, { ...style, transform: `rotate(-40 ${x} ${top - 8})` })
        : write(x, top - 8, shown, colour, { ...style, anchor: 'middle' }));
    }
  });
  return shapes;
}

/** Printed numbers of the cells. @param {MatrixData} data @param {import('../theme.js').Theme} look */
function numbers(data, look) {
  const { decimals } = data;
  const { size, wide, left, top } = matrixLayout(data);
  if (decimals === undefined || wide < (data.scale === 'signed' ? 44 : 30)) return [];
  const floor = data.scale === 'weight' ? NUMBER_FLOOR * 20 : (data.largest ?? 1) * 0.015;
  return data.values.flatMap((row, i) => row.flatMap((value, j) => (Math.abs(value) < floor || isMasked(data, i, j) ? []
    : [write(left + (j + 0.5) * wide, top + (i + 0.5) * size + 4, (data.scale === 'signed' && value > 0 ? '+' : '') + fixed(value, decimals), look.colours['cell-ink'], { size: 11, anchor: 'middle' })])));
}

/** The matrix as a drawing for files. @param {MatrixData} data @param {import('../theme.js').Theme} look @param {number | null} [at] */
export function matrixDrawing(data, look, at = null) {
  const { size, wide, left, top, width, height } = matrixLayout(data);
  const cells = data.values.flatMap((row, i) => row.flatMap((value, j) => (isMasked(data, i, j) ? []
    : [rect(left + j * wide, top + i * size, wide, size, rgb(cellColour(data, value, look)), { title: `${data.rows[i]} → ${data.columns[j]} ${fixed(value, 3)}` })])));
  const selected = at === null ? [] : [rowOutline(data, at, look)];
  return { width, height, shapes: [...cells, ...frame(data, look, at), ...numbers(data, look), ...selected] };
}

/** The outline of a row. @param {MatrixData} data @param {number} row @param {import('../theme.js').Theme} look */
function rowOutline(data, row, look) {
  const { size, wide, left, top } = matrixLayout(data);
  const cells = data.causal ? row + 1 + data.columns.length - data.rows.length : data.columns.length;
  return rect(left, top + row * size, cells * wide, size, 'none', { stroke: look.colours.accent, 'stroke-width': 2 });
}

/** @param {import('../drawing.js').Shape[]} shapes */
const elements = (shapes) => shapes.map(({ tag, text, title: _, onClick: __, ...attributes }) => html`<${tag} ...${attributes}>${text ?? null}<//>`);

/**
 * A matrix on the page.
 * @param {{data: MatrixData, at: number | null, onSelect: (row: number | null) => void, name: string, verb?: string,
 *   pins?: [number, number][], onPin?: (cell: [number, number]) => void, chosen?: [number, number] | null,
 *   onCell?: (row: number, column: number) => void}} properties
 */
export function Matrix({ data, at, onSelect, name, verb = 'attends to', pins = [], onPin, chosen = null, onCell }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [cursor, setCursor] = useState(/** @type {[number, number] | null} */ (null));
  const [isTable, setTable] = useState(false);
  const look = theme.value;
  const layout = matrixLayout(data);
  const { size, wide, left, top, width, height } = layout;
  const [rows, columns] = [data.rows.length, data.columns.length];
  useEffect(() => { setCursor(null); }, [data]);
  useEffect(() => {
    const context = canvas.current?.getContext('2d');
    if (!context) return;
    const image = context.createImageData(columns, rows);
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < columns; column += 1) {
        if (isMasked(data, row, column)) continue;
        const colour = cellColour(data, data.values[row][column], look);
        image.data.set([...colour, 255], 4 * (row * columns + column));
      }
    }
    context.putImageData(image, 0, 0);
  }, [data, look]);
  const cellAt = (/** @type {MouseEvent} */ event) => {
    const box = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top - top) / size);
    const column = Math.floor((event.clientX - box.left - left) / wide);
    const isInside = row >= 0 && row < rows && column < columns;
    return { row: isInside ? row : -1, column: isInside && column >= 0 && !isMasked(data, row, column) ? column : -1 };
  };
  const hover = (/** @type {MouseEvent} */ event) => {
    const { row, column } = cellAt(event);
    const next = /** @type {[number, number] | null} */ (row >= 0 && column >= 0 ? [row, column] : null);
    if (String(next) !== String(cursor)) setCursor(next);
  };
  const click = (/** @type {MouseEvent} */ event) => {
    const { row, column } = cellAt(event);
    if (row < 0) return;
    if (onCell && column >= 0) onCell(row, column);
    else onSelect(row === at ? null : row);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const [row, column] = cursor ?? [at ?? 0, 0];
    const last = (/** @type {number} */ each) => (data.causal ? each + columns - rows : columns - 1);
    const moves = /** @type {Record<string, [number, number]>} */ ({
      ArrowRight: [row, column + 1], ArrowLeft: [row, column - 1], ArrowDown: [row + 1, column], ArrowUp: [row - 1, column], Home: [row, 0], End: [row, last(row)],
    });
    if (moves[event.key]) {
      const nextRow = Math.max(0, Math.min(rows - 1, moves[event.key][0]));
      const nextColumn = Math.max(0, Math.min(last(nextRow), moves[event.key][1]));
      setCursor([nextRow, nextColumn]);
      announce(`${data.rows[nextRow]} ${verb} ${data.columns[nextColumn]}, ${fixed(data.values[nextRow][nextColumn])}`);
    } else if (event.key === 'Enter' && cursor) {
      if (onCell) onCell(...cursor);
      else onSelect(cursor[0]);
    } else if (event.key.toLowerCase() === 'p' && cursor && onPin) onPin(cursor);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const outline = (/** @type {[number, number]} */ [row, column], /** @type {string} */ colour) =>
    html`<rect x=${left + column * wide} y=${top + row * size} width=${wide} height=${size} fill="none" stroke=${colour} stroke-width="2" />`;
  return html`<div class="matrix-holder"><${Link} aria-expanded=${isTable} onClick=${() => setTable(!isTable)}>${isTable ? 'Hide table' : 'Show as table'}<//>
    ${isTable ? html`<${MatrixTable} data=${data} name=${name} />` : null}
    <div class="scroll"><div class="matrix" role="application" aria-roledescription="matrix" aria-label=${`${name}: ${rows} rows, ${columns} columns. Arrow keys move between cells.`} tabindex="0"
      style=${{ width: `${width}px`, height: `${height}px` }} onPointerMove=${hover} onPointerLeave=${() => setCursor(null)} onClick=${click} onKeyDown=${keys}>
      <canvas ref=${canvas} width=${columns} height=${rows} aria-hidden="true" style=${{ left: `${left}px`, top: `${top}px`, width: `${columns * wide}px`, height: `${rows * size}px` }}></canvas>
      <svg width=${width} height=${height} aria-hidden="true">
        <${Frame} data=${data} look=${look} at=${at} />
        ${pins.map((pin) => outline(pin, look.colours.accent))}
        ${chosen ? outline(chosen, look.colours.accent) : null}
        ${at === null || chosen ? null : elements([rowOutline(data, at, look)])}
        ${cursor ? html`${data.causal && layout.hasLabels && cursor[0] > cursor[1] ? html`<line x1=${left + (cursor[1] + 0.5) * size} x2=${left + (cursor[1] + 0.5) * size} y1=${top + (cursor[1] + 0.5) * size} y2=${top + cursor[0] * size} stroke=${look.colours.ink} stroke-dasharray="1 3" />` : null}
          ${outline(cursor, look.colours.ink)}` : null}
      </svg>
      ${cursor ? html`<div class="tooltip" style=${{ left: `${left + (cursor[1] + 1) * wide + 6}px`, top: `${top + (cursor[0] + 1) * size + 4}px` }}>
        <span class="serif">${data.rows[cursor[0]].trim() || label(data.rows[cursor[0]])} → ${data.columns[cursor[1]].trim() || label(data.columns[cursor[1]])}</span> <strong>${fixed(data.values[cursor[0]][cursor[1]])}</strong></div>` : null}
    </div></div></div>`;
}

/** Labels, grid and numbers; not rendered again when the pointer moves. @param {{data: MatrixData, look: import('../theme.js').Theme, at: number | null}} properties */
function Frame({ data, look, at }) {
  const kept = useRef(/** @type {any} */ ({}));
  if (kept.current.data !== data || kept.current.look !== look || kept.current.at !== at) {
    kept.current = { data, look, at, content: elements([...frame(data, look, at), ...numbers(data, look)]) };
  }
  return kept.current.content;
}

/** The values as a table. @param {{data: MatrixData, name: string}} properties */
function MatrixTable({ data, name }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${name}><table><caption class="hidden">${name}</caption>
    <thead><tr><td></td>${data.columns.map((text, column) => html`<th scope="col" key=${column}>${label(text)}</th>`)}</tr></thead>
    <tbody>${data.values.map((row, i) => html`<tr key=${i}><th scope="row">${label(data.rows[i])}</th>
      ${row.map((value, j) => html`<td class="dense" key=${j}>${isMasked(data, i, j) ? '' : fixed(value)}</td>`)}</tr>`)}</tbody></table></div>`;
}
