/**
 * All that the server says, over as many connections as it takes: a snapshot, then every event after it, in order and
 * none twice. Whatever breaks, it goes on from the last cursor; where that is too old, from a new snapshot.
 *
 * @typedef {"live" | "reconnecting" | "offline" | "signed-out"} Status
 * @typedef {{cursor: string, type: string, at: string, subject: string | null, data: any}} Event
 */
import { LongtakeError } from "./errors.js";
import { readStream } from "./stream.js";

export const TIMING = {
  /** The server says something every 15 s. */
  patience: 40_000,
  shortestPause: 250,
  longestPause: 10_000,
  /** A connection that lived so long was a good one: the next failure begins with the shortest pause again. */
  goodAfter: 5_000,
};

export class Feed {
  #options;
  #timing;
  #stopped = false;
  #connection = new AbortController();
  #wake = () => {};
  #failures = 0;
  #hurry = false;
  #online = () => this.wake();

  /**
   * @param {object} options
   * @param {import("./requests.js").Requests} options.requests
   * @param {string | null} options.cursor from where; null begins with a snapshot
   * @param {(snapshot: any) => Promise<void>} options.onSnapshot events before it are not known
   * @param {(event: Event) => Promise<void>} options.onEvent
   * @param {(cursor: string) => void} options.onCursor there is nothing new up to here
   * @param {(cursor: string) => void} options.onHeartbeat
   * @param {(status: Status) => void} options.onStatus
   * @param {Partial<typeof TIMING>} [options.timing]
   * @param {() => number} [options.random]
   */
  constructor(options) {
    this.#options = options;
    this.#timing = { ...TIMING, ...options.timing };
    this.cursor = options.cursor;
  }

  start() {
    globalThis.addEventListener?.("online", this.#online);
    void this.#run();
  }

  /** Nothing is told any more, from this moment on. */
  stop() {
    this.#stopped = true;
    globalThis.removeEventListener?.("online", this.#online);
    this.#connection.abort();
    this.#wake();
  }

  /** Connect at once: the network is back, or somebody has signed in. */
  wake() {
    this.#failures = 0;
    this.#hurry = true;
    this.#connection.abort();
    this.#wake();
  }

  /** Another request was refused: connecting anew shows whether we are signed out. */
  doubt() {
    this.#connection.abort();
  }

  async #run() {
    while (!this.#stopped) {
      const started = performance.now();
      this.#connection = new AbortController();
      this.#hurry = false;
      let pause = 0;
      try {
        await this.#connect();
        pause = this.#pause(null, started);
      } catch (error) {
        if (this.#stopped) return;
        if (error instanceof LongtakeError && (error.status === 401 || error.status === 403)) {
          this.#options.onStatus("signed-out");
          pause = Number.POSITIVE_INFINITY;
        } else if (error instanceof LongtakeError && error.code === "CURSOR_INVALID") this.cursor = null;
        else pause = this.#pause(error, started);
      }
      if (this.#stopped) return;
      if (pause !== Number.POSITIVE_INFINITY) this.#options.onStatus(isOffline() ? "offline" : "reconnecting");
      await this.#sleep(pause);
    }
  }

  async #connect() {
    const { signal } = this.#connection;
    if (this.cursor === null) await this.#takeSnapshot(signal);
    const { requests } = this.#options;
    const { patience } = this.#timing;
    await readStream({ requests, cursor: this.cursor, patience, signal, take: (frame) => this.#take(frame) });
  }

  /** @param {AbortSignal} signal */
  async #takeSnapshot(signal) {
    const snapshot = await this.#options.requests.snapshot(signal);
    if (this.#stopped || this.cursor !== null) return; // inherited meanwhile
    this.cursor = snapshot.cursor;
    await this.#options.onSnapshot(snapshot);
  }

  /** @param {import("./frames.js").Frame} frame */
  async #take(frame) {
    if (this.#stopped) return false;
    if (frame.type === "reset") {
      this.cursor = null;
      return false;
    }
    if (frame.type === "farewell") return false;
    const content = JSON.parse(frame.data);
    if (frame.type === "ready") this.#options.onStatus("live");
    if (frame.type === "ready" || frame.type === "heartbeat") this.#options.onCursor(content.cursor);
    else await this.#options.onEvent(content);
    if (frame.type === "heartbeat") this.#options.onHeartbeat(content.cursor);
    this.cursor = content.cursor;
    return !this.#stopped;
  }

  /**
   * @param {unknown} error
   * @param {number} started
   */
  #pause(error, started) {
    if (performance.now() - started > this.#timing.goodAfter) this.#failures = 0;
    if (error === null && this.cursor === null && this.#failures === 0) {
      this.#failures += 1;
      return 0; // a reset: the new snapshot is wanted at once
    }
    const { shortestPause, longestPause } = this.#timing;
    const longest = Math.min(shortestPause * 2 ** this.#failures, longestPause);
    this.#failures += 1;
    const asked = error instanceof LongtakeError && error.retryAfter !== null ? error.retryAfter * 1000 : 0;
    // Not all browsers come back in the same moment after a server's restart.
    return Math.max(asked, longest * (0.5 + (this.#options.random ?? Math.random)() / 2));
  }

  /** @param {number} milliseconds */
  async #sleep(milliseconds) {
    if (this.#hurry) return;
    await new Promise((resolve) => {
      this.#wake = () => resolve(undefined);
      if (milliseconds !== Number.POSITIVE_INFINITY) setTimeout(resolve, milliseconds);
    });
    this.#wake = () => {};
  }
}

function isOffline() {
  return globalThis.navigator?.onLine === false;
}
