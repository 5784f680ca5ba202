// Who lags: consumers, mirrors, sources, replicas and Spark queries, of everything.

import { h } from "../dom.js";
import { get, path, query } from "../api.js";
import { ago, clock, count, counted, percent, since } from "../format.js";
import { badge, empty, keepFresh, load, pageHead, table } from "../parts.js";
import { streamHref } from "./streams.js";

function repeated(context, place, ask, show, every = 2500) {
  load(place, ask, show);
  keepFresh(context, place, () => load(place, ask, show, { quiet: true }), every);
}

// An older result is shown as such.
function outdated(found) {
  return found.problem && h("p", { class: "notice bad", role: "alert" }, h("b", {}, `This is from ${clock(found.time)}. `), `The streams cannot be read now: ${found.problem}`);
}

export async function lag(context) {
  const place = h("div", {});
  repeated(context, place, () => get("lag"), (found) => {
    const rows = found.rows.filter((row) => row.lag > 0 || row.ack_pending > 0 || row.problem);
    const note = found.is_complete
      ? `${counted(found.consumers, "consumer")} of ${counted(found.streams, "stream")}, as of ${clock(found.time)}.`
      : `Reading all streams: ${count(found.done)} of ${count(found.total)} so far.`;
    if (found.problem && !found.is_complete) return empty("The streams cannot be listed", found.problem);
    return [outdated(found), h("p", { class: "note", role: "status" }, note), found.unread > 0 && h("p", { class: "notice bad" }, `The consumers of ${counted(found.unread, "stream")} are missing: they cannot be listed (${found.unread_why[0]}).`), rows.length ? lagTable(rows) : found.is_complete && !found.unread && empty("No one lags", "Every consumer, mirror and source has everything.")];
  });
  return [pageHead("Lag", { note: "Who has work left: the largest lag first, over all streams." }), place];
}

function lagTable(rows) {
  const most = Math.max(...rows.map((row) => Number(row.lag)), 1);
  return table("Largest lags", [
    { title: "Who", cell: who, wide: true },
    { title: "Stream", cell: (row) => h("a", { href: streamHref(row.stream) }, row.stream) },
    { title: "Lag", cell: (row) => count(row.lag), number: true },
    { title: "Share", cell: (row) => h("span", { class: "share", "aria-hidden": "true" }, h("span", { style: { width: `${percent(row.lag, most)}%` } })) },
    { title: "Ack pending", cell: (row) => (row.kind === "consumer" ? count(row.ack_pending) : ""), number: true },
    { title: "Redelivered", cell: (row) => (row.kind === "consumer" ? count(row.redelivered) : ""), number: true },
    { title: "Why", cell: state },
    { title: "Last active", cell: (row) => (row.kind === "consumer" ? ago(row.last_active) : row.active_ns >= 0 ? since(row.active_ns / 1e9) : "") },
  ], rows);
}

function who(row) {
  if (row.kind !== "consumer") return [h("span", { class: "strong" }, row.name), " ", badge(row.kind)];
  return [h("a", { class: "strong", href: streamHref(row.stream, path`consumers/${row.name}`) }, row.name), " ", badge(row.push ? "push" : "pull")];
}

function state(row) {
  if (row.problem) return h("span", { class: "bad" }, row.problem);
  if (row.kind !== "consumer") return "";
  if (row.paused) return badge("paused", "warn");
  if (row.max_ack_pending > 0 && row.ack_pending >= row.max_ack_pending) return badge("max ack pending", "bad");
  if (row.push ? !row.bound : !row.waiting && row.lag > 0) return badge(row.push ? "not bound" : "no pull waiting", "warn");
  return row.lag > 0 ? badge("working", "good") : badge("waits for acks");
}

export async function copies(context) {
  const place = h("div", {});
  const server = h("div", {});
  repeated(context, place, () => get("lag"), (found) => {
    const rows = found.rows.filter((row) => row.kind !== "consumer");
    if (found.problem && !found.is_complete) return empty("The streams cannot be listed", found.problem);
    if (!rows.length) return empty(found.is_complete ? "No mirrors or sources" : "Reading all streams…", "A mirror is a copy of a stream; a source collects from several.");
    return [outdated(found), table("Mirrors and sources", [
      { title: "Stream", cell: (row) => h("a", { class: "strong", href: streamHref(row.stream) }, row.stream), wide: true },
      { title: "Kind", cell: (row) => badge(row.kind) }, { title: "Copies", cell: (row) => row.name },
      { title: "Lag", cell: (row) => count(row.lag), number: true },
      { title: "Last contact", cell: (row) => (row.active_ns >= 0 ? since(row.active_ns / 1e9) : "never") },
      { title: "State", cell: (row) => (row.problem ? h("span", { class: "bad" }, row.problem) : row.lag ? badge("lags", "warn") : badge("current", "good")) },
    ], rows)];
  });
  load(server, () => get("copies"), ({ jetspark }) => [replicaCard(jetspark.replica), remoteCard(jetspark.remotes)]);
  return [pageHead("Mirrors and replicas"), h("section", { class: "stack" }, h("h2", {}, "Mirrors and sources"), place), h("section", { class: "stack" }, h("h2", {}, "This server"), server)];
}

function replicaCard(replica) {
  if (!replica) return h("p", { class: "muted" }, "This server is no read replica.");
  return table("Read replica", [
    { title: "Leader", cell: (row) => row.leader_name || row.leader, wide: true }, { title: "Connected", cell: (row) => (row.connected ? badge("connected", "good") : badge("not connected", "bad")) },
    { title: "Streams", cell: (row) => count(row.streams), number: true }, { title: "Lag", cell: (row) => count(row.lag), number: true },
    { title: "Reads answered", cell: (row) => count(row.reads_answered), number: true }, { title: "Reads passed on", cell: (row) => count(row.reads_passed), number: true },
  ], [replica]);
}

function remoteCard(remotes) {
  if (!remotes?.length) return h("p", { class: "muted" }, "It copies from no other server.");
  return table("Other servers", [
    { title: "Name", cell: (row) => row.name, wide: true }, { title: "State", cell: (row) => (row.connected ? badge("connected", "good") : badge("not connected", "bad")) },
    { title: "Address", cell: (row) => row.url ?? row.address ?? "" }, { title: "Problem", cell: (row) => row.error ?? "" }], remotes);
}

const LONG = 160;
const STATES = { running: "good", restarting: "warn", failed: "bad" };

// A run that was killed could not report its end.
function flowState(row) {
  if (row.silent) return [badge("no reports", "bad"), h("div", { class: "muted" }, `It was ${row.state}; the run was killed, or cannot reach the server.`)];
  return [badge(row.state, STATES[row.state] ?? ""), row.error && row.state !== "running" && errorText(row.error, row.state === "failed" ? "bad wrap" : "warn wrap")];
}

function errorText(text, kind) {
  if (text.length <= LONG) return h("div", { class: kind }, text);
  return h("details", { class: kind }, h("summary", {}, `${text.slice(0, LONG)}…`), h("pre", { class: "payload" }, h("code", {}, text)));
}

function flowTable(flows) {
  return table("Flows of pipelines", [
    { title: "Flow", cell: (row) => [h("span", { class: "strong" }, row.flow), " ", h("span", { class: "muted" }, row.project), row.target && row.target !== row.flow && h("span", { class: "muted block" }, `to ${row.target}`)], wide: true },
    { title: "State", cell: flowState, wide: true },
    { title: "Lag", cell: (row) => (row.lag === null ? "" : count(row.lag)), number: true }, { title: "Rows per second", cell: (row) => count(Math.round(row.rows_per_second)), number: true },
    { title: "Rows", cell: (row) => count(row.rows), number: true }, { title: "Violations", cell: (row) => count(row.violations), number: true },
    { title: "Failures", cell: (row) => count(row.failures), number: true }, { title: "Epoch", cell: (row) => (row.epoch === null ? "" : count(row.epoch)), number: true },
    { title: "Reported", cell: (row) => ago(row.time) },
  ], flows);
}

export async function pipelines(context) {
  const place = h("div", {});
  repeated(context, place, () => get(`pipelines${query({ bucket: context.query.get("bucket") ?? "" })}`), (found) => {
    if (!found.rows.length && !found.flows.length) {
      return empty("No Spark query reports here", "An exactly-once sink records its epochs in a ledger bucket, a pipeline its flows in the bucket that jetspark.yml names as progress:",
        h("pre", { class: "payload" }, h("code", {}, 'df.writeStream.format("jetstream")\n  .option("ledgerBucket", "spark_ledger")')));
    }
    return [found.flows.length > 0 && flowTable(found.flows), found.rows.length > 0 && table("Spark queries", [
      { title: "Query", cell: (row) => h("span", { class: "mono wrap" }, row.query || row.key), wide: true }, { title: "Writes to", cell: (row) => (row.stream ? h("a", { href: streamHref(row.stream) }, row.stream) : "") },
      { title: "Committed epoch", cell: (row) => count(row.epoch), number: true }, { title: "Up to sequence", cell: (row) => count(row.last_seq), number: true },
      { title: "State", cell: (row) => (row.running === null ? badge("committed", "good") : badge(`epoch ${row.running} is written, run ${row.runs}`, "warn")) },
      { title: "Reported", cell: (row) => ago(row.time) }, { title: "Ledger", cell: (row) => h("a", { href: path`#/kv/${row.ledger}` }, row.ledger) },
    ], found.rows), found.looked < found.buckets && h("p", { class: "note" }, `The first ${count(found.looked)} of ${count(found.buckets)} buckets were searched for ledgers.`)];
  }, 5000);
  return [pageHead("Spark pipelines", { note: "Streaming queries that record their epochs, so that a replay stores nothing twice." }), place];
}

