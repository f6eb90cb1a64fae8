/** No answer at all, or only a proxy's: 0, 502, 504. */
const PASSING_STATUSES = new Set([0, 502, 504]);
const PASSING_CODES = new Set(["RATE_LIMITED", "IDEMPOTENCY_KEY_IN_USE", "HTTP_503", "HTTP_429"]);

/** What went wrong, in the server's words: a stable code, a sentence, and what to do next. */
export class LongtakeError extends Error {
  /**
   * @param {object} facts
   * @param {number} facts.status HTTP status; 0 when no answer came
   * @param {string} facts.code
   * @param {string} facts.message
   * @param {string} [facts.hint]
   * @param {string} [facts.requestId] to be told to whoever looks into it
   * @param {number | null} [facts.retryAfter] seconds the server asked us to wait
   * @param {Record<string, unknown>} [facts.members] further facts, such as `errors`, `balance` and `price`
   */
  constructor({ status, code, message, hint = "", requestId = "", retryAfter = null, members = {} }) {
    super(message);
    this.name = "LongtakeError";
    this.status = status;
    this.code = code;
    this.hint = hint;
    this.requestId = requestId;
    this.retryAfter = retryAfter;
    this.members = members;
  }

  /** Whether the same request may well succeed later: nobody has decided against it. */
  get passing() {
    if (PASSING_STATUSES.has(this.status) || PASSING_CODES.has(this.code)) return true;
    // A server that will be back says when. One that lacks something, such as a provider's key, does not.
    return this.status === 503 && this.retryAfter !== null;
  }

  /** Whether nothing was decided but that somebody has to sign in first. */
  get signedOut() {
    return this.status === 401 || this.code === "OTHER_USER";
  }
}

/**
 * Read a refusal; what is not a problem of ours (a proxy's page) gets words of our own.
 *
 * @param {Response} response
 */
export async function errorOf(response) {
  /** @type {Record<string, any>} */
  let problem = {};
  try {
    const found = await response.json();
    if (typeof found === "object" && found !== null) problem = found;
  } catch {
    // Not JSON: the status has to do.
  }
  const { type: _type, title: _title, status: _status, code, detail, hint, request_id, ...members } = problem;
  const wait = Number(response.headers.get("Retry-After") ?? "");
  return new LongtakeError({
    status: response.status,
    code: code ?? `HTTP_${response.status}`,
    message: detail ?? `The server answered with the status ${response.status}.`,
    hint,
    requestId: request_id ?? response.headers.get("X-Request-Id") ?? "",
    retryAfter: wait > 0 ? wait : null,
    members,
  });
}

export function otherUser() {
  return new LongtakeError({ status: 403, code: "OTHER_USER", message: "The token is another user's." });
}

export function stopped() {
  return new LongtakeError({ status: 0, code: "STOPPED", message: "The client was stopped." });
}

/** @param {unknown} cause */
export function unreachable(cause) {
  const error = new LongtakeError({ status: 0, code: "UNREACHABLE", message: "The server cannot be reached." });
  error.cause = cause;
  return error;
}
