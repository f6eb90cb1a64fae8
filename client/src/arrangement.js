/**
 * How the tabs of this browser can agree: by a lock; where there are none (plain HTTP outside localhost), by a shared
 * worker that leads for all of them; else not at all, and each tab has a stream of its own.
 *
 * @typedef {import("./election.js").Candidate} Candidate
 * @typedef {{election: import("./election.js").Election, openChannel: () => import("./channels.js").Channel}} Arrangement
 */
import { SILENT } from "./channels.js";
import { AloneElection, LockElection } from "./election.js";

/**
 * @param {string} name the same for all tabs of one user at one server, and for nobody else
 * @param {string} tab
 * @param {object} worker what the worker has to know
 * @param {import("./requests.js").Requests} requests
 * @param {() => void} onWorkerFailed
 * @returns {Arrangement}
 */
export function arrange(name, tab, worker, requests, onWorkerFailed) {
  const openChannel = () => /** @type {any} */ (new BroadcastChannel(name));
  if (typeof BroadcastChannel === "undefined") return alone();
  if (globalThis.navigator?.locks) {
    return { election: new LockElection(navigator.locks, name, tab), openChannel };
  }
  if (typeof SharedWorker === "undefined") return alone();
  return { election: new WorkerElection(name, tab, worker, requests, onWorkerFailed), openChannel };
}

/** @returns {Arrangement} */
export function alone() {
  return { election: new AloneElection(), openChannel: () => ({ ...SILENT }) };
}

/**
 * The worker leads, and no tab ever does; the tabs lend it their tokens.
 *
 * @implements {import("./election.js").Election}
 */
class WorkerElection {
  #name;
  #tab;
  #about;
  #requests;
  #onFailed;
  /** @type {SharedWorker | null} */
  #worker = null;

  /**
   * @param {string} name
   * @param {string} tab
   * @param {object} about
   * @param {import("./requests.js").Requests} requests
   * @param {() => void} onFailed
   */
  constructor(name, tab, about, requests, onFailed) {
    this.#name = name;
    this.#tab = tab;
    this.#about = about;
    this.#requests = requests;
    this.#onFailed = onFailed;
  }

  /** @param {Candidate} _candidate */
  join(_candidate) {
    this.#connect();
  }

  #connect() {
    try {
      this.#worker = new SharedWorker(new URL("./worker.js", import.meta.url), { type: "module", name: this.#name });
    } catch {
      // A page may forbid workers; not now, because whoever joins is not ready for another arrangement yet.
      queueMicrotask(this.#onFailed);
      return;
    }
    this.#worker.onerror = () => this.#onFailed();
    this.#worker.port.onmessage = ({ data }) => void this.#lend(data);
    this.#worker.port.postMessage({ kind: "begin", tab: this.#tab, name: this.#name, about: this.#about });
  }

  leave() {
    this.#worker?.port.postMessage({ kind: "leave", tab: this.#tab });
    this.#worker?.port.close();
    this.#worker = null;
  }

  /** The worker may have crashed: then this starts another, else it is the same one, which closes our old port. */
  take() {
    this.#connect();
    this.#worker?.port.postMessage({ kind: "wake" });
  }

  async isLeader() {
    return false;
  }

  /** @param {{number: number, refused: boolean}} asked */
  async #lend({ number, refused }) {
    const token = await this.#requests.token(refused);
    this.#worker?.port.postMessage({ kind: "token", number, token });
  }
}
