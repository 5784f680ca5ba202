// What pages are made of: heads, tables, pagers, and the states of something that is loaded.

import { h, replace, append } from "./dom.js";
import { count } from "./format.js";

export function pageHead(title, { crumbs = [], actions = [], note = "" } = {}) {
  document.title = `${title} · jetspark dashboard`;
  return h("div", { class: "page-head" },
    crumbs.length > 0 && h("nav", { class: "crumbs", "aria-label": "Breadcrumb" },
      h("ol", {}, crumbs.map(([text, href]) => h("li", {}, h("a", { href }, text))))),
    h("div", { class: "page-title" }, h("h1", {}, title), h("div", { class: "actions" }, actions)),
    note && h("p", { class: "note" }, note));
}

export function loading(text = "Loading…") {
  return h("div", { class: "state loading", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), text);
}

export function empty(title, text, ...more) {
  return h("div", { class: "state" }, h("p", { class: "state-title" }, title), text && h("p", {}, text), more);
}

export function failure(error, retry) {
  const kind = { 403: "denied", 501: "" }[error.status] ?? "error";
  return h("div", { class: `state ${kind}`, role: "alert" },
    h("p", { class: "state-title" }, title(error)),
    h("p", { class: "mono wrap" }, error.message), error.hint && h("p", {}, error.hint),
    retry && error.status !== 501 && h("p", {}, h("button", { type: "button", class: "button", onclick: retry }, "Try again")));
}

function title(error) {
  if (error.title) return error.title;
  switch (error.status) {
    case 0: return "The dashboard does not answer";
    case 401: return "Please sign in again";
    case 403: return "Permission denied";
    case 404: return "Not found";
    case 501: return "Not available here";
    case 503: return "Not connected";
    case 504: return "No answer in time";
    default: return error.status ? "That did not work" : "Something went wrong";
  }
}

// Whether a server reports that it does not work as it should.
export function isIll(health) {
  return Boolean(health?.status) && health.status !== "ok";
}

// A note about something that this deployment does not report, with how to get it.
export function missing(found, what) {
  return h("div", { class: "notice" }, h("p", {}, h("b", {}, `${what}: `), found.error, "."), found.hint && h("p", {}, found.hint));
}

// What passes by itself is tried again while the page is open: no one has to press a button when a
// server returns. One attempt at a time for each place, which may be loaded regularly anyway.
const TRANSIENT = [0, 502, 503, 504];
const AGAIN_MS = 3000;
const waiting = new WeakMap();

export function retryLater(place, error, retry) {
  clearTimeout(waiting.get(place));
  if (!TRANSIENT.includes(error.status)) return;
  waiting.set(place, setTimeout(() => { if (place.isConnected && !document.hidden) retry(); else if (place.isConnected) retryLater(place, error, retry); }, AGAIN_MS));
}

// Loads into `place`: the state while it waits, the failure, or what `show` makes of the answer.
export async function load(place, ask, show, { quiet = false } = {}) {
  const wait = quiet ? null : setTimeout(() => replace(place, loading()), 150);
  try {
    const found = await ask();
    clearTimeout(wait);
    replace(place, show(found));
  } catch (error) {
    clearTimeout(wait);
    if (error.name === "AbortError") return;
    replace(place, failure(error, () => load(place, ask, show)));
    if (error.status === undefined) console.error(error);
    retryLater(place, error, () => load(place, ask, show, { quiet: true }));
  }
}

// Loads again and again while the page is open, unless someone is using what is shown.
export function keepFresh(context, place, refresh, every = 5000) {
  const isUsed = () => document.hidden || place.contains(document.activeElement) || !getSelection().isCollapsed;
  const timer = setInterval(() => { if (!isUsed()) refresh(); }, every);
  context.onClose(() => clearInterval(timer));
}

// columns: {title, cell(row), number, wide, sort}; a row is a card on a phone.
export function table(caption, columns, rows, { rowClass } = {}) {
  return h("div", { class: "table-wrap", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map((one) => h("th", { scope: "col", class: one.number && "number" }, one.title)))),
      h("tbody", {}, rows.map((row) => tableRow(columns, row, rowClass)))));
}

export function tableRow(columns, row, rowClass) {
  return h("tr", { class: rowClass && rowClass(row) }, columns.map((one) => h("td", {
    class: [one.number && "number", one.wide && "wide", one.class].filter(Boolean).join(" ") || null, "data-label": one.title }, h("div", { class: "cell" }, one.cell(row)))));
}

export function pager({ from, to, total, previous, next, what = "rows" }) {
  const label = total === undefined ? "" : total === 0 ? `No ${what}` : `${count(from)}–${count(to)} of ${count(total)} ${what}`;
  return h("div", { class: "pager" }, h("span", { role: "status" }, label),
    h("span", { class: "pager-buttons" },
      h("button", { type: "button", class: "button", disabled: !previous, onclick: previous, "data-key": "[" }, "Previous"),
      h("button", { type: "button", class: "button", disabled: !next, onclick: next, "data-key": "]" }, "Next")));
}

export function stat(label, value, detail, { href, level } = {}) {
  const inside = [h("span", { class: "stat-label" }, label), h("span", { class: `stat-value ${level ?? ""}` }, value), detail && h("span", { class: "stat-detail" }, detail)];
  return href ? h("a", { class: "stat", href }, inside) : h("div", { class: "stat" }, inside);
}

export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

export function fields(rows) {
  return h("dl", { class: "fields" }, rows.filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// A search box that calls back when typing pauses.
export function search(label, value, onChange, placeholder = "") {
  let timer;
  const input = h("input", { type: "search", value, placeholder, "aria-label": label, autocomplete: "off", spellcheck: "false", "data-search": true,
    oninput: () => { clearTimeout(timer); timer = setTimeout(() => onChange(input.value.trim()), 200); } });
  return h("div", { class: "search" }, input);
}

export function tabs(label, items, current) {
  const place = h("nav", { class: "tabs", "aria-label": label },
    items.map(([key, text, href]) => h("a", { href, "aria-current": key === current ? "page" : null }, text)));
  // Where the tabs are wider than the screen, the current one is in sight.
  requestAnimationFrame(() => place.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }));
  return place;
}

export function toast(text, kind = "") {
  const place = document.getElementById("toast");
  replace(place, h("span", { class: kind }, text));
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => replace(place), 6000);
}

export function dialog(title, ...content) {
  const place = document.getElementById("dialog");
  replace(place, h("div", { class: "dialog-head" }, h("h2", { id: "dialog-title" }, title),
    h("button", { type: "button", class: "icon-button", "aria-label": "Close", onclick: () => place.close() }, "✕")));
  append(place, content);
  place.showModal();
  place.querySelector("input, textarea, select")?.focus();
  return place;
}

export function field(label, input, hint) {
  return h("label", { class: "field" }, h("span", {}, label), input, hint && h("small", {}, hint));
}
