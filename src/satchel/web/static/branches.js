// The branches of a text: a tree of continuations, changed by pure functions, so that undo keeps the previous trees.

import { pieceOf } from './pieces.js';

/**
 * A token with its log-probability, and the most probable tokens in its place.
 * @typedef {{text: string, piece?: string, id: number, logprob: number | null, top?: any[], isPrompt?: boolean, role?: string | null}} Piece
 * A branch continues the path of its parent after `at` tokens. `source` is the typed text of a prompt.
 * @typedef {{id: number, parent: number | null, at: number, pieces: Piece[], isBookmarked?: boolean, source?: string}} Branch
 * @typedef {{branches: Branch[], current: number}} Tree
 */

/** @type {Tree} */
export const EMPTY = { branches: [], current: -1 };

/** @param {Tree} tree @param {number} id */
const find = (tree, id) => /** @type {Branch} */ (tree.branches.find((each) => each.id === id));

/** The branches from the root to a branch. @param {Tree} tree @param {number} [id] @returns {Branch[]} */
export function pathTo(tree, id = tree.current) {
  const path = [];
  for (let branch = find(tree, id); branch; branch = find(tree, branch.parent ?? -1)) path.unshift(branch);
  return path;
}

/** The tokens from the start of the text to the end of a branch. @param {Tree} tree @param {number} [id] @returns {Piece[]} */
export const piecesOf = (tree, id = tree.current) =>
  pathTo(tree, id).reduce((pieces, branch) => [...pieces.slice(0, branch.at), ...branch.pieces], /** @type {Piece[]} */ ([]));

/** The text up to the end of a branch. @param {Tree} tree @param {number} [id] */
export function textOf(tree, id = tree.current) {
  let [text, pieces] = ['', /** @type {Piece[]} */ ([])];
  for (const branch of pathTo(tree, id)) {
    text = branch.at === pieces.length ? text : join(pieces.slice(0, branch.at));
    pieces = [...pieces.slice(0, branch.at), ...branch.pieces];
    text = branch.source ?? text + join(branch.pieces);
  }
  return text;
}

/** @param {Piece[]} pieces */
const join = (pieces) => pieces.map(pieceOf).join('');

/** @param {Tree} tree @param {Omit<Branch, 'id'>} branch @returns {Tree} */
function add(tree, branch) {
  const id = 1 + Math.max(-1, ...tree.branches.map((each) => each.id));
  return { branches: [...tree.branches, { ...branch, id }], current: id };
}

/** Add a typed text; tokens that it shares with the current path stay those of the path. @param {Tree} tree @param {string} source @param {Piece[]} pieces */
export function addText(tree, source, pieces) {
  const present = piecesOf(tree);
  let at = 0;
  while (at < present.length && at < pieces.length && present[at].id === pieces[at].id) at += 1;
  const owner = at === 0 ? null : ownerAt(tree, at);
  const prompt = pieces.slice(at).map((piece) => ({ ...piece, isPrompt: true }));
  return add(tree, { parent: owner?.id ?? null, at, pieces: prompt, source });
}

/** The branch of the current path that a branch at this token continues. @param {Tree} tree @param {number} at */
function ownerAt(tree, at) {
  const path = pathTo(tree);
  return path.filter((branch) => branch.at < at).at(-1) ?? path[0];
}

/** Add a branch that has another token at a place. @param {Tree} tree @param {number} at @param {Piece} piece */
export const addAlternative = (tree, at, piece) => add(tree, { parent: ownerAt(tree, at)?.id ?? null, at, pieces: [piece] });

/** Prepare for a continuation: typed texts get a new branch, generated ones grow. @param {Tree} tree */
export function addContinuation(tree) {
  const branch = find(tree, tree.current);
  const hasChildren = tree.branches.some((each) => each.parent === tree.current);
  if (branch && branch.source === undefined && !hasChildren) return tree;
  return add(tree, { parent: tree.current, at: piecesOf(tree).length, pieces: [] });
}

/** Append tokens to the current branch. @param {Tree} tree @param {Piece[]} pieces @returns {Tree} */
export const append = (tree, pieces) => ({
  ...tree, branches: tree.branches.map((each) => (each.id === tree.current ? { ...each, pieces: [...each.pieces, ...pieces] } : each)),
});

/** Remove a branch and its continuations. @param {Tree} tree @param {number} id @returns {Tree} */
export function remove(tree, id) {
  const removed = new Set([id]);
  for (const branch of tree.branches) if (branch.parent !== null && removed.has(branch.parent)) removed.add(branch.id);
  const branches = tree.branches.filter((each) => !removed.has(each.id));
  const current = removed.has(tree.current) ? (find(tree, id).parent ?? branches[0]?.id ?? -1) : tree.current;
  return { branches, current };
}

/** Set or remove the bookmark of the current branch. @param {Tree} tree @returns {Tree} */
export const bookmark = (tree) => ({
  ...tree, branches: tree.branches.map((each) => (each.id === tree.current ? { ...each, isBookmarked: !each.isBookmarked } : each)),
});

/** The branches in the order of the tree, with their depth. @param {Tree} tree @returns {{branch: Branch, depth: number}[]} */
export function ordered(tree) {
  /** @param {number | null} parent @param {number} depth @returns {{branch: Branch, depth: number}[]} */
  const visit = (parent, depth) =>
    tree.branches.filter((each) => each.parent === parent).flatMap((branch) => [{ branch, depth }, ...visit(branch.id, depth + 1)]);
  return visit(null, 0);
}

/** Whether a value that was read from a file is a tree. @param {any} value @returns {value is Tree} */
export const isTree = (value) =>
  Array.isArray(value?.branches) && value.branches.length > 0 && value.branches.every((/** @type {any} */ each) =>
    Number.isInteger(each?.id) && Number.isInteger(each.at) && (each.parent === null || each.parent < each.id) && Array.isArray(each.pieces)
    && each.pieces.every((/** @type {any} */ piece) => typeof piece?.text === 'string'))
  && value.branches.some((/** @type {any} */ each) => each.id === value.current);
