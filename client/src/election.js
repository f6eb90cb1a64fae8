/**
 * Who of a browser's tabs talks to the server. Whoever holds the lock leads; the browser gives it to the next tab the
 * moment the holder is gone, and takes it from a holder that hangs when another tab asks for that.
 *
 * @typedef {object} Candidate
 * @property {() => void} onElected
 * @property {() => void} onDeposed
 *
 * @typedef {object} Election
 * @property {(candidate: Candidate) => void} join stand for election, now and after every defeat
 * @property {() => void} leave hand on what one has, and wait for nothing
 * @property {() => void} take lead although somebody else does: it hangs, or its token has ended
 * @property {() => Promise<boolean>} isLeader ask the browser, after a time in which this tab may have been asleep
 */

const REFUSED_PAUSE = 1_000;

/** @implements {Election} */
export class LockElection {
  #locks;
  #name;
  #tab;
  /** @type {Candidate | null} */
  #candidate = null;
  /** Counts requests, so that what comes of an old one is not taken for the new one's. */
  #round = 0;
  #leave = () => {};
  #present = new AbortController();

  /**
   * @param {LockManager} locks
   * @param {string} name
   * @param {string} tab
   */
  constructor(locks, name, tab) {
    this.#locks = locks;
    this.#name = name;
    this.#tab = `${name} ${tab}`;
  }

  /** @param {Candidate} candidate */
  join(candidate) {
    this.#candidate = candidate;
    this.#present = new AbortController();
    // By a lock of our own the browser tells which of all holders we are.
    const { signal } = this.#present;
    const gone = new Promise((resolve) => signal.addEventListener("abort", resolve));
    this.#locks.request(this.#tab, { signal }, () => gone).catch(() => {});
    this.#request({});
  }

  leave() {
    this.#candidate = null;
    this.#round += 1;
    this.#present.abort();
    this.#leave();
  }

  take() {
    this.#leave();
    this.#request({ steal: true });
  }

  async isLeader() {
    const { held = [] } = await this.#locks.query();
    const us = held.find((lock) => lock.name === this.#tab)?.clientId;
    return us !== undefined && held.some((lock) => lock.name === this.#name && lock.clientId === us);
  }

  /** @param {LockOptions} options */
  #request(options) {
    this.#round += 1;
    const round = this.#round;
    const isOurs = () => round === this.#round;
    const waiting = new AbortController();
    // A request that steals is not waited for, and cannot be given up.
    const how = options.steal ? options : { ...options, signal: waiting.signal };
    this.#leave = () => waiting.abort();
    this.#locks
      .request(this.#name, how, () => {
        if (!isOurs()) return undefined;
        return new Promise((release) => {
          this.#leave = () => release(undefined);
          this.#candidate?.onElected();
        });
      })
      .catch((error) => {
        if (!isOurs() || this.#candidate === null) return; // given up by ourselves
        this.#candidate.onDeposed();
        // Stolen by another tab: we wait for our turn again. A browser that refuses altogether is asked less often.
        if (error.name === "AbortError") this.#request({});
        else setTimeout(() => isOurs() && this.#candidate && this.#request({}), REFUSED_PAUSE);
      });
  }
}

/** Where tabs cannot agree, each leads itself. @implements {Election} */
export class AloneElection {
  /** @param {Candidate} candidate */
  join(candidate) {
    candidate.onElected();
  }

  leave() {}

  take() {}

  async isLeader() {
    return true;
  }
}
