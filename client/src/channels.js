/**
 * What tabs talk through: a BroadcastChannel, or nothing.
 *
 * @typedef {object} Channel
 * @property {(message: any) => void} postMessage
 * @property {() => void} close
 * @property {((message: any) => void) | null} onmessage
 */

/** For a tab that takes no part, or is alone. @type {Channel} */
export const SILENT = { postMessage: () => {}, close: () => {}, onmessage: null };
