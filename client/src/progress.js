/**
 * How far a task probably is, so that a bar moves on between two events. The server has the same formula
 * (generation/progress.py); tests/progress_cases.json holds both to it.
 *
 * @typedef {object} Progress
 * @property {number | null} fraction below 1: only the task's end is the whole
 * @property {number | null} seconds_left null where nobody can say
 * @property {"provider" | "history" | null} based_on
 * @property {boolean} late longer under way than nearly all before it
 */

/** Where the bar is when half of the runs were done, and what is left of it then. */
const AT_MEDIAN = 0.9;
const REST = 0.1;
const PROVIDER_MOST = 0.99;
const HISTORY_MOST = 0.999;
/** Below this a provider's percent says nothing about the time that is left. */
const TELLING = 0.05;
/** Runs that took no time at all, or all the same time, must not divide by nothing. */
const LEAST_MEDIAN = 0.1;
const LEAST_SPREAD = 0.1;

/**
 * A provider that tells is believed, else past runs are.
 *
 * @param {number} seconds under way
 * @param {number | null} median
 * @param {number | null} p95
 * @param {number | null} provider
 * @returns {Progress}
 */
export function progress(seconds, median, p95, provider) {
  const elapsed = Math.max(seconds, 0);
  const late = p95 !== null && elapsed > p95;
  if (provider !== null) {
    const told = Math.min(Math.max(provider, 0), 1);
    const left = told >= TELLING && elapsed > 0 ? (elapsed * (1 - told)) / told : null;
    return { fraction: Math.min(told, PROVIDER_MOST), seconds_left: left, based_on: "provider", late };
  }
  if (median === null || p95 === null) return { fraction: null, seconds_left: null, based_on: null, late };
  const half = Math.max(median, LEAST_MEDIAN);
  if (elapsed <= half) {
    return { fraction: (AT_MEDIAN * elapsed) / half, seconds_left: half - elapsed, based_on: "history", late };
  }
  // After the median nobody knows how long it takes: the bar slows down, and no time is promised.
  const spread = Math.max(p95 - half, LEAST_SPREAD * half);
  const eased = 1 - REST * 10 ** -((elapsed - half) / spread);
  return { fraction: Math.min(eased, HISTORY_MOST), seconds_left: null, based_on: "history", late };
}

/**
 * How far a task is at a moment of the server's clock; null once it has ended.
 *
 * @param {any} task
 * @param {number} now milliseconds
 * @returns {Progress | null}
 */
export function progressOf(task, now) {
  if (task.ended_at) return null;
  // Time in a queue is no progress: a bar that moved then would jump back when the task begins.
  const seconds = task.queue ? 0 : (now - Date.parse(task.started_at ?? task.created_at)) / 1000;
  const { median_seconds: median = null, p95_seconds: p95 = null } = task.usual ?? {};
  return progress(seconds, median, p95, task.progress ?? null);
}
