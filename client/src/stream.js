/** One connection to the stream of events: fetch instead of EventSource, which can send no Authorization header. */
import { FrameParser } from "./frames.js";

/** @typedef {import("./frames.js").Frame} Frame */

/**
 * Read frames until the server ends the stream, `take` has had enough, or nothing comes for too long.
 *
 * @param {object} options
 * @param {import("./requests.js").Requests} options.requests
 * @param {string | null} options.cursor where to go on
 * @param {number} options.patience milliseconds without a byte after which the connection counts as dead
 * @param {AbortSignal} options.signal
 * @param {(frame: Frame) => boolean | Promise<boolean>} options.take false ends the reading
 */
export async function readStream({ requests, cursor, patience, signal, take }) {
  const silence = new AbortController();
  let alarm = setTimeout(() => silence.abort(), patience);
  const heard = () => {
    clearTimeout(alarm);
    alarm = setTimeout(() => silence.abort(), patience);
  };
  /** @type {ReadableStreamDefaultReader<Uint8Array> | undefined} */
  let reader;
  try {
    /** @type {Record<string, string>} */
    const headers = { Accept: "text/event-stream" };
    if (cursor !== null) headers["Last-Event-ID"] = cursor;
    const either = AbortSignal.any([signal, silence.signal]);
    const response = await requests.send("GET", "/v1/events", { headers, signal: either });
    reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
    const parser = new FrameParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      for (const frame of parser.push(value)) {
        if (!(await take(frame))) return;
      }
    }
  } finally {
    clearTimeout(alarm);
    // The connection must not outlive its reader; one that is broken already cannot be cancelled.
    reader?.cancel().catch(() => {});
  }
}
