/**
 * Longtake for pages: what a user's tasks are, kept up to date over reloads, lost connections, restarts of the server
 * and any number of tabs.
 *
 * @typedef {import("./feed.js").Event} Event
 * @typedef {import("./knowledge.js").Connection} Connection
 * @typedef {import("./state.js").State & {connection: Connection, submitting: import("./pending.js").Pending[]}} View
 * @typedef {object} Options
 * @property {string} url where the server is
 * @property {import("./requests.js").TokenSource} token gives the user's token; `refused`: the last one was not taken
 * @property {string} userId
 * @property {import("./pending.js").Store | null} [storage]
 * @property {typeof globalThis.fetch} [fetch] for this tab's requests; not where a shared worker leads
 * @property {{feed?: object, tabs?: object}} [timing]
 */
import { EMPTY, recentlyEnded, unfinished } from "./state.js";
import { progressOf } from "./progress.js";
import { Session } from "./session.js";

export { LongtakeError } from "./errors.js";
export { recentlyEnded, unfinished };

/** @param {Options} options */
export function createLongtake(options) {
  return new Longtake(options);
}

export class Longtake {
  #options;
  /** @type {Session | null} */
  #session = null;
  /** @type {Set<(view: View) => void>} */
  #subscribers = new Set();
  /** @type {Set<{pattern: string, listener: (event: Event) => void}>} */
  #listeners = new Set();
  /** @type {View | null} */
  #view = null;
  #told = true;

  /** @param {Options} options */
  constructor(options) {
    this.#options = options;
  }

  /** Begin: bring back what there is, then follow it. Again changes nothing. */
  start() {
    if (this.#session) return;
    /** @type {Session} */
    const session = new Session(this.#options, {
      // What an old session still has to say is nobody's any more.
      onChange: () => this.#session === session && this.#changed(),
      onEvent: (event) => this.#session === session && this.#tell(event),
    });
    this.#session = session;
    session.start();
    this.#changed();
  }

  /** Leave: from this moment on nothing is shown and nobody is told anything. */
  stop() {
    this.#session?.stop();
    this.#session = null;
    this.#changed();
  }

  /**
   * Another user has logged in: nothing of the old one's stays.
   *
   * @param {Pick<Options, "userId" | "token">} user
   */
  switchUser({ userId, token }) {
    this.stop();
    this.#options = { ...this.#options, userId, token };
    this.start();
  }

  /** The same user has signed in again after `signed-out`. */
  signedIn() {
    this.#session?.signedIn();
  }

  /** All there is to show; the same object until something changes. @returns {View} */
  get state() {
    if (this.#view === null) {
      const { state = EMPTY, connection = NOT_STARTED, submitting = [] } = this.#session?.shown ?? {};
      this.#view = { ...state, connection, submitting };
    }
    return this.#view;
  }

  /** How the line to the server is, and since when. */
  get connection() {
    return this.state.connection;
  }

  /** Whether this tab is the one that talks to the server for all. */
  get leading() {
    return this.#session?.leading ?? false;
  }

  get actions() {
    if (this.#session === null) throw new Error("Call start() first.");
    return this.#session.actions;
  }

  /**
   * Be told when `state` has changed; several changes at once are told once.
   *
   * @param {(view: View) => void} listener
   * @returns {() => void} ends it
   */
  subscribe = (listener) => {
    this.#subscribers.add(listener);
    return () => void this.#subscribers.delete(listener);
  };

  /**
   * Be told of events: `task.completed`, `task.*` or `*`. Each comes once to each tab, in order.
   *
   * @param {string} pattern
   * @param {(event: Event) => void} listener
   * @returns {() => void} ends it
   */
  on(pattern, listener) {
    const entry = { pattern, listener };
    this.#listeners.add(entry);
    return () => void this.#listeners.delete(entry);
  }

  /**
   * How far a task is now; null once it has ended.
   *
   * @param {any} task
   * @param {number} [now] our clock, milliseconds
   */
  progressOf(task, now = Date.now()) {
    return progressOf(task, now + this.state.clockAhead);
  }

  #changed() {
    this.#view = null;
    if (!this.#told) return;
    this.#told = false;
    queueMicrotask(() => {
      this.#told = true;
      for (const listener of [...this.#subscribers]) guarded(() => listener(this.state));
    });
  }

  /** @param {Event} event */
  #tell(event) {
    for (const { pattern, listener } of [...this.#listeners]) {
      const isMeant = pattern.endsWith("*") ? event.type.startsWith(pattern.slice(0, -1)) : event.type === pattern;
      if (isMeant) guarded(() => listener(event));
    }
  }
}

/** A listener's mistake is the page's to hear of, and must not keep the others from theirs. @param {() => void} call */
function guarded(call) {
  try {
    call();
  } catch (error) {
    globalThis.reportError?.(error);
  }
}

/** @type {Connection} */
const NOT_STARTED = { status: "offline", since: 0 };
