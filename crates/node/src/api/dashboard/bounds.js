// Bounds near their limit first; those that are hardly used are a number.
import { code, el, show, svg } from "./dom.js";
import { count, mib, percent } from "./words.js";

const NEAR = 0.8;
const SHOWN = 5;

const part = (value, limit) => (limit > 0 ? Math.min(value / limit, 1) : 0);

function bar({ current, high_water, limit }) {
  const now = part(current, limit) * 100;
  const high = part(high_water, limit) * 100;
  return svg("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" },
    svg("rect", { class: "room", width: 100, height: 6 }),
    svg("rect", { class: "high", width: high.toFixed(2), height: 6 }),
    svg("rect", { class: "now", width: now.toFixed(2), height: 6 }));
}

function row(bound) {
  const { name, current, limit, high_water, unit, at_limit } = bound;
  const near = part(current, limit) >= NEAR;
  const was = part(high_water, limit) >= NEAR;
  const words = `${mib(current, unit)} of ${mib(limit, unit)}${unit === "bytes" ? "" : ` ${unit}`}, ${percent(part(current, limit))}; `
    + `at most ${percent(part(high_water, limit))} since the start`;
  return el("li", { class: near ? "near" : was && "was" }, code(name), bar(bound), el("p", {}, words),
    (near || was) && el("p", {}, el("strong", {}, near ? "Near its limit. " : "Was near its limit. "), `There: ${at_limit}.`));
}

export function showBounds(bounds) {
  const fill = (bound) => Math.max(part(bound.current, bound.limit), part(bound.high_water, bound.limit) * 0.99);
  const sorted = [...bounds].sort((a, b) => fill(b) - fill(a));
  const near = sorted.filter((bound) => fill(bound) >= NEAR * 0.99);
  const shown = sorted.slice(0, Math.max(near.length, SHOWN));
  const rest = sorted.length - shown.length;
  show("bounds",
    el("p", {}, near.length === 0 ? "None is near its limit, or was since the start." : `${count(near.length, "bound is", "bounds are")} near the limit, or were.`),
    el("ul", { class: "bounds" }, shown.map(row)),
    rest > 0 && el("p", { class: "empty" }, `${count(rest, "other is", "others are")} emptier: `, code("overlane bounds"), "."));
}
