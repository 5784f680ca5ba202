// The frame of all pages: navigation, theme, shortcuts, the connection, and which page is shown.

import { h, replace } from "./dom.js";
import { events, openSession, session, signOut } from "./api.js";
import { dialog, failure, isIll, loading, pageHead, retryLater } from "./parts.js";
import { overview } from "./pages/overview.js";
import { stream, streams } from "./pages/streams.js";
import { consumer } from "./pages/consumers.js";
import { lag, copies, pipelines } from "./pages/lag.js";
import { bucket, buckets, entry } from "./pages/buckets.js";
import { objects, objectStores } from "./pages/objects.js";
import { connections, store } from "./pages/server.js";
import { publish } from "./pages/publish.js";

const PAGES = [
  ["", "Overview", "o", overview],
  ["streams", "Streams", "s", streams],
  ["lag", "Lag", "l", lag],
  ["kv", "Key-value", "k", buckets],
  ["objects", "Objects", "b", objectStores],
  ["connections", "Connections", "c", connections],
  ["store", "Store", "d", store],
  ["copies", "Mirrors and replicas", "m", copies],
  ["pipelines", "Spark pipelines", "p", pipelines],
  ["publish", "Publish", "u", publish],
];
const THEME = "jetspark-theme";

const main = document.getElementById("main");
const nav = document.getElementById("nav");
let current = { close() {} };
let watchers = new Set();

// Pages call watch(callback) for samples as they come; it ends with the page.
function watch(callback) {
  watchers.add(callback);
}

function route() {
  const [where, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = where.split("/").map(decoded);
  return { parts, query: new URLSearchParams(search) };
}

// An address that someone cut off is shown as it is.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function pageOf(parts) {
  const [first, second, third, fourth] = parts;
  if (first === "streams" && third === "consumers" && fourth) return consumer;
  if (first === "streams" && second) return stream;
  if (first === "kv" && third === "key") return entry;
  if (first === "kv" && second) return bucket;
  if (first === "objects" && second) return objects;
  return PAGES.find(([key]) => key === (first ?? ""))?.[3];
}

let turn = 0;

// Shows the page of the address; `quiet` keeps what is shown until the page has loaded.
async function show({ keepFocus = false, quiet = false } = {}) {
  const { parts, query } = route();
  turn += 1;
  const mine = turn;
  current.close();
  if (!quiet) document.getElementById("dialog").close();
  watchers = new Set();
  const closing = [];
  const context = { parts, query, session, watch, onClose: (callback) => closing.push(callback), go, setQuery };
  current = { close: () => closing.forEach((callback) => callback()) };
  setMenu(false);
  drawNav(parts[0] ?? "");
  const page = pageOf(parts);
  const place = h("div", { class: "page" }, loading());
  if (!quiet) replace(main, place);
  let content;
  try {
    if (!page) throw Object.assign(new Error(`There is no page "${parts.join("/")}".`), { status: 404 });
    content = await page(context);
  } catch (error) {
    if (error.status === undefined) console.error(error);
    const title = page ? parts.at(-1) || "Overview" : "No such page";
    content = [pageHead(title, { crumbs: page ? crumbsOf(parts) : [] }), failure(error, page && (() => show()))];
    retryLater(place, error, () => show({ keepFocus: true, quiet: true }));
  }
  if (mine !== turn) return;
  replace(place, content);
  if (quiet) replace(main, place);
  if (!keepFocus) main.focus({ preventScroll: true });
  if (!quiet) scrollTo(0, 0);
}

// The way back from a page that could not be loaded: the addresses above its own.
function crumbsOf(parts) {
  const [, title] = PAGES.find(([key]) => key === parts[0]) ?? [];
  if (parts.length < 2 || !title) return [];
  const above = [[title, `#/${parts[0]}`]];
  if (parts.length > 2) above.push([parts[1], `#/${parts[0]}/${encodeURIComponent(parts[1])}`]);
  return above;
}

function go(hash) {
  if (location.hash === hash) show();
  else location.hash = hash;
}

// Changes the address without loading the page again: filters and positions can be bookmarked.
function setQuery(values) {
  const [where] = location.hash.split("?");
  const pairs = Object.entries(values).filter(([, value]) => value);
  history.replaceState(null, "", `${where || "#/"}${pairs.length ? `?${new URLSearchParams(pairs)}` : ""}`);
}

function drawNav(current) {
  replace(nav, h("ul", {}, PAGES.map(([key, title, letter]) => h("li", {},
    h("a", { href: `#/${key}`, "aria-current": key === current ? "page" : null }, h("span", {}, title), h("kbd", { "aria-hidden": "true" }, letter))))),
    h("p", { class: "side-foot" }, `Times in ${zone()}`, h("br"), `jetspark ${session.version ?? ""}`),
    session.signedIn && h("button", { type: "button", class: "button phone-only", onclick: signOut }, "Sign out"));
}

// The browser's time zone, which all times are shown in.
function zone() {
  const minutes = -new Date().getTimezoneOffset();
  const pad = (value) => String(value).padStart(2, "0");
  return `UTC${minutes < 0 ? "−" : "+"}${pad(Math.floor(Math.abs(minutes) / 60))}:${pad(Math.abs(minutes) % 60)}`;
}

function setMenu(open) {
  document.body.classList.toggle("menu-open", open);
  document.getElementById("menu").setAttribute("aria-expanded", String(open));
  // The menu covers the page: the keyboard does not reach what no one sees.
  main.inert = open;
}

function drawServer(state) {
  const place = document.getElementById("server");
  // A screen reader reads what is drawn here: only what is new.
  const shown = JSON.stringify([state.connected, state.server_name, state.address, state.version, state.health?.status, state.health?.error, state.problem]);
  if (place.dataset.shown === shown) return;
  place.dataset.shown = shown;
  if (state.connected) {
    const name = state.jetspark ? `jetspark ${state.jetspark}` : `nats-server ${state.version}`;
    const ill = isIll(state.health);
    replace(place, h("span", { class: `status-dot ${ill ? "bad" : "good"}` }), h("span", { class: "server-name" }, state.server_name), ill && h("a", { class: "badge bad", href: "#/", title: state.health.error }, state.health.status), h("span", { class: "server-detail" }, `${name} · ${state.address}${state.account ? ` · account ${state.account}` : ""}`));
  } else {
    replace(place, h("span", { class: "status-dot bad" }), h("span", { class: "server-name" }, state.problem || "not connected"));
  }
}

function applyTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function showShortcuts() {
  const keys = [["/", "Search on this page"], ["[ and ]", "Previous and next page of rows"], ["?", "This help"], ["Esc", "Close"],
    ...PAGES.map(([, title, letter]) => [`g ${letter}`, title])];
  dialog("Keyboard shortcuts", h("dl", { class: "fields" }, keys.map(([key, text]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)))));
}

let pressedG = 0;
function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && document.body.classList.contains("menu-open")) {
    setMenu(false);
    document.getElementById("menu").focus();
  }
  if (/^(input|textarea|select)$/i.test(event.target.tagName) || document.querySelector("dialog[open]")) return;
  if (Date.now() - pressedG < 1500) {
    pressedG = 0;
    const page = PAGES.find(([, , letter]) => letter === event.key);
    if (page) { event.preventDefault(); go(`#/${page[0]}`); }
    return;
  }
  if (event.key === "g") pressedG = Date.now();
  else if (event.key === "?") { event.preventDefault(); showShortcuts(); }
  else if (event.key === "/") { event.preventDefault(); main.querySelector("[data-search]")?.focus(); }
  else if (event.key === "[" || event.key === "]") main.querySelector(`[data-key="${event.key}"]:not(:disabled)`)?.click();
}

function follow() {
  events(() => "live", (sample) => {
    drawServer(sample);
    for (const callback of watchers) callback(sample);
  }, (state) => {
    if (state !== "open") drawServer({ connected: false, problem: "the dashboard does not answer" });
  });
}

async function start() {
  applyTheme(localStorage.getItem(THEME));
  document.getElementById("theme").addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    localStorage.setItem(THEME, theme);
    applyTheme(theme);
  });
  document.getElementById("help").addEventListener("click", showShortcuts);
  document.getElementById("logout").addEventListener("click", signOut);
  document.getElementById("menu").addEventListener("click", () => setMenu(!document.body.classList.contains("menu-open")));
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", () => show());
  try {
    await openSession();
  } catch (error) {
    replace(main, failure(error, () => location.reload()));
    return;
  }
  drawServer(session.deployment);
  replace(document.getElementById("mode"), session.writable ? "writable" : "read-only");
  document.getElementById("mode").classList.toggle("warn", session.writable);
  document.getElementById("logout").hidden = !session.signedIn;
  follow();
  await show({ keepFocus: true });
}

start();
