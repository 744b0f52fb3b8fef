// What does the model write, and where was it unsure? Streaming, alternatives, branches, undo.

import { html, signal, useEffect, useLayoutEffect, useRef, useState } from '../lib.js';
import { call, stream } from '../api.js';
import { addAlternative, addContinuation, addText, append, bookmark, EMPTY, isTree, ordered, piecesOf, remove, textOf } from '../branches.js';
import { announce, save } from '../clipboard.js';
import { BranchTree } from '../components/branchtree.js';
import { Key, Link, Section, Segmented, Slider } from '../components/controls.js';
import { Distribution } from '../components/distribution.js';
import { useReproduction } from '../components/reproduce.js';
import { Failure } from '../components/states.js';
import { TokenText } from '../components/strip.js';
import { tokenDrawing } from '../components/tokentext.js';
import { examplesOf } from '../examples.js';
import { bits, count, fixed, label } from '../format.js';
import { viewKeys } from '../keys.js';
import { pieceOf, placeTokens } from '../pieces.js';
import { go, openRun, set, subject, tokens as stripTokens } from '../state.js';
import { theme } from '../theme.js';

const ALTERNATIVES = 9;
const MAX_RANKED = 10_000;

/** Settings of the sampler; null: off. */
const DEFAULTS = {
  temperature: 0.7, top_p: /** @type {number | null} */ (0.9), min_p: /** @type {number | null} */ (null), tokens: 60, seed: 0,
  top_k: /** @type {number | null} */ (null), typical_p: /** @type {number | null} */ (null), repetition_penalty: 1, stop: '',
};

/** The tree, the settings and their history stay when another page is shown. */
const tree = signal(/** @type {import('../branches.js').Tree} */ (EMPTY));
const settings = signal(DEFAULTS);
const past = signal(/** @type {{tree: any, settings: any}[]} */ ([]));
const future = signal(/** @type {{tree: any, settings: any}[]} */ ([]));
const written = signal(/** @type {any} */ (null)); // the last reply, with its request
let owner = ''; // the run of the tree

/** Remember the present state for undo, and change it. @param {{tree?: any, settings?: any}} changes */
function change(changes) {
  past.value = [...past.value.slice(-200), { tree: tree.value, settings: settings.value }];
  future.value = [];
  if (changes.tree) tree.value = changes.tree;
  if (changes.settings) settings.value = { ...settings.value, ...changes.settings };
}

/** @param {{value: any[]}} from @param {{value: any[]}} to */
function restore(from, to) {
  const last = from.value.at(-1);
  if (!last) return;
  to.value = [...to.value, { tree: tree.value, settings: settings.value }];
  from.value = from.value.slice(0, -1);
  tree.value = last.tree;
  settings.value = last.settings;
  set({ text: textOf(tree.value), at: null });
}

export function Page() {
  const run = openRun.value;
  const text = subject.text.value;
  const [error, setError] = useState(/** @type {any} */ (null));
  const [progress, setProgress] = useState(/** @type {number | null} */ (null));
  const [tint, setTint] = useState('surprisal');
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const [scored, setScored] = useState(/** @type {any} */ (null));
  const [other, setOther] = useState(/** @type {number | null} */ (null));
  const working = useRef(/** @type {AbortController | null} */ (null));

  if (owner !== run.run) {
    owner = run.run;
    tree.value = EMPTY;
    [past.value, future.value, written.value] = [[], [], null];
  }
  const current = tree.value;
  const pieces = piecesOf(current);
  const at = subject.at.value !== null && subject.at.value < pieces.length ? subject.at.value : null;

  // A text from another page, from an example or from the address is a new branch.
  useEffect(() => {
    if (!text || text === textOf(tree.value)) return undefined;
    const controller = new AbortController();
    read(text, controller.signal).then((read) => { setScored(read); setError(null); }, (failure) => { if (!controller.signal.aborted) setError(failure); });
    return () => controller.abort();
  }, [text, run.run]);
  useEffect(() => { stripTokens.value = pieces; }, [current]);
  useEffect(() => () => working.current?.abort(), []);

  async function read(/** @type {string} */ typed, /** @type {AbortSignal} */ abort) {
    const body = { run: run.run, text: typed, top: ALTERNATIVES };
    const document = await call('score', typed.length > MAX_RANKED ? { run: run.run, text: typed } : body, { abort });
    if (abort.aborted) return null;
    const own = placeTokens(typed, document.tokens.filter((/** @type {any} */ token) => token.role !== 'end'));
    change({ tree: addText(tree.value, typed, own) });
    return { document, body };
  }

  async function generate() {
    if (working.current || !piecesOf(tree.value).length && text) return;
    const controller = new AbortController();
    working.current = controller;
    const grown = addContinuation(tree.value);
    if (grown !== tree.value) change({ tree: grown });
    const { stop, ...numbers } = settings.value;
    const chosen = Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== null));
    const body = { run: run.run, prompt: textOf(tree.value), ...chosen, ...(stop ? { stop: [stop] } : {}), logprobs: ALTERNATIVES };
    let [received, frame, done] = [/** @type {any[]} */ ([]), 0, 0];
    const flush = () => {
      frame = 0;
      if (received.length) tree.value = append(tree.value, received);
      received = [];
      setProgress(done);
    };
    setError(null);
    setProgress(0);
    try {
      for await (const event of stream('generate', { ...body, stream: true }, controller.signal)) {
        if (event.token) {
          received.push({ ...event.token, piece: event.text });
          done += 1;
          frame = frame || requestAnimationFrame(flush);
        }
        if (event.samples) written.value = { document: event, body };
      }
    } catch (failure) {
      if (!controller.signal.aborted) setError(failure);
    }
    cancelAnimationFrame(frame);
    flush();
    working.current = null;
    setProgress(null);
    settings.value = { ...settings.value, seed: settings.value.seed + 1 };
    announce(`${done} tokens written`);
    set({ text: textOf(tree.value) });
  }

  function take(/** @type {any} */ entry) {
    if (at === null || working.current) return;
    const { top } = pieces[at];
    const separator = /^\s/.test(pieceOf(pieces[at])) && !/^\s/.test(pieces[at].text) && !/^\s/.test(entry.text) ? ' ' : '';
    change({ tree: addAlternative(tree.value, at, { text: entry.text, piece: separator + entry.text, id: entry.id, logprob: Math.log(entry.probability), top }) });
    set({ at: null });
    generate();
  }

  const select = (/** @type {number} */ id) => {
    if (working.current) return;
    tree.value = { ...tree.value, current: id };
    set({ text: textOf(tree.value), at: null });
  };
  const removeBranch = (/** @type {number} */ id) => {
    if (tree.value.branches.length < 2 || working.current) return;
    change({ tree: remove(tree.value, id) });
    set({ text: textOf(tree.value), at: null });
  };
  const entries = at === null ? [] : alternatives(pieces[at]);
  const stop = () => working.current?.abort();
  useEffect(() => {
    Object.assign(viewKeys, {
      'Ctrl+Enter': () => (draft === null ? generate() : apply()),
      Escape: () => { if (working.current) stop(); else set({ at: null }); },
      z: () => restore(past, future), Z: () => restore(future, past), b: () => change({ tree: bookmark(tree.value) }),
      ...Object.fromEntries(entries.slice(0, 9).map((entry, index) => [String(index + 1), () => take(entry)])),
    });
    return () => { for (const key of ['Ctrl+Enter', 'Escape', 'z', 'Z', 'b', ...'123456789']) delete viewKeys[key]; };
  });
  const apply = () => {
    if (draft !== null && draft.trim()) set({ text: draft, at: null });
    setDraft(null);
  };
  const reply = written.value?.document.terminal ? written.value : scored;
  useReproduction({
    name: 'text', terminal: reply?.document.terminal, python: reply?.document.python, http: written.value ? ['generate', written.value.body] : reply ? ['score', reply.body] : undefined,
    json: { text: textOf(current), tokens: pieces, settings: settings.value },
    drawing: (look) => tokenDrawing(pieces, look, tint === 'surprisal'), files: [['TXT', 'txt', () => textOf(current)]],
  }, [current, tint, scored, written.value]);
  const own = pieces.filter((piece) => !piece.isPrompt && piece.logprob !== null);
  const total = own.reduce((sum, piece) => sum + bits(/** @type {number} */ (piece.logprob)), 0);
  const decorate = (/** @type {any} */ piece) => ({
    class: piece.isPrompt ? 'prompt' : '', name: piece.logprob === null ? '' : `${fixed(bits(piece.logprob), 1)} bits`,
    style: tint === 'surprisal' && piece.logprob !== null ? { background: theme.value.tint(bits(piece.logprob)) } : {},
  });
  const loadTree = async (/** @type {any} */ event) => {
    try {
      const loaded = JSON.parse(await event.target.files[0].text());
      if (!isTree(loaded)) throw new Error('the file is not a saved tree');
      change({ tree: loaded });
      set({ text: textOf(loaded), at: null });
    } catch (failure) {
      setError(failure);
    }
    event.target.value = '';
  };
  return html`<div class="view-head"><h1 class="hidden">Write</h1>${progress === null
      ? html`<button type="button" class="primary" disabled=${!pieces.length} onClick=${generate}>Continue <${Key}>Ctrl ↵<//></button>`
      : html`<button type="button" onClick=${stop}>Stop <${Key}>Esc<//></button>`}
      <button type="button" disabled=${!past.value.length || progress !== null} onClick=${() => restore(past, future)}>Undo</button>
      <button type="button" disabled=${!future.value.length || progress !== null} onClick=${() => restore(future, past)}>Redo</button>
      <${Segmented} label="Tint" value=${tint} options=${[['surprisal', 'surprisal'], ['none', 'none']]} onChange=${setTint} />
      <${Link} data-key="t" onClick=${() => setDraft(text)}>Edit text <${Key}>T<//><//>
      <span class="spacer"></span><span class="caption">${progress === null ? html`seed ${settings.value.seed} · <kbd>J</kbd> <kbd>K</kbd> token` : `${progress} of ${settings.value.tokens} tokens`}</span></div>
    <div class="write-progress" role="presentation"><span style=${{ width: `${progress === null ? 0 : (100 * progress) / settings.value.tokens}%` }}></span></div>
    <${Failure} error=${error} />
    <div class="columns write-columns"><div class="write-text">
      ${draft !== null ? html`<textarea class="write-field" aria-label="Text" ref=${(/** @type {any} */ field) => field?.focus()} value=${draft} spellcheck=${false}
          onInput=${(/** @type {any} */ event) => setDraft(event.target.value)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Escape') { event.stopPropagation(); setDraft(null); } }}></textarea>
          <div class="buttons"><button type="button" class="primary" onClick=${apply}>Apply <${Key}>Ctrl ↵<//></button><button type="button" onClick=${() => setDraft(null)}>Cancel</button></div>`
        : pieces.length ? html`<${TokenText} tokens=${pieces} at=${at} label="Text, as tokens" decorate=${decorate} onSelect=${(/** @type {number | null} */ next) => set({ at: next })}>
          <span class=${`caret${progress === null ? '' : ' on'}`} aria-hidden="true"></span><//>`
        : html`<${Start} run=${run} hasText=${Boolean(text) && !error} />`}</div>
      <${Note} at=${at} piece=${at === null ? null : pieces[at]} entries=${entries} onTake=${take} hasSenses=${run.model === 'backpack'} hasAttention=${['backpack', 'transformer'].includes(run.model)} />
      <div><${Section} class="bare" title="Branches" actions=${html`<span class="caption">mean bits</span>`}>
          <${BranchTree} tree=${current} onSelect=${select} onRemove=${removeBranch} />
          <div class="buttons links"><${Link} disabled=${!pieces.length} onClick=${() => change({ tree: bookmark(tree.value) })}>Bookmark <${Key}>B<//><//>
            <${Link} disabled=${current.branches.length < 2} onClick=${() => setOther(other === null ? (ordered(current).find(({ branch }) => branch.id !== current.current)?.branch.id ?? null) : null)}>${other === null ? 'Side by side' : 'Hide side by side'}<//>
            <${Link} disabled=${!pieces.length} onClick=${() => save('tree.json', JSON.stringify(current), 'application/json')}>Save tree<//>
            <label class="link-label">Load tree<input class="hidden" type="file" accept=".json" onChange=${loadTree} /></label></div><//>
        <${Sampling} /></div></div>
    ${other !== null && current.branches.some((each) => each.id === other) ? html`<${SideBySide} tree=${current} other=${other} onOther=${setOther} />` : null}
    <div class="legend"><span>0 bits</span><span class="ramp tint"></span><span>10 bits or more</span>
      <span>${own.length ? `${count(own.length)} tokens written, ${fixed(total, 1)} bits, ${fixed(total / own.length, 2)} per token` : ''}</span></div>`;
}

/** The alternatives of a token, with the token itself. @param {import('../branches.js').Piece} piece */
function alternatives(piece) {
  const listed = (piece.top ?? []).map((entry) => ({ ...entry, probability: Math.exp(entry.logprob) }));
  const isListed = listed.some((entry) => entry.id === piece.id);
  return isListed || piece.logprob === null ? listed.slice(0, 8) : [...listed.slice(0, 7), { ...piece, probability: Math.exp(piece.logprob) }];
}

/** What to do without a text. @param {{run: any, hasText: boolean}} properties */
const Start = ({ run, hasText }) => (hasText ? html`<p class="caption">Reading the text …</p>` : html`<p>Write a text, or begin with an example:</p>
  <ul>${examplesOf(run).map((each) => html`<li key=${each}><${Link} class="link serif" onClick=${() => set({ text: each })}>${each}<//></li>`)}</ul>`);

/** The alternatives of the selected token, beside its line. @param {any} properties */
function Note({ at, piece, entries, onTake, hasSenses, hasAttention }) {
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const selected = /** @type {HTMLElement | null} */ (document.querySelector('.write-text .piece.selected'));
    setTop(selected && innerWidth >= 1200 ? selected.offsetTop : 0);
  }, [at, piece]);
  if (at === null) return html`<aside class="margin-note" aria-label="Alternatives"><p class="caption">Select a token to see what else the model considered there.</p></aside>`;
  const word = piece.text.trim() || label(piece.text);
  return html`<aside class="margin-note open" aria-label="Alternatives" style=${{ marginTop: `${top}px` }}>
    <div class="note-head"><span>instead of <span class="serif">${word}</span></span><span class="caption">probability</span><span class="caption">bits</span></div>
    ${entries.length ? html`<${Distribution} entries=${entries} present=${piece.text} hasBits numbered label=${`Alternatives of ${word}`} onChoose=${onTake} />` : html`<p class="caption">Alternatives are listed for texts of at most 10,000 characters.</p>`}
    <p class="caption"><kbd>1</kbd>–<kbd>9</kbd> take it and continue</p>
    <div class="buttons links">${hasSenses ? html`<${Link} onClick=${() => go('senses/context')}>Contributions<//>` : null}
      ${hasAttention ? html`<${Link} onClick=${() => go('attention')}>Attention<//>` : null}
      ${hasSenses ? html`<${Link} onClick=${() => go('senses', { word })}>Senses<//>` : null}</div></aside>`;
}

/** Settings of the sampler. */
function Sampling() {
  const [isOpen, setOpen] = useState(false);
  const { value } = settings;
  const update = (/** @type {any} */ changes) => change({ settings: changes });
  const share = (/** @type {'top_p' | 'min_p' | 'typical_p'} */ name, /** @type {string} */ text, /** @type {number} */ off) => html`
    <${Slider} label=${text} minimum=${0} maximum=${1} step=${0.01} value=${value[name] ?? off} shown=${value[name] === null ? 'off' : fixed(value[name], 2)}
      onChange=${(/** @type {number} */ next) => update({ [name]: next === off || (off === 1 && next === 0) ? null : next })} />`;
  return html`<${Section} title="Sampling" actions=${html`<${Link} aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${isOpen ? 'Less' : 'More'}<//>`}>
    <${Slider} label="temperature" minimum=${0} maximum=${2} step=${0.05} value=${value.temperature} shown=${fixed(value.temperature, 2)} onChange=${(/** @type {number} */ next) => update({ temperature: next })} />
    ${share('top_p', 'top-p', 1)}${share('min_p', 'min-p', 0)}
    <${Slider} label="tokens" minimum=${1} maximum=${400} step=${1} value=${value.tokens} shown=${String(value.tokens)} onChange=${(/** @type {number} */ next) => update({ tokens: next })} />
    ${isOpen ? html`${share('typical_p', 'typical', 1)}
      <${Slider} label="top-k" minimum=${0} maximum=${200} step=${1} value=${value.top_k ?? 0} shown=${value.top_k === null ? 'off' : String(value.top_k)} onChange=${(/** @type {number} */ next) => update({ top_k: next || null })} />
      <${Slider} label="repetition" minimum=${1} maximum=${2} step=${0.05} value=${value.repetition_penalty} shown=${value.repetition_penalty === 1 ? 'off' : fixed(value.repetition_penalty, 2)} onChange=${(/** @type {number} */ next) => update({ repetition_penalty: next })} />
      <label class="field-row"><span>seed</span><input type="number" min="0" step="1" value=${value.seed} onChange=${(/** @type {any} */ event) => update({ seed: Math.max(0, Math.trunc(Number(event.target.value) || 0)) })} /></label>
      <label class="field-row"><span>stop at</span><input type="text" value=${value.stop} onChange=${(/** @type {any} */ event) => update({ stop: event.target.value })} /></label>` : null}<//>`;
}

/** Two branches beside each other; their common beginning is grey. @param {any} properties */
function SideBySide({ tree: shown, other, onOther }) {
  const [left, right] = [piecesOf(shown), piecesOf(shown, other)];
  let common = 0;
  while (common < left.length && left[common].id === right[common]?.id) common += 1;
  const column = (/** @type {any[]} */ pieces) => html`<p class="serif side"><span class="caption-text">${pieces.slice(0, common).map(pieceOf).join('')}</span>${pieces.slice(common).map(pieceOf).join('')}</p>`;
  return html`<${Section} title="Side by side" actions=${html`<label class="caption">other branch <select value=${other} onChange=${(/** @type {any} */ event) => onOther(Number(event.target.value))}>
    ${ordered(shown).filter(({ branch }) => branch.id !== shown.current).map(({ branch }) => html`<option key=${branch.id} value=${branch.id}>${branch.pieces.map(pieceOf).join('').trim().slice(0, 40) || '…'}</option>`)}</select></label>`}>
    <div class="columns two-columns">${column(left)}${column(right)}</div><//>`;
}
