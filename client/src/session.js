/** Everything of one user in one tab; it ends with the user. */
import { Actions } from "./actions.js";
import { alone, arrange } from "./arrangement.js";
import { Knowledge } from "./knowledge.js";
import { nameOf } from "./names.js";
import { PendingActions } from "./pending.js";
import { Requests } from "./requests.js";
import { Tab } from "./tabs.js";

export class Session {
  #options;
  #requests;
  #knowledge;
  #pending;
  #tab;
  #onChange;
  #ended = new AbortController();

  /**
   * @param {import("./index.js").Options} options
   * @param {{onChange: () => void, onEvent: (event: import("./feed.js").Event) => void}} listeners
   */
  constructor(options, { onChange, onEvent }) {
    this.#options = options;
    this.#onChange = onChange;
    this.#requests = new Requests(options);
    this.#knowledge = new Knowledge(onChange, onEvent);
    const name = nameOf(options.url, options.userId);
    this.#pending = new PendingActions(storageOf(options), name);
    const id = Array.from(crypto.getRandomValues(new Uint32Array(2)), (part) => part.toString(36)).join("");
    const { userId, timing } = options;
    const worker = { url: new URL(options.url, globalThis.location?.href).href, userId, timing };
    this.#tab = this.#newTab(id, arrange(name, id, worker, this.#requests, () => this.#goAlone(id)));
    this.actions = new Actions({
      requests: this.#requests,
      pending: this.#pending,
      share: (fact) => this.#tab.share(fact),
      onPending: onChange,
    });
  }

  get shown() {
    const { state, connection } = this.#knowledge;
    return { state, connection, submitting: this.#pending.all() };
  }

  get leading() {
    return this.#tab.leading;
  }

  start() {
    this.#tab.join();
    this.#watchPage();
    void this.actions.resume();
  }

  stop() {
    this.#ended.abort();
    this.#tab.leave();
    this.#requests.end();
  }

  signedIn() {
    this.#tab.signedIn();
    void this.actions.resume();
  }

  /** A page that is put to sleep hands the lead on first, and catches up when it wakes. */
  #watchPage() {
    const { signal } = this.#ended;
    const asleep = () => this.#tab.leave();
    const awake = () => this.#tab.join();
    globalThis.document?.addEventListener("freeze", asleep, { signal });
    globalThis.document?.addEventListener("resume", awake, { signal });
    globalThis.addEventListener?.("pagehide", asleep, { signal });
    globalThis.addEventListener?.("pageshow", awake, { signal });
    // Other tabs write down what they submit in the same place.
    const written = (/** @type {StorageEvent} */ { key }) => key?.startsWith(this.#pending.name) && this.#onChange();
    globalThis.addEventListener?.("storage", /** @type {any} */ (written), { signal });
  }

  /** @param {string} id */
  #goAlone(id) {
    if (this.#ended.signal.aborted) return;
    this.#tab.leave();
    this.#tab = this.#newTab(id, alone());
    this.#tab.join();
  }

  /**
   * @param {string} id
   * @param {import("./arrangement.js").Arrangement} arrangement
   */
  #newTab(id, arrangement) {
    const { timing } = this.#options;
    return new Tab({ id, timing, requests: this.#requests, knowledge: this.#knowledge, ...arrangement });
  }
}

/** @param {import("./index.js").Options} options */
function storageOf({ storage }) {
  if (storage !== undefined) return storage;
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null; // a page may be forbidden to look
  }
}
