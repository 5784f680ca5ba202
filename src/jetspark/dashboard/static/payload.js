// Payloads: as text, JSON or bytes; and differences between two of them.

import { h, replace, newId } from "./dom.js";
import { bytes } from "./format.js";

const ROW = 16;
const HEX_MAX = 4096;
const LINES_MAX = 3000;
// Indenting what is nested deeper would make a small payload large.
const DEPTH_MAX = 100;

export function decode(base64) {
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) found[at] = text.charCodeAt(at);
  return found;
}

// The text of a payload; null if it is not text.
export function asText(data, truncated = false) {
  try {
    // A truncated payload may end within a character.
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data, { stream: truncated });
    // eslint-disable-next-line no-control-regex
    return /[\x00-\x08\x0e-\x1f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

// JSON with one value per line; null if the text is no object, list or string of JSON. The values
// stay as they were written: JSON.parse would round large numbers and sort keys that are numbers.
export function asJson(text) {
  if (text === null || !/^\s*[[{"]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const found = [];
  let depth = 0;
  let before = "";
  for (const [token] of text.matchAll(/"(?:\\.|[^"\\])*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    const isEmpty = closes && (before === "{" || before === "[");
    if (!isEmpty && (closes || before === "{" || before === "[" || before === ",")) found.push("\n", "  ".repeat(depth));
    found.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth += 1;
    if (depth > DEPTH_MAX) return null;
    before = token;
  }
  return found.join("");
}

export function preview(row) {
  if (!row.size) return h("span", { class: "muted" }, "empty");
  const data = decode(row.data);
  const text = asText(data.subarray(0, 300), true);
  if (text !== null) return h("span", { class: "preview mono" }, text.replace(/\s+/g, " "));
  return h("span", { class: "preview mono muted" }, hexBytes(data.subarray(0, 24)), row.size > 24 ? " …" : "");
}

function hexBytes(data) {
  return [...data].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

function hexDump(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, HEX_MAX); at += ROW) {
    const part = data.subarray(at, at + ROW);
    const letters = [...part].map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hexBytes(part).padEnd(ROW * 3)} ${letters}`);
  }
  if (data.length > HEX_MAX) lines.push(`… ${bytes(data.length - HEX_MAX)} more`);
  return lines.join("\n");
}

// JSON with its parts in colours: strings of keys, values, numbers and words.
export function coloured(text) {
  const found = [];
  const pattern = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > end) found.push(text.slice(end, match.index));
    const kind = match[1] ? (match[2] ? "j-key" : "j-text") : match[3] ? "j-word" : "j-number";
    found.push(h("span", { class: kind }, match[1] ?? match[0]), match[2] ?? "");
    end = match.index + match[0].length;
  }
  found.push(text.slice(end));
  return found;
}

// The payload of a row with a choice of views, headers, and what else the caller adds.
export function payloadView(row, download) {
  const data = decode(row.data);
  const text = asText(data, row.truncated);
  const json = row.truncated ? null : asJson(text);
  const views = [];
  if (json !== null) views.push(["JSON", () => h("code", {}, coloured(json))]);
  if (text !== null) views.push(["Text", () => h("code", {}, text)]);
  views.push(["Hex", () => h("code", {}, hexDump(data))]);
  const place = h("pre", { class: "payload", tabindex: 0, role: "region", "aria-label": "Payload" });
  const name = newId("view");
  const choice = h("fieldset", { class: "segments" }, h("legend", { class: "hidden" }, "View"),
    views.map(([label, make], at) => h("label", {},
      h("input", { type: "radio", name, checked: at === 0, onchange: () => replace(place, make()) }), h("span", {}, label))));
  replace(place, row.size ? views[0][1]() : h("span", { class: "muted" }, "empty payload"));
  return h("div", { class: "payload-view" },
    h("div", { class: "payload-head" }, choice,
      h("span", { class: "muted" }, bytes(row.size), row.truncated && `, the first ${bytes(data.length)} are shown`),
      download && h("a", { class: "button small", href: download, download: "" }, "Download"),
      text !== null && navigator.clipboard && h("button", { type: "button", class: "button small", onclick: (event) => copy(event.target, text) }, "Copy")),
    place);
}

async function copy(button, text) {
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

export function headersView(headers) {
  if (!headers.length) return null;
  return h("dl", { class: "headers" }, headers.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { class: "mono wrap" }, value))));
}

// Lines of two texts: removed, added, or in both. Longest common subsequence.
export function difference(before, after) {
  const a = lines(before);
  const b = lines(after);
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const found = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { found.push([" ", a[i]]); i += 1; j += 1; }
    else if (j < b.length && (i === a.length || table[i][j + 1] > table[i + 1][j])) { found.push(["+", b[j]]); j += 1; }
    else { found.push(["-", a[i]]); i += 1; }
  }
  return found;
}

function lines(text) {
  const found = text === "" ? [] : text.split("\n");
  return found.length > LINES_MAX ? [...found.slice(0, LINES_MAX), `… ${found.length - LINES_MAX} more lines`] : found;
}

// What a row is compared as: indented JSON, text, or a hex dump.
function comparable(row) {
  if (row.operation && row.operation !== "PUT") return "";
  const data = decode(row.data);
  const text = asText(data, row.truncated);
  return (row.truncated ? null : asJson(text)) ?? text ?? hexDump(data);
}

// The exact text of a row that a form can change; null if it would not survive that.
export function editable(row) {
  if (row.truncated) return null;
  const text = asText(decode(row.data));
  // Forms replace these ends of lines.
  return text === null || text.includes("\r") ? null : text;
}

export function differenceView(before, after) {
  const found = difference(comparable(before), comparable(after));
  if (found.every(([sign]) => sign === " ")) return h("p", { class: "muted" }, sameness(before, after));
  const words = { "+": "added", "-": "removed", " ": "" };
  return [(before.truncated || after.truncated) && h("p", { class: "note" }, partial(before, after)),
    h("pre", { class: "payload diff", tabindex: 0, role: "region", "aria-label": "Difference" },
      found.map(([sign, text]) => h("span", { class: { "+": "plus", "-": "minus" }[sign] ?? "same" },
        h("span", { class: "hidden" }, words[sign] && `${words[sign]}: `), `${sign} ${text}\n`)))];
}

// What is known of two rows without a line that differs.
function sameness(before, after) {
  if (before.operation !== after.operation) return "One of them deleted the key, the other stored an empty value.";
  if (before.data !== after.data) return "They differ, but not in the lines that are compared here: blanks of JSON, or what follows the first lines. Look at both.";
  if (before.size !== after.size) return `They differ: one has ${bytes(before.size)}, the other ${bytes(after.size)}. ${partial(before, after)}`;
  return before.truncated ? `No difference so far. ${partial(before, after)}` : "Both revisions have the same value.";
}

function partial(before, after) {
  const shown = Math.min(...[before, after].filter((row) => row.truncated).map((row) => decode(row.data).length));
  return `Only the first ${bytes(shown)} are compared.`;
}
