// The measurements of a training: a list that grows while the training runs, and curves of it.

import { stream } from './api.js';
import { baselineName } from './format.js';
import { useEffect, useState } from './lib.js';

/**
 * The measurements and samples of a run, followed while it is trained.
 * @param {string} run
 * @param {boolean} isRunning
 */
export function useMeasurements(run, isRunning) {
  const [state, setState] = useState({ metrics: /** @type {any[]} */ ([]), samples: /** @type {any[]} */ ([]), training: /** @type {any} */ (null), terminal: '', error: /** @type {any} */ (null) });
  useEffect(() => {
    const controller = new AbortController();
    setState({ metrics: [], samples: [], training: null, terminal: '', error: null });
    (async () => {
      try {
        for await (const event of stream('runs/metrics', { run, follow: true }, controller.signal)) {
          setState((last) => ({
            metrics: [...last.metrics, ...event.metrics], samples: [...last.samples, ...event.samples], training: event.training, terminal: event.terminal, error: null,
          }));
        }
      } catch (error) {
        if (!controller.signal.aborted) setState((last) => ({ ...last, error }));
      }
    })();
    return () => controller.abort();
  }, [run, isRunning]);
  return state;
}

/**
 * Bits per byte of a nat per token of a run, from a message of its training such as
 * "loss 5.469 (2.549 bits/byte)", or from the counts of its data; null if neither is known.
 * @param {any} info reply of info @param {any} training
 */
export function bitsPerNat(info, training) {
  const counts = info?.facts?.counts;
  if (counts?.tokens && counts?.bytes) return counts.tokens / counts.bytes / Math.LN2;
  const message = training?.messages?.join('\n').match(/loss ([\d.]+) \(([\d.]+) bits\/byte\)/);
  return message ? Number(message[2]) / Number(message[1]) : null;
}

/**
 * The curves of a training. Losses become bits per byte if the factor is known.
 * @param {any[]} metrics @param {{factor: number | null, baseline: any}} scale
 */
export function curvesOf(metrics, { factor, baseline }) {
  const points = (/** @type {string} */ name) => /** @type {[number, number][]} */ (metrics.filter((each) => Number.isFinite(each[name])).map((each) => [each.wall_seconds ?? each.seconds, each[name] * (factor ?? 1)]));
  /** @type {any[]} */
  const series = [{ name: 'held-out', kind: 'main', points: points('valid_loss') }, { name: 'train', kind: 'quiet', points: points('train_loss') }];
  if (baseline && factor !== null) series.push({ name: baselineName(baseline.name), kind: 'baseline', points: [[0, baseline.value]] });
  return series;
}
