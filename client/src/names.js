/** Names for what the browser keeps, one for each user and server: nothing of one user's is found under another's. */

/**
 * Two hashes of 32 bits; `crypto.subtle` is missing where pages come by plain HTTP.
 *
 * @param {string} text
 */
function hash(text) {
  let one = 0x811c9dc5;
  let other = 0x01000193;
  for (const byte of new TextEncoder().encode(text)) {
    one = Math.imul(one ^ byte, 0x01000193);
    other = Math.imul(other ^ byte, 0x85ebca6b) ^ (other >>> 13);
  }
  return [one, other].map((number) => (number >>> 0).toString(16).padStart(8, "0")).join("");
}

/**
 * @param {string} url
 * @param {string} userId
 */
export function nameOf(url, userId) {
  const { origin, pathname } = new URL(url, globalThis.location?.href);
  // Two servers may be behind one origin, told apart by the path.
  return `longtake ${origin}${pathname.replace(/\/+$/u, "")} ${hash(userId)}`;
}
