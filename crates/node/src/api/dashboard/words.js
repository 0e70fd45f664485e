// Numbers and names in words.
import { el } from "./dom.js";

const plain = new Intl.NumberFormat("en");

export const number = (value) => plain.format(value);

export const count = (value, one, many) => `${number(value)} ${value === 1 ? one : many}`;

// The first digits of a Did, and the whole of it for who points at it.
export const did = (text) => el("code", { class: "did", title: text }, short(text));

export const short = (text) => text.slice(0, 8);

export function bytes(value) {
  if (value < 1024) return `${value} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let at = -1;
  do { value /= 1024; at += 1; } while (value >= 1024 && at < units.length - 1);
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[at]}`;
}

export function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

// The time of day, with the date if that is another one.
export function clock(ms) {
  const at = new Date(ms);
  const time = at.toLocaleTimeString("en-GB");
  const words = at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString("en-CA")} ${time}`;
  return el("time", { datetime: at.toISOString() }, words);
}

export const percent = (part) => `${Math.floor(part * 100)} %`;

export const mib = (limit, unit) => (unit === "bytes" ? bytes(limit) : number(limit));
