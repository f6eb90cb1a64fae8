/**
 * Reads server-sent events as the HTML standard says: lines end with LF, CR or CRLF, a frame with an empty line;
 * chunks of bytes may end anywhere, also inside a character or between CR and LF.
 *
 * @typedef {{type: string, data: string, id: string}} Frame `id` is the last one seen, also in an earlier frame
 */

/** No frame is that long; whoever sends one must not fill our memory. */
const LONGEST = 4_000_000;

export class FrameParser {
  // A byte order mark at the very beginning is dropped by the decoder.
  #decoder = new TextDecoder();
  #rest = "";
  #afterReturn = false;
  #type = "";
  /** @type {string[]} */
  #data = [];
  #size = 0;
  #id = "";

  /** Milliseconds after which the server wants us back, if it said so. @type {number | null} */
  retry = null;

  /**
   * Take the next bytes; return the frames that are complete now. What is incomplete at the end counts for nothing.
   *
   * @param {Uint8Array} bytes
   * @returns {Frame[]}
   */
  push(bytes) {
    let text = this.#decoder.decode(bytes, { stream: true });
    if (this.#afterReturn && text !== "") {
      this.#afterReturn = false;
      if (text.startsWith("\n")) text = text.slice(1);
    }
    // A CR at the very end has ended its line; the LF that may follow belongs to it.
    if (text.endsWith("\r")) this.#afterReturn = true;
    const lines = text.split(/\r\n|\r|\n/u);
    lines[0] = this.#rest + lines[0];
    this.#rest = lines.pop() ?? "";
    /** @type {Frame[]} */
    const frames = [];
    for (const line of lines) this.#take(line, frames);
    if (this.#rest.length + this.#size > LONGEST) throw new RangeError("The server sent a frame without an end.");
    return frames;
  }

  /**
   * @param {string} line
   * @param {Frame[]} frames
   */
  #take(line, frames) {
    if (line === "") {
      if (this.#data.length > 0) {
        frames.push({ type: this.#type || "message", data: this.#data.join("\n"), id: this.#id });
      }
      this.#type = "";
      this.#data = [];
      this.#size = 0;
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "event") this.#type = value;
    else if (name === "data") {
      this.#data.push(value);
      this.#size += value.length;
    } else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^[0-9]+$/u.test(value)) this.retry = Number(value);
  }
}
