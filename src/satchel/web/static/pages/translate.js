// Which source words produced a target word?

import { html, useState } from '../lib.js';
import { useRequest } from '../api.js';
import { Link, Section } from '../components/controls.js';
import { Matrix, matrixDrawing } from '../components/matrix.js';
import { useReproduction } from '../components/reproduce.js';
import { Failure, Result } from '../components/states.js';
import { useWidth } from '../components/width.js';
import { curveDown, measure, path, Picture, rect, stack, write } from '../drawing.js';
import { examplesOf } from '../examples.js';
import { fixed, label } from '../format.js';
import { openRun, set, subject } from '../state.js';
import { theme } from '../theme.js';

const BEST = 4;

/**
 * Source above, target below, curves of the weights between them.
 * @param {any} alignment @param {import('../theme.js').Theme} look @param {number | null} at selected target word @param {number} width
 * @param {(word: number) => void} [onSelect] @returns {import('../drawing.js').Drawing}
 */
function alignmentDrawing({ source, target, source_roles: sourceRoles, target_roles: targetRoles, values }, look, at, width, onSelect) {
  const text = (/** @type {string[]} */ words) => words.reduce((sum, word) => sum + measure(word, 1, 'serif') + 0.28, 0);
  const size = Math.max(source.length, target.length) > 12 ? 18 : [36, 28, 22].find((each) => each * Math.max(text(source), text(target)) <= width) ?? 18;
  const { ink, ink3, accent, pos } = look.colours;
  const row = (/** @type {string[]} */ words, /** @type {any[]} */ roles) => {
    let x = 0;
    return words.map((word, index) => {
      const shown = roles[index] ? '' : word.trim() ? word : ' ';
      const wide = shown ? measure(shown, size, 'serif', 400) + size * 0.28 : 0;
      x += wide;
      return { shown, left: x - wide, wide, middle: x - wide / 2 };
    });
  };
  const [above, below] = [row(source, sourceRoles), row(target, targetRoles)];
  const end = (/** @type {any[]} */ words) => Math.max(...words.map((word) => word.left + word.wide), 0);
  const whole = Math.max(end(above), end(below), 200);
  const [shiftA, shiftB] = [(whole - end(above)) / 2, (whole - end(below)) / 2];
  const [high, low] = [size * 1.45, size * 1.45 + size * 2.9];
  /** @type {import('../drawing.js').Shape[]} */
  const shapes = [];
  const selected = at === null ? [] : values[at];
  above.forEach((word, index) => {
    if (selected[index] >= 0.02 && word.shown) shapes.push(rect(word.left + shiftA, 0, word.wide, high - 6, look.tint(8 * selected[index])));
  });
  const curve = (/** @type {number} */ i, /** @type {number} */ j, /** @type {string} */ colour, /** @type {object} */ more) => {
    if (above[j].wide && below[i].wide) shapes.push(path(curveDown(above[j].middle + shiftA, high, below[i].middle + shiftB, low - size * 0.2), colour, more));
  };
  values.forEach((/** @type {number[]} */ weights, /** @type {number} */ i) => weights.forEach((weight, j) => {
    if (weight >= 0.06 && i !== at) curve(i, j, ink3, { 'stroke-width': 0.5 + 3 * weight, 'stroke-opacity': 0.3 });
  }));
  selected.forEach((/** @type {number} */ weight, /** @type {number} */ j) => {
    if (weight >= 0.02) curve(/** @type {number} */ (at), j, pos, { 'stroke-width': 0.8 + 9 * weight, 'stroke-opacity': Math.min(1, 0.25 + 1.4 * weight) });
  });
  above.forEach((word) => shapes.push(write(word.middle + shiftA, size * 1.05, word.shown, ink, { size, font: 'serif', anchor: 'middle' })));
  below.forEach((word, index) => {
    if (!word.wide) return;
    const left = word.left + shiftB;
    if (index === at) shapes.push(rect(left, low, word.wide, size * 1.4, 'none', { stroke: accent, 'stroke-width': 2, rx: 2 }));
    shapes.push(write(word.middle + shiftB, low + size * 1.02, word.shown, ink, { size, font: 'serif', anchor: 'middle', weight: index === at ? 700 : 400 }));
    if (onSelect) shapes.push(rect(left, low, word.wide, size * 1.4, 'transparent', { onClick: () => onSelect(index), onPointerEnter: () => onSelect(index) }));
  });
  return { width: Math.max(width, Math.ceil(whole)), height: low + size * 1.5 + 4, shapes };
}

export function Page() {
  const run = openRun.value;
  const text = subject.text.value;
  const [typed, setTyped] = useState('');
  const body = { run: run.run, text, beam: BEST, best: BEST };
  const request = useRequest('translate', text ? body : null);
  const best = request.data?.translations[0];
  const target = subject.target.value || best?.target;
  const isOther = best && target !== best.target;
  const alignment = useRequest('alignment', isOther ? { run: run.run, text, target } : null);
  const score = useRequest('score', isOther ? { run: run.run, text, target } : null);
  const shown = isOther ? alignment.data?.alignment : best?.alignment;
  const value = isOther ? score.data && score.data.total_logprob / score.data.tokens.length : best?.score;
  return html`<div class="view-head"><h1><span class="serif">${target === '' ? '(empty translation)' : target ?? '…'}</span> <span class="note">${value === undefined || value === null ? '' : `score ${fixed(value, 4)}`}</span></h1></div>
    <${Result} request=${request} rows=${14}>${(/** @type {any} */ data) => html`<div class="columns translate-columns"><div><${Failure} error=${alignment.error} />
        ${shown ? html`<${Alignment} alignment=${shown} reply=${isOther ? alignment.data : data} body=${isOther ? ['alignment', { run: run.run, text, target }] : ['translate', body]} />` : null}</div>
      <div><${Section} class="bare" title="Beam" note=${`width ${BEST}, score`}><ol class="beam">${[data.translations[0], ...data.translations[0].others].map((each, index) => html`<li key=${index}>
          <button type="button" class=${`distribution-row beam-row${each.target === target ? ' chosen' : ''}`} aria-pressed=${each.target === target} onClick=${() => set({ target: index === 0 ? '' : each.target })}>
            <span class="caption">${index + 1}</span><span class="serif">${each.target || '(empty)'}</span><span class="value">${fixed(each.score, 4)}</span></button></li>`)}</ol>
          <p class="caption">Choose one to see its alignment, or type a target to score it.</p>
          <form onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); set({ target: typed }); }}><label><span class="hidden">Target to score</span><input type="text" class="serif wide" placeholder="Target to score" value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} /></label></form>
          <${Failure} error=${score.error} /><//>
        <${Section} title="Try">${examplesOf(run).map((each) => html`<div key=${each}><${Link} class="link serif" onClick=${() => set({ text: each, target: '', at: null })}>${each}<//></div>`)}<//></div></div>`}<//>`;
}

/** @param {any} properties */
function Alignment({ alignment, reply, body }) {
  const [holder, width] = useWidth(720);
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const words = alignment.target.length;
  const strongest = alignment.values.map((/** @type {number[]} */ row, /** @type {number} */ index) => (alignment.target_roles[index] ? 0 : Math.max(...row)));
  const selected = at !== null && at < words ? at : words ? strongest.indexOf(Math.max(...strongest)) : null;
  const matrix = {
    rows: alignment.target, columns: alignment.source, values: alignment.values, causal: false, scale: /** @type {const} */ ('weight'), decimals: 2,
    cell: words > 24 ? undefined : 36, wide: alignment.source.length > 24 ? undefined : Math.max(34, Math.min(53, Math.floor((width - 130) / alignment.source.length))),
  };
  const drawing = (/** @type {import('../theme.js').Theme} */ look) => alignmentDrawing(alignment, look, selected, Math.max(200, width), setAt);
  useReproduction({ name: 'alignment', terminal: reply.terminal, python: reply.python, http: body, json: reply, drawing: (look) => stack([drawing(look), matrixDrawing(matrix, look, selected)]) }, [reply, selected, width]);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    setAt(Math.max(0, Math.min(words - 1, (selected ?? 0) + step)));
  };
  return html`<div ref=${holder}><${Section} class="bare" title="Alignment" note=${html`${alignment.exact ? 'contributions to' : 'cross-attention from'} <span class="serif">${selected === null ? '' : label(alignment.target[selected])}</span>`}>
      <div class="scroll" tabindex="0" role="group" aria-label="Alignment; left and right arrows select a target word" onKeyDown=${keys}><${Picture} drawing=${drawing(theme.value)} label="Source and target with their alignment" /></div><//>
    <${Section} title="All target words" note="rows sum to 1"><${Matrix} data=${matrix} at=${selected} onSelect=${(/** @type {number | null} */ row) => setAt(row)} name="Alignment weights" verb="aligned with" /><//></div>`;
}
