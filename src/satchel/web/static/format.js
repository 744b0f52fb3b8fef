// Numbers and tokens as text.

/**
 * A number with a fixed number of decimals and a real minus sign; a value that rounds to zero has no sign.
 * @param {number | null | undefined} value
 * @param {number} decimals
 */
export function fixed(value, decimals = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  const text = Math.abs(value).toFixed(decimals);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/** A number that always has its sign. @param {number | null | undefined} value @param {number} decimals */
export function signed(value, decimals = 3) {
  const text = fixed(value, decimals);
  return value && value > 0 && Number(text) !== 0 ? `+${text}` : text;
}

/** A probability: three decimals, six above 0.9995. @param {number} value */
export const probability = (value) => fixed(value, value > 0.9995 && value < 1 ? 6 : 3);

/** A share of 1 as a percentage with a thin space. @param {number} value */
export const percent = (value) => `${fixed(100 * value, 1)}\u2009%`;

/** A count with commas. @param {number | null | undefined} value */
export const count = (value) => (value === null || value === undefined ? '–' : value.toLocaleString('en-US'));

/** A number of parameters. @param {number | null} value */
export function parameters(value) {
  if (value === null) return '–';
  return value >= 1e4 ? `${fixed(value / 1e6, 2)} M` : count(value);
}

/** A duration in minutes and seconds. @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}

/** Bits of a natural logarithm of a probability. @param {number} logprob */
export const bits = (logprob) => -logprob / Math.LN2;

/** A number as a fraction with a small denominator where it is one. @param {number} value */
export function fraction(value) {
  for (let below = 1; below <= 12; below += 1) {
    const above = value * below;
    if (Math.abs(above - Math.round(above)) < 1e-9) {
      const whole = fixed(Math.round(above), 0);
      return below === 1 ? whole : `${whole}/${below}`;
    }
  }
  return fixed(value, 3);
}

/** The number that a user typed: a decimal or a fraction; NaN if it is neither. @param {string} typed */
export function parseNumber(typed) {
  const parts = typed.trim().replace('−', '-').split('/');
  if (parts.length > 2 || parts.some((part) => part.trim() === '')) return NaN;
  return parts.length === 2 ? Number(parts[0]) / Number(parts[1]) : Number(parts[0]);
}

// Control characters, bidirectional controls and other invisible characters are shown as escapes.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A text with invisible characters as escapes. @param {string} text */
export const visible = (text) =>
  text.replace(INVISIBLE, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);

/**
 * The label of a token in lists and axes: marks for white space at its start.
 * @param {string} text
 * @returns {{mark: string, text: string}}
 */
export function tokenLabel(text) {
  if (text === '') return { mark: '∅', text: '' };
  const rest = text.startsWith(' ') && text.length > 1 ? text.slice(1) : text;
  const marked = rest.replace(/\n\n/g, '¶').replace(/\n/g, '↵').replace(/\t/g, '⇥').replace(/ /g, '␣');
  return { mark: rest === text ? '' : '␣', text: visible(marked) };
}

/** The label of a token as one text. @param {string} text */
export function label(text) {
  const { mark, text: rest } = tokenLabel(text);
  return mark + rest;
}

/** A date as a time of today, or as a day. @param {string} date */
export function shortDate(date) {
  const then = new Date(date);
  const iso = (/** @type {Date} */ each) =>
    `${each.getFullYear()}-${String(each.getMonth() + 1).padStart(2, '0')}-${String(each.getDate()).padStart(2, '0')}`;
  if (iso(then) !== iso(new Date())) return iso(then);
  return `${String(then.getHours()).padStart(2, '0')}:${String(then.getMinutes()).padStart(2, '0')}`;
}

/** Names of kinds of models. */
const KINDS = /** @type {Record<string, string>} */ ({
  ngram: 'n-gram', dan: 'DAN', window: 'Window', rnn: 'RNN', gru: 'GRU', lstm: 'LSTM',
  transformer: 'Transformer', backpack: 'Backpack', mix: 'Mix',
});

/** The name of a kind of model. @param {string | null} kind */
export const kindName = (kind) => (kind ? (KINDS[kind] ?? kind) : 'unknown model');

/** Names and formats of metrics. */
const METRICS = /** @type {Record<string, [string, (value: number) => string]>} */ ({
  bits_per_byte: ['bits/byte', (value) => `${fixed(value, 3)} bits/byte`],
  accuracy: ['accuracy', (value) => `accuracy ${percent(value)}`],
  exact_match: ['exact match', (value) => `exact match ${percent(value)}`],
  chrf: ['chrF', (value) => `chrF ${fixed(value, 1)}`],
  bleu: ['BLEU', (value) => `BLEU ${fixed(value, 1)}`],
  perplexity: ['perplexity', (value) => `perplexity ${fixed(value, 2)}`],
});

const BASELINES = /** @type {Record<string, string>} */ ({ ngram: 'n-gram', majority: 'commonest label', memory: 'nearest training pair' });

/** The name of a baseline. @param {string} name */
export const baselineName = (name) => BASELINES[name] ?? name.replaceAll('_', ' ');

/** A metric with its name. @param {string | null} name @param {number | null} value */
export function metric(name, value) {
  if (name === null || value === null) return '–';
  return METRICS[name] ? METRICS[name][1](value) : `${name.replaceAll('_', ' ')} ${fixed(value, 3)}`;
}
