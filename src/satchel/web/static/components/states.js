// States of a view without a result: empty, loading, failed, not available for this model.

import { html } from '../lib.js';
import { ApiError } from '../api.js';
import { copy } from '../clipboard.js';

/** A command that can be copied. @param {{command: string}} properties */
const Command = ({ command }) => html`
  <div class="command"><code>${command}</code><button type="button" class="link" onClick=${() => copy(command)}>Copy</button></div>`;

/** What is missing, one sentence, one command, buttons. @param {{title: any, children?: any, command?: string, buttons?: any}} properties */
export const Empty = ({ title, children, command, buttons }) => html`
  <div class="state"><h1>${title}</h1><p>${children}</p>${command ? html`<${Command} command=${command} />` : null}
    ${buttons ? html`<div class="buttons">${buttons}</div>` : null}</div>`;

/**
 * An error, and what to do about it. The previous result stays visible below it.
 * @param {{error: any, title?: string, command?: string, onRetry?: () => void}} properties
 */
export function Failure({ error, title, command, onRetry }) {
  if (!error) return null;
  const isBug = !(error instanceof ApiError) || error.status === 500;
  return html`<div class="failure" role="alert"><h2>${title ?? (isBug ? 'Error in the program' : 'This request cannot be answered')}</h2>
    <p>${error.message}</p>${error.remedy ? html`<p>To fix it: ${error.remedy}.</p>` : null}
    ${command ? html`<${Command} command=${command} />` : null}
    ${onRetry ? html`<button type="button" onClick=${onRetry}>Try again</button>` : null}</div>`;
}

/** Grey rows of the size of the result. @param {{rows?: number, height?: number, text?: string}} properties */
export const Skeleton = ({ rows = 6, height = 28, text = 'Loading' }) => html`
  <div class="skeleton" role="status" aria-label=${text} style=${{ height: `${rows * height}px` }}>
    ${Array.from({ length: rows }, (_, row) => html`<span key=${row} style=${{ height: `${height - 8}px`, width: `${60 + ((row * 37) % 40)}%` }}></span>`)}
  </div>`;

/**
 * The content of a view that depends on a request: its error, its skeleton, or its result, dimmed while it is stale.
 * @param {{request: {data: any, error: any, isLoading: boolean}, rows?: number, height?: number, children: (data: any) => any}} properties
 */
export function Result({ request, rows, height, children }) {
  return html`<${Failure} error=${request.error} />
    ${request.data
      ? html`<div class=${request.isLoading || request.error ? 'result stale' : 'result'}>${children(request.data)}</div>`
      : request.error ? null : html`<${Skeleton} rows=${rows} height=${height} />`}`;
}
