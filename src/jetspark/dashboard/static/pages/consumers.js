// Consumers: what they have to do, what they wait for, and why a message is not delivered.

import { h, replace } from "../dom.js";
import { get, jsonText, path, post, query } from "../api.js";
import { ago, count, dateTime, duration, limit, minus, percent, plus, typedNumber } from "../format.js";
import { meter } from "../plot.js";
import { badge, failure, field, fields, load, pageHead, stat, table, toast } from "../parts.js";
import { headersView, payloadView } from "../payload.js";
import { reasonKind, reasonText, streamHref } from "./streams.js";

export function consumerTable(rows, stream) {
  return table(`Consumers of ${stream}`, [
    { title: "Name", cell: (row) => h("a", { class: "strong", href: streamHref(stream, path`consumers/${row.name}`) }, row.name), wide: true },
    { title: "Kind", cell: (row) => h("span", { class: "badges" }, badge(row.config.deliver_subject ? "push" : "pull"), row.paused && badge("paused", "warn"), !row.config.durable_name && badge("ephemeral")) },
    { title: "Lag", cell: (row) => count(row.num_pending), number: true },
    { title: "Ack pending", cell: (row) => ackPending(row), number: true },
    { title: "Redelivered", cell: (row) => count(row.num_redelivered), number: true },
    { title: "Waiting pulls", cell: (row) => (row.config.deliver_subject ? (row.push_bound ? "bound" : h("span", { class: "bad" }, "not bound")) : count(row.num_waiting)), number: true },
    { title: "Last delivery", cell: (row) => ago(row.delivered?.last_active) },
  ], rows);
}

function ackPending(row) {
  const most = row.config.max_ack_pending;
  const full = most > 0 && row.num_ack_pending >= most;
  return h("span", { class: full ? "bad" : "" }, count(row.num_ack_pending), most > 0 ? ` / ${count(most)}` : "");
}

export async function consumer(context) {
  const [, stream, , name] = context.parts;
  const where = path`streams/${stream}/consumers/${name}`;
  let found = await get(where);
  const facts = h("div", { class: "stats" });
  const progress = h("section", { class: "card" });
  const seq = h("input", { type: "text", inputmode: "numeric", pattern: "[0-9,. ]*", value: context.query.get("seq") ?? "", placeholder: "the next one", "data-search": true });
  const verdict = h("div", { "aria-live": "polite" });

  function draw() {
    drawFacts(facts, found);
    drawProgress(progress, found);
  }

  function explain(event) {
    event?.preventDefault();
    const wanted = typedNumber(seq.value);
    context.setQuery({ seq: wanted });
    return load(verdict, () => get(`${where}/explain${query({ seq: wanted })}`), (answer) => h("div", { class: `verdict ${reasonKind(answer.reason)}` },
      h("p", { class: "verdict-title" }, badge(reasonText(answer.reason), reasonKind(answer.reason)), answer.seq ? ` message ${count(answer.seq)}` : " the next message"),
      h("p", {}, sentence(answer.text)), advice(answer.reason, stream, name),
      answer.message && h("details", {}, h("summary", {}, `The message, on ${answer.message.subject}`), headersView(answer.message.headers), payloadView(answer.message))));
  }

  const timer = setInterval(async () => {
    if (document.hidden) return;
    try {
      found = await get(where);
      draw();
    } catch (error) {
      replace(facts, failure(error));
    }
  }, 2000);
  context.onClose(() => clearInterval(timer));
  draw();
  explain();
  const { info } = found;
  return [pageHead(name, { crumbs: [["Streams", "#/streams"], [stream, streamHref(stream)], ["Consumers", streamHref(stream, "consumers")]], note: info.config.description, actions: context.session.writable ? pauseButtons(stream, name) : [] }),
    facts,
    h("section", { class: "card explain" }, h("h2", {}, "Why is a message not delivered?"),
      h("form", { class: "tools", onsubmit: explain }, field("Sequence", seq), h("button", { type: "submit", class: "button primary" }, "Explain")), verdict),
    h("div", { class: "grid-2" }, progress, h("section", { class: "card" }, h("h2", {}, "Configuration"), fields(configRows(info)))),
    h("details", { class: "card" }, h("summary", {}, "As JSON"), h("pre", { class: "payload", tabindex: 0, role: "region", "aria-label": "Consumer as JSON" }, h("code", {}, jsonText(info))))];
}

function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}` : "";
}

function advice(reason, stream, name) {
  const texts = {
    no_pull_waiting: "No program asks for messages: is the worker running?",
    not_bound: "No program subscribes to the deliver subject: is the worker running?",
    max_ack_pending: "The workers do not acknowledge. Check them, or raise max_ack_pending.",
    max_deliver: "The message failed as often as max_deliver allows. Read it from the stream, repair the cause, and publish it again.",
    paused: `Resume it: jetspark consumer resume ${stream} ${name}`,
    filtered: "The filter of the consumer leaves it out.",
    ack_pending: "A worker has it. If it died, the message is delivered again when ack_wait is over.",
    not_stored: "It was deleted or expired, or the retention of the stream removed it.",
  };
  return texts[reason] ? h("p", { class: "muted" }, texts[reason]) : null;
}

function drawFacts(place, { info }) {
  const push = Boolean(info.config.deliver_subject);
  const full = info.config.max_ack_pending > 0 && info.num_ack_pending >= info.config.max_ack_pending;
  replace(place,
    stat("Lag", count(info.num_pending), "messages not delivered yet", { level: info.num_pending ? "" : "good" }),
    stat("Ack pending", count(info.num_ack_pending), `of at most ${limit(info.config.max_ack_pending, count)}`, { level: full ? "bad" : "" }),
    stat("Redelivered", count(info.num_redelivered), "delivered more than once", { level: info.num_redelivered ? "warn" : "" }),
    push ? stat("Subscriber", info.push_bound ? "bound" : "none", info.config.deliver_subject, { level: info.push_bound ? "good" : "bad" })
      : stat("Waiting pulls", count(info.num_waiting), "requests for messages", { level: info.num_waiting ? "good" : "" }),
    stat("Last delivery", ago(info.delivered?.last_active), info.paused ? "paused" : ["last ack ", ago(info.ack_floor?.last_active)], { level: info.paused ? "warn" : "" }));
}

function drawProgress(place, { info, stream }) {
  const first = stream.first_seq || 1;
  const upTo = (value) => (value < first ? 0 : plus(minus(value < stream.last_seq ? value : stream.last_seq, first), 1));
  const all = upTo(stream.last_seq);
  const done = upTo;
  replace(place, h("h2", {}, "Position"),
    all > 0 && progressMeter("Delivered", done(info.delivered.stream_seq), all, info.delivered.stream_seq),
    all > 0 && info.config.ack_policy !== "none" && progressMeter("Acknowledged", done(info.ack_floor.stream_seq), all, info.ack_floor.stream_seq),
    fields([["Delivered up to", `${count(info.delivered.stream_seq)} of ${count(stream.last_seq)}`], ["Deliveries", count(info.delivered.consumer_seq)],
      ["Ack floor", count(info.ack_floor.stream_seq)], ["Stopped", info.stopped]]));
}

function progressMeter(label, done, all, seq) {
  const row = meter(label, done, all, `sequence ${count(seq)}, ${Math.floor(percent(done, all))} %`);
  row.querySelector(".meter span").className = "good";
  return row;
}

function configRows(info) {
  const { config } = info;
  return [["Kind", config.deliver_subject ? `push to ${config.deliver_subject}` : "pull"], ["Durable", config.durable_name ?? "no, ephemeral"],
    ["Filter", (config.filter_subjects ?? [config.filter_subject]).filter(Boolean).join(", ") || "all subjects"], ["Starts", String(config.deliver_policy).replaceAll("_", " ")],
    ["Acknowledgements", config.ack_policy], ["Ack wait", config.ack_policy === "none" ? "" : duration(config.ack_wait)], ["Backoff", (config.backoff ?? []).map(duration).join(", ")],
    ["Max deliveries", limit(config.max_deliver, count)], ["Max ack pending", limit(config.max_ack_pending, count)], ["Replay", config.replay_policy],
    ["Deleted when idle for", config.inactive_threshold ? duration(config.inactive_threshold) : ""], ["Paused until", info.paused ? dateTime(config.pause_until) : ""], ["Created", dateTime(info.created)]];
}

function pauseButtons(stream, name) {
  const send = (seconds, text) => h("button", { type: "button", class: "button", onclick: async () => {
    try {
      await post("pause", { stream, consumer: name, seconds });
      toast(seconds ? `${name} is paused for an hour.` : `${name} is no longer paused.`);
    } catch (error) {
      toast(error.message, "bad");
    }
  } }, text);
  return [send(3600, "Pause for an hour"), send(0, "Resume")];
}

