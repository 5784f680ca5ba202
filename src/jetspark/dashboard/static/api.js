// Requests to the dashboard. Paths are relative: it may be mounted anywhere.

export const session = { writable: false, secret: "", secretHeader: "", deployment: {} };

export class Failed extends Error {
  constructor(status, body) {
    super(body.error || `the dashboard answered ${status}`);
    this.status = status;
    this.hint = body.hint || "";
  }
}

export function path(strings, ...values) {
  return strings.reduce((text, part, at) => text + part + (at < values.length ? encodeURIComponent(values[at]) : ""), "");
}

export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== 0);
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

export async function get(where, signal) {
  return answer(await reach(where, { signal, headers: { accept: "application/json" } }));
}

export async function post(where, body) {
  const headers = { "content-type": "application/json", [session.secretHeader]: session.secret };
  return answer(await reach(where, { method: "POST", headers, body: JSON.stringify(body) }));
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
    body = await response.json();
  } catch {
    body = { error: `the dashboard answered ${response.status} ${response.statusText}` };
  }
  if (!response.ok) throw new Failed(response.status, body);
  return body;
}

export async function openSession() {
  const found = await get("session");
  Object.assign(session, { writable: found.writable, secret: found.secret, secretHeader: found.secret_header, version: found.version, deployment: found.deployment });
  return session;
}

// Calls back with every event until close() is called; reconnects, and reports the state.
export function events(where, onEvent, onState = () => {}) {
  const source = new EventSource(`api/${where}`);
  source.onopen = () => onState("open");
  source.onerror = () => onState(source.readyState === EventSource.CLOSED ? "closed" : "waiting");
  source.onmessage = (message) => onEvent(JSON.parse(message.data));
  return source;
}
