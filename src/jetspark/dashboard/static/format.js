// Numbers, sizes and times for people.

import { h } from "./dom.js";

const WHOLE = new Intl.NumberFormat("en-US");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function count(value) {
  if (value === null || value === undefined) return "–";
  return WHOLE.format(typeof value === "bigint" ? value : Math.round(value));
}

/** "1 consumer", "2 consumers". */
export function counted(value, one) {
  return `${count(value)} ${Number(value) === 1 ? one : `${one}s`}`;
}

export function short(given) {
  if (given === null || given === undefined) return "–";
  const value = Number(given);
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  if (size >= 100 || Number.isInteger(value)) return count(value);
  return value.toFixed(1);
}

export function bytes(value) {
  if (value === null || value === undefined || value < 0) return "–";
  let unit = 0;
  let size = Number(value);
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit && size < 100 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit]}`;
}

export function limit(value, show) {
  return value === undefined || value === null || value <= 0 ? "unlimited" : show(value);
}

// Nanoseconds as 1.5 ms, 30 s, 2 h 5 min, 30 d.
export function duration(given) {
  if (given === null || given === undefined) return "–";
  const ns = Number(given);
  if (ns < 1e3) return `${ns} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toFixed(ns < 1e4 ? 1 : 0)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(ns < 1e7 ? 1 : 0)} ms`;
  const seconds = ns / 1e9;
  if (seconds < 60) return `${Number.isInteger(seconds) ? seconds : seconds.toFixed(1)} s`;
  if (seconds < 3600) return parts(seconds, 60, "min", 1, "s");
  if (seconds < 86400) return parts(seconds, 3600, "h", 60, "min");
  return parts(seconds, 86400, "d", 3600, "h");
}

function parts(seconds, large, largeName, small, smallName) {
  const whole = Math.floor(seconds / large);
  const rest = Math.floor((seconds - whole * large) / small);
  return rest ? `${whole} ${largeName} ${rest} ${smallName}` : `${whole} ${largeName}`;
}

function isNever(text) {
  return !text || text.startsWith("0001-");
}

// How long ago a time was; an element that keeps being right while its page stays open.
export function ago(text) {
  return isNever(text) ? "never" : h("time", { datetime: text, "data-ago": true }, agoText(text));
}

setInterval(() => {
  if (document.hidden) return;
  for (const element of document.querySelectorAll("[data-ago]")) {
    const now = agoText(element.dateTime);
    if (element.textContent !== now) element.textContent = now;
  }
}, 1000);

export function agoText(text) {
  if (isNever(text)) return "never";
  const seconds = (Date.now() - Date.parse(text)) / 1000;
  if (seconds < -1) return dateTime(text);
  return since(seconds);
}

// How long ago something was, in its largest unit.
export function since(seconds) {
  if (seconds < 2) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 2 * 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${count(Math.floor(seconds / 86400))} d ago`;
}

export function dateTime(text) {
  if (isNever(text)) return "never";
  const time = new Date(text);
  const pad = (value, size = 2) => String(value).padStart(size, "0");
  return `${time.getFullYear()}-${pad(time.getMonth() + 1)}-${pad(time.getDate())} `
    + `${pad(time.getHours())}:${pad(time.getMinutes())}:${pad(time.getSeconds())}.${pad(time.getMilliseconds(), 3)}`;
}

export function clock(seconds) {
  const time = new Date(seconds * 1000);
  const pad = (value) => String(value).padStart(2, "0");
  return `${pad(time.getHours())}:${pad(time.getMinutes())}:${pad(time.getSeconds())}`;
}

export function percent(part, whole) {
  return whole > 0 ? Math.min(100, (100 * Number(part)) / Number(whole)) : 0;
}

// Differences and sums of sequences, exact whatever their size.
export function plus(a, b) {
  return small(BigInt(a) + BigInt(b));
}

export function minus(a, b) {
  return small(BigInt(a) - BigInt(b));
}

function small(value) {
  return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

// What someone typed or copied as a sequence, with or without separators.
export function typedNumber(text) {
  return text.replaceAll(/[\s,_.']/g, "");
}
