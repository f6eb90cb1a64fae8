/** Whether the leader is still there, judged by a tab that may itself have been asleep. */

export const RHYTHM = {
  /** The leader is heard at least so often, in milliseconds. */
  beat: 1_000,
  /** A leader that is silent for so long is asked, */
  silence: 4_000,
  /** and replaced when it does not answer within this. */
  answer: 1_000,
};

export class Watch {
  #rhythm;
  #heardAt = performance.now();
  #tickedAt = performance.now();
  /** When the silent leader was asked. @type {number | null} */
  #askedAt = null;

  /** @param {typeof RHYTHM} rhythm */
  constructor(rhythm) {
    this.#rhythm = rhythm;
  }

  /** The leader has said something. */
  heard() {
    this.#heardAt = performance.now();
    this.#askedAt = null;
  }

  /** Our own clock goes. */
  awake() {
    this.#tickedAt = performance.now();
  }

  /** Whether our clock stood still for so long that others may think we are gone. */
  get slept() {
    return performance.now() - this.#tickedAt > this.#rhythm.silence;
  }

  /**
   * Say what a follower does now, once for each beat. A browser slows down the clocks of hidden tabs, but not their
   * answers: silence alone proves nothing, so the leader is asked before it is replaced.
   *
   * @returns {"wait" | "ask" | "take"}
   */
  verdict() {
    const now = performance.now();
    // Whoever slept has heard nobody, and may not blame the leader for it.
    if (this.slept) this.heard();
    this.awake();
    if (now - this.#heardAt < this.#rhythm.silence) return "wait";
    if (this.#askedAt === null) {
      this.#askedAt = now;
      return "ask";
    }
    if (now - this.#askedAt < this.#rhythm.answer * 0.9) return "wait";
    this.heard();
    return "take";
  }
}
