// The workbench: takes the token, follows the address, and shows the page.

import { connection, lose, reconnections, takeToken } from './api.js';
import { html, render, useEffect, useState } from './lib.js';
import { Empty, Skeleton } from './components/states.js';
import { ConnectionBand, DroppedFields, isGoToOpen, isKeysOpen, missing, Overlays, RunBar, TopBar } from './components/shell.js';
import { ReproduceBar } from './components/reproduce.js';
import { TextStrip } from './components/strip.js';
import { listen } from './keys.js';
import { followAddress, go, loadRuns, open, openRun, place, RUN_PAGES, runs, subject } from './state.js';

/** Pages that show the text strip, with its label. @type {Record<string, string>} */
const STRIPS = { classify: 'Text', tag: 'Text', translate: 'Source', attention: 'Text', senses: 'Text', tokens: 'Text', edit: 'Text' };
const PAGES = new Set([...RUN_PAGES, 'models', 'train', 'compare', 'lessons']);

/** Load the module of a page when it is first shown. @param {string} name */
function usePage(name) {
  const [loaded, setLoaded] = useState(/** @type {{name: string, Page: any}} */ ({ name: '', Page: null }));
  useEffect(() => {
    let isCurrent = true;
    // A browser may remember a failed import of an address: after a reconnection the address differs.
    const retry = reconnections.value ? `?${reconnections.value}` : '';
    import(`./pages/${name}.js${retry}`).then(
      (module) => { if (isCurrent) setLoaded({ name, Page: module.Page }); },
      () => { if (isCurrent) lose('stopped'); },
    );
    return () => { isCurrent = false; };
  }, [name, reconnections.value]);
  return loaded.name === name ? loaded.Page : null;
}

/** The page of a run, or why the run has no such page. @param {{name: string}} properties */
function RunPage({ name }) {
  const run = openRun.value;
  if (!run) {
    return html`<${Empty} title=${subject.run.value ? `There is no run ${subject.run.value}` : 'No run is open'}
      buttons=${html`<button type="button" class="primary" onClick=${() => go('models')}>Models</button>`}>Choose one of the runs of this server.<//>`;
  }
  const reason = missing(name, run);
  if (!reason) return html`<${Loaded} name=${name} key=${`${name} ${run.run}`} />`;
  const others = (runs.value ?? []).filter((each) => !missing(name, each) && each.status !== 'damaged').slice(0, 3);
  return html`<${Empty} title=${reason} buttons=${others.map((each) => html`
    <button type="button" key=${each.run} onClick=${() => open(each)}>Open ${each.run}</button>`)}>
    ${others.length ? 'Open a run that has it, with the same text.' : 'Train a Transformer or a Backpack on the same text.'}<//>`;
}

/** @param {{name: string}} properties */
function Loaded({ name }) {
  const Page = usePage(name);
  return Page ? html`<${Page} />` : html`<${Skeleton} rows=${12} />`;
}

function App() {
  const { name } = place.value;
  useEffect(() => { if (connection.value !== 'token') loadRuns().catch(() => {}); }, [reconnections.value, name === 'models' || name === 'compare']);
  useEffect(() => { document.title = `${subject.run.value && RUN_PAGES.includes(name) ? `${subject.run.value} – ` : ''}${name} – Satchel`; }, [name, subject.run.value]);
  const isRunPage = RUN_PAGES.includes(name);
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <${TopBar} />
    ${isRunPage ? html`<${RunBar} />` : null}
    <${ConnectionBand} />
    ${isRunPage && STRIPS[name] && runs.value === null ? html`<div class="strip"></div>` : null}
    ${isRunPage && STRIPS[name] && openRun.value && !missing(name, openRun.value) ? html`<${TextStrip} label=${STRIPS[name]} key=${openRun.value.run} />` : null}
    <main id="main" tabindex="-1" class=${`page-${name}`}>
      <${DroppedFields} />
      ${!PAGES.has(name) ? html`<${Empty} title="There is no such page" buttons=${html`<button type="button" onClick=${() => go('models')}>Models</button>`}>The address is wrong.<//>`
        : runs.value === null && name !== 'lessons' ? html`<${Skeleton} rows=${12} />`
        : isRunPage ? html`<${RunPage} name=${name} />` : html`<${Loaded} name=${name} key=${name} />`}
    </main>
    <${ReproduceBar} /><${Overlays} />`;
}

/** Move the focus to the content. @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

if (takeToken(location.hash)) history.replaceState(null, '', location.pathname);
listen({
  openGoTo: () => { isGoToOpen.value = true; },
  openKeys: () => { isKeysOpen.value = true; },
  hasDialog: () => isGoToOpen.value || isKeysOpen.value,
});
followAddress().then(() => render(html`<${App} />`, /** @type {Element} */ (document.getElementById('app'))));
