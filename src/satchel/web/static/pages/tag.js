// Which tag does each token get, how sure is the model, and why?

import { html } from '../lib.js';
import { useRequest } from '../api.js';
import { Link, Section } from '../components/controls.js';
import { Distribution } from '../components/distribution.js';
import { missing } from '../components/shell.js';
import { useReproduction } from '../components/reproduce.js';
import { Result } from '../components/states.js';
import { measure, rect, write } from '../drawing.js';
import { label, probability } from '../format.js';
import { go, openRun, set, subject } from '../state.js';
import { theme } from '../theme.js';

const WIDTH = 900;

/** Tokens with their tags beneath, in lines. @param {any} prediction @param {import('../theme.js').Theme} look @returns {import('../drawing.js').Drawing} */
function tagDrawing({ tokens, tags, probabilities }, look) {
  let [x, y] = [0, 0];
  const shapes = tokens.flatMap((/** @type {string} */ token, /** @type {number} */ index) => {
    const wide = Math.max(measure(label(token), 21, 'serif'), measure(tags[index], 12, 'sans')) + 8;
    if (x + wide > WIDTH) [x, y] = [0, y + 60];
    const middle = x + wide / 2;
    const made = [rect(x, y, wide, 50, look.tint(10 * (1 - probabilities[index]))), write(middle, y + 26, label(token), look.colours.ink, { size: 21, font: 'serif', anchor: 'middle' }), write(middle, y + 44, tags[index], look.colours.ink2, { anchor: 'middle' })];
    x += wide + 2;
    return made;
  });
  return { width: WIDTH, height: y + 56, shapes };
}

export function Page() {
  const run = openRun.value;
  const text = subject.text.value;
  const body = { run: run.run, text };
  const request = useRequest('tag', text ? body : null);
  return html`<div class="view-head"><h1>Tags</h1><span class="summary">darker: the model is less sure</span></div>
    <${Result} request=${request} rows=${8}>${(/** @type {any} */ data) => html`<${Tags} data=${data} body=${body} run=${run} />`}<//>`;
}

/** @param {any} properties */
function Tags({ data, body, run }) {
  const prediction = data.predictions[0];
  useReproduction({ name: 'tags', terminal: data.terminal, python: data.python, http: ['tag', body], json: data, drawing: (look) => tagDrawing(prediction, look) }, [data]);
  const at = subject.at.value !== null && subject.at.value < prediction.tokens.length ? subject.at.value : null;
  const counts = Object.entries(prediction.tags.reduce((/** @type {Record<string, number>} */ sums, /** @type {string} */ tag) => ({ ...sums, [tag]: (sums[tag] ?? 0) + 1 }), {}));
  return html`<div class="columns tag-columns"><div class="tagged" role="group" aria-label="Tokens and their tags">${prediction.tokens.map((/** @type {string} */ token, /** @type {number} */ index) => html`
      <button type="button" key=${index} class=${`tagged-token${index === at ? ' selected' : ''}`} aria-pressed=${index === at} onClick=${() => set({ at: index === at ? null : index })}
        style=${{ background: theme.value.tint(10 * (1 - prediction.probabilities[index])) }}><span class="serif">${label(token)}</span><span class="tag-name">${prediction.tags[index]}</span></button>`)}</div>
    <div class="detail">${at === null ? html`<p class="caption">Select a token to see the probability of its tag and what it attended to.</p>` : html`
      <h1><span class="serif">${label(prediction.tokens[at])}</span> <span class="note">${prediction.tags[at]}, probability ${probability(prediction.probabilities[at])}</span></h1>
      <${Attended} run=${run} text=${body.text} at=${at} />
      <div class="buttons links">${run.model === 'backpack' ? html`<${Link} onClick=${() => go('senses/context', { target: `${at}:${prediction.tags[at]}` })}>Contributions<//>` : null}
        ${missing('attention', run) ? null : html`<${Link} onClick=${() => go('attention')}>Attention<//>`}</div>`}
      <${Section} title="Tags of the text"><table><tbody>${counts.map(([tag, number]) => html`<tr key=${tag}><td class="dense">${tag}</td><td class="dense right">${number}</td></tr>`)}</tbody></table><//></div></div>`;
}

/** The tokens with the largest attention weights of the head that `look attention` chooses. @param {any} properties */
function Attended({ run, text, at }) {
  const request = useRequest('attention', missing('attention', run) ? null : { run: run.run, text, thumbnails: true, size: 1 });
  const data = request.data;
  const map = data?.chosen ? data.maps.find((/** @type {any} */ each) => each.layer === data.chosen.layer && each.head === data.chosen.head) : data?.maps[0];
  if (!map?.weights) return null;
  const row = map.weights[at + (data.row_roles?.[0] === 'start' ? 1 : 0)] ?? [];
  const entries = row.map((/** @type {number} */ value, /** @type {number} */ index) => ({ text: data.columns[index], role: data.column_roles?.[index], probability: value })).sort((/** @type {any} */ a, /** @type {any} */ b) => b.probability - a.probability).slice(0, 5);
  return html`<p class="caption">attends to (layer ${map.layer}, head ${map.head})</p><${Distribution} entries=${entries} label="Attended tokens" />`;
}
