/** The shared worker: it leads for all tabs of one user where the browser has no locks. Its name is the channel's. */
import { AloneElection } from "./election.js";
import { Knowledge } from "./knowledge.js";
import { Requests } from "./requests.js";
import { Tab } from "./tabs.js";

const TOKEN_PATIENCE = 10_000;

/** By tab: one that comes again has a new port instead of its old one. @type {Map<string, MessagePort>} */
const ports = new Map();
/** @type {Map<number, (token: string) => void>} */
const waiting = new Map();
/** @type {Tab | null} */
let tab = null;
let asked = 0;

/**
 * Ask all tabs for a token and take the first: those that are gone do not answer.
 *
 * @param {{refused: boolean}} why
 */
function token({ refused }) {
  asked += 1;
  const number = asked;
  for (const port of ports.values()) port.postMessage({ number, refused });
  return new Promise((/** @type {(token: string) => void} */ resolve, reject) => {
    waiting.set(number, resolve);
    setTimeout(() => reject(new Error("No tab has given a token.")), TOKEN_PATIENCE);
  }).finally(() => waiting.delete(number));
}

/**
 * @param {string} name
 * @param {{url: string, userId: string, timing?: any}} about
 */
function begin(name, { url, userId, timing }) {
  tab = new Tab({
    id: "worker",
    timing,
    requests: new Requests({ url, userId, token }),
    election: new AloneElection(),
    openChannel: () => /** @type {any} */ (new BroadcastChannel(name)),
    knowledge: new Knowledge(() => {}, () => {}),
  });
  tab.join();
}

/**
 * @param {MessagePort} port
 * @param {any} message
 */
function receive(port, message) {
  if (message.kind === "begin") {
    ports.get(message.tab)?.close();
    ports.set(message.tab, port);
    if (tab === null) begin(message.name, message.about);
  } else if (message.kind === "token") waiting.get(message.number)?.(message.token);
  else if (message.kind === "wake") tab?.signedIn();
  else if (message.kind === "leave" && ports.get(message.tab) === port) ports.delete(message.tab);
  if (ports.size > 0) return;
  tab?.leave();
  globalThis.close();
}

globalThis.addEventListener("connect", (/** @type {any} */ { ports: [port] }) => {
  port.onmessage = (/** @type {MessageEvent} */ { data }) => receive(port, data);
});
