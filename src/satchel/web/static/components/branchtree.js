// The list of branches, drawn as a tree.

import { html, useRef } from '../lib.js';
import { ordered, pathTo } from '../branches.js';
import { bits, fixed } from '../format.js';
import { pieceOf } from '../pieces.js';

const INDENT = 22;

/** Mean surprisal of the tokens of a branch. @param {import('../branches.js').Branch} branch */
function meanBits(branch) {
  const known = branch.pieces.filter((piece) => piece.logprob !== null);
  return known.length ? known.reduce((sum, piece) => sum + bits(/** @type {number} */ (piece.logprob)), 0) / known.length : null;
}

/** @param {{tree: import('../branches.js').Tree, onSelect: (id: number) => void, onRemove: (id: number) => void}} properties */
export function BranchTree({ tree, onSelect, onRemove }) {
  const holder = useRef(/** @type {HTMLElement | null} */ (null));
  const rows = ordered(tree);
  const path = new Set(pathTo(tree).map((branch) => branch.id));
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const index = rows.findIndex(({ branch }) => branch.id === tree.current);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Delete') onRemove(tree.current);
    else if (step && rows[index + step]) {
      onSelect(rows[index + step].branch.id);
      /** @type {HTMLElement | undefined} */ (holder.current?.querySelectorAll('[role=treeitem]')[index + step])?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<ul class="branches" role="tree" aria-label="Branches" ref=${holder} onKeyDown=${keys}>${rows.map(({ branch, depth }) => {
    const isCurrent = branch.id === tree.current;
    const words = branch.pieces.map(pieceOf).join('').trim().replace(/\s+/g, ' ');
    return html`<li role="treeitem" key=${branch.id} aria-level=${depth + 1} aria-selected=${isCurrent} tabindex=${isCurrent ? 0 : -1}
      class=${`${path.has(branch.id) ? 'on-path' : ''}${isCurrent ? ' current' : ''}`} style=${{ paddingLeft: `${depth * INDENT}px` }} onClick=${() => onSelect(branch.id)}>
      <span class="knot" aria-hidden="true"></span><span class="branch-words">${words || '…'}</span>
      ${branch.isBookmarked ? html`<span class="bookmark" title="bookmarked">★<span class="hidden">bookmarked</span></span>` : null}
      <span class="caption">${fixed(meanBits(branch), 2)}</span></li>`;
  })}</ul>`;
}
