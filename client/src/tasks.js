/**
 * What an event says of its task.
 *
 * @typedef {import("./feed.js").Event} Event
 */
const ENDS = new Set(["completed", "failed", "cancelled"]);

/** @param {any} task */
export function isEnded(task) {
  return ENDS.has(task.status);
}

/**
 * The view, but not with a status the task has left: the answer to a submit may come after the event that it runs.
 *
 * @param {any} known
 * @param {any} view
 */
export function notBefore(known, view) {
  if (known.status !== "running" || view.status !== "pending") return view;
  const { status, started_at, progress, trouble, retry, queue } = known;
  return { ...view, status, started_at, progress, trouble, retry, queue };
}

/**
 * The members that the event changes; null when it says only that something has changed.
 *
 * @param {Event} event
 * @returns {Record<string, any> | null}
 */
export function eventTaskPatch(event) {
  const data = event.data ?? {};
  const kind = event.type.slice("task.".length);
  if (ENDS.has(kind)) {
    const over = { trouble: null, retry: null, queue: null, estimate: null, needs_review: false };
    return { ...over, status: kind, ended_at: event.at, error: data.error ?? null };
  }
  switch (kind) {
    case "created":
      // The answer to the submit may have come first, and may say more.
      return {};
    case "running":
      return { status: "running", started_at: data.started_at ?? event.at, trouble: null, retry: null, queue: null };
    case "progress":
      return { status: "running", progress: data.progress ?? null, trouble: null, retry: null, queue: null };
    case "trouble":
      return { trouble: data.trouble ?? null, retry: data.retry ?? null, ...(data.status && { status: data.status }) };
    case "needs_review":
      return { needs_review: true };
    default:
      return null;
  }
}

/**
 * A task of which only an event is known: it is shown at once, and asked for because it is `partial`.
 *
 * @param {Event} event
 */
export function taskStub({ subject, at, data }) {
  return {
    partial: true,
    id: subject,
    status: "pending",
    type: data?.type ?? null,
    model: data?.model ?? null,
    prompt: data?.prompt ?? "",
    parameters: {},
    references: [],
    conversation_id: data?.conversation_id ?? null,
    message_id: null,
    progress: null,
    needs_review: false,
    trouble: null,
    results: [],
    error: null,
    credits: null,
    created_at: at,
    started_at: null,
    ended_at: null,
    retry_of: null,
    estimate: null,
    queue: null,
    retry: null,
    usual: null,
  };
}
