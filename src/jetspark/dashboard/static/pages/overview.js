// The overview: rates now and over time, storage against its limits, health.

import { h, replace } from "../dom.js";
import { get } from "../api.js";
import { bytes, count, counted, duration, limit, percent, short } from "../format.js";
import { linePlot, meter } from "../plot.js";
import { empty, isIll, missing, pageHead, stat } from "../parts.js";

const KEPT = 900;
// From this share of a limit on, in percent, the page says so.
const NEAR = 95;

export async function overview({ watch }) {
  const found = await get("overview");
  const samples = found.history;
  const tiles = h("div", { class: "stats" });
  const storage = h("section", { class: "card" });
  const notes = h("div", { class: "stack" });
  const rate = (value) => `${short(value ?? 0)}/s`;
  const plots = [
    linePlot({ title: "Messages", series: [{ name: "in", key: "in_msgs_rate", color: "c1" }, { name: "out", key: "out_msgs_rate", color: "c2" }], show: rate, floor: 10 }),
    linePlot({ title: "Traffic", binary: true, series: [{ name: "in", key: "in_bytes_rate", color: "c1" }, { name: "out", key: "out_bytes_rate", color: "c2" }], show: (value) => `${bytes(value ?? 0)}/s`, floor: 1024 }),
    linePlot({ title: "Stored on disk", binary: true, series: [{ name: "bytes", key: "storage", color: "c3" }], show: (value) => bytes(value ?? 0), floor: 1024 }),
    linePlot({ title: "JetStream requests", series: [{ name: "requests", key: "api_total_rate", color: "c4" }], show: rate, floor: 10 }),
    linePlot({ title: "Connections", series: [{ name: "connections", key: "connections", color: "c1" }], show: (value) => short(value ?? 0), floor: 4 }),
    linePlot({ title: "Sync to disk, 99 of 100 within", series: [{ name: "p99", key: "commit_p99_ns", color: "c5" }], show: (value) => (value === undefined ? "–" : duration(Math.round(value))), floor: 1e6 }),
  ];

  function draw(sample) {
    drawTiles(tiles, sample);
    drawStorage(storage, sample);
    drawNotes(notes, sample);
    const has = new Set(samples.flatMap((one) => Object.keys(one)));
    const keys = ["in_msgs_rate", "in_bytes_rate", "storage", "api_total_rate", "connections", "commit_p99_ns"];
    plots.forEach((plot, at) => {
      plot.card.hidden = !has.has(keys[at]) && !sample.connected;
      plot.card.hidden = plot.card.hidden || (sample.missing?.monitoring && [0, 1, 4, 5].includes(at)) || (sample.missing?.store && at === 5);
      plot.update(samples);
    });
  }

  watch((sample) => {
    if (sample.connected && sample.time > (samples[samples.length - 1]?.time ?? 0)) {
      const point = { time: sample.time, ...Object.fromEntries(Object.entries(sample.rates ?? {}).map(([key, value]) => [`${key}_rate`, value])) };
      for (const key of ["connections", "mem", "cpu", "commit_p99_ns"]) if (sample[key]) point[key] = sample[key];
      if (sample.jetstream) Object.assign(point, { storage: sample.jetstream.storage, memory: sample.jetstream.memory });
      samples.push(point);
      if (samples.length > KEPT) samples.shift();
    }
    draw(sample);
  });
  draw(found.sample);
  return [pageHead("Overview"), notes, tiles, h("div", { class: "grid-2" }, plots.map((plot) => plot.card)), storage];
}

function drawTiles(place, sample) {
  const health = sample.health;
  const js = sample.jetstream ?? {};
  const rates = sample.rates ?? {};
  const known = (value, text) => (value === undefined ? "–" : text);
  const healthy = health ? !isIll(health) : null;
  place.className = "stats four";
  replace(place,
    stat("Messages in", known(rates.in_msgs, `${short(rates.in_msgs)}/s`), known(sample.in_msgs, `${short(sample.in_msgs)} since the start`)),
    stat("Messages out", known(rates.out_msgs, `${short(rates.out_msgs)}/s`), known(sample.out_msgs, `${short(sample.out_msgs)} since the start`)),
    stat("Streams", count(js.streams), counted(js.consumers, "consumer"), { href: "#/streams" }),
    stat("Stored", bytes(js.storage), `of ${limit(bound(sample, "max_storage"), bytes)}`),
    stat("Connections", count(sample.connections), known(sample.subscriptions, counted(sample.subscriptions, "subscription")), { href: "#/connections" }),
    stat("Slow consumers", count(sample.slow_consumers), "disconnected since the start", { href: "#/connections", level: sample.slow_consumers ? "warn" : "" }),
    stat("Server", known(sample.mem, bytes(sample.mem)), known(sample.cpu, `${(sample.cpu ?? 0).toFixed(1)} % CPU`)),
    stat("Health", healthy === null ? "–" : healthy ? "ok" : health.status, health?.error || (sample.uptime ? `up ${sample.uptime}` : ""), { href: "#/store", level: healthy === false ? "bad" : healthy ? "good" : "" }),
  );
}

function bound(sample, name) {
  const own = sample.jetstream?.[name];
  return own > 0 ? own : sample.server_limits?.[name];
}

function limits(sample) {
  const js = sample.jetstream;
  if (!js) return [];
  return [["Disk", js.storage, bound(sample, "max_storage"), bytes], ["Memory", js.memory, bound(sample, "max_memory"), bytes],
    ["Streams", js.streams, js.max_streams, count], ["Consumers", js.consumers, js.max_consumers, count]];
}

function drawStorage(place, sample) {
  const js = sample.jetstream;
  if (!js) {
    place.hidden = true;
    return;
  }
  place.hidden = false;
  replace(place, h("h2", {}, "Use of limits"), limits(sample).map(([label, used, most, show]) => (most > 0
    ? meter(label, used, most, `${show(used)} of ${show(most)}`)
    : h("div", { class: "meter-row" }, h("div", { class: "meter-text" }, h("span", {}, label), h("span", { class: "number" }, `${show(used)}, unlimited`))))));
}

function drawNotes(place, sample) {
  const notes = [];
  for (const [text, kind] of warnings(sample)) notes.push(h("p", { class: `notice ${kind}`, role: "alert" }, text));
  if (!sample.connected) notes.push(empty("Not connected", sample.problem));
  if (sample.missing?.jetstream) notes.push(missing(sample.missing.jetstream, "JetStream"));
  if (sample.missing?.monitoring) notes.push(missing(sample.missing.monitoring, "Rates, connections and health are missing"));
  const shown = JSON.stringify([sample.missing, sample.connected, warnings(sample)]);
  if (place.dataset.shown !== shown) {
    replace(place, notes);
    place.dataset.shown = shown;
  }
}

// What someone must do something about: the server's own report, and limits that are reached. A
// server at its limit is healthy, and refuses what does not fit.
function warnings(sample) {
  const found = [];
  if (isIll(sample.health)) found.push([sample.health.error || `The server reports ${sample.health.status}`, "bad"]);
  for (const text of sample.health?.jetspark?.warnings ?? []) found.push([text, "warn"]);
  for (const [label, used, most] of limits(sample)) {
    if (!(most > 0) || percent(used, most) < NEAR) continue;
    if (used >= most) found.push([`${label}: the limit is reached. What needs more is refused.`, "bad"]);
    else found.push([`${label}: ${Math.floor(percent(used, most))} % of the limit are used. What needs more than the rest is refused.`, "warn"]);
  }
  return found;
}
