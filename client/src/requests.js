/**
 * Requests with the user's token. A refused token is asked for once more, so that the application can renew it; nothing
 * is sent with one that is somebody else's, as it is when another user has logged in underneath.
 *
 * @typedef {(why: {refused: boolean}) => string | Promise<string>} TokenSource
 * @typedef {{body?: BodyInit, headers?: Record<string, string>, signal?: AbortSignal}} Sending
 */
import { errorOf, LongtakeError, otherUser, stopped, unreachable } from "./errors.js";

/** Milliseconds for saying whose a token is: all requests with it wait for that. */
const OWNER_PATIENCE = 10_000;

export class Requests {
  #url;
  #userId;
  #token;
  #fetch;
  #ended = new AbortController();
  /** Whose the tokens are that we have seen. @type {Map<string, string | Promise<string>>} */
  #owners = new Map();

  /**
   * @param {{url: string, userId: string, token: TokenSource, fetch?: typeof fetch}} options
   */
  constructor({ url, userId, token, fetch = globalThis.fetch.bind(globalThis) }) {
    this.#url = url.replace(/\/+$/u, "");
    this.#userId = userId;
    this.#token = token;
    this.#fetch = fetch;
  }

  /** End all requests and refuse further ones: their user has left. */
  end() {
    this.#ended.abort();
  }

  get ended() {
    return this.#ended.signal.aborted;
  }

  /** @param {boolean} refused whether the last one was not taken */
  async token(refused = false) {
    return await this.#token({ refused });
  }

  /**
   * Send a request; give back the response of a success, throw a LongtakeError for everything else.
   *
   * @param {string} method
   * @param {string} path
   * @param {Sending} [sending]
   */
  async send(method, path, sending = {}) {
    return await this.#renewing(async (token) => {
      await this.#checkOwner(token);
      return await this.#once(method, path, token, sending);
    });
  }

  /**
   * All there is at once. It says itself whose it is, so that a page that begins needs one request and no more.
   *
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  async snapshot(signal) {
    return await this.#renewing(async (token) => {
      const snapshot = await contentOf(await this.#once("GET", "/v1/snapshot", token, { signal }));
      this.#owners.set(token, snapshot.user_id);
      await this.#checkOwner(token);
      return snapshot;
    });
  }

  /**
   * Send JSON, if there is any; give back the JSON of the answer.
   *
   * @param {string} method
   * @param {string} path
   * @param {unknown} [content]
   * @param {Omit<Sending, "body">} [rest]
   * @returns {Promise<any>}
   */
  async json(method, path, content, rest = {}) {
    const typed = content === undefined ? {} : { "Content-Type": "application/json" };
    const body = content === undefined ? undefined : JSON.stringify(content);
    return await contentOf(await this.send(method, path, { ...rest, body, headers: { ...typed, ...rest.headers } }));
  }

  /**
   * @template Answer
   * @param {(token: string) => Promise<Answer>} send
   */
  async #renewing(send) {
    try {
      return await send(await this.token());
    } catch (error) {
      if (!(error instanceof LongtakeError) || error.status !== 401) throw error;
      return await send(await this.token(true));
    }
  }

  /** @param {string} token */
  async #checkOwner(token) {
    let owner = this.#owners.get(token);
    if (owner === undefined) {
      owner = this.#askOwner(token);
      this.#owners.set(token, owner);
      owner.catch(() => this.#owners.delete(token));
    }
    if ((await owner) !== this.#userId) throw otherUser();
  }

  /** @param {string} token */
  async #askOwner(token) {
    const signal = AbortSignal.timeout(OWNER_PATIENCE);
    return (await contentOf(await this.#once("GET", "/v1/me", token, { signal }))).user_id;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {string} token
   * @param {Sending} sending
   */
  async #once(method, path, token, { body, headers = {}, signal }) {
    if (this.ended) throw stopped();
    const ended = this.#ended.signal;
    let response;
    try {
      response = await this.#fetch(this.#url + path, {
        method,
        body,
        headers: { ...headers, Authorization: `Bearer ${token}` },
        cache: "no-store",
        credentials: "omit",
        signal: signal === undefined ? ended : AbortSignal.any([ended, signal]),
      });
    } catch (cause) {
      throw unreachable(cause);
    }
    if (!response.ok) throw await errorOf(response);
    return response;
  }
}

/**
 * @param {Response} response
 * @returns {Promise<any>}
 */
async function contentOf(response) {
  try {
    return await response.json();
  } catch (cause) {
    throw unreachable(cause); // the answer broke off
  }
}
