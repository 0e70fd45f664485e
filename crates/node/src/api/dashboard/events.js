// The latest events, newest first. Many admissions in one stream are one line.
import { code, el, empty, show } from "./dom.js";
import { bytes, clock, count, did, number } from "./words.js";

const KEPT = 60;

const kept = [];

// network:origin>destination/class
function stream(text) {
  const [, origin, , of] = text.match(/^\d+:([0-9a-f]+)>([0-9a-f]+)\/(.+)$/) ?? [];
  return origin ? ["from ", did(origin), ` (${of})`] : code(text);
}

const WORDS = {
  link_up: (it) => ["Link to ", did(it.peer), " is up"],
  link_down: (it) => ["Link to ", did(it.peer), ` ended: ${it.reason}`],
  admitted: (it, times) => [`Admitted ${times > 1 ? `${number(times)} messages` : "a message"} as ${it.verdict}, `, stream(it.stream)],
  refused: (it, times) => ["Refused ", times > 1 && `${number(times)} times `, "from ", did(it.peer), `, ${it.class}: `, code(it.error)],
  unreachable: (it) => ["A message does not arrive: ", code(it.error), ", says ", did(it.reporter)],
  session_lost: (it) => ["The session with ", did(it.with), " is lost on its side"],
  send_progress: (it) => [`Send ${it.send}: ${bytes(it.placed_bytes)} of ${bytes(it.total_bytes)} in the lane`],
  mail_waits: (it) => ["Mail from ", did(it.origin), " waits to be taken"],
  mail_lost: (it) => ["Mail from ", did(it.origin), " can be admitted no more: ", code(it.error)],
  mail_ended: (it) => ["Mail for ", did(it.destination), ` was ${it.outcome}, says `, did(it.by)],
  store_failed: (it) => ["The store failed: ", code(it.error), ` ${it.message}`],
  missed: (it) => [`${count(it.count, "event", "events")} came faster than this page took them`],
  unseen: () => ["Nobody looked at this page: what happened until this instant is not in the list"],
};

const BAD = new Set(["store_failed", "mail_lost", "unreachable"]);

// What makes two events one line.
function kind(event) {
  switch (event.event) {
    case "admitted": return `${event.stream} ${event.verdict}`;
    case "refused": return `${event.peer} ${event.class} ${event.error}`;
    case "send_progress": return `send ${event.send}`;
    case "unseen": return "unseen";
    default: return null;
  }
}

export function handleEvent(event) {
  if (event.event === "watching") return;
  const same = kind(event);
  const last = kept[0];
  if (last && same !== null && last.same === same) {
    Object.assign(last, { event, times: last.times + 1, at: Date.now() });
    return;
  }
  kept.unshift({ event, same, times: 1, at: Date.now() });
  kept.length = Math.min(kept.length, KEPT);
}

export function showEvents() {
  if (kept.length === 0) {
    show("events", el("li", {}, empty("Nothing has happened since this page was opened.")));
    return;
  }
  show("events", kept.map(({ event, times, at }) => el("li", { class: BAD.has(event.event) && "bad" },
    clock(at), el("span", {}, WORDS[event.event]?.(event, times) ?? JSON.stringify(event)))));
}
