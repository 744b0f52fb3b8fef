// A training: curve, figures, latest sample; live while it runs.

import { html, useEffect, useState } from '../lib.js';
import { call, forget } from '../api.js';
import { curveDrawing } from './curve.js';
import { Failure } from './states.js';
import { useWidth } from './width.js';
import { Picture } from '../drawing.js';
import { count, duration } from '../format.js';
import { bitsPerNat, curvesOf, useMeasurements } from '../measurements.js';
import { go, loadRuns, runs } from '../state.js';
import { theme } from '../theme.js';

/** Facts about a run; null until its model has been saved. @param {string} run @param {boolean} isReady */
export function useInfo(run, isReady) {
  const [info, setInfo] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (!isReady) return undefined;
    let isCurrent = true;
    call('info', { run }).then((document) => { if (isCurrent) setInfo(document); }, () => {});
    return () => { isCurrent = false; };
  }, [run, isReady]);
  return info;
}

/** The n-gram baseline of a language model. It is measured after a training; before, that of a run on the same data is shown. @param {any} entry */
function baselineOf(entry) {
  if (entry.baseline) return entry.metric === 'bits_per_byte' ? entry.baseline : null;
  const other = runs.value?.find((each) => each.data === entry.data && each.metric === 'bits_per_byte' && each.baseline?.name === 'ngram');
  return other ? { name: `n-gram (${other.run.split('/').at(-1)})`, value: other.baseline.value } : null;
}

/** The curve of a run as a function of a theme and a width. @param {any} measured @param {any} info @param {any} entry */
export function curveOf(measured, info, entry) {
  const factor = entry?.task === 'lm' ? bitsPerNat(info, measured.training) : null;
  const baseline = entry?.task === 'lm' ? baselineOf(entry) : null;
  const last = measured.metrics.at(-1);
  const left = /, (\d+):(\d\d) left/.exec(measured.training?.messages?.at(-1) ?? '');
  const end = (last ? last.wall_seconds ?? last.seconds : 1) + (left ? 60 * Number(left[1]) + Number(left[2]) : 0);
  const series = curvesOf(measured.metrics, { factor, baseline });
  const unit = (/** @type {number} */ seconds) => (end > 600 ? `${Math.round(seconds / 60)} min` : `${seconds} s`);
  const isEmpty = series.every((each) => !each.points.length);
  return { unit: factor === null ? 'nats per token' : 'bits per byte', isEmpty, drawing: (/** @type {import('../theme.js').Theme} */ look, /** @type {number} */ width) => curveDrawing({ series, end, unit }, look, width) };
}

/** The training that runs, or the last one of this server. @param {{training: any}} properties */
export function RunningTraining({ training }) {
  const [holder, width] = useWidth(660);
  const [error, setError] = useState(/** @type {any} */ (null));
  const isRunning = training.status === 'running' || training.status === 'stopping';
  const measured = useMeasurements(training.run, isRunning);
  const entry = runs.value?.find((each) => each.run === training.run);
  const state = measured.training ?? training;
  const curve = curveOf({ ...measured, training: state }, null, entry);
  const message = state.messages?.at(-1) ?? '';
  const speed = /([\d,]+) tokens\/s/.exec(message)?.[1];
  const left = /([\d:]+) left/.exec(message)?.[1];
  const status = state.status;
  useEffect(() => {
    if (status === 'running' || status === 'stopping') return;
    forget(training.run);
    loadRuns().catch(() => {});
  }, [status]);
  const isKnown = Boolean(entry);
  useEffect(() => { if (measured.metrics.length && !isKnown) loadRuns().catch(() => {}); }, [measured.metrics.length]);
  const stop = () => call('runs/stop', { run: training.run }, { fresh: true }).then(() => loadRuns(), setError);
  const resume = () => call('runs/resume', { run: training.run }, { fresh: true }).then(() => loadRuns(), setError);
  const sample = measured.samples.findLast((/** @type {any} */ each) => each.text.trim());
  const words = { running: 'Training', stopping: 'Stopping', finished: 'Finished', stopped: 'Stopped', failed: 'Failed' };
  return html`<section class="training-live first" aria-label="Training"><div class="section-head"><span class=${`dot ${status}`} aria-hidden="true"></span><h2>${words[/** @type {keyof typeof words} */ (status)] ?? status}: ${training.run}</h2><span class="note">${curve.unit}</span>
      <span class="actions buttons">${entry ? html`<button type="button" onClick=${() => go('training', { run: training.run })}>Settings</button>` : null}
        ${status === 'running' ? html`<button type="button" onClick=${stop}>Stop and save</button>` : null}
        ${status === 'stopped' ? html`<button type="button" onClick=${resume}>Resume</button>` : null}
        ${status === 'finished' && entry ? html`<button type="button" onClick=${() => go('training', { run: training.run })}>Open</button>` : null}</span></div>
    <${Failure} error=${error} />${state.error ? html`<${Failure} error=${{ message: state.error }} title="The training failed" />` : null}
    <div class="columns live-columns"><div ref=${holder} class="curve-holder">${curve.isEmpty ? html`<p class="caption">${status === 'running' ? `Waiting for the first measurement. ${message.trim()}` : 'No measurements.'}</p>` : html`<${Picture} drawing=${curve.drawing(theme.value, Math.max(320, width))} label="Loss on held-out and training data" />`}</div>
      <div><dl class="live-figures"><div><dt>step</dt><dd>${count(state.step ?? measured.metrics.at(-1)?.step ?? null)}</dd></div><div><dt>tokens/s</dt><dd>${speed ?? '–'}</dd></div><div><dt>${left ? 'left' : 'time'}</dt><dd>${left ?? duration(state.seconds)}</dd></div></dl>
        ${sample ? html`<p class="caption">sample at step ${count(sample.step)}</p><p class="serif live-sample">${sample.text}</p>` : html`<pre class="messages">${(state.messages ?? []).slice(-4).join('\n')}</pre>`}</div></div></section>`;
}

