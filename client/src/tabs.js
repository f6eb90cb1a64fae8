/**
 * One stream for all tabs of a browser: the leader reads it and tells the others.
 *
 * Whoever leads has a term, higher than all before it; what comes with a lower one is not heard, so a leader that
 * was frozen and wakes up says nothing to anybody. Every message says which event came before it: a tab that has missed
 * one asks for it. So every tab gets every event once and in order, whoever leads.
 *
 * @typedef {import("./knowledge.js").Fact} Fact
 */
import { SILENT } from "./channels.js";
import { isAfter } from "./cursors.js";
import { Feed } from "./feed.js";
import { Mending } from "./mending.js";
import { RHYTHM, Watch } from "./watch.js";

const ASK_PAUSE = 250;

export class Tab {
  #options;
  #knowledge;
  /** @type {import("./channels.js").Channel} */
  #channel = SILENT;
  #rhythm;
  /** Only a leader has one. @type {Feed | null} */
  #feed = null;
  /** @type {Mending | null} */
  #mending = null;
  #term = 0;
  #watch;
  #askedAt = Number.NEGATIVE_INFINITY;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #ticking;
  #joined = false;

  /**
   * @param {object} options
   * @param {string} options.id
   * @param {import("./requests.js").Requests} options.requests
   * @param {import("./election.js").Election} options.election
   * @param {() => import("./channels.js").Channel} options.openChannel
   * @param {import("./knowledge.js").Knowledge} options.knowledge
   * @param {{feed?: Partial<typeof import("./feed.js").TIMING>, tabs?: Partial<typeof RHYTHM>}} [options.timing]
   */
  constructor(options) {
    this.#options = options;
    this.#knowledge = options.knowledge;
    this.#rhythm = { ...RHYTHM, ...options.timing?.tabs };
    this.#watch = new Watch(this.#rhythm);
  }

  get leading() {
    return this.#feed !== null;
  }

  /** Take part: ask whoever leads for what one missed, and stand for election. */
  join() {
    if (this.#joined) return;
    this.#joined = true;
    this.#channel = this.#options.openChannel();
    this.#channel.onmessage = ({ data }) => this.#receive(data);
    this.#watch = new Watch(this.#rhythm);
    this.#ticking = setInterval(() => void this.#tick(), this.#rhythm.beat);
    this.#ask();
    this.#options.election.join({ onElected: () => this.#lead(), onDeposed: () => this.#stepDown() });
  }

  /** Take no part any more; another tab leads if this one did. */
  leave() {
    if (!this.#joined) return;
    this.#joined = false;
    clearInterval(this.#ticking);
    this.#stepDown();
    this.#options.election.leave();
    this.#channel.close();
    this.#channel = SILENT;
  }

  /** The token is good again, here at least. */
  signedIn() {
    if (this.#feed) this.#feed.wake();
    else this.#options.election.take();
  }

  /** Tell all tabs what an answer of the server said. @param {Fact} fact */
  share(fact) {
    if (!this.#joined) return;
    this.#channel.postMessage({ kind: "fact", fact });
    this.#knowledge.takeFact(fact);
    this.#mend();
  }

  #lead() {
    if (!this.#joined) return;
    const { requests, timing } = this.#options;
    const { history } = this.#knowledge;
    // Two tabs that take the lead at once must not have the same term.
    this.#term = Math.max(Math.floor(this.#term) + 1, Date.now()) + Math.random();
    this.#mending = new Mending({
      requests,
      onFact: (fact) => this.share(fact),
      onSnapshot: (snapshot) => this.#takeSnapshot(snapshot, false),
      onRefused: () => this.#feed?.doubt(),
    });
    this.#feed = new Feed({
      requests,
      timing: timing?.feed,
      cursor: history.position,
      onSnapshot: async (snapshot) => {
        if (await this.#isFit()) this.#takeSnapshot(snapshot, true);
      },
      onEvent: async (event) => {
        if (await this.#isFit()) this.#pass(event);
      },
      onCursor: (cursor) => history.advance(cursor),
      onHeartbeat: (cursor) => {
        this.#knowledge.doubtQueues(cursor);
        this.#mend();
      },
      onStatus: (status) => {
        if (this.#knowledge.takeConnection({ status, since: Date.now() })) this.#beat();
        if (status === "live") this.#mending?.wake();
      },
    });
    this.#watch.awake();
    this.#beat();
    this.#feed.start();
    this.#mend();
  }

  #stepDown() {
    this.#feed?.stop();
    this.#mending?.stop();
    this.#feed = null;
    this.#mending = null;
    this.#watch.heard();
  }

  /** A leader that may have been asleep asks the browser whether it still is one before it says anything. */
  async #isFit() {
    const feed = this.#feed;
    if (feed === null || !this.#watch.slept) return feed !== null;
    const fit = await this.#options.election.isLeader();
    if (this.#feed !== feed) return false;
    if (fit) this.#watch.awake();
    else this.#stepDown();
    return fit;
  }

  async #tick() {
    if (this.#feed) {
      if (!(await this.#isFit())) return;
      this.#watch.awake();
      this.#beat();
      return;
    }
    const verdict = this.#watch.verdict();
    if (verdict === "ask") this.#ask();
    if (verdict === "take") this.#options.election.take();
  }

  #beat() {
    const { history, connection } = this.#knowledge;
    this.#say({ kind: "beat", position: history.position, last: history.last, connection });
  }

  /** @param {Record<string, any>} message */
  #say(message) {
    this.#channel.postMessage({ ...message, term: this.#term });
  }

  #ask() {
    const now = performance.now();
    if (now - this.#askedAt < ASK_PAUSE) return;
    this.#askedAt = now;
    const { position } = this.#knowledge.history;
    this.#channel.postMessage({ kind: "ask", from: this.#options.id, position, knownTerm: this.#term });
  }

  /** @param {any} message */
  #receive(message) {
    if (message.kind === "ask") void this.#answer(message);
    else if (message.kind === "fact") this.#knowledge.takeFact(message.fact);
    else if (message.kind === "offer") this.#inherit(message);
    else if (message.term > this.#term || (message.term === this.#term && !this.#feed)) this.#hear(message);
    this.#mend();
  }

  /** @param {any} message */
  async #answer({ from, position, knownTerm }) {
    if (!this.#feed || !(await this.#isFit())) return;
    if (knownTerm > this.#term) this.#term = Math.floor(knownTerm) + 1 + Math.random();
    const { history, state } = this.#knowledge;
    const missed = history.since(position);
    if (missed !== null) this.#say({ kind: "events", to: from, after: position, events: missed });
    else if (state.ready) this.#sayState(from, true);
    this.#beat();
  }

  /** @param {any} message */
  #hear(message) {
    if (this.#feed) this.#stepDown(); // somebody has taken over
    this.#term = message.term;
    this.#watch.heard();
    if (message.to !== undefined && message.to !== this.#options.id) return;
    const { history, state } = this.#knowledge;
    if (message.kind === "beat") {
      this.#knowledge.takeConnection(message.connection);
      if (message.position === null) this.#offer();
      else if (!state.ready || isAfter(message.last, history.position)) this.#ask();
      else history.advance(message.position);
    } else if (message.kind === "events") {
      if (!state.ready || isAfter(message.after, history.position)) this.#ask();
      else for (const event of message.events) this.#knowledge.takeEvent(event);
    } else if (message.anew || state.ready) {
      this.#knowledge.takeState(message.state, message.position, message.anew);
    }
  }

  /** Give a leader that begins with nothing what we have, so that no event falls between us and its snapshot. */
  #offer() {
    const { state, history } = this.#knowledge;
    if (state.ready) this.#channel.postMessage({ kind: "offer", state, position: history.position });
  }

  /** @param {any} message */
  #inherit({ state, position }) {
    if (this.#feed === null || this.#knowledge.state.ready) return;
    this.#knowledge.takeState(state, position, true);
    this.#feed.cursor = position;
  }

  /** @param {import("./feed.js").Event} event */
  #pass(event) {
    this.#say({ kind: "events", after: this.#knowledge.history.last, events: [event] });
    this.#knowledge.takeEvent(event);
    this.#mend();
  }

  /** @type {(snapshot: any, anew: boolean) => void} */
  #takeSnapshot(snapshot, anew) {
    this.#knowledge.takeSnapshot(snapshot, anew);
    this.#sayState(undefined, anew);
    this.#mend();
  }

  /** @type {(to: string | undefined, anew: boolean) => void} */
  #sayState(to, anew) {
    const { state, history } = this.#knowledge;
    this.#say({ kind: "state", to, anew, state, position: history.position });
  }

  #mend() {
    if (this.#knowledge.state.ready) this.#mending?.look(this.#knowledge.state);
  }
}
