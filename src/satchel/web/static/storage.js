// Long texts, which do not fit into an address, in the storage of this browser.

/** @type {Map<string, string>} */
const known = new Map();

/** @returns {Promise<IDBDatabase>} */
function database() {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open('satchel', 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore('texts');
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}

/** Two 32-bit FNV-1a hashes of a text as hexadecimal digits: the key of a stored text. @param {string} text */
function hash(text) {
  let [a, b] = [0x811c9dc5, 0x01000193];
  for (let index = 0; index < text.length; index += 1) {
    a = Math.imul(a ^ text.charCodeAt(index), 0x01000193);
    b = Math.imul(b ^ text.charCodeAt(text.length - 1 - index), 0x01000193);
  }
  return [a, b].map((each) => (each >>> 0).toString(16).padStart(8, '0')).join('');
}

/** Store a text and return its key. @param {string} text */
export function storeText(text) {
  const key = hash(text);
  if (!known.has(key)) {
    known.set(key, text);
    database().then((opened) => opened.transaction('texts', 'readwrite').objectStore('texts').put(text, key));
  }
  return key;
}

/** The text with this key; null if this browser has not stored it. @param {string} key */
export async function loadText(key) {
  const stored = known.get(key);
  if (stored !== undefined) return stored;
  const opened = await database();
  return new Promise((resolve) => {
    const reading = opened.transaction('texts').objectStore('texts').get(key);
    reading.onsuccess = () => resolve(/** @type {string | null} */ (reading.result ?? null));
    reading.onerror = () => resolve(null);
  });
}
