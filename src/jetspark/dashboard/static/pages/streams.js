// Streams: the list, and one of them with its messages, subjects, consumers and configuration.

import { h, replace } from "../dom.js";
import { events, get, jsonText, path, post, query } from "../api.js";
import { ago, bytes, count, counted, dateTime, duration, limit, minus, percent, plus, typedNumber } from "../format.js";
import { meter } from "../plot.js";
import { badge, dialog, empty, failure, field, fields, keepFresh, load, pageHead, pager, search, stat, table, tabs, toast } from "../parts.js";
import { headersView, payloadView, preview } from "../payload.js";
import { consumerTable } from "./consumers.js";

const ROWS = 50;

export function streamHref(name, tab = "", extra = "") {
  return path`#/streams/${name}` + (tab ? `/${tab}` : "") + extra;
}

export async function streams(context) {
  const { query: given, setQuery } = context;
  const place = h("div", {});
  let words = given.get("q") ?? "";
  let kind = given.get("kind") ?? "stream";
  let offset = Number(given.get("offset") ?? 0);

  function refresh(quiet = false) {
    setQuery({ q: words, kind: kind === "stream" ? "" : kind, offset });
    return load(place, () => get(`streams${query({ q: words, kind: kind === "all" ? "" : kind, offset, limit: ROWS })}`), show, { quiet });
  }

  function show(found) {
    if (!found.all) return empty("No streams yet", "Create one:", h("pre", { class: "payload" }, h("code", {}, "jetspark stream add ORDERS --subjects 'orders.>'")));
    if (!found.total) return empty("No stream matches", kind === "all" ? "Try another word." : "Buckets and object stores are under \"All\".");
    return [table("Streams", [
      { title: "Name", cell: (row) => h("a", { href: streamHref(row.name), class: "strong" }, row.name), wide: true },
      { title: "Subjects", cell: subjectsOf, class: "clip" },
      { title: "Messages", cell: (row) => count(row.messages), number: true },
      { title: "Size", cell: (row) => bytes(row.bytes), number: true },
      { title: "Consumers", cell: (row) => count(row.consumers), number: true },
      { title: "Last message", cell: (row) => h("span", { title: dateTime(row.last_time) }, ago(row.last_time)) },
      { title: "Kind", cell: kinds },
    ], found.rows), pager({
      from: found.offset + 1, to: found.offset + found.rows.length, total: found.total, what: "streams",
      previous: found.offset > 0 && (() => { offset = Math.max(0, offset - ROWS); refresh(); }),
      next: found.offset + found.rows.length < found.total && (() => { offset += ROWS; refresh(); }) })];
  }

  const choice = h("select", { "aria-label": "Kind", onchange: () => { kind = choice.value; offset = 0; refresh(); } },
    [["stream", "Streams"], ["all", "All"], ["kv", "Buckets"], ["object", "Object stores"]].map(([value, text]) => h("option", { value, selected: value === kind }, text)));
  refresh();
  keepFresh(context, place, () => refresh(true));
  return [pageHead("Streams"), h("div", { class: "tools" },
    search("Search streams by name", words, (text) => { words = text; offset = 0; refresh(); }, "Search by name"), choice), place];
}

function subjectsOf(row) {
  if (row.problem) return h("span", { class: "bad" }, row.problem);
  if (row.mirror) return h("span", { class: "muted" }, `mirror of ${row.mirror}`);
  const more = row.subjects_more ? ` and ${row.subjects_more} more` : "";
  return h("span", { class: "mono" }, (row.subjects ?? []).join(", ") + more);
}

function kinds(row) {
  if (row.problem) return "";
  return h("span", { class: "badges" }, row.retention !== "limits" && badge(row.retention === "workqueue" ? "work queue" : row.retention), row.storage === "memory" && badge("memory"),
    row.replicas > 1 && badge(`R${row.replicas}`), row.mirror && badge("mirror"), row.sources > 0 && badge(`${row.sources} sources`), row.sealed && badge("sealed"), row.lost > 0 && badge("lost data", "bad"),
    row.retention === "limits" && row.storage === "file" && row.replicas === 1 && !row.mirror && h("span", { class: "muted" }, "file"));
}

export async function stream(context) {
  const [, name, tab = "messages"] = context.parts;
  const found = await get(path`streams/${name}`);
  const { config, state } = found.info;
  const head = pageHead(name, { crumbs: [["Streams", "#/streams"]], note: config.description, actions: context.session.writable && tab === "messages" ? [h("button", { type: "button", class: "button", onclick: () => purge(name, context) }, "Purge…")] : [] });
  const facts = h("div", { class: "stats" }, statsOf(config, state));
  const bar = tabs("Stream", [["messages", "Messages", streamHref(name)], ["subjects", "Subjects", streamHref(name, "subjects")],
    ["consumers", `Consumers (${count(state.consumer_count)})`, streamHref(name, "consumers")], ["config", "Configuration", streamHref(name, "config")]], tab);
  const noLeader = found.info.cluster?.name && !found.info.cluster.leader && h("p", { class: "notice bad", role: "alert" }, h("b", {}, "The stream has no leader: "), "too few of its replicas are up. Nothing is stored or delivered, and numbers may be old.");
  const place = h("div", {});
  const show = { messages, subjects, consumers, config: configuration }[tab];
  if (!show) throw new Error(`there is no page ${tab} of a stream`);
  let onFresh = null;
  const timer = setInterval(async () => {
    if (document.hidden) return;
    try {
      const fresh = await get(path`streams/${name}`);
      replace(facts, statsOf(fresh.info.config, fresh.info.state));
      onFresh?.(fresh.info);
    } catch (error) {
      replace(facts, failure(error));
    }
  }, 3000);
  context.onClose(() => clearInterval(timer));
  onFresh = show(context, place, name, found.info);
  return [head, noLeader, facts, bar, place];
}

function statsOf(config, state) {
  return [
    stat("Messages", count(state.messages), config.max_msgs > 0 ? `of ${count(config.max_msgs)}` : "no limit"),
    stat("Size", bytes(state.bytes), config.max_bytes > 0 ? `of ${bytes(config.max_bytes)}` : "no limit"),
    stat("Sequences", state.messages ? `${count(state.first_seq)}–${count(state.last_seq)}` : count(state.last_seq), state.num_deleted ? `${count(state.num_deleted)} deleted between` : "none deleted between"),
    stat("Subjects", count(state.num_subjects ?? 0), ""),
    stat("Last message", ago(state.last_ts), dateTime(state.last_ts)),
  ];
}

// Messages -------------------------------------------------------------------------------------

function messages(context, place, name, info) {
  const { query: given, setQuery, onClose } = context;
  const where = { filter: given.get("filter") ?? "", from: typedNumber(given.get("from") ?? ""), time: given.get("time") ?? "", before: "" };
  let back = [];
  let tail = null;
  const rows = h("div", {});
  const news = h("p", { class: "note", role: "status", hidden: true });
  // What the rows were read from, and the newest that is known of the stream.
  let basis = info;
  let latest = info;
  const filter = h("input", { type: "text", value: where.filter, placeholder: config0(info), "data-search": true, spellcheck: "false", autocomplete: "off" });
  const from = h("input", { type: "text", inputmode: "numeric", pattern: "[0-9,. ]*", value: where.from, placeholder: "newest" });
  const time = h("input", { type: "datetime-local", step: 1, value: localValue(where.time) });
  const live = h("button", { type: "button", class: "button", "aria-pressed": "false", onclick: () => (tail ? stopTail() : startTail()) }, "Live tail");

  function refresh() {
    setQuery({ filter: where.filter, from: where.from, time: where.time });
    return load(rows, () => get(path`streams/${name}/messages` + query({ ...where, limit: ROWS })), (found) => { news.hidden = true; basis = { created: latest.created, state: { last_seq: found.last_seq } }; return showRows(found); });
  }

  // Rows stay where they are while someone reads them; the page says that there are others.
  function onFresh(fresh) {
    latest = fresh;
    const isOther = fresh.created !== basis.created;
    const more = minus(fresh.state.last_seq, basis.state.last_seq);
    news.hidden = Boolean(tail) || where.from !== "" || where.time !== "" || (!isOther && more <= 0);
    if (!news.hidden) replace(news, isOther ? "The stream was deleted and created again since. " : `${count(more)} newer ${more === 1 ? "message" : "messages"} since. `, h("button", { type: "button", class: "link-button", onclick: () => { where.before = ""; back = []; refresh(); } }, "Show the newest"));
  }

  function showRows(found) {
    if (!found.messages) return empty("No messages", found.last_seq ? "All messages were deleted, expired or acknowledged." : "Nothing was stored yet.");
    if (!found.rows.length && found.is_complete) return empty("No message matches", where.time ? "There is none at or after this time." : "Try another subject or sequence.");
    const forwards = Boolean(where.from || where.time);
    const first = found.rows[0]?.seq;
    const last = found.rows[found.rows.length - 1]?.seq;
    const text = found.rows.length ? `${forwards ? "From" : "Newest first:"} ${count(first)} to ${count(last)}` : `Looked at ${counted(found.examined, "message")} so far`;
    return [messageTable(found.rows, name, context), h("div", { class: "pager" }, h("span", { role: "status" }, text),
      h("span", { class: "pager-buttons" },
        h("button", { type: "button", class: "button", disabled: !back.length, "data-key": "[", onclick: () => { Object.assign(where, back.pop()); refresh(); } }, forwards ? "Earlier" : "Newer"),
        h("button", { type: "button", class: "button", disabled: !found.next, "data-key": "]", onclick: () => {
          back.push({ ...where });
          if (forwards) Object.assign(where, { from: String(found.next), time: "" });
          else where.before = String(found.next);
          refresh();
        } }, forwards ? "Later" : "Older")))];
  }

  function startTail() {
    live.setAttribute("aria-pressed", "true");
    live.textContent = "Stop tail";
    const list = h("div", {});
    const status = h("p", { class: "note", role: "status" }, "Connecting…");
    let shown = [];
    let skipped = 0;
    let isCut = false;
    replace(rows, status, list);
    let after = "";
    tail = events(() => path`streams/${name}/tail` + query({ filter: where.filter, after }), (event) => {
      after = event.position ?? after;
      if (event.problem) replace(status, h("span", { class: "bad" }, event.problem.error));
      if (event.position && !event.rows) replace(status, "Waiting for new messages…");
      if (!event.rows) return;
      skipped = plus(skipped, event.skipped);
      isCut ||= event.is_cut;
      shown = [...event.rows.reverse(), ...shown].slice(0, 200);
      replace(status, `Live: the newest ${count(shown.length)} messages`, isCut ? `, ${skipped ? count(skipped) : "others"} came too fast to be shown` : "", ".");
      replace(list, messageTable(shown, name, context));
    });
  }

  function stopTail() {
    tail?.close();
    tail = null;
    live.setAttribute("aria-pressed", "false");
    live.textContent = "Live tail";
    refresh();
  }

  function apply(event) {
    event?.preventDefault();
    Object.assign(where, { filter: filter.value.trim(), from: typedNumber(from.value), time: time.value ? new Date(time.value).toISOString() : "", before: "" });
    back = [];
    if (tail) stopTail();
    else refresh();
  }
  from.addEventListener("input", () => { time.value = ""; });
  time.addEventListener("input", () => { from.value = ""; });
  onClose(() => tail?.close());
  const form = h("form", { class: "tools", onsubmit: apply },
    field("Subject", filter), field("From sequence", from), field("From time", time),
    h("button", { type: "submit", class: "button primary" }, "Show"),
    h("button", { type: "button", class: "button", onclick: () => { filter.value = from.value = time.value = ""; apply(); } }, "Newest"), live);
  const note = info.config.retention === "workqueue" && h("p", { class: "note" }, "A work queue: looking at messages here does not take them from its workers.");
  replace(place, form, note, news, rows);
  refresh();
  return onFresh;
}

function config0(info) {
  return info.config.subjects?.[0] ?? ">";
}

export function localValue(text) {
  if (!text) return "";
  const time = new Date(text);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

function messageTable(rows, name, context) {
  const columns = ["Sequence", "Time", "Subject", "Size", "Payload"];
  const body = h("tbody", {}, rows.map((row) => messageRow(row, name, context)));
  return h("div", { class: "table-wrap", tabindex: 0, role: "region", "aria-label": "Messages" },
    h("table", { class: "messages" }, h("caption", { class: "hidden" }, "Messages"),
      h("thead", {}, h("tr", {}, columns.map((title) => h("th", { scope: "col", class: ["Sequence", "Size"].includes(title) && "number" }, title)))), body));
}

function messageRow(row, name, context) {
  const toggle = h("button", { type: "button", class: "link-button", "aria-expanded": "false" }, count(row.seq));
  const line = h("tr", { class: "message" },
    h("td", { class: "number", "data-label": "Sequence" }, h("div", { class: "cell" }, toggle)),
    h("td", { "data-label": "Time", class: "nowrap" }, h("div", { class: "cell" }, h("span", { title: row.time }, dateTime(row.time)))),
    h("td", { "data-label": "Subject", class: "mono wrap" }, h("div", { class: "cell" }, row.subject)),
    h("td", { "data-label": "Size", class: "number nowrap" }, h("div", { class: "cell" }, bytes(row.size))),
    h("td", { "data-label": "Payload", class: "clip" }, h("div", { class: "cell" }, preview(row))));
  let detail = null;
  function close() {
    detail.remove();
    detail = null;
  }
  function onEscape(event) {
    if (event.key !== "Escape" || !detail) return;
    close();
    toggle.setAttribute("aria-expanded", "false");
    toggle.focus();
  }
  toggle.addEventListener("keydown", onEscape);
  line.addEventListener("click", (event) => {
    if (event.target.closest("a") || getSelection().toString()) return;
    if (detail) {
      close();
    } else {
      detail = h("tr", { class: "detail", onkeydown: onEscape }, h("td", { colspan: 5 }, messageDetail(row, name, context)));
      line.after(detail);
    }
    toggle.setAttribute("aria-expanded", String(Boolean(detail)));
  });
  return line;
}

function messageDetail(row, name, context) {
  const verdicts = h("div", {});
  const why = h("button", { type: "button", class: "button small", onclick: () => explainAll(verdicts, name, row.seq) }, "Who got it? Why not?");
  const remove = context.session.writable && h("button", { type: "button", class: "button small danger", onclick: () => deleteMessage(name, row.seq) }, "Delete…");
  const view = h("div", {}, payloadView(row, path`api/streams/${name}/messages/${row.seq}/raw`));
  if (row.truncated) load(view, () => get(path`streams/${name}/messages/${row.seq}`), (whole) => payloadView(whole, path`api/streams/${name}/messages/${row.seq}/raw`));
  return h("div", { class: "message-detail" }, headersView(row.headers), view, h("div", { class: "button-row" }, why, remove), verdicts);
}

async function explainAll(place, name, seq) {
  await load(place, async () => {
    const listed = await get(path`streams/${name}/consumers` + query({ limit: 20 }));
    const verdicts = await Promise.all(listed.rows.map(async (one) => {
      try {
        return await get(path`streams/${name}/consumers/${one.name}/explain` + query({ seq }));
      } catch (error) {
        return { reason: "unknown", text: error.message };
      }
    }));
    return { listed, verdicts };
  }, ({ listed, verdicts }) => {
    if (!listed.total) return empty("No consumers", "This stream has no consumer: its messages are read by no one who is tracked.");
    return [unreadNote(listed), table(`What consumers did with message ${seq}`, [
      { title: "Consumer", cell: (row) => h("a", { href: streamHref(name, path`consumers/${row.name}`, query({ seq })) }, row.name) },
      { title: "State", cell: (row) => badge(reasonText(row.verdict.reason), reasonKind(row.verdict.reason)) },
      { title: "Reason", cell: (row) => row.verdict.text, wide: true },
    ], listed.rows.map((row, at) => ({ name: row.name, verdict: verdicts[at] }))), listed.total > listed.rows.length && h("p", { class: "note" }, `The first ${listed.rows.length} of ${count(listed.total)} consumers.`)];
  });
}

export function reasonText(reason) {
  return reason.replaceAll("_", " ");
}

export function reasonKind(reason) {
  if (["acknowledged", "deliverable", "nothing_pending"].includes(reason)) return "good";
  if (["max_deliver", "not_stored", "no_pull_waiting", "not_bound", "max_ack_pending"].includes(reason)) return "bad";
  return "warn";
}

function deleteMessage(name, seq) {
  const box = dialog("Delete a message", h("p", {}, `Message ${count(seq)} of ${name} is deleted for all consumers. This cannot be undone.`),
    h("div", { class: "button-row" }, h("button", { type: "button", class: "button danger", onclick: async () => {
      try {
        await post("message-delete", { stream: name, seq });
        box.close();
        toast(`Message ${count(seq)} was deleted.`);
      } catch (error) {
        box.append(failure(error));
      }
    } }, "Delete"), h("button", { type: "button", class: "button", onclick: () => box.close() }, "Cancel")));
}

function purge(name, context) {
  const confirm = h("input", { type: "text", autocomplete: "off" });
  const subject = h("input", { type: "text", autocomplete: "off", placeholder: "all" });
  const before = h("input", { type: "text", inputmode: "numeric", pattern: "[0-9,. ]*", autocomplete: "off", placeholder: "all" });
  const problem = h("div", {});
  const box = dialog("Purge messages", h("form", { class: "stack", onsubmit: async (event) => {
    event.preventDefault();
    try {
      const found = await post("purge", { stream: name, confirm: confirm.value, subject: subject.value.trim(), before: typedNumber(before.value) || "0" });
      box.close();
      toast(`${counted(found.purged, "message")} removed.`);
      context.go(streamHref(name));
    } catch (error) {
      replace(problem, failure(error));
    }
  } }, h("p", {}, "Removes the messages of the stream for all consumers. This cannot be undone."), field("Only this subject", subject), field("Only before this sequence", before), field(`Type ${name} to confirm`, confirm), problem,
  h("div", { class: "button-row" }, h("button", { type: "submit", class: "button danger" }, "Purge"))));
}

// The other tabs -------------------------------------------------------------------------------

function subjects(context, place, name) {
  const rows = h("div", {});
  let filter = context.query.get("filter") ?? "";
  function refresh() {
    context.setQuery({ filter });
    return load(rows, () => get(path`streams/${name}/subjects` + query({ filter })), (found) => {
      if (!found.rows.length) return empty("No subject matches");
      const most = found.rows[0].messages;
      if (!found.is_counted) {
        return [h("p", { class: "note" }, `The stream has ${counted(found.total, "subject")}. These are the ones of the newest messages; type a pattern to find others.`), table("Subjects", [
          { title: "Subject", cell: (row) => h("a", { class: "mono wrap", href: streamHref(name, "", query({ filter: row.subject })) }, row.subject), wide: true }], found.rows)];
      }
      return [table("Subjects", [
        { title: "Subject", cell: (row) => h("a", { class: "mono wrap", href: streamHref(name, "", query({ filter: row.subject })) }, row.subject), wide: true },
        { title: "Messages", cell: (row) => count(row.messages), number: true },
        { title: "Share", cell: (row) => h("span", { class: "share", "aria-hidden": "true" }, h("span", { style: { width: `${percent(row.messages, most)}%` } })) },
      ], found.rows), found.total > found.rows.length && h("p", { class: "note" }, `The ${found.rows.length} with most messages of ${count(found.total)}.`)];
    });
  }
  replace(place, h("div", { class: "tools" }, search("Pattern of subjects", filter, (text) => { filter = text; refresh(); }, "orders.*.new, orders.>")), rows);
  refresh();
}

function consumers(context, place, name) {
  const rows = h("div", {});
  let words = context.query.get("q") ?? "";
  let offset = 0;
  function refresh(quiet = false) {
    context.setQuery({ q: words });
    return load(rows, () => get(path`streams/${name}/consumers` + query({ q: words, offset, limit: ROWS })), (found) => {
      if (!found.all) return empty("No consumers", "Create one:", h("pre", { class: "payload" }, h("code", {}, `jetspark consumer add ${name}`)));
      if (!found.total) return empty("No consumer matches");
      return [unreadNote(found), consumerTable(found.rows, name), pager({
        from: found.offset + 1, to: found.offset + found.rows.length, total: found.total, what: "consumers",
        previous: offset > 0 && (() => { offset -= ROWS; refresh(); }),
        next: offset + ROWS < found.total && (() => { offset += ROWS; refresh(); }) })];
    }, { quiet });
  }
  keepFresh(context, rows, () => refresh(true), 3000);
  replace(place, h("div", { class: "tools" }, search("Search consumers by name", words, (text) => { words = text; offset = 0; refresh(); }, "Search by name")), rows);
  refresh();
}

function unreadNote(found) {
  return found.unread > 0 && h("p", { class: "notice bad" }, `${count(found.unread)} of these consumers could not be read: ${found.unread_why[0]}`);
}

function allowed(config) {
  return ["allow_direct", "mirror_direct", "allow_rollup_hdrs", "allow_msg_ttl", "allow_atomic", "allow_batched", "allow_msg_counter", "allow_msg_schedules", "deny_delete", "deny_purge", "sealed"].some((name) => config[name]);
}

function configuration(context, place, name, info) {
  const { config, state, cluster } = info;
  const yes = (value, text) => value && text;
  const copies = [info.mirror && { kind: "Mirror of", ...info.mirror }, ...(info.sources ?? []).map((one) => ({ kind: "Source", ...one }))].filter(Boolean);
  replace(place,
    h("div", { class: "grid-2" },
      h("section", { class: "card" }, h("h2", {}, "Storage"), fields([
        ["Stored in", config.storage], ["Retention", config.retention], ["When full", config.discard === "new" ? "refuse new messages" : "remove old messages"],
        ["Replicas", config.num_replicas], ["Durability", info.jetspark?.durability], ["Compression", config.compression], ["Created", dateTime(info.created)]])),
      h("section", { class: "card" }, h("h2", {}, "Limits"), fields([
        ["Messages", limit(config.max_msgs, count)], ["Bytes", limit(config.max_bytes, bytes)], ["Age", limit(config.max_age, duration)],
        ["Per subject", limit(config.max_msgs_per_subject, count)], ["Message size", limit(config.max_msg_size, bytes)], ["Consumers", limit(config.max_consumers, count)],
        ["Duplicates", `ids of the last ${duration(config.duplicate_window)}`]]),
        config.max_bytes > 0 && meter("Size", state.bytes, config.max_bytes, `${bytes(state.bytes)} of ${bytes(config.max_bytes)}`),
        config.max_msgs > 0 && meter("Messages", state.messages, config.max_msgs, `${count(state.messages)} of ${count(config.max_msgs)}`)),
      h("section", { class: "card" }, h("h2", {}, "Subjects"), h("ul", { class: "plain mono" }, (config.subjects ?? []).slice(0, 100).map((one) => h("li", { class: "wrap" }, one))), !config.subjects?.length && h("p", { class: "muted" }, "none of its own")),
      h("section", { class: "card" }, h("h2", {}, "Allows"), h("p", { class: "badges" },
        [yes(config.allow_direct, "direct get"), yes(config.mirror_direct, "direct get of the mirror"), yes(config.allow_rollup_hdrs, "rollup"), yes(config.allow_msg_ttl, "message TTL"), yes(config.allow_atomic, "atomic batches"),
          yes(config.allow_batched, "fast batches"), yes(config.allow_msg_counter, "counters"), yes(config.allow_msg_schedules, "schedules"), yes(config.deny_delete, "no deletes"), yes(config.deny_purge, "no purges"), yes(config.sealed, "sealed")]
          .filter(Boolean).map((text) => badge(text))), !allowed(config) && h("p", { class: "muted" }, "nothing beyond publishing and consumers")),
      (cluster?.replicas?.length > 0 || cluster?.name) && h("section", { class: "card" }, h("h2", {}, "Cluster"), fields([["Leader", cluster.leader], ...(cluster.replicas ?? []).map((one) => [one.name, `${one.current ? "current" : "lags"}${one.lag ? ` by ${count(one.lag)}` : ""}${one.offline ? ", offline" : ""}`])])),
      copies.length > 0 && h("section", { class: "card" }, h("h2", {}, "Copies from"), fields(copies.map((one) => [one.kind, [one.name, `, lag ${count(one.lag)}`, one.error ? h("span", { class: "bad" }, ` ${one.error.description}`) : ""]])))),
    h("details", { class: "card" }, h("summary", {}, "As JSON"), h("pre", { class: "payload", tabindex: 0, role: "region", "aria-label": "Configuration as JSON" }, h("code", {}, jsonText(config)))));
}
