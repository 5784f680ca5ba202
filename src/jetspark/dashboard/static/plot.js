// Plots: lines over time, bars, meters. Drawn as SVG, without any library.

import { h, svg, replace, newId } from "./dom.js";
import { clock, percent } from "./format.js";

const HEIGHT = 180;
// The left one has room for the widest label of a scale, 1000 MiB/s.
const PAD = { left: 80, right: 10, top: 10, bottom: 22 };

// A card with lines over time. `series` are {name, key, color}; update(samples) draws them.
export function linePlot({ title, series, show, floor = 0, binary = false }) {
  let width = 560;
  const now = h("span", { class: "plot-now" });
  const tip = h("div", { class: "plot-tip", hidden: true });
  const id = newId("plot");
  const drawing = svg("svg", { height: HEIGHT, class: "plot", role: "img", "aria-labelledby": id });
  const frame = h("div", { class: "plot-frame" }, drawing, tip);
  const legend = h("div", { class: "legend" }, series.map((one) => h("span", {}, h("i", { class: `key ${one.color}` }), one.name)));
  const card = h("section", { class: "card plot-card" },
    h("div", { class: "card-head" }, h("h2", { id }, title), now), frame, series.length > 1 && legend);
  let drawn = [];

  function update(samples) {
    const numbers = (sample) => Object.fromEntries(series.filter((one) => sample[one.key] !== undefined).map((one) => [one.key, Number(sample[one.key])]));
    drawn = samples.map((sample) => ({ ...numbers(sample), time: sample.time })).filter((sample) => series.some((one) => sample[one.key] !== undefined));
    if (!drawn.length) {
      replace(drawing);
      now.textContent = "no data yet";
      return;
    }
    const last = drawn[drawn.length - 1];
    now.textContent = series.map((one) => `${series.length > 1 ? `${one.name} ` : ""}${show(last[one.key])}`).join(" · ");
    draw(drawing, width, drawn, series, show, floor, binary);
    drawing.setAttribute("aria-label", `${title}: ${now.textContent}`);
  }
  // Drawn as wide as it is shown, so that texts have their size on a phone, too.
  new ResizeObserver(([entry]) => {
    if (entry.contentRect.width && Math.abs(entry.contentRect.width - width) > 1) {
      width = entry.contentRect.width;
      update(drawn);
    }
  }).observe(frame);

  frame.addEventListener("pointermove", (event) => {
    if (drawn.length < 2) return;
    const box = drawing.getBoundingClientRect();
    const { from, to } = span(drawn);
    const at = event.clientX - box.left;
    const time = from + ((at - PAD.left) / (width - PAD.left - PAD.right)) * (to - from);
    let best = drawn[0];
    for (const sample of drawn) if (Math.abs(sample.time - time) < Math.abs(best.time - time)) best = sample;
    tip.hidden = false;
    replace(tip, h("b", {}, clock(best.time)), series.map((one) => h("span", {}, h("i", { class: `key ${one.color}` }), `${one.name} ${show(best[one.key])}`)));
    const x = event.clientX - box.left;
    tip.style.setProperty("left", `${Math.min(Math.max(x, 70), box.width - 70)}px`);
  });
  frame.addEventListener("pointerleave", () => { tip.hidden = true; });
  return { card, update };
}

function span(samples) {
  const to = samples[samples.length - 1].time;
  return { from: Math.min(samples[0].time, to - 60), to };
}

function draw(drawing, width, samples, series, show, floor, binary) {
  drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  drawing.setAttribute("width", width);
  const { from, to } = span(samples);
  const values = samples.flatMap((sample) => series.map((one) => sample[one.key]).filter((value) => value !== undefined));
  const most = Math.max(...values, floor, 1e-9);
  const unit = binary ? 1024 ** Math.max(0, Math.floor(Math.log2(most) / 10)) : 1;
  const top = ceiling(most / unit) * unit;
  const x = (time) => PAD.left + ((time - from) / (to - from || 1)) * (width - PAD.left - PAD.right);
  const y = (value) => HEIGHT - PAD.bottom - (value / top) * (HEIGHT - PAD.top - PAD.bottom);
  const lines = [0, 0.5, 1].map((part) => {
    const at = y(top * part);
    return [svg("line", { x1: PAD.left, x2: width - PAD.right, y1: at, y2: at, class: "grid" }),
      svg("text", { x: PAD.left - 8, y: at + 4, class: "axis", "text-anchor": "end" }, show(top * part))];
  });
  const times = [0, 0.5, 1].map((part) => svg("text", {
    x: x(from + (to - from) * part), y: HEIGHT - 5, class: "axis",
    "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, clock(from + (to - from) * part)));
  const paths = series.map((one, number) => {
    const points = samples.filter((sample) => sample[one.key] !== undefined).map((sample) => [x(sample.time), y(sample[one.key])]);
    if (!points.length) return null;
    const line = points.map(([px, py], at) => `${at ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
    const area = `${line}L${points[points.length - 1][0].toFixed(1)} ${y(0)}L${points[0][0].toFixed(1)} ${y(0)}Z`;
    const dot = points.length === 1 && svg("circle", { cx: points[0][0], cy: points[0][1], r: 3, class: `dot ${one.color}` });
    return [number === 0 && svg("path", { d: area, class: `area ${one.color}` }), svg("path", { d: line, class: `line ${one.color}` }), dot];
  });
  replace(drawing, lines, times, paths);
}

// The next 1, 2, 2.5 or 5 times a power of ten.
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 2.5, 5, 10]) if (value <= step * power) return step * power;
  return 10 * power;
}

// Bars with a label each: how many commits took how long.
export function bars(title, rows) {
  const most = Math.max(...rows.map((row) => row.value), 1);
  return h("div", { class: "bars", role: "img", "aria-label": `${title}: ${rows.map((row) => `${row.label} ${row.value}`).join(", ")}` },
    rows.map((row) => h("div", { class: "bar-row", "aria-hidden": "true" },
      h("span", { class: "bar-label" }, row.label),
      h("span", { class: "bar-track" }, h("span", { class: "bar", style: { width: `${(100 * row.value) / most}%` } })),
      h("span", { class: "bar-value" }, row.shown))));
}

export function meter(label, part, whole, text) {
  const used = percent(part, whole);
  const level = used >= 90 ? "bad" : used >= 75 ? "warn" : "good";
  return h("div", { class: "meter-row" },
    h("div", { class: "meter-text" }, h("span", {}, label), h("span", { class: "number" }, text)),
    h("div", { class: "meter", role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(used), "aria-valuetext": text },
      h("span", { class: level, style: { width: `${used}%` } })));
}
