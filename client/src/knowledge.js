/**
 * What one tab knows: the state it shows, the events it has had, and how the connection is.
 *
 * @typedef {import("./feed.js").Event} Event
 * @typedef {import("./state.js").State} State
 * @typedef {{status: import("./feed.js").Status, since: number}} Connection
 * @typedef {{key: string, view: any, mark?: string}} Fact an answer of the server to a question about one thing
 */
import { History } from "./history.js";
import { applyEvent, applyFact, doubtQueues, EMPTY, fromSnapshot } from "./state.js";

export class Knowledge {
  #onChange;
  #onEvent;
  history = new History();
  /** @type {State} */
  state = EMPTY;
  /** @type {Connection} */
  connection = { status: "reconnecting", since: Date.now() };

  /**
   * @param {() => void} onChange state or connection
   * @param {(event: Event) => void} onEvent each event once, in order
   */
  constructor(onChange, onEvent) {
    this.#onChange = onChange;
    this.#onEvent = onEvent;
  }

  /**
   * @param {any} snapshot
   * @param {boolean} anew whether the stream goes on from it; else it only says how things are
   */
  takeSnapshot(snapshot, anew) {
    if (anew) this.history.begin(snapshot.cursor);
    // Events may have come while the snapshot was on its way; those it has seen change nothing. One from before all that
    // is remembered, because a newer one was taken meanwhile, says nothing any more.
    const since = this.history.since(snapshot.cursor);
    if (since === null) return;
    this.#set(since.reduce(applyEvent, fromSnapshot(snapshot, this.state)));
  }

  /**
   * @param {State} state another tab's
   * @param {string | null} position where it is in the stream
   * @param {boolean} anew whether to go on from there; else the stream goes on for us where it was
   */
  takeState(state, position, anew) {
    if (anew) this.history.begin(position);
    const since = this.history.since(state.cursor) ?? [];
    this.#set(since.reduce(applyEvent, state));
  }

  /** @param {Event} event */
  takeEvent(event) {
    const isNew = this.history.add(event);
    // The state may be ahead of the events, or behind them, after a snapshot: it has a cursor of its own.
    this.#set(applyEvent(this.state, event));
    if (isNew) this.#onEvent(event);
  }

  /** @param {string} cursor */
  doubtQueues(cursor) {
    this.#set(doubtQueues(this.state, cursor));
  }

  /** @param {Fact} fact */
  takeFact(fact) {
    if (this.state.ready) this.#set(applyFact(this.state, fact));
  }

  /**
   * @param {Connection} connection
   * @returns {boolean} whether that is something new
   */
  takeConnection(connection) {
    if (connection.status === this.connection.status) return false;
    this.connection = connection;
    this.#onChange();
    return true;
  }

  /** @param {State} state */
  #set(state) {
    if (state === this.state) return;
    this.state = state;
    this.#onChange();
  }
}
