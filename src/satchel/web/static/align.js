// Alignment of two lists of tokens by their longest common subsequence.

/**
 * Pairs of positions that correspond: equal tokens, and between them tokens that were replaced one by one.
 * @param {string[]} a @param {string[]} b @returns {[number, number][]}
 */
export function align(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  /** @type {[number, number][]} */
  const pairs = [];
  let [i, j] = [0, 0];
  let onlyA = /** @type {number[]} */ ([]);
  let onlyB = /** @type {number[]} */ ([]);
  const flush = () => {
    if (onlyA.length === onlyB.length) onlyA.forEach((each, index) => pairs.push([each, onlyB[index]]));
    [onlyA, onlyB] = [[], []];
  };
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      flush();
      pairs.push([i, j]);
      i += 1;
      j += 1;
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) {
      onlyA.push(i);
      i += 1;
    } else {
      onlyB.push(j);
      j += 1;
    }
  }
  while (i < a.length) { onlyA.push(i); i += 1; }
  while (j < b.length) { onlyB.push(j); j += 1; }
  flush();
  return pairs;
}
