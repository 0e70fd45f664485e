// Verdicts over time: upwards what was admitted, downwards what was not.
import { code, el, empty, grouped, show, svg, table } from "./dom.js";
import { duration, number } from "./words.js";

const ADMITTED = ["first", "advance", "late"];
const NOT = ["replay", "fork", "stale"];
const NAMES = { first: "First", advance: "Advance", late: "Late", replay: "Replay", fork: "Fork", stale: "Stale" };

const HEIGHT = 100;

// Columns that there is room for from the first minute on; there are as many as there are spans, later.
const COLUMNS_MIN = 60;

const sum = (span, words) => words.reduce((all, word) => all + (span.verdicts[word] ?? 0), 0);

// One column: a piece for each verdict, away from the line.
function column(span, x, line, unit, words, direction) {
  let from = line;
  return words.map((word) => {
    const height = (span.verdicts[word] ?? 0) * unit;
    if (height === 0) return null;
    const y = direction < 0 ? from - height : from;
    from += direction * height;
    return svg("rect", { class: word, x: x + 0.1, y: y.toFixed(2), width: 0.8, height: height.toFixed(2) });
  });
}

export function showAdmissions({ spans, span_ms, total }) {
  const slots = Math.max(spans.length, COLUMNS_MIN);
  const most = Math.max(...spans.map((span) => sum(span, ADMITTED)));
  const mostNot = Math.max(...spans.map((span) => sum(span, NOT)));
  // Room for the line itself, and for at least one message.
  const unit = (HEIGHT - 4) / Math.max(most + mostNot, 1);
  const line = most + mostNot > 0 ? 2 + most * unit : HEIGHT - 2;
  const columns = spans.map((span, index) => {
    const x = slots - spans.length + index;
    return [column(span, x, line, unit, ADMITTED, -1), column(span, x, line, unit, NOT, 1)];
  });
  const oldest = spans[0].ago_ms + spans[0].lasted_ms;
  const admitted = spans.reduce((all, span) => all + sum(span, ADMITTED), 0);
  const refused = spans.reduce((all, span) => all + sum(span, NOT), 0);
  show("admissions",
    svg("svg", { viewBox: `0 0 ${slots} ${HEIGHT}`, preserveAspectRatio: "none", class: "bars", role: "img", "aria-labelledby": "admissions-caption" },
      columns, svg("line", { class: "line", x1: 0, x2: slots, y1: line.toFixed(2), y2: line.toFixed(2) })),
    el("p", { class: "axis", "aria-hidden": "true" },
      el("span", {}, `${duration(slots * span_ms)} ago`), el("span", {}, `at most ${number(most)} in ${duration(span_ms)}`), el("span", {}, "now")));
  show("admissions-caption", `In the last ${duration(oldest)}, ${number(admitted)} admitted (up) and ${number(refused)} not (down).`);

  const last = spans.slice(-7);
  const since = (of, word) => of.reduce((all, span) => all + (span.verdicts[word] ?? 0), 0);
  const key = (word) => [svg("svg", { viewBox: "0 0 10 10", class: "key", "aria-hidden": "true" }, svg("rect", { class: word, width: 10, height: 10 })), NAMES[word]];
  const row = (word) => [key(word), number(since(last, word)), number(since(spans, word)), number(total[word] ?? 0)];
  show("verdicts", grouped("Transactions by verdict", ["Verdict", "#Last minute", "#Half hour", "#Since start"],
    [["Admitted", ADMITTED.map(row)], ["Not admitted", NOT.map(row)]]));
}

export function showRefused(status) {
  const kinds = [["frame", status.refused], ["send", status.sends_refused], ["offer", status.offers_refused],
    ["link", status.links_not_opened], ["API", status.api_refused]];
  const rows = kinds.flatMap(([kind, counts]) => Object.entries(counts)
    .filter(([, count]) => count > 0).map(([name, count]) => [name, kind, count]));
  if (rows.length === 0) {
    show("refused", empty("Nothing was refused since the start."));
    return;
  }
  rows.sort((a, b) => b[2] - a[2]);
  show("refused", table("Refused since the start, by code", ["Code", "What", "#Count"],
    rows.map(([name, kind, count]) => [code(name), kind, number(count)])));
}
