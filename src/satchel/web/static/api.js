// Requests to the server: JSON replies, server-sent events, aborted requests, lost connections, wrong tokens.

import { signal, useEffect, useState } from './lib.js';

const TOKEN = 'satchel-token';
const CACHED = 50;

/** The state of the connection: `token` if the server does not accept the token of this page. */
export const connection = signal(/** @type {'ok' | 'stopped' | 'token'} */ ('ok'));

/** Number of reconnections; requests that failed are sent again when it changes. */
export const reconnections = signal(0);

/** The address of the server, without the page's own path. */
export const origin = location.host;

/** An error reply of the server. */
export class ApiError extends Error {
  /** @param {number} status @param {{message?: string, remedy?: string | null, param?: string | null}} error */
  constructor(status, error) {
    super(error.message ?? `status ${status}`);
    this.status = status;
    this.remedy = error.remedy ?? null;
    this.param = error.param ?? null;
  }
}

/** Move the token from an address into the storage of this tab; return whether there was one. @param {string} hash */
export function takeToken(hash) {
  const found = /^#?token=([^&]+)/.exec(hash);
  if (!found) return false;
  sessionStorage.setItem(TOKEN, decodeURIComponent(found[1]));
  return true;
}

/** Continue with the token of an address that the user has pasted. @param {string} address */
export function useAddress(address) {
  const hash = address.includes('#') ? address.slice(address.indexOf('#')) : `#token=${address.trim()}`;
  if (takeToken(hash)) reconnect();
}

/** @param {string} path @param {unknown} body @param {AbortSignal} [abort] */
async function send(path, body, abort) {
  const token = sessionStorage.getItem(TOKEN) ?? '';
  /** @type {Response} */
  let response;
  try {
    response = await fetch(path, {
      method: 'POST', body: JSON.stringify(body), signal: abort,
      headers: { 'content-type': 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) },
    });
  } catch (error) {
    if (!abort?.aborted) lose('stopped');
    throw error;
  }
  if (response.status === 401) lose('token');
  if (!response.ok) {
    const document = await response.json().catch(() => ({}));
    throw new ApiError(response.status, document.error ?? {});
  }
  return response;
}

/** Note that the server does not answer, or does not accept the token. @param {'stopped' | 'token'} state */
export function lose(state) {
  if (connection.value === state) return;
  connection.value = state;
  if (state === 'stopped') waitForServer(500);
}

/** Ask for the server with growing pauses until it answers. @param {number} pause */
function waitForServer(pause) {
  setTimeout(async () => {
    const reply = await fetch('health').catch(() => null);
    if (reply?.ok) reconnect();
    else waitForServer(Math.min(2 * pause, 8000));
  }, pause);
}

function reconnect() {
  connection.value = 'ok';
  reconnections.value += 1;
}

/** @type {Map<string, any>} */
const cache = new Map();

/**
 * The reply to a request of the JSON API. Replies are kept for later equal requests unless `fresh` is set.
 * @param {string} name
 * @param {object} body
 * @param {{abort?: AbortSignal, fresh?: boolean}} [options]
 * @returns {Promise<any>}
 */
export async function call(name, body, { abort, fresh = false } = {}) {
  const key = name + JSON.stringify(body);
  if (!fresh && cache.has(key)) return cache.get(key);
  const response = await send(`api/${name}`, body, abort);
  const document = await response.json();
  if (!fresh) {
    cache.set(key, document);
    if (cache.size > CACHED) cache.delete(cache.keys().next().value ?? '');
  }
  return document;
}

/**
 * The documents of a streamed reply.
 * @param {string} name @param {object} body @param {AbortSignal} abort
 * @returns {AsyncGenerator<any>}
 */
export async function* stream(name, body, abort) {
  const response = await send(`api/${name}`, body, abort);
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  while (true) {
    const { value, done } = await reader.read().catch((error) => {
      if (!abort.aborted) lose('stopped');
      throw error;
    });
    if (done) return;
    const events = (rest + value).split('\n\n');
    rest = events.pop() ?? '';
    for (const event of events) {
      const document = JSON.parse(event.replace(/^data: /, ''));
      if (document.error) throw new ApiError(response.status, document.error);
      yield document;
    }
  }
}

/** Forget the replies about a run that has changed. @param {string} run */
export function forget(run) {
  for (const key of [...cache.keys()]) if (key.includes(JSON.stringify(run))) cache.delete(key);
}

/**
 * The reply to a request that a component shows. A newer request aborts the one before it; its reply is shown as
 * stale until the new one arrives.
 * @param {string} name
 * @param {object | null} body null: no request
 * @param {number} [delay] milliseconds before the request is sent
 * @returns {{data: any, error: any, isLoading: boolean}}
 */
export function useRequest(name, body, delay = 0) {
  const key = body === null ? '' : name + JSON.stringify(body);
  const [reply, setReply] = useState({ key: '', data: null, error: null });
  useEffect(() => {
    if (!key || body === null) {
      setReply({ key: '', data: null, error: null });
      return undefined;
    }
    const controller = new AbortController();
    const finish = (/** @type {any} */ data, /** @type {any} */ error) => {
      if (!controller.signal.aborted) setReply((last) => ({ key, data: error ? last.data : data, error }));
    };
    const timer = setTimeout(() => {
      call(name, body, { abort: controller.signal }).then((data) => finish(data, null), (error) => finish(null, error));
    }, cache.has(key) ? 0 : delay);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [key, reconnections.value]);
  return { data: key ? reply.data : null, error: reply.key === key ? reply.error : null, isLoading: reply.key !== key };
}
