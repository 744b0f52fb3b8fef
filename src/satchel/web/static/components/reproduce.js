// The bar at the bottom: the command and the program that print the numbers of the view, and files of it.

import { html, signal, useEffect, useState } from '../lib.js';
import { announce, copy, save } from '../clipboard.js';
import { htmlText, pngFile, svgText } from '../drawing.js';
import { THEMES, theme } from '../theme.js';
import { Link, Segmented } from './controls.js';

/**
 * What the bar offers.
 * @typedef {object} Reproduction
 * @property {string} name name of saved files
 * @property {string} [terminal]
 * @property {string} [python]
 * @property {[string, object]} [http] route and body
 * @property {unknown} [json] the document of the view
 * @property {((theme: import('../theme.js').Theme) => import('../drawing.js').Drawing) | null} [drawing]
 * @property {[string, string, () => string][]} [files] further kinds of files: label, suffix, content
 */

/** @type {{value: Reproduction}} */
const reproduction = signal(/** @type {Reproduction} */ ({ name: '' }));

/** Offer commands and files while a view is shown. @param {Reproduction} offered @param {unknown[]} changes values on which the offer depends */
export function useReproduction(offered, changes) {
  useEffect(() => { reproduction.value = offered; }, changes);
  useEffect(() => () => { reproduction.value = { name: '' }; }, []);
}

/** A request as a command of curl. @param {[string, object]} http */
const curl = ([route, body]) =>
  `curl ${location.origin}/api/${route} -H "Authorization: Bearer $SATCHEL_TOKEN" `
  + `-H 'Content-Type: application/json' -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;

/** The bar. */
export function ReproduceBar() {
  const [kind, setKind] = useState('terminal');
  const [isOpen, setOpen] = useState(false);
  const offered = reproduction.value;
  const lines = /** @type {Record<string, string>} */ ({
    terminal: offered.terminal ?? '', python: (offered.python ?? '').trim(), http: offered.http ? curl(offered.http) : '',
  });
  const shown = lines[kind];
  const files = (/** @type {string} */ type) => async (/** @type {MouseEvent} */ event) => {
    const look = event.shiftKey ? THEMES.light : theme.value;
    const drawing = offered.drawing?.(look);
    const background = look.colours.paper;
    if (type === 'json') save(`${offered.name}.json`, `${JSON.stringify(offered.json, null, 2)}\n`, 'application/json');
    if (!drawing) return;
    try {
      if (type === 'svg') save(`${offered.name}.svg`, svgText(drawing, background), 'image/svg+xml');
      if (type === 'png') save(`${offered.name}.png`, await pngFile(drawing, background));
      if (type === 'html') save(`${offered.name}.html`, htmlText(svgText(drawing, background), offered.name, lines.terminal), 'text/html');
    } catch (error) {
      announce(String(error));
    }
  };
  const options = /** @type {[string, string][]} */ ([['terminal', 'Terminal'], ['python', 'Python'], ['http', 'HTTP']]);
  return html`<footer class="reproduce" aria-label="Reproduce">
    <div class="same"><span class="caption">Same in</span>
      <${Segmented} label="Same in" hidden value=${kind} options=${options} onChange=${setKind} />
      <button type="button" class="line" aria-expanded=${isOpen} disabled=${!shown} onClick=${() => setOpen(!isOpen)}
        ><code>${shown ? `${kind === 'terminal' ? '$ ' : ''}${shown.replaceAll('\n', ' ')}` : 'no command for this view'}</code></button>
      <${Link} disabled=${!shown} data-key="c" onClick=${() => copy(shown)}>Copy <kbd>C</kbd><//></div>
    <div class="save-as"><span class="caption">Save as</span>
      ${(offered.files ?? []).map(([text, suffix, content]) => html`<button type="button" class="plain" key=${text}
        onClick=${() => save(`${offered.name}.${suffix}`, content())}>${text}</button>`)}
      ${offered.drawing ? ['svg', 'png', 'html'].map((type) => html`<button type="button" class="plain" key=${type} onClick=${files(type)}>${type.toUpperCase()}</button>`) : null}
      <button type="button" class="plain" disabled=${!offered.json} onClick=${files('json')}>JSON</button></div>
    ${isOpen && shown ? html`<pre class="whole-line" tabindex="0">${shown}</pre>` : null}
  </footer>`;
}
