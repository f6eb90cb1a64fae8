/**
 * What a page shows, made from a snapshot and the events after it by pure functions. A state is never changed, only
 * followed by another; an event counts once; a task that has ended never goes back.
 *
 * `stale` names what has to be asked for again, and the event that made it so: events say states, never addresses.
 *
 * @typedef {import("./feed.js").Event} Event
 * @typedef {object} State
 * @property {boolean} ready whether there has been a snapshot
 * @property {string | null} cursor
 * @property {number} clockAhead milliseconds by which the server's clock is ahead of ours
 * @property {Record<string, any>} tasks by id
 * @property {string[]} recent ids of ended tasks, the last first
 * @property {boolean} tasksMore whether there are more unfinished tasks than are known here
 * @property {any[]} conversations the last changed first
 * @property {string | null} conversationsNext
 * @property {number} unread over all conversations
 * @property {{available: number, held: number}} credits
 * @property {Record<string, string>} stale
 */
import { isAfter } from "./cursors.js";
import { eventTaskPatch, isEnded, notBefore, taskStub } from "./tasks.js";

const MOST_RECENT = 100;
const FEW = 4;
/** What is asked for again when a single thing does not do. */
export const EVERYTHING = "everything";

/** @type {State} */
export const EMPTY = Object.freeze({
  ready: false,
  cursor: null,
  clockAhead: 0,
  tasks: {},
  recent: [],
  tasksMore: false,
  conversations: [],
  conversationsNext: null,
  unread: 0,
  credits: { available: 0, held: 0 },
  stale: {},
});

/**
 * @param {any} snapshot
 * @param {State} [before] what was known: tasks the snapshot does not show are kept, and asked for if unfinished
 * @param {number} [now] our clock, milliseconds
 * @returns {State}
 */
export function fromSnapshot(snapshot, before = EMPTY, now = Date.now()) {
  const shown = [...snapshot.tasks, ...snapshot.recent];
  const tasks = { ...before.tasks, ...Object.fromEntries(shown.map((task) => [task.id, task])) };
  const known = new Set(shown.map((task) => task.id));
  /** @type {Record<string, string>} */
  const stale = {};
  for (const [id, task] of Object.entries(before.tasks)) {
    const key = `task:${id}`;
    // Fresh as it may be, the snapshot can be older than an end we have heard of.
    const isOlder = known.has(id) && isEnded(task) && !isEnded(tasks[id]);
    if (isOlder) tasks[id] = task;
    if ((isOlder || !known.has(id)) && before.stale[key]) stale[key] = before.stale[key];
    else if (!known.has(id) && !isEnded(task)) stale[key] = snapshot.cursor;
  }
  return withRecent({
    ready: true,
    cursor: snapshot.cursor,
    clockAhead: Date.parse(snapshot.server_time ?? snapshot.at) - now,
    tasks,
    recent: [],
    tasksMore: snapshot.tasks_more ?? false,
    conversations: snapshot.conversations,
    conversationsNext: snapshot.conversations_next ?? null,
    unread: snapshot.unread,
    credits: snapshot.credits,
    stale,
  });
}

/**
 * @param {State} state
 * @param {Event} event
 * @returns {State}
 */
export function applyEvent(state, event) {
  if (!isAfter(event.cursor, state.cursor)) return state;
  const next = { ...state, cursor: event.cursor };
  if (event.type === "task.deleted" || event.type === "conversation.deleted") return applyDeletion(next, event);
  if (event.type.startsWith("task.")) return applyToTask(next, event);
  if (event.type.startsWith("asset.")) {
    return next.tasks[event.data?.task_id] ? marked(next, `task:${event.data.task_id}`, event) : next;
  }
  if (event.type === "conversation.changed") return applyToConversation(next, event);
  if (event.type.startsWith("credits.") && typeof event.data?.available === "number") {
    return { ...next, credits: { available: event.data.available, held: event.data.held } };
  }
  return next;
}

/**
 * Put in what was asked for. `mark` is what `stale` said when it was: a newer mark stays.
 *
 * @param {State} state
 * @param {{key: string, view: any, mark?: string}} fact view null: it is gone
 * @returns {State}
 */
export function applyFact(state, { key, view, mark }) {
  const { [key]: current, ...others } = state.stale;
  const stale = current === undefined || current === mark ? others : state.stale;
  const [kind, id] = key.split(":", 2);
  if (kind === "conversation") {
    return { ...withConversation(state, id, view), stale };
  }
  const { [id]: known, ...rest } = state.tasks;
  if (view === null) return withRecent({ ...state, stale, tasks: rest });
  if (known && isEnded(known) && !isEnded(view)) return state;
  return withRecent({ ...state, stale, tasks: { ...state.tasks, [id]: known ? notBefore(known, view) : view } });
}

/**
 * No event tells that a queue has moved on: what waits in one is asked for again from time to time.
 *
 * @param {State} state
 * @param {string} cursor up to where the server has told everything
 * @returns {State}
 */
export function doubtQueues(state, cursor) {
  const queued = Object.values(state.tasks).filter((task) => task.queue).map((task) => `task:${task.id}`);
  if (queued.length === 0) return state;
  // For many of them one snapshot costs the server less than they would one by one.
  const keys = queued.length > FEW ? [EVERYTHING] : queued;
  return { ...state, stale: { ...Object.fromEntries(keys.map((key) => [key, cursor])), ...state.stale } };
}

/** The keys of all that has to be asked for. @param {State} state */
export function wanted(state) {
  const partial = Object.values(state.tasks).filter((task) => task.partial).map((task) => `task:${task.id}`);
  return [...new Set([...Object.keys(state.stale), ...partial])];
}

/** Unfinished tasks, oldest first. @param {{tasks: Record<string, any>}} state */
export function unfinished(state) {
  return Object.values(state.tasks).filter((task) => !isEnded(task)).sort(byTime("created_at"));
}

/** Ended tasks, the last first. @param {State} state */
export function recentlyEnded(state) {
  return state.recent.map((id) => state.tasks[id]);
}

/**
 * @param {State} state
 * @param {Event} event
 */
function applyToTask(state, event) {
  const id = /** @type {string} */ (event.subject);
  const known = state.tasks[id];
  const patch = eventTaskPatch(event);
  if (known && isEnded(known) && patch?.status !== known.status) {
    // What ended stays so; but a refund or an end in other words is worth a look.
    return patch && !patch.ended_at ? state : marked(state, `task:${id}`, event);
  }
  const task = { ...(known ?? taskStub(event)), ...patch };
  const next = { ...state, tasks: { ...state.tasks, [id]: task } };
  if (patch && !patch.ended_at) return next;
  return marked(withRecent(next), `task:${id}`, event);
}

/**
 * @param {State} state
 * @param {Event} event
 */
function applyToConversation(state, event) {
  const id = /** @type {string} */ (event.subject);
  const known = state.conversations.find((one) => one.id === id);
  const next = marked(state, `conversation:${id}`, event);
  const unread = event.data?.unread;
  if (typeof unread !== "number") return next;
  if (known) {
    const conversations = state.conversations.map((one) => (one === known ? { ...one, unread } : one));
    return { ...next, conversations, unread: state.unread + unread - known.unread };
  }
  // One further down a long list may have been counted already: only a new snapshot can tell.
  return state.conversationsNext === null ? next : marked(next, EVERYTHING, event);
}

/**
 * @param {State} state
 * @param {Event} event
 */
function applyDeletion(state, event) {
  const kind = event.type.slice(0, -".deleted".length);
  const key = `${kind}:${event.subject}`;
  const next = applyFact(state, { key, view: null, mark: state.stale[key] });
  const isFar = kind === "conversation" && state.conversationsNext !== null;
  // What was unread in one further down a long list only a new snapshot can tell.
  return isFar && next.conversations.length === state.conversations.length ? marked(next, EVERYTHING, event) : next;
}

/**
 * @param {State} state
 * @param {string} id
 * @param {any} view
 */
function withConversation(state, id, view) {
  const known = state.conversations.find((one) => one.id === id);
  const others = state.conversations.filter((one) => one !== known);
  const conversations = view === null ? others : [view, ...others].sort(byTime("changed_at")).reverse();
  // One of a list that is not known to its end is counted by the snapshot that was asked for with it.
  const isCounted = known !== undefined || state.conversationsNext === null;
  const change = isCounted ? (view?.unread ?? 0) - (known?.unread ?? 0) : 0;
  return { ...state, conversations, unread: state.unread + change };
}

/**
 * @param {State} state
 * @param {string} key
 * @param {Event} event
 */
function marked(state, key, event) {
  return { ...state, stale: { ...state.stale, [key]: event.cursor } };
}

/** Count the ended tasks anew; the oldest of too many are forgotten. @param {State} state */
function withRecent(state) {
  const ended = Object.values(state.tasks).filter(isEnded).sort(byTime("ended_at")).reverse();
  const recent = ended.slice(0, MOST_RECENT).map((task) => task.id);
  const forgotten = new Set(ended.slice(MOST_RECENT).map((task) => task.id));
  if (forgotten.size === 0) return { ...state, recent };
  const keep = (/** @type {string} */ id) => !forgotten.has(id);
  const tasks = Object.fromEntries(Object.entries(state.tasks).filter(([id]) => keep(id)));
  const stale = Object.fromEntries(Object.entries(state.stale).filter(([key]) => keep(key.slice("task:".length))));
  return { ...state, tasks, stale, recent };
}

/** @param {string} name */
function byTime(name) {
  // Times of the server all have one form, so that they sort as text; ids decide where two are the same.
  return (/** @type {any} */ one, /** @type {any} */ other) =>
    one[name] < other[name] ? -1 : one[name] > other[name] ? 1 : one.id < other.id ? -1 : 1;
}
