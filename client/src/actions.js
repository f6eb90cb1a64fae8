/**
 * What a user does. Whatever costs something is written down with its key before it is sent, and sent again with the
 * same key until there is an answer, also after a reload.
 *
 * @typedef {{model: string, prompt: string, parameters?: object, references?: string[], conversation_id?: string}} Wish
 * @typedef {import("./pending.js").Pending} Pending
 */
import { LongtakeError, stopped } from "./errors.js";

const SHORTEST_PAUSE = 500;
const LONGEST_PAUSE = 10_000;

export class Actions {
  #requests;
  #pending;
  #share;
  #onPending;
  /** Keys that are being sent by this page. @type {Map<string, Promise<any>>} */
  #sending = new Map();

  /**
   * @param {object} options
   * @param {import("./requests.js").Requests} options.requests
   * @param {import("./pending.js").PendingActions} options.pending
   * @param {(fact: {key: string, view: any}) => void} options.share
   * @param {() => void} options.onPending
   */
  constructor({ requests, pending, share, onPending }) {
    this.#requests = requests;
    this.#pending = pending;
    this.#share = share;
    this.#onPending = onPending;
  }

  /** Make an image; gives back the task as soon as the server has it. @param {Wish} wish */
  submitImage(wish) {
    return this.#make("image", "/v1/images/generate", wish);
  }

  /** Make a video. @param {Wish} wish */
  submitVideo(wish) {
    return this.#make("video", "/v1/videos/generate", wish);
  }

  /** Make a new task with the request of one that failed or was cancelled. @param {string} taskId */
  retry(taskId) {
    return this.#make("retry", `/v1/tasks/${encodeURIComponent(taskId)}/retry`, null);
  }

  /** What was begun and has no answer yet: a page shows it as "submitting". */
  pendingActions() {
    return this.#pending.all();
  }

  /** Send again what an earlier page could not finish; what fails for good is crossed out and told. */
  resume() {
    return Promise.allSettled(this.pendingActions().map((one) => this.#send(one)));
  }

  /** @param {string} taskId */
  cancel(taskId) {
    return this.#task("POST", taskId, "/cancel");
  }

  /** Delete a task that has ended, with its messages, results and files. @param {string} taskId */
  async deleteTask(taskId) {
    await this.#requests.send("DELETE", `/v1/tasks/${encodeURIComponent(taskId)}`);
    this.#share({ key: `task:${taskId}`, view: null });
  }

  /** Try again to copy the results of a completed task. @param {string} taskId */
  retrySave(taskId) {
    return this.#task("POST", taskId, "/retry-save");
  }

  /** The task as it is now, with addresses of its results that work for some minutes. @param {string} taskId */
  task(taskId) {
    return this.#task("GET", taskId, "");
  }

  /** @param {Record<string, string | number>} [query] status, type, model, conversation_id, before, limit */
  tasks(query = {}) {
    return this.#requests.json("GET", `/v1/tasks${search(query)}`);
  }

  models() {
    return this.#requests.json("GET", "/v1/models");
  }

  /** @param {{before?: string, limit?: number}} [query] */
  conversations(query = {}) {
    return this.#requests.json("GET", `/v1/conversations${search(query)}`);
  }

  /** @param {string} [title] */
  beginConversation(title = "") {
    return this.#conversation("POST", "", { title });
  }

  /**
   * @param {string} id
   * @param {string} title
   */
  renameConversation(id, title) {
    return this.#conversation("PATCH", `/${encodeURIComponent(id)}`, { title });
  }

  /** Delete a conversation with its messages and its tasks, which must all have ended. @param {string} id */
  async deleteConversation(id) {
    await this.#requests.send("DELETE", `/v1/conversations/${encodeURIComponent(id)}`);
    this.#share({ key: `conversation:${id}`, view: null });
  }

  /** Note that the user has seen all there is. @param {string} id */
  markRead(id) {
    return this.#conversation("POST", `/${encodeURIComponent(id)}/read`);
  }

  /**
   * @param {string} id
   * @param {{before?: string, limit?: number}} [query]
   */
  messages(id, query = {}) {
    return this.#requests.json("GET", `/v1/conversations/${encodeURIComponent(id)}/messages${search(query)}`);
  }

  /**
   * @param {string} id
   * @param {string} text
   */
  say(id, text) {
    return this.#requests.json("POST", `/v1/conversations/${encodeURIComponent(id)}/messages`, { text });
  }

  /** Upload a picture for edits and for videos that begin with it. @param {Blob} file */
  async uploadReference(file) {
    const headers = { "Content-Type": file.type || "application/octet-stream" };
    const response = await this.#requests.send("POST", "/v1/references", { body: file, headers });
    return await response.json();
  }

  /**
   * @param {string} action
   * @param {string} path
   * @param {any} content
   */
  async #make(action, path, content) {
    // Written down by somebody who has left, it would be sent and paid for when they are back.
    if (this.#requests.ended) throw stopped();
    const pending = { key: newKey(), action, path, content, at: Date.now() };
    this.#pending.add(pending);
    this.#onPending();
    return await this.#send(pending);
  }

  /** @param {Pending} pending */
  #send(pending) {
    let sending = this.#sending.get(pending.key);
    if (sending === undefined) {
      sending = this.#sendUntilAnswered(pending).finally(() => {
        this.#sending.delete(pending.key);
        this.#onPending();
      });
      this.#sending.set(pending.key, sending);
    }
    return sending;
  }

  /** @param {Pending} pending */
  async #sendUntilAnswered({ key, path, content }) {
    for (let failures = 0; ; failures += 1) {
      try {
        const headers = { "Idempotency-Key": key };
        const task = await this.#requests.json("POST", path, content ?? undefined, { headers });
        this.#share({ key: `task:${task.id}`, view: task });
        this.#pending.remove(key);
        return task;
      } catch (error) {
        if (!(error instanceof LongtakeError)) throw error;
        if (!error.passing && !error.signedOut) this.#pending.remove(key);
        // Whoever has left or must sign in first finds it among the pending ones when they are back.
        if (!error.passing || error.code === "STOPPED") throw error;
        const pause = Math.min(SHORTEST_PAUSE * 2 ** failures, LONGEST_PAUSE) * (0.5 + Math.random() / 2);
        await untilOnlineOr(Math.max(pause, (error.retryAfter ?? 0) * 1000));
      }
    }
  }

  /**
   * @param {string} method
   * @param {string} taskId
   * @param {string} rest
   */
  async #task(method, taskId, rest) {
    const view = await this.#requests.json(method, `/v1/tasks/${encodeURIComponent(taskId)}${rest}`);
    this.#share({ key: `task:${view.id}`, view });
    return view;
  }

  /**
   * @param {string} method
   * @param {string} rest
   * @param {any} [content]
   */
  async #conversation(method, rest, content) {
    const view = await this.#requests.json(method, `/v1/conversations${rest}`, content);
    this.#share({ key: `conversation:${view.id}`, view });
    return view;
  }
}

/** @param {Record<string, any>} query */
function search(query) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value != null)).toString();
  return words && `?${words}`;
}

/** A key nobody else has. `randomUUID` is missing where pages come by plain HTTP. */
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {number} milliseconds */
async function untilOnlineOr(milliseconds) {
  const online = new AbortController();
  await new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    globalThis.addEventListener?.("online", resolve, { once: true, signal: online.signal });
  });
  online.abort();
}
