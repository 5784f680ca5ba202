// Requests to the dashboard. Paths are relative: it may be mounted anywhere.

export const session = { writable: false, secret: "", secretHeader: "", deployment: {} };

export class Failed extends Error {
  constructor(status, body) {
    super(body.error || `the dashboard answered ${status}`);
    this.status = status;
    this.hint = body.hint || "";
    this.title = body.title || "";
  }
}

export function path(strings, ...values) {
  return strings.reduce((text, part, at) => text + part + (at < values.length ? encodeURIComponent(values[at]) : ""), "");
}

export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== 0);
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

// Sequences and sizes may be larger than a JavaScript number holds exactly: those become BigInt.
const LARGE = /\d{16}/;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const MARK = `large ${Math.random()} `;

export function parse(text) {
  if (!LARGE.test(text)) return JSON.parse(text);
  const marked = text.replace(TOKEN, (token) => (/^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${MARK}${token}"` : token));
  return JSON.parse(marked, (_, value) => (typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value));
}

// JSON for people, with all digits.
export function jsonText(value) {
  const text = JSON.stringify(value, (_, one) => (typeof one === "bigint" ? `${MARK}${one}` : one), 2);
  return text.replaceAll(new RegExp(`"${MARK}(-?\\d+)"`, "g"), "$1");
}

export async function get(where, signal) {
  return answer(await reach(where, { signal, headers: { accept: "application/json" } }));
}

export async function post(where, body) {
  const headers = { "content-type": "application/json", [session.secretHeader]: session.secret };
  return answer(await reach(where, { method: "POST", headers, body: JSON.stringify(body, (_, value) => (typeof value === "bigint" ? String(value) : value)) }));
}

async function reach(where, options) {
  try {
    return await fetch(`api/${where}`, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed(0, { error: "The dashboard cannot be reached.", hint: "It was stopped, or the network is down. This page tries again." });
  }
}

async function answer(response) {
  let body = {};
  try {
    body = parse(await response.text());
  } catch {
    body = { error: `the dashboard answered ${response.status} ${response.statusText}` };
  }
  // Signed out meanwhile, or the dashboard was restarted: its address has the page that asks.
  if (response.status === 401) location.reload();
  if (!response.ok) throw new Failed(response.status, body);
  return body;
}

export async function signOut() {
  await fetch("logout", { method: "POST", credentials: "same-origin", headers: { "content-type": "application/json" }, body: "{}" });
  location.replace(location.pathname);
}

export async function openSession() {
  const found = await get("session");
  Object.assign(session, { writable: found.writable, secret: found.secret, secretHeader: found.secret_header, signedIn: found.signed_in, version: found.version, deployment: found.deployment });
  return session;
}

const AGAIN_MS = 3000;

// Calls back with every event until close() is called; connects again, and reports the state.
// `where` says what to ask for each time. A browser has six connections for all of its tabs: a tab
// that is hidden gives its own back.
export function events(where, onEvent, onState = () => {}) {
  let source = null;
  let timer = null;
  let wasInterrupted = false;
  function open() {
    source = new EventSource(`api/${where()}`);
    source.onopen = () => {
      // Another dashboard may answer now, with another secret.
      if (wasInterrupted) openSession().catch(() => {});
      wasInterrupted = false;
      onState("open");
    };
    source.onmessage = (message) => onEvent(parse(message.data));
    source.onerror = () => {
      wasInterrupted = true;
      onState("waiting");
      if (source.readyState !== EventSource.CLOSED) return;
      // A browser does not ask again after an error status. Which one it was, a request tells.
      shut();
      timer = setTimeout(() => openSession().catch(() => {}).then(follow), AGAIN_MS);
    };
  }
  function shut() {
    clearTimeout(timer);
    timer = null;
    if (source) source.onerror = null;
    source?.close();
    source = null;
  }
  function follow() {
    if (isClosed || document.hidden) shut();
    else if (!source) open();
  }
  let isClosed = false;
  document.addEventListener("visibilitychange", follow);
  follow();
  return {
    close() {
      isClosed = true;
      document.removeEventListener("visibilitychange", follow);
      shut();
    },
  };
}
