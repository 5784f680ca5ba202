// Object stores: objects by their last change, with downloads.

import { h } from "../dom.js";
import { get, path, query } from "../api.js";
import { ago, bytes, count, dateTime } from "../format.js";
import { badge, empty, keepFresh, load, pageHead, pager, search, table } from "../parts.js";

const ROWS = 50;

export async function objectStores(context) {
  const place = h("div", {});
  let words = context.query.get("q") ?? "";
  let offset = 0;
  function refresh(quiet = false) {
    context.setQuery({ q: words });
    return load(place, () => get(`streams${query({ q: words, kind: "object", offset, limit: ROWS })}`), (found) => {
      if (!found.total) return words ? empty("No object store matches") : empty("No object stores yet", "Create one:", h("pre", { class: "payload" }, h("code", {}, "jetspark object add reports")));
      return [table("Object stores", [
        { title: "Store", cell: (row) => h("a", { class: "strong", href: path`#/objects/${row.name.slice(4)}` }, row.name.slice(4)), wide: true },
        { title: "Description", cell: (row) => row.description ?? "" }, { title: "Size", cell: (row) => bytes(row.bytes), number: true },
        { title: "Last change", cell: (row) => ago(row.last_time) }, { title: "State", cell: (row) => (row.sealed ? badge("sealed") : "") },
      ], found.rows), pager({ from: offset + 1, to: offset + found.rows.length, total: found.total, what: "object stores",
        previous: offset > 0 && (() => { offset -= ROWS; refresh(); }), next: offset + ROWS < found.total && (() => { offset += ROWS; refresh(); }) })];
    }, { quiet });
  }
  refresh();
  keepFresh(context, place, () => refresh(true));
  return [pageHead("Object stores"), h("div", { class: "tools" }, search("Search object stores by name", words, (text) => { words = text; offset = 0; refresh(); }, "Search by name")), place];
}

export async function objects(context) {
  const [, name] = context.parts;
  const place = h("div", {});
  let words = context.query.get("q") ?? "";
  let before = "";
  let back = [];
  function refresh(quiet = false) {
    context.setQuery({ q: words });
    return load(place, () => get(path`objects/${name}` + query({ q: words, before, limit: ROWS })), (found) => {
      if (!found.rows.length && found.is_complete) return empty(words ? "No object matches" : "No objects");
      return [table(`Objects of ${name}`, [
        { title: "Name", cell: (row) => h("span", { class: "strong wrap" }, row.name), wide: true }, { title: "Size", cell: (row) => bytes(row.size), number: true },
        { title: "Chunks", cell: (row) => count(row.chunks), number: true }, { title: "Changed", cell: (row) => h("span", { title: dateTime(row.time) }, ago(row.time)) },
        { title: "Description", cell: (row) => row.description },
        { title: "Content", cell: (row) => (row.link ? badge(`link to ${row.link}`) : h("a", { class: "button small", href: path`api/objects/${name}/download` + query({ name: row.name }), download: "", "aria-label": `Download ${row.name}` }, "Download")) },
      ], found.rows), h("div", { class: "pager" }, h("span", { role: "status" }, `${bytes(found.bytes)} stored`), h("span", { class: "pager-buttons" },
        h("button", { type: "button", class: "button", "data-key": "[", disabled: !back.length, onclick: () => { before = back.pop(); refresh(); } }, "Newer"),
        h("button", { type: "button", class: "button", "data-key": "]", disabled: !found.next, onclick: () => { back.push(before); before = String(found.next); refresh(); } }, "Older")))];
    }, { quiet });
  }
  refresh();
  keepFresh(context, place, () => { if (!words && !before) refresh(true); });
  return [pageHead(name, { crumbs: [["Objects", "#/objects"]] }), h("div", { class: "tools" }, search("Search objects by name", words, (text) => { words = text; before = ""; back = []; refresh(); }, "Search by name")), place];
}
