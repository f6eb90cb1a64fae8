/**
 * The events this tab has seen lately, so that whichever tab leads next can give the others what they missed.
 *
 * @typedef {import("./feed.js").Event} Event
 */
import { furthest, isAfter } from "./cursors.js";

const MOST = 2_000;

export class History {
  /** @type {Event[]} */
  #events = [];
  /** Complete from here on. @type {import("./cursors.js").Cursor} */
  #begin = null;
  /** Where the server's stream would have to go on for us. @type {import("./cursors.js").Cursor} */
  position = null;

  /** @param {string | null} cursor what came before is not known */
  begin(cursor) {
    this.#events = [];
    this.#begin = cursor;
    this.position = cursor;
  }

  /** The last event we know of, or where we began. */
  get last() {
    return this.#events.at(-1)?.cursor ?? this.#begin;
  }

  /**
   * Note an event; false if it was seen before.
   *
   * @param {Event} event
   */
  add(event) {
    if (!isAfter(event.cursor, this.position)) return false;
    this.#events.push(event);
    this.position = event.cursor;
    if (this.#events.length > MOST) this.#begin = this.#events.splice(0, MOST / 2).at(-1)?.cursor ?? null;
    return true;
  }

  /** @param {string} cursor there is nothing between our position and this */
  advance(cursor) {
    this.position = furthest(this.position, cursor);
  }

  /**
   * All events after the cursor; null when some of them are not known any more.
   *
   * @param {string | null} cursor
   */
  since(cursor) {
    if (cursor === null || isAfter(this.#begin, cursor)) return null;
    return this.#events.filter((event) => isAfter(event.cursor, cursor));
  }
}
