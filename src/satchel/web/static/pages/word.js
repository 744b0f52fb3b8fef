// What can a word contribute? Its senses, the words that each promotes and suppresses, and the nearest words.

import { html, signal, useEffect, useState } from '../lib.js';
import { useRequest } from '../api.js';
import { Bar, Key, Link, Section, Token } from '../components/controls.js';
import { useReproduction } from '../components/reproduce.js';
import { Result } from '../components/states.js';
import { sensesDrawing } from '../components/sensetable.js';
import { fixed, percent, signed } from '../format.js';
import { go, openRun, set, subject, tokens } from '../state.js';

const seen = signal(/** @type {string[]} */ ([]));

/** The word of the page: the chosen one, that of the selected token, or the first one of the text. */
function presentWord() {
  if (subject.word.value) return subject.word.value;
  const words = tokens.value.filter((token) => !token.role && /\p{L}{2}/u.test(token.text));
  const selected = subject.at.value === null ? null : tokens.value[subject.at.value];
  return (selected ?? words[1] ?? words[0])?.text.trim() ?? '';
}

/** @param {{modes: any}} properties */
export function Word({ modes: Modes }) {
  const run = openRun.value;
  const word = presentWord();
  const [typed, setTyped] = useState('');
  const body = { run: run.run, words: [word], contexts: 3 };
  const request = useRequest('senses', word ? body : null);
  const similar = useRequest('similar', word ? { run: run.run, word, by: 'sense', top: 3 } : null);
  const overall = useRequest('runs/metrics', { run: run.run });
  const chips = [...new Set([...tokens.value.filter((token) => !token.role && /\p{L}/u.test(token.text)).map((token) => token.text.trim()), ...seen.value])].filter((each) => each && each !== word).slice(0, 8);
  const show = (/** @type {string} */ next) => {
    if (!next.trim()) return;
    seen.value = [word, ...seen.value.filter((each) => each !== word)].slice(0, 8);
    set({ word: next.trim(), sense: null });
    setTyped('');
  };
  return html`<div class="view-head"><h1>Senses of <span class="serif">${word}</span></h1><${Modes} />
      <form onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); show(typed); }}><label class="search-field"><span class="hidden">Another word</span>
        <input type="text" data-key="w" placeholder="Another word" value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} /><${Key}>W<//></label></form>
      <span class="chips">${chips.map((each) => html`<button type="button" class="link serif chip" key=${each} onClick=${() => show(each)}>${each}</button>`)}</span></div>
    <div class="columns senses-columns"><${Result} request=${request} rows=${8} height=${62}>${(/** @type {any} */ data) => html`
      <${SenseTable} entry=${data.words[0]} similar=${similar.data} data=${data} body=${body} onWord=${show} />`}<//>
      <${Overall} metrics=${overall.data?.metrics} entry=${request.data?.words[0]} /></div>`;
}

/** @param {any} properties */
function SenseTable({ entry, similar, data, body, onWord }) {
  const senses = [...entry.senses].sort((a, b) => (b.share ?? 0) - (a.share ?? 0));
  const largest = Math.max(...senses.map((each) => each.share ?? 0), 1e-9);
  const chosen = subject.sense.value ?? senses[0]?.sense;
  const near = (/** @type {number} */ sense) => similar?.senses?.find((/** @type {any} */ each) => each.sense === sense)?.words ?? [];
  useEffect(() => { if (subject.sense.value === null && senses[0]) set({ sense: senses[0].sense }); }, [entry]);
  useReproduction({ name: `senses-${entry.word}`, terminal: data.terminal, python: data.python, http: ['senses', body], json: data, drawing: (look) => sensesDrawing(entry.word, senses, look) }, [data]);
  const hasShare = senses.some((each) => each.share !== null && each.share !== undefined);
  return html`<div><p class="caption word-tokens">${entry.tokens.length === 1 ? 'one token ' : `${entry.tokens.length} tokens: the senses are sums of those of `}
      ${entry.tokens.map((/** @type {string} */ text, /** @type {number} */ index) => html`<${Link} key=${index} onClick=${() => onWord(text)}><${Token} text=${text} /><//> `)}</p>
    <div class="scroll"><table class="sense-table"><thead><tr><th scope="col">sense</th><th scope="col">${hasShare ? 'share of use' : ''}</th><th scope="col">promotes as next token</th><th scope="col">suppresses</th><th scope="col">nearest words by this sense</th></tr></thead>
    <tbody>${senses.map((each) => html`<tr key=${each.sense} class=${each.sense === chosen ? 'chosen' : ''}>
      <td><button type="button" class="plain" aria-pressed=${each.sense === chosen} onClick=${() => set({ sense: each.sense })}><strong>${each.sense}</strong></button></td>
      <td class="share">${hasShare ? html`<div>${each.share === null ? '–' : percent(each.share)}</div><${Bar} class="full" share=${(each.share ?? 0) / largest} />` : null}
        ${each.same_as === null || each.same_as === undefined ? null : html`<div class="caption">same as sense ${each.same_as}</div>`}</td>
      <td><${WordList} words=${each.promotes} onWord=${onWord} isFading /></td><td class="neg-text"><${WordList} words=${each.suppresses.slice(0, 4)} onWord=${onWord} /></td>
      <td><${WordList} words=${near(each.sense)} onWord=${onWord} /></td></tr>`)}</tbody></table></div>
    <${Contexts} sense=${senses.find((each) => each.sense === chosen)} word=${entry.word} /></div>`;
}

/** Words as links to their own senses; the weaker ones fade. @param {any} properties */
function WordList({ words, onWord, isFading = false }) {
  const largest = Math.max(...words.map((/** @type {any} */ each) => Math.abs(each.score ?? 1)), 1e-9);
  const least = Math.min(...words.map((/** @type {any} */ each) => Math.abs(each.score ?? 1)), largest);
  const opacity = (/** @type {any} */ each) => (isFading ? 0.75 + (0.25 * (Math.abs(each.score) - least)) / (largest - least || 1) : 1);
  return html`<span class="word-list">${words.map((/** @type {any} */ each) => html`<button type="button" class="plain" key=${each.word} style=${{ opacity: opacity(each) }}
    title=${each.score === undefined ? `similarity ${fixed(each.alike, 2)}` : signed(each.score, 2)} onClick=${() => onWord(each.word)}><${Token} text=${each.word} role=${each.role} /></button>`)}</span>`;
}

/** Places in the training text. @param {any} properties */
const Contexts = ({ sense, word }) => (sense?.contexts?.length ? html`<${Section} title=${html`<span class="serif">${word}</span> · sense ${sense.sense}`} note="in the training text">
  <ul class="contexts">${sense.contexts.map((/** @type {any} */ context, /** @type {number} */ index) => html`<li key=${index} class="serif">${context.before}<strong>${context.word}</strong>${context.after}</li>`)}</ul><//>` : null);

/** Senses over all words, from the last measurement of the training. @param {any} properties */
function Overall({ metrics, entry }) {
  const last = metrics?.findLast((/** @type {any} */ each) => each.senses)?.senses;
  const chosen = subject.sense.value;
  return html`<div>${last ? html`<${Section} class="bare" title="Senses over all words"><table><thead><tr><th scope="col">sense</th><th scope="col" class="right">entropy</th><th scope="col" class="right">use</th><th scope="col" class="right">cost without</th></tr></thead>
    <tbody>${last.entropy.map((/** @type {number} */ entropy, /** @type {number} */ sense) => html`<tr key=${sense} class=${sense === chosen ? 'chosen' : ''}><td class="dense"><strong>${sense}</strong></td>
      <td class="dense right">${fixed(entropy, 2)}</td><td class="dense right">${percent(last.use[sense])}</td><td class="dense right">${fixed(last.cost_without[sense])}</td></tr>`)}</tbody></table>
    <p class="caption">Entropy of the sense weights in nats: low means that few tokens get the weight. Cost without: nats per token on held-out text when the sense is set to zero.</p><//>` : null}
    ${entry && chosen !== null ? html`<${Section} title=${html`<span class="serif">${entry.word}</span> · sense ${chosen}`}><ul class="link-list">
      <li><${Link} onClick=${() => go('senses/context')}>Where it adds most in the text above<//></li><li><${Link} onClick=${() => go('edit')}>Scale or move it in Edit<//></li></ul><//>` : null}</div>`;
}

