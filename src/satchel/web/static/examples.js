// Texts to begin with, by the data of a run.

/** @type {Record<string, string[]>} */
const BY_DATA = {
  '@python-docs': ['The file is opened for', 'Return True if the file exists and the path is a directory, otherwise return False.', 'The encoding must be'],
  '@polysemy': ['That trick was', 'The doctor said that the fever made me', 'We sat on the bank of the'],
  '@polysemy-polarity': ['That trick was sick', 'That fever made me sick', 'The coffee was cold'],
  '@polysemy-senses': ['That trick was sick', 'We sat on the bank of the river'],
  '@dates': ['the third of May, 2021', 'Monday, 3 May 2021', '5/3/21'],
  '@counting': ['i like movies a lot ', 'heyyou i lik it yes '],
  '@counting-both': ['i like movies a lot '],
  '@ab': ['AABA', 'AAAA'],
  '@reverse': ['abcdef', 'satchel', 'hello'],
  '@copy': ['abcdef', 'satchel'],
};

/** @type {Record<string, string[]>} */
const BY_TASK = {
  lm: ['Once upon a time there was', 'The little girl went into the', 'He opened the door and'],
  classify: ['This is a wonderful film.', 'A waste of two hours.'],
  tag: ['the quick brown fox', 'we saw the river'],
  translate: ['A man is riding a bicycle.', 'Two children play in the park.'],
};

/** Texts to try with a run. @param {any} run @returns {string[]} */
export function examplesOf(run) {
  const data = String(run?.data ?? '');
  return BY_DATA[data] ?? (/stories/.test(String(run?.run)) ? BY_TASK.lm : BY_TASK[run?.task] ?? BY_TASK.lm);
}
