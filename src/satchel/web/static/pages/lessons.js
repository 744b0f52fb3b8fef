// The worked examples of the lectures, with inputs that can be changed.

import { html, signal, useEffect, useState } from '../lib.js';
import { useRequest } from '../api.js';
import { isCorrect } from '../answers.js';
import { announce } from '../clipboard.js';
import { AttentionTable } from '../components/attentiontable.js';
import { Link, Section, Segmented } from '../components/controls.js';
import { curveDrawing } from '../components/curve.js';
import { Diagram } from '../components/diagram.js';
import { LessonMatrix, lessonMatrixDrawing } from '../components/lessonmatrix.js';
import { NumberCell } from '../components/numbercell.js';
import { useReproduction } from '../components/reproduce.js';
import { Empty, Failure, Skeleton } from '../components/states.js';
import { SenseSelection } from '../components/senseselection.js';
import { Picture, stack, write } from '../drawing.js';
import { viewKeys } from '../keys.js';
import { go, place, set, subject } from '../state.js';
import { theme } from '../theme.js';

const PAUSE = 1500;
const STORED = 'satchel-lessons';

/** Steps whose question was answered, as `name step`. */
const solved = signal(new Set(/** @type {string[]} */ (JSON.parse(localStorage.getItem(STORED) ?? '[]'))));

/** @param {string} key */
function markSolved(key) {
  solved.value = new Set([...solved.value, key]);
  localStorage.setItem(STORED, JSON.stringify([...solved.value]));
}

/** Changed inputs by lesson; they stay when another lesson is shown. */
const changed = signal(/** @type {Record<string, Record<string, any>>} */ ({}));

export function Page() {
  const listed = useRequest('lessons', {});
  const lessons = listed.data?.lessons ?? [];
  const name = place.value.part || lessons[0]?.name || '';
  return html`<div class="lessons"><nav class="lesson-list" aria-label="Lessons"><p class="caption">${lessons.length ? `${lessons.length} worked examples` : ''}</p><${Failure} error=${listed.error} />
      <ol>${lessons.map((/** @type {any} */ each, /** @type {number} */ index) => html`<li key=${each.name}><a href=${`#/lessons/${each.name}`} aria-current=${each.name === name ? 'page' : null} title=${each.title}
        onClick=${(/** @type {MouseEvent} */ event) => { event.preventDefault(); go(`lessons/${each.name}`, { step: 1 }); }}><span class="caption">${index + 1}</span> ${shortTitle(each.name)}
        ${[...solved.value].some((key) => key.startsWith(`${each.name} `)) ? html`<span class="tick" title="a question was answered">✓<span class="hidden">started</span></span>` : null}</a></li>`)}</ol>
      <p class="score">Quiz: ${solved.value.size} questions answered</p></nav>
    ${name ? html`<${Lesson} name=${name} key=${name} />` : html`<${Skeleton} rows=${14} />`}</div>`;
}

/** Short titles of lessons whose name is not one. @type {Record<string, string>} */
const SHORT = {
  dan: 'DAN and window', rnn: 'Recurrent cell', api: 'One interface', attention: 'Attention by hand', scaling: 'Scaling by √d', heads: 'Many heads',
  block: 'Transformer block', 'sense-selection': 'That trick was sick',
};

/** @param {string} text */
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A short title of a lesson. @param {string} name */
const shortTitle = (name) => SHORT[name] ?? capital(name.replaceAll('-', ' '));

/** A short title of a step: without a prefix such as `Problem:`. @param {string} title */
function stepTitle(title) {
  const text = capital(title.replace(/^[\w ]+: /, ''));
  return text.length > 26 ? `${text.slice(0, 25).trim()}…` : text;
}

/** @param {{name: string}} properties */
function Lesson({ name }) {
  const settings = changed.value[name] ?? {};
  const body = { name, settings };
  const request = useRequest('lesson', body);
  const lesson = request.data;
  const steps = lesson?.steps ?? [];
  const number = Math.max(1, Math.min(steps.length || 1, subject.step.value ?? 1));
  const step = steps[number - 1];
  const [isPlaying, setPlaying] = useState(false);
  const [isWhole, setWhole] = useState(false);
  const move = (/** @type {number} */ by) => { setWhole(false); set({ step: Math.max(1, Math.min(steps.length, number + by)) }); };
  useEffect(() => {
    if (!isPlaying) return undefined;
    if (number >= steps.length) {
      setPlaying(false);
      return undefined;
    }
    const timer = setTimeout(() => set({ step: number + 1 }), PAUSE);
    return () => clearTimeout(timer);
  }, [isPlaying, number, steps.length]);
  useEffect(() => {
    Object.assign(viewKeys, { '[': () => move(-1), ']': () => move(1), Escape: () => setPlaying(false) });
    return () => { for (const key of ['[', ']', 'Escape']) delete viewKeys[key]; };
  });
  useEffect(() => { if (step) announce(`Step ${step.number}: ${step.title}`); }, [number]);
  const drawing = (/** @type {import('../theme.js').Theme} */ look) => stack((isWhole ? steps : [step]).flatMap((/** @type {any} */ each) => [
    { width: 600, height: 24, shapes: [write(0, 18, `${each.number}. ${each.title}`, look.colours.ink, { size: 16, weight: 600 })] }, ...each.matrices.map((/** @type {any} */ matrix) => lessonMatrixDrawing(matrix, look))]));
  useReproduction({ name: `lesson-${name}`, terminal: lesson?.terminal, python: lesson?.python, http: ['lesson', body], json: lesson, drawing: step ? drawing : null, files: lesson ? [['TeX', 'tex', () => tex(lesson)]] : [] }, [lesson, number, isWhole]);
  const change = (/** @type {string} */ key, /** @type {any} */ value) => { changed.value = { ...changed.value, [name]: { ...settings, [key]: value } }; };
  if (!lesson) return html`<div><h1 class="hidden">Lesson</h1><${Failure} error=${request.error} command=${`satchel lesson ${name}`} />${request.error ? html`<button type="button" onClick=${() => { changed.value = { ...changed.value, [name]: {} }; }}>Reset the inputs</button>` : html`<${Skeleton} rows=${14} />`}</div>`;
  return html`<div class="lesson"><div class="view-head"><h1>${lesson.title}</h1><span class="spacer"></span><span class="buttons no-print">
        <button type="button" disabled=${number <= 1} onClick=${() => move(-1)}>‹ Back</button><button type="button" class="primary" disabled=${number >= steps.length} onClick=${() => move(1)}>Step ›</button>
        <button type="button" aria-pressed=${isPlaying} onClick=${() => setPlaying(!isPlaying)}>${isPlaying ? 'Stop' : 'Play'}</button><button type="button" aria-pressed=${isWhole} onClick=${() => setWhole(!isWhole)}>${isWhole ? 'One step' : 'Show all'}</button>
        <button type="button" onClick=${() => { setWhole(true); setTimeout(print, 100); }}>Print</button></span></div>
    <nav class="steps no-print" aria-label="Steps">${steps.map((/** @type {any} */ each) => html`<button type="button" key=${each.number} aria-current=${each.number === number ? 'step' : null} onClick=${() => { setWhole(false); set({ step: each.number }); }}><span class="caption">${each.number}</span> ${stepTitle(each.title)}</button>`)}</nav>
    <${Failure} error=${request.error} />
    <div class=${`columns lesson-columns${request.isLoading ? ' busy' : ''}${name === 'sense-selection' ? ' whole' : ''}`}>
      <div>${isWhole ? steps.map((/** @type {any} */ each) => html`<section class="whole-step" key=${each.number}><h2>${each.number}. ${each.title}</h2><p class="lesson-text">${each.text}</p><${Matrices} step=${each} lesson=${lesson} /></section>`)
        : html`<${Matrices} step=${step} lesson=${lesson} onChange=${change} />`}
        ${!isWhole && step.question ? html`<${Check} step=${step} key=${`${name} ${number}`} id=${`${name} ${number}`} />` : null}</div>
      <div class="lesson-side no-print"><h2>${step.title}</h2><p class="lesson-text" aria-live="polite">${step.text}</p>
        ${lesson.inputs.length ? html`<${Section} title="Inputs" actions=${Object.keys(settings).length ? html`<${Link} onClick=${() => { changed.value = { ...changed.value, [name]: {} }; }}>Reset<//>` : null}>
          ${lesson.inputs.map((/** @type {any} */ input) => html`<${Input} key=${input.name} input=${input} value=${settings[input.name]} onChange=${(/** @type {any} */ value) => change(input.name, value)} />`)}<//>` : null}
        ${name === 'sense-selection' ? html`<p><${Link} onClick=${() => go('models')}>Same sentence in a trained classifier<//></p>` : null}</div></div></div>`;
}

/** The matrices and curves of a step, in the form that suits the lesson. @param {any} properties */
function Matrices({ step, lesson, onChange }) {
  const name = lesson.name;
  const isTable = name === 'attention' && step.number <= 4 && onChange;
  return html`${isTable ? html`<${AttentionTable} lesson=${lesson} number=${step.number} onChange=${onChange} />` : null}
    <${Diagram} lesson=${lesson} step=${step} />
    ${name === 'sense-selection' && step.number >= 6 ? html`<${SenseSelection} lesson=${lesson} />` : null}
    ${isTable ? null : html`<div class="matrices">${step.matrices.map((/** @type {any} */ matrix) => html`<${LessonMatrix} key=${matrix.name} matrix=${matrix} />`)}</div>`}
    ${step.curves.map((/** @type {any} */ curve) => html`<${Section} key=${curve.name} title=${curve.name}><${Picture} drawing=${lessonCurve(curve, theme.value)} label=${curve.name} /><//>`)}
    ${step.stored ? html`<p class="caption">These values were stored; <code>${step.stored}</code> computes them.</p>` : null}
    ${step.matrices.length || step.curves.length ? null : html`<${Empty} title=${step.title}>This step has no numbers.<//>`}`;
}

/** A chart of a lesson. @param {any} curve @param {import('../theme.js').Theme} look */
function lessonCurve(curve, look) {
  const scale = (/** @type {number} */ value) => (curve.log ? Math.log10(value) : value);
  const series = curve.series.map((/** @type {any[]} */ [name, points]) => ({ name, kind: 'main', points: points.map((/** @type {number[]} */ [x, y]) => [scale(x), scale(y)]) }));
  const end = Math.max(...series.flatMap((/** @type {any} */ each) => each.points.map((/** @type {number[]} */ [x]) => x)));
  return curveDrawing({ series, end, unit: (value) => (curve.log ? `10^${value}` : String(value)) }, look, 560, 200);
}

/** A control for an input: cells for numbers, a switch for booleans, a list for choices, else a text. @param {any} properties */
function Input({ input, value, onChange }) {
  const first = input.values[0][0];
  const [typed, setTyped] = useState(/** @type {string | null} */ (null));
  const name = input.name;
  if (input.choices) return html`<label class="lesson-input"><span>${name}</span><select value=${value ?? first} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>${input.choices.map((/** @type {string} */ each) => html`<option key=${each}>${each}</option>`)}</select></label>`;
  if (typeof first === 'boolean') return html`<div class="lesson-input"><span>${name}</span><${Segmented} label=${name} hidden value=${String(value ?? first)} options=${[['true', 'yes'], ['false', 'no']]} onChange=${(/** @type {string} */ next) => onChange(next === 'true')} /></div>`;
  if (typeof first === 'number') {
    const row = /** @type {number[]} */ (Array.isArray(value) ? value : value !== undefined ? [value] : input.values[0]);
    const isInteger = input.step === null && row.every(Number.isInteger) && row.length === 1;
    const isVector = input.values[0].length > 1 || input.columns.length > 0 || ['sequence', 'only'].includes(name);
    return html`<div class="lesson-input"><span>${name}</span><span class="cells">${row.map((each, index) => html`<${NumberCell} key=${index} value=${each} isInteger=${isInteger} minimum=${input.minimum} maximum=${input.maximum}
      label=${row.length > 1 ? `${name} ${input.columns[index] ?? index + 1}` : name} onChange=${(/** @type {number} */ next) => onChange(isVector ? row.map((other, place) => (place === index ? next : other)) : next)} />`)}</span></div>`;
  }
  return html`<label class="lesson-input"><span>${name}</span><input type="text" class="serif" value=${typed ?? value ?? first} onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} onChange=${(/** @type {any} */ event) => { setTyped(null); onChange(event.target.value); }} /></label>`;
}

/** The question of a step. @param {{step: any, id: string}} properties */
function Check({ step, id }) {
  const [answer, setAnswer] = useState('');
  const [result, setResult] = useState('');
  const check = (/** @type {Event} */ event) => {
    event.preventDefault();
    const isRight = isCorrect(answer, step);
    if (isRight) markSolved(id);
    setResult(isRight ? 'Correct.' : 'Not yet.');
  };
  return html`<section class="question no-print"><h2>Check ${solved.value.has(id) ? html`<span class="note">✓ answered</span>` : null}</h2><form onSubmit=${check}><label><span class="lesson-text">${step.question}</span><input type="text" autocomplete="off" value=${answer} onInput=${(/** @type {any} */ event) => { setAnswer(event.target.value); setResult(''); }} /></label>
    <button type="submit" disabled=${!answer.trim()}>Check</button> <${Link} onClick=${() => setResult(`Expected: ${step.answer.map((/** @type {any} */ each) => (typeof each === 'number' ? Math.round(each * 1e4) / 1e4 : each)).join(', ')}`)}>Show the answer<//></form>
    <p class="caption" role="status">${result || 'Fractions and decimals are both accepted; round to three digits.'}</p></section>`;
}

/** The steps as LaTeX. @param {any} lesson */
function tex(lesson) {
  const escape = (/** @type {any} */ value) => String(value).replace(/[\\&%$#_{}~^]/g, (each) => (each === '\\' ? '\\textbackslash{}' : each === '~' || each === '^' ? `\\${each}{}` : `\\${each}`));
  const table = (/** @type {any} */ matrix) => `\\[ \\text{${escape(matrix.name)}} = \\begin{pmatrix}${matrix.values.map((/** @type {any[]} */ row) => row.map((value) => (typeof value === 'number' ? Math.round(value * 1e4) / 1e4 : `\\text{${escape(value)}}`)).join(' & ')).join(' \\\\ ')}\\end{pmatrix} \\]`;
  return `\\section*{${escape(lesson.title)}}\n${lesson.steps.map((/** @type {any} */ step) => `\\subsection*{${escape(step.title)}}\n${escape(step.text)}\n${step.matrices.map(table).join('\n')}`).join('\n')}\n`;
}
