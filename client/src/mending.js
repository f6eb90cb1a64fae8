/** Asks for what the state says is stale: the leader does so for all tabs, a few requests at a time. */
import { EVERYTHING, wanted } from "./state.js";
import { LongtakeError } from "./errors.js";

const AT_ONCE = 4;
/** Milliseconds in which the answer to one's own submit, or the next event, may make the question needless. */
const GATHER = 100;
const PAUSE = 2_000;

const PATHS = { task: "/v1/tasks/", conversation: "/v1/conversations/" };

export class Mending {
  #requests;
  #onFact;
  #onSnapshot;
  #onRefused;
  /** @type {import("./state.js").State | null} */
  #state = null;
  #asking = new Set();
  #planned = false;
  /** While the token is not taken, nothing is asked. */
  #refused = false;
  #stopped = false;

  /**
   * @param {object} options
   * @param {import("./requests.js").Requests} options.requests
   * @param {(fact: {key: string, view: any, mark?: string}) => void} options.onFact
   * @param {(snapshot: any) => void} options.onSnapshot
   * @param {() => void} options.onRefused the token is not taken, or another user's
   */
  constructor({ requests, onFact, onSnapshot, onRefused }) {
    this.#requests = requests;
    this.#onFact = onFact;
    this.#onSnapshot = onSnapshot;
    this.#onRefused = onRefused;
  }

  stop() {
    this.#stopped = true;
  }

  /** The server talks to us again. */
  wake() {
    this.#refused = false;
    if (this.#state !== null) this.look(this.#state);
  }

  /** @param {import("./state.js").State} state */
  look(state) {
    this.#state = state;
    if (wanted(state).some((key) => !this.#asking.has(key))) this.#plan(GATHER);
  }

  /** @param {number} milliseconds */
  #plan(milliseconds) {
    if (this.#planned || this.#refused) return;
    this.#planned = true;
    setTimeout(() => {
      this.#planned = false;
      this.#ask();
    }, milliseconds);
  }

  #ask() {
    if (this.#stopped || this.#state === null) return;
    for (const key of wanted(this.#state)) {
      if (this.#asking.size >= AT_ONCE) return;
      if (!this.#asking.has(key)) void this.#fetch(key, this.#state.stale[key]);
    }
  }

  /**
   * @param {string} key
   * @param {string | undefined} mark
   */
  async #fetch(key, mark) {
    this.#asking.add(key);
    let pause = 0;
    try {
      await this.#get(key, mark);
    } catch (error) {
      const { status = 0, retryAfter = null } = error instanceof LongtakeError ? error : {};
      this.#refused = status === 401 || status === 403;
      pause = Math.max(PAUSE, (retryAfter ?? 0) * 1000);
    }
    this.#asking.delete(key);
    if (this.#refused && !this.#stopped) this.#onRefused();
    if (!this.#stopped && this.#state !== null && wanted(this.#state).length > 0) this.#plan(pause);
  }

  /**
   * @param {string} key
   * @param {string | undefined} mark
   */
  async #get(key, mark) {
    if (key === EVERYTHING) {
      const snapshot = await this.#requests.snapshot();
      if (!this.#stopped) this.#onSnapshot(snapshot);
      return;
    }
    const [kind, id] = key.split(":", 2);
    const path = PATHS[/** @type {keyof typeof PATHS} */ (kind)] + encodeURIComponent(id);
    let view = null;
    try {
      view = await this.#requests.json("GET", path);
    } catch (error) {
      if (!(error instanceof LongtakeError) || error.status !== 404) throw error;
    }
    if (!this.#stopped) this.#onFact({ key, view, mark });
  }
}
