// The server: connections and slow consumers; its store, and batches in flight.

import { h } from "../dom.js";
import { get, query } from "../api.js";
import { ago, bytes, count, dateTime, duration } from "../format.js";
import { bars } from "../plot.js";
import { badge, empty, keepFresh, load, pageHead, pager, stat, table, tabs } from "../parts.js";

const ROWS = 50;

export async function connections(context) {
  const state = context.query.get("state") === "closed" ? "closed" : "open";
  const place = h("div", {});
  let sort = context.query.get("sort") ?? "cid";
  let offset = 0;
  const choice = h("select", { "aria-label": "Order", onchange: () => { sort = choice.value; offset = 0; refresh(); } },
    [["cid", "by number"], ["pending", "most unread output"], ["subs", "most subscriptions"], ["msgs_to", "most messages received"], ["msgs_from", "most messages sent"], ["bytes_to", "most bytes received"], ["bytes_from", "most bytes sent"]]
      .map(([value, text]) => h("option", { value, selected: value === sort }, text)));

  function refresh(quiet = false) {
    context.setQuery({ state: state === "closed" ? state : "", sort: sort === "cid" ? "" : sort });
    return load(place, () => get(`connections${query({ state, sort, offset, limit: ROWS })}`), (found) => {
      const slow = found.slow_consumers;
      const head = h("div", { class: "stats" }, stat(state === "open" ? "Connections" : "Closed connections", count(found.total), found.max_connections ? `at most ${count(found.max_connections)}` : ""),
        stat("Slow consumers", count(slow), "disconnected since the start", { level: slow ? "warn" : "good" }), stat("Unread output", bytes(found.max_pending), "a client with more is disconnected"), stat("Stale", count(found.stale_connections), "did not answer a ping"));
      if (!found.rows.length) return [head, empty("No connections")];
      return [head, table("Connections", [
        { title: "Client", cell: (row) => [h("span", { class: "strong" }, row.name || "unnamed"), h("span", { class: "muted block" }, `${row.ip}:${row.port} · ${row.lang ?? ""} ${row.version ?? ""}`)], wide: true },
        { title: "Number", cell: (row) => count(row.cid), number: true }, { title: "User", cell: (row) => [row.authorized_user, row.account].filter(Boolean).join(" · ") },
        { title: "Subscriptions", cell: (row) => count(row.subscriptions), number: true }, { title: "Unread", cell: (row) => unread(row, found.max_pending), number: true },
        { title: "Received", cell: (row) => traffic(row.out_msgs, row.out_bytes), number: true }, { title: "Sent", cell: (row) => traffic(row.in_msgs, row.in_bytes), number: true },
        state === "open" ? { title: "Round trip", cell: (row) => rounded(row.rtt), number: true } : { title: "Reason", cell: (row) => badge(row.reason ?? "", /slow|violation|error|exceed|fail/i.test(row.reason ?? "") ? "bad" : "") },
        { title: state === "open" ? "Connected" : "Closed", cell: (row) => h("span", { title: dateTime(row.stop ?? row.start) }, state === "open" ? row.uptime : ago(row.stop)) },
      ], found.rows), pager({ from: offset + 1, to: offset + found.rows.length, total: found.total, what: "connections",
        previous: offset > 0 && (() => { offset -= ROWS; refresh(); }), next: offset + ROWS < found.total && (() => { offset += ROWS; refresh(); }) })];
    }, { quiet });
  }
  refresh();
  keepFresh(context, place, () => refresh(true), 3000);
  return [pageHead("Connections"), tabs("Connections", [["open", "Open", "#/connections"], ["closed", "Closed, with reason", "#/connections?state=closed"]], state), h("div", { class: "tools" }, choice), place];
}

function unread(row, most) {
  const size = row.pending_bytes ?? 0;
  return h("span", { class: most && size > most / 2 ? "bad" : size > 0 ? "warn" : "" }, bytes(size));
}

// A duration as servers write it, 30.959287ms, with the digits that mean something.
function rounded(text) {
  return (text ?? "").replace(/^(\d+\.\d+)(\D+)$/, (_, number, unit) => `${Number(Number(number).toPrecision(3))} ${unit}`);
}

function traffic(messages, size) {
  return [count(messages), h("span", { class: "muted block" }, bytes(size ?? 0))];
}

export async function store(context) {
  const place = h("div", {});
  const open = h("div", {});
  let offset = 0;
  function refresh(quiet = false) {
    load(open, () => get("batches"), showBatches, { quiet });
    return load(place, () => get(`store${query({ offset, limit: ROWS })}`), (found) => showStore(found, offset, (by) => { offset = Math.max(0, offset + by); refresh(); }), { quiet });
  }
  refresh();
  keepFresh(context, place, () => refresh(true), 3000);
  return [pageHead("Store"), place, h("section", { class: "stack" }, h("h2", {}, "Batches in flight"), open)];
}

function showStore(found, offset, move) {
  const commits = found.commits ?? {};
  const total = found.streams_total ?? found.streams.length;
  const bad = found.streams.filter((row) => row.lost_messages || row.uncounted_places || row.read_only || row.write_error || row.read_error);
  return [
    h("div", { class: "stats" },
      stat("Durability", found.durability || "–", "what an acknowledgement means"), stat("Syncs", count(commits.groups), commits.messages_per_group ? `${commits.messages_per_group} messages each` : ""),
      stat("Half of them within", duration(commits.duration_p50_ns), `99 of 100 within ${duration(commits.duration_p99_ns)}`), stat("Slowest", duration(commits.duration_max_ns), "since the start"),
      stat("Errors", count(commits.errors), `${count(commits.no_space ?? 0)} for lack of space`, { level: commits.errors ? "bad" : "good" }),
      stat("Lost streams", count((found.lost_streams ?? []).length), "could not be opened", { level: (found.lost_streams ?? []).length ? "bad" : "good" })),
    (found.lost_streams ?? []).map((one) => h("p", { class: "notice bad" }, h("b", {}, `${one.account} ${one.stream}: `), one.reason)),
    commits.durations?.some((one) => one.count) && h("section", { class: "card" }, h("h2", {}, "How long syncs took"), bars("How long syncs took", commits.durations.filter((one) => one.count).map((one) => ({ label: one.le_ns ? `≤ ${duration(one.le_ns)}` : "longer", value: one.count, shown: count(one.count) })))),
    bad.length > 0 && h("p", { class: "notice bad" }, `${bad.length === 1 ? "A stream" : `${bad.length} streams`} on this page ${bad.length === 1 ? "needs" : "need"} attention.`),
    found.streams.length ? table("Streams on disk", [
      { title: "Stream", cell: (row) => [h("span", { class: "strong" }, row.stream), h("span", { class: "muted block" }, row.account)], wide: true }, { title: "Durability", cell: (row) => row.durability ?? row.kind },
      { title: "Messages", cell: (row) => count(row.messages), number: true }, { title: "Segments", cell: (row) => count(row.segments), number: true }, { title: "On disk", cell: (row) => bytes(row.file_bytes), number: true },
      { title: "Cache", cell: (row) => bytes(row.cache_bytes), number: true }, { title: "Verified", cell: (row) => (row.scrubbed ? ago(row.scrubbed) : "not yet") },
      { title: "Quarantine", cell: (row) => (row.quarantined_bytes ? h("span", { class: "bad" }, bytes(row.quarantined_bytes)) : "none") }, { title: "State", cell: health },
    ], found.streams) : empty("No streams"),
    pager({ from: offset + 1, to: offset + found.streams.length, total, what: "streams", previous: offset > 0 && (() => move(-ROWS)), next: offset + found.streams.length < total && (() => move(ROWS)) })];
}

function health(row) {
  if (row.lost_messages) return badge(`${count(row.lost_messages)} lost`, "bad");
  if (row.uncounted_places) return badge("parts missing", "bad");
  if (row.write_error || row.read_error) return h("span", { class: "bad" }, row.write_error || row.read_error);
  return row.read_only ? badge("read-only", "bad") : badge("ok", "good");
}

function showBatches(found) {
  if (!found.rows.length) return h("p", { class: "muted" }, "None: every batch was committed or abandoned.");
  return [table("Batches in flight", [
    { title: "Batch", cell: (row) => h("span", { class: "mono wrap" }, row.id), wide: true }, { title: "Kind", cell: (row) => badge(row.kind) }, { title: "Stream", cell: (row) => row.stream },
    { title: "Messages", cell: (row) => count(row.messages), number: true }, { title: "Size", cell: (row) => (row.bytes === undefined ? "" : bytes(row.bytes)), number: true }, { title: "Idle for", cell: (row) => duration(row.idle_ns), number: true },
  ], found.rows), found.total > found.rows.length && h("p", { class: "note" }, `The first ${count(found.rows.length)} of ${count(found.total)}.`)];
}
