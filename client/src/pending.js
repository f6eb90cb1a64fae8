/**
 * Requests that make something, written down before they are sent and crossed out after the answer: whatever happens in
 * between, the same request can be sent again with the same key, and is done once.
 *
 * @typedef {{key: string, action: string, path: string, content: any, at: number}} Pending
 * @typedef {Pick<Storage, "getItem" | "setItem" | "removeItem" | "key" | "length">} Store
 */

/** The server promises to remember a key for 24 hours; after that the same key could make a second task. */
const KEPT = 23 * 3_600_000;
const PENDING = " pending ";

/** Each has an entry of its own in the store: tabs that write at the same time take nothing from each other. */
export class PendingActions {
  #store;
  #name;
  /** For browsers that let us store nothing: then at least until the page is closed. @type {Pending[]} */
  #unstored = [];

  /**
   * @param {Store | null} store
   * @param {string} name the user's, and nobody else's
   */
  constructor(store, name) {
    this.#store = store;
    this.#name = name + PENDING;
    this.#forgetOld();
  }

  /** How the names of its entries in the store begin. */
  get name() {
    return this.#name;
  }

  /** All that was begun and not answered, oldest first. */
  all(now = Date.now()) {
    const stored = this.#names(this.#name).map((name) => this.#read(name));
    return [...stored, ...this.#unstored]
      .filter((one) => one !== null)
      .filter((one) => isKept(one, now))
      .sort((one, other) => one.at - other.at);
  }

  /** @param {Pending} pending */
  add(pending) {
    try {
      if (this.#store === null) throw new Error("There is nowhere to store.");
      this.#store.setItem(this.#name + pending.key, JSON.stringify(pending));
    } catch {
      this.#unstored.push(pending);
    }
  }

  /** @param {string} key */
  remove(key) {
    this.#unstored = this.#unstored.filter((one) => one.key !== key);
    this.#erase(this.#name + key);
  }

  /** What nobody will send any more has somebody's words in it: it does not stay, whoever they were. */
  #forgetOld(now = Date.now()) {
    for (const name of this.#names("longtake ").filter((one) => one.includes(PENDING))) {
      const found = this.#read(name);
      if (found === null || !isKept(found, now)) this.#erase(name);
    }
  }

  /** @param {string} name */
  #erase(name) {
    try {
      this.#store?.removeItem(name);
    } catch {
      // It is sent once more after a reload, with the same key: that changes nothing.
    }
  }

  /** @param {string} beginning */
  #names(beginning) {
    const names = [];
    for (let number = 0; number < (this.#store?.length ?? 0); number += 1) names.push(this.#store?.key(number) ?? "");
    return names.filter((name) => name.startsWith(beginning));
  }

  /**
   * @param {string} name
   * @returns {Pending | null}
   */
  #read(name) {
    try {
      return JSON.parse(this.#store?.getItem(name) ?? "null");
    } catch {
      return null;
    }
  }
}

/**
 * @param {Pending} pending
 * @param {number} now
 */
function isKept({ at }, now) {
  return now - at < KEPT;
}
