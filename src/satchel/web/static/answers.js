// The check of an answer, with the tolerances of the command line: integers exact, other numbers rounded.

const [RELATIVE, ABSOLUTE] = [0.02, 0.011];
const NUMBER = /-?\d+(?:\.\d+)?(?:\s*\/\s*\d+(?:\.\d+)?)?\s*%?/g;

/** The numbers of a text. @param {string} text */
function numbersOf(text) {
  return [...text.replaceAll('−', '-').matchAll(NUMBER)].map(([found]) => {
    const [above, below = '1'] = found.replace('%', '').split('/');
    return Number(above) / Number(below) / (found.includes('%') ? 100 : 1);
  });
}

/** @param {number} value @param {number} expected */
const isClose = (value, expected) => {
  const difference = Math.abs(value - expected);
  return Number.isInteger(expected) ? difference < 1e-9 : difference <= Math.max(ABSOLUTE, RELATIVE * Math.abs(expected));
};

/** Whether an answer to the question of a step is correct. @param {string} answer @param {any} step */
export function isCorrect(answer, step) {
  const text = answer.toLowerCase().replace(/\s+/g, ' ').trim();
  const words = step.answer.filter((/** @type {any} */ each) => typeof each === 'string').map((/** @type {string} */ each) => each.toLowerCase().replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  for (const pattern of [...words, ...step.accept]) {
    try {
      const found = new RegExp(`(?<![\\p{L}\\d_])(?:${pattern})(?![\\p{L}\\d_])`, 'u').exec(text);
      if (found && !/\b(?:not|no|never|without|cannot)\s+(?:an?\s+|the\s+)*$/.test(text.slice(0, found.index))) return true;
    } catch {
      // A pattern that JavaScript does not know.
    }
  }
  const expected = step.answer.filter((/** @type {any} */ each) => typeof each === 'number');
  const given = numbersOf(text);
  /** @type {number[]} */
  const all = given.length === 1 && expected.length > 1 && /\b(?:each|both|all|every)\b/.test(text) ? expected.map(() => given[0]) : given;
  return expected.length > 0 && all.length === expected.length && all.every((value, index) => isClose(value, expected[index]));
}
