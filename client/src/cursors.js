/**
 * Cursors say how far a reader has come: "<transaction>.<sequence>", the first part counting for more.
 *
 * @typedef {string | null} Cursor null is before everything
 */

/** @param {string} cursor */
function parts(cursor) {
  const [transaction, sequence] = cursor.split(".");
  // Transaction numbers have 64 bits, a JavaScript number 53.
  return [BigInt(transaction), BigInt(sequence)];
}

/**
 * Say whether one is further than the other.
 *
 * @param {Cursor} one
 * @param {Cursor} other
 */
export function isAfter(one, other) {
  if (one === other || one === null) return false;
  if (other === null) return true;
  const [oneTransaction, oneSequence] = parts(one);
  const [otherTransaction, otherSequence] = parts(other);
  if (oneTransaction !== otherTransaction) return oneTransaction > otherTransaction;
  return oneSequence > otherSequence;
}

/**
 * @param {Cursor} one
 * @param {Cursor} other
 */
export function furthest(one, other) {
  return isAfter(other, one) ? other : one;
}
