// Key-value buckets: keys by their last change, revisions, differences, and earlier times.

import { h, replace } from "../dom.js";
import { get, path, post, query } from "../api.js";
import { ago, bytes, count, counted, dateTime, duration, limit, plus } from "../format.js";
import { badge, dialog, empty, failure, field, keepFresh, load, loading, pageHead, pager, search, stat, table, toast } from "../parts.js";
import { differenceView, editable, payloadView, preview } from "../payload.js";
import { localValue } from "./streams.js";

const ROWS = 50;

export async function buckets(context) {
  const place = h("div", {});
  let words = context.query.get("q") ?? "";
  let offset = 0;
  function refresh(quiet = false) {
    context.setQuery({ q: words });
    return load(place, () => get(`streams${query({ q: words, kind: "kv", offset, limit: ROWS })}`), (found) => {
      if (!found.total) return words ? empty("No bucket matches") : empty("No buckets yet", "Create one:", h("pre", { class: "payload" }, h("code", {}, "jetspark kv add settings --history 10")));
      return [table("Buckets", [
        { title: "Bucket", cell: (row) => h("a", { class: "strong", href: path`#/kv/${row.name.slice(3)}` }, row.name.slice(3)), wide: true },
        { title: "Keys", cell: (row) => count(row.num_subjects), number: true }, { title: "Revisions", cell: (row) => count(row.messages), number: true },
        { title: "History", cell: (row) => limit(row.history, count), number: true }, { title: "Size", cell: (row) => bytes(row.bytes), number: true },
        { title: "Time to live", cell: (row) => (row.max_age ? duration(row.max_age) : "unlimited") }, { title: "Last change", cell: (row) => ago(row.last_time) },
      ], found.rows), pager({ from: offset + 1, to: offset + found.rows.length, total: found.total, what: "buckets",
        previous: offset > 0 && (() => { offset -= ROWS; refresh(); }), next: offset + ROWS < found.total && (() => { offset += ROWS; refresh(); }) })];
    }, { quiet });
  }
  refresh();
  keepFresh(context, place, () => refresh(true));
  return [pageHead("Key-value buckets"), h("div", { class: "tools" }, search("Search buckets by name", words, (text) => { words = text; offset = 0; refresh(); }, "Search by name")), place];
}

export async function bucket(context) {
  const [, name] = context.parts;
  const place = h("div", {});
  const where = { q: context.query.get("q") ?? "", time: context.query.get("time") ?? "", deleted: context.query.get("deleted") ?? "" };
  let turn = 0;
  let before = "";
  let asOf = "";
  let back = [];
  const time = h("input", { type: "datetime-local", step: 1, value: localValue(where.time), onchange: () => travel(time.value ? new Date(time.value).toISOString() : "") });
  const deleted = h("input", { type: "checkbox", checked: Boolean(where.deleted), onchange: () => { where.deleted = deleted.checked ? "1" : ""; restart(); } });
  const when = h("p", { class: "note", role: "status" });

  function travel(text) {
    where.time = text;
    time.value = localValue(text);
    restart();
  }
  function restart() {
    before = asOf = "";
    back = [];
    refresh();
  }
  function refresh(quiet = false) {
    context.setQuery(where);
    replace(when, where.time ? [h("b", {}, `The bucket as it was at ${dateTime(where.time)}. `), h("button", { type: "button", class: "link-button", onclick: () => travel("") }, "Back to now")] : "Keys by their last change, the newest first.");
    turn += 1;
    return load(place, () => gather(turn), show, { quiet });
  }
  // A search through many keys takes several requests; each is short, and the page shows how far it is.
  async function gather(mine) {
    const ask = (from, of) => get(path`kv/${name}/keys` + query({ ...where, before: from, as_of: of, limit: ROWS }));
    const found = await ask(before, asOf);
    while (mine === turn && !found.is_complete && found.rows.length < ROWS && found.next) {
      replace(place, loading(`Searched ${count(found.examined)} of ${count(found.last_seq)} revisions, found ${counted(found.rows.length, "key")}…`));
      const more = await ask(String(found.next), found.as_of ? String(found.as_of) : "");
      Object.assign(found, { rows: [...found.rows, ...more.rows], examined: plus(found.examined, more.examined), next: more.next, is_complete: more.is_complete });
    }
    if (mine !== turn) throw new DOMException("replaced by another search", "AbortError");
    return found;
  }
  function show(found) {
    if (!found.rows.length && found.is_complete) {
      if (where.time && found.history === 1) return empty("Nothing to show", "No key that still has its value was changed before this time. The bucket keeps one revision per key: what was overwritten since cannot be shown.");
      return where.q ? empty("No key matches", "A part of a key, or a pattern such as user.*.cart") : empty("No keys", found.last_seq ? "All keys were deleted." : "Nothing was stored yet.");
    }
    const searched = !found.is_complete || where.q;
    return [found.rows.length > 0 && table(`Keys of ${name}`, [
      { title: "Key", cell: (row) => h("a", { class: "mono wrap", href: path`#/kv/${name}/key/${row.key}` + query({ time: where.time }) }, row.key), wide: true },
      { title: "Value", cell: (row) => (row.operation === "PUT" ? preview(row) : badge(row.operation === "DEL" ? "deleted" : "purged", "warn")), class: "clip" },
      { title: "Size", cell: (row) => bytes(row.size), number: true }, { title: "Revision", cell: (row) => count(row.revision), number: true },
      { title: "Changed", cell: (row) => h("span", { title: dateTime(row.time) }, ago(row.time)) },
    ], found.rows), h("div", { class: "pager" }, h("span", { role: "status" }, `${counted(found.keys, "key")} in the bucket, deleted ones included${searched ? `, ${counted(found.examined, "revision")} examined here` : ""}`),
      h("span", { class: "pager-buttons" },
        h("button", { type: "button", class: "button", "data-key": "[", disabled: !back.length, onclick: () => { [before, asOf] = back.pop(); refresh(); } }, "Newer"),
        h("button", { type: "button", class: "button", "data-key": "]", disabled: !found.next, onclick: () => { back.push([before, asOf]); before = String(found.next); asOf = found.as_of ? String(found.as_of) : ""; refresh(); } }, found.rows.length < ROWS && found.next ? "Search further" : "Older")))];
  }
  const quick = (text, seconds) => h("button", { type: "button", class: "button small", onclick: () => travel(new Date(Date.now() - seconds * 1000).toISOString()) }, text);
  refresh();
  // A search reads much, and older pages and times do not change.
  keepFresh(context, place, () => { if (!where.q && !where.time && !before) refresh(true); });
  context.onClose(() => { turn += 1; });
  return [pageHead(name, { crumbs: [["Key-value", "#/kv"]], actions: context.session.writable ? [h("a", { class: "button", href: path`#/kv/${name}/key/` + "?new=1" }, "New key")] : [] }),
    h("div", { class: "tools" }, search("Search keys", where.q, (text) => { where.q = text; restart(); }, "Part of a key, or user.*.cart"),
      field("As it was at", time), h("div", { class: "button-row" }, quick("1 hour ago", 3600), quick("Yesterday", 86400)), h("label", { class: "check" }, deleted, " Deleted keys")), when, place];
}

export async function entry(context) {
  const [, name, , ...rest] = context.parts;
  const key = rest.join("/");
  const crumbs = [["Key-value", "#/kv"], [name, path`#/kv/${name}`]];
  if (!key) return newKey(name, crumbs, context);
  const at = context.query.get("time") ?? "";
  const found = await get(path`kv/${name}/entry` + query({ key, time: at }));
  const time = h("input", { type: "datetime-local", step: 1, value: localValue(at) });
  const travel = (text) => context.go(path`#/kv/${name}/key/${key}` + query({ time: text }));
  const form = h("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); travel(time.value ? new Date(time.value).toISOString() : ""); } },
    field("What was it at", time), h("button", { type: "submit", class: "button primary" }, "Show"),
    [["1 hour ago", 3600], ["Yesterday", 86400]].map(([text, seconds]) => h("button", { type: "button", class: "button", onclick: () => travel(new Date(Date.now() - seconds * 1000).toISOString()) }, text)),
    at && h("button", { type: "button", class: "button", onclick: () => travel("") }, "Now"));
  if (!found.revisions.length) return [pageHead(key, { crumbs }), form, empty("No such key", "It was never stored, or its history was removed.")];
  const [last] = found.revisions;
  const news = h("p", { class: "notice", role: "status", hidden: true });
  keepFresh(context, news, async () => {
    const fresh = await get(path`kv/${name}/entry` + query({ key })).catch((error) => ({ problem: error.message, revisions: [] }));
    news.hidden = fresh.revisions[0]?.revision === last.revision && fresh.created === found.created;
    if (fresh.problem) replace(news, h("b", {}, "The key cannot be read now: "), fresh.problem);
    else if (!news.hidden) replace(news, "The key has changed since. ", h("button", { type: "button", class: "link-button", onclick: () => context.go(path`#/kv/${name}/key/${key}` + query({ time: at })) }, "Show it as it is now"));
  });
  const chosen = at ? found.revisions.find((row) => row.revision === found.at) : last;
  return [pageHead(key, { crumbs, actions: context.session.writable ? writeButtons(name, key, last, context) : [] }), news, form, at && verdict(found, chosen, at),
    h("div", { class: "stats" }, stat("Revision", chosen ? count(chosen.revision) : "–", at ? "valid then" : "the last one"), stat("Changed", chosen ? ago(chosen.time) : "–", chosen ? dateTime(chosen.time) : ""),
      stat("Stored revisions", count(found.revisions.length), `the bucket keeps ${limit(found.history, count)}`), stat("State", chosen ? { PUT: "value", DEL: "deleted", PURGE: "purged" }[chosen.operation] : found.overwritten ? "unknown" : "none", at ? "at that time" : "")),
    chosen && h("section", { class: "card" }, h("h2", {}, at ? "Value at that time" : "Value"), chosen.operation === "PUT" ? payloadView(chosen, path`api/streams/${`KV_${name}`}/messages/${chosen.revision}/raw`) : h("p", { class: "muted" }, "The key was deleted.")),
    history(found.revisions)];
}

function verdict(found, chosen, at) {
  if (chosen) return h("p", { class: "notice" }, h("b", {}, `At ${dateTime(at)} `), chosen.operation === "PUT" ? `the key had revision ${count(chosen.revision)}, stored ${dateTime(chosen.time)}.` : "the key was deleted.");
  return h("p", { class: "notice" }, h("b", {}, `At ${dateTime(at)} `), found.overwritten
    ? `nothing is known: the oldest stored revision is newer. The bucket keeps ${limit(found.history, count)} per key; more: jetspark kv edit ${found.bucket} --history 64`
    : "the key did not exist.");
}

function history(rows) {
  const place = h("div", {});
  const select = (label, at) => h("select", { "aria-label": label, onchange: () => compare() }, rows.map((row, number) => h("option", { value: number, selected: number === at }, `${row.revision} · ${dateTime(row.time)}${row.operation === "PUT" ? "" : ` · ${row.operation}`}`)));
  const older = select("Older revision", Math.min(1, rows.length - 1));
  const newer = select("Newer revision", 0);
  function compare() {
    replace(place, differenceView(rows[older.value], rows[newer.value]));
  }
  if (rows.length > 1) compare();
  return h("section", { class: "card" }, h("h2", {}, "History"),
    rows.length > 1 && h("div", { class: "tools" }, field("Compare", older), field("With", newer)), rows.length > 1 && place,
    table("Revisions", [{ title: "Revision", cell: (row) => count(row.revision), number: true }, { title: "Changed", cell: (row) => dateTime(row.time), class: "nowrap" },
      { title: "Value", cell: (row) => (row.operation === "PUT" ? preview(row) : badge(row.operation === "DEL" ? "deleted" : "purged", "warn")), class: "clip", wide: true }, { title: "Size", cell: (row) => bytes(row.size), number: true }], rows));
}

function writeButtons(name, key, last, context) {
  const isValue = last.operation === "PUT";
  return [h("button", { type: "button", class: "button", onclick: () => edit(name, key, last, context) }, isValue ? "Edit…" : "Put…"),
    isValue && h("button", { type: "button", class: "button danger", onclick: async () => {
      try {
        await post("kv-delete", { bucket: name, key, revision: last.revision });
        toast(`${key} was deleted; its history remains.`);
        context.go(path`#/kv/${name}/key/${key}`);
      } catch (error) {
        toast(error.message, "bad");
      }
    } }, "Delete")];
}

function edit(name, key, last, context) {
  const value = last.operation === "PUT" ? editable(last) : "";
  const text = h("textarea", { rows: 12, spellcheck: "false", value: value ?? "" });
  const problem = h("div", {});
  const box = dialog(`Value of ${key}`, h("form", { class: "stack", onsubmit: async (event) => {
    event.preventDefault();
    try {
      const found = await post("kv-put", { bucket: name, key, data: text.value, revision: last.revision });
      box.close();
      toast(`Stored as revision ${count(found.revision)}.`);
      context.go(path`#/kv/${name}/key/${key}`);
    } catch (error) {
      replace(problem, failure(error));
    }
  } }, value === null && h("p", { class: "notice" }, h("b", {}, "The value cannot be edited here: "), "it is not text, has other ends of lines, or is too large. What you store replaces it as a whole."),
  field("Value", text, `Stored only if revision ${count(last.revision)} is still the last one.`), problem, h("div", { class: "button-row" }, h("button", { type: "submit", class: "button primary" }, "Store"))));
}

function newKey(name, crumbs, context) {
  const key = h("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false" });
  const text = h("textarea", { rows: 10, spellcheck: "false" });
  const problem = h("div", {});
  return [pageHead("New key", { crumbs }), h("form", { class: "card stack", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await post("kv-put", { bucket: name, key: key.value.trim(), data: text.value, revision: 0 });
      context.go(path`#/kv/${name}/key/${key.value.trim()}`);
    } catch (error) {
      replace(problem, failure(error));
    }
  } }, field("Key", key, "Letters, digits, and - _ = . /"), field("Value", text), problem, h("div", { class: "button-row" }, h("button", { type: "submit", class: "button primary" }, "Store")))];
}
