// The libraries in one place: Preact with hooks, htm templates, signals.

import { h } from './vendor/preact.js';
import htm from './vendor/htm.js';
import './vendor/signals.js'; // components that read signals are rendered again when these change

export const html = htm.bind(h);
export { Fragment, h, render } from './vendor/preact.js';
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from './vendor/hooks.js';
export { batch, computed, effect, signal, untracked } from './vendor/signals-core.js';
