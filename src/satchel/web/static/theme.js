// Colours of both themes, colour scales, and the choice of the theme.

import { computed, effect, signal } from './lib.js';

/** @typedef {Record<string, string>} Colours */

/** @type {Colours} */
const LIGHT = {
  paper: '#FDFDFB', ground: '#F5F5F1', raised: '#FFFFFF', ink: '#1B1F22', ink2: '#4A5258', ink3: '#5F6870',
  rule: '#E4E5E0', rule2: '#CDD0CB', edge: '#878E94',
  accent: '#17694C', 'accent-soft': '#E3EFE9', 'on-accent': '#FFFFFF',
  pos: '#0072B2', 'pos-text': '#00608F', neg: '#D55E00', 'neg-text': '#A84800',
  warn: '#8A5A00', 'warn-soft': '#FBF1DC', bad: '#A3261B', 'bad-soft': '#FBE9E7',
  'cell-ink': '#1B1F22', 'block-ink': '#1B1F22',
};

/** @type {Colours} */
const DARK = {
  paper: '#13171A', ground: '#1A1F23', raised: '#20262B', ink: '#E6E9EA', ink2: '#B3BBC0', ink3: '#8F999F',
  rule: '#293035', rule2: '#3A434A', edge: '#6F7A82',
  accent: '#5FC79C', 'accent-soft': '#1B352B', 'on-accent': '#0D1A14',
  pos: '#6CC3F5', 'pos-text': '#8BCFF7', neg: '#FF9447', 'neg-text': '#FFA766',
  warn: '#E3B341', 'warn-soft': '#332A14', bad: '#FF8A7D', 'bad-soft': '#3A1D1A',
  'cell-ink': '#FFFFFF', 'block-ink': '#0C1418',
};

const SCALES = {
  light: {
    positive: 'FDFDFB E3EEF5 C4DDEC 9CC7E0 6DADD2 3D90C1 0072B2 00568A 003A61',
    negative: 'FDFDFB FBEADC F8D2B3 F2B184 EA8C4C E07626 D55E00 A84800 7A3300',
    cells: 5, tints: 4, blocks: 5,
  },
  dark: {
    positive: '13171A 182C37 1A4257 1D5B7A 27789F 439BC8 6CC3F5 A5DBF9 DDF1FD',
    negative: '13171A 2C1F15 4A2C14 6E3D12 A0581A CF7530 FF9447 FFB680 FFD9BC',
    cells: 4, tints: 3, blocks: 6,
  },
};

/**
 * Colours and scales of a theme.
 * @typedef {object} Theme
 * @property {'light' | 'dark'} name
 * @property {Colours} colours
 * @property {(weight: number) => number[]} weight colour of an attention weight from 0 to 1, as [red, green, blue]
 * @property {(share: number) => number[]} signed colour of a signed value from -1 to 1
 * @property {(share: number) => number[]} cell colour of a signed value from -1 to 1 in a cell with a printed number
 * @property {(bits: number) => string} tint background of a token with this surprisal
 * @property {(index: number) => string} step a step of the scale: 1 to 8, or -1 to -8
 * @property {number} block step of stacked contributions
 */

/**
 * @param {'light' | 'dark'} name
 * @returns {Theme}
 */
function makeTheme(name) {
  const scale = SCALES[name];
  const positive = scale.positive.split(' ').map(channels);
  const negative = scale.negative.split(' ').map(channels);
  /** @param {number} place between 0 and 8, or between -8 and 0 */
  const at = (place) => {
    const arm = place < 0 ? negative : positive;
    const size = Math.min(8, Math.abs(place));
    const low = Math.min(7, Math.floor(size));
    return arm[low].map((value, channel) => Math.round(value + (arm[low + 1][channel] - value) * (size - low)));
  };
  return {
    name,
    colours: name === 'light' ? LIGHT : DARK,
    weight: (weight) => at(7 * Math.max(0, Math.min(1, weight))),
    signed: (share) => at(7 * Math.sign(share) * Math.abs(share) ** 0.75),
    cell: (share) => at(scale.cells * Math.sign(share) * Math.abs(share) ** 0.75),
    tint: (bits) => rgb(at(scale.tints * Math.max(0, Math.min(1, bits / 10)))),
    step: (index) => rgb(at(index)),
    block: scale.blocks,
  };
}

/** @param {string} hex */
const channels = (hex) => [0, 2, 4].map((start) => parseInt(hex.slice(start, start + 2), 16));

/** @param {number[]} colour */
export const rgb = (colour) => `rgb(${colour.join(',')})`;

export const THEMES = { light: makeTheme('light'), dark: makeTheme('dark') };

const STORED = 'satchel-theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const systemIsDark = signal(system.matches);
system.addEventListener('change', () => { systemIsDark.value = system.matches; });

/** The theme that the user has chosen; null: that of the system. */
const chosenTheme = signal(/** @type {string | null} */ (localStorage.getItem(STORED)));

/** The theme of the page. */
export const theme = computed(() => {
  const name = chosenTheme.value ?? (systemIsDark.value ? 'dark' : 'light');
  return name === 'dark' ? THEMES.dark : THEMES.light;
});

/** Switch between light and dark. */
export function toggleTheme() {
  chosenTheme.value = theme.value.name === 'dark' ? 'light' : 'dark';
  localStorage.setItem(STORED, chosenTheme.value);
}

effect(() => {
  const root = document.documentElement;
  root.style.colorScheme = theme.value.name;
  for (const [name, colour] of Object.entries(theme.value.colours)) root.style.setProperty(`--${name}`, colour);
  root.style.setProperty('--tint-end', theme.value.tint(10));
  for (let index = 0; index <= 8; index += 1) root.style.setProperty(`--s${index}`, theme.value.step(index));
});
