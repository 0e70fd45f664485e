// Who and where the node is, and its links with their lanes.
import { code, el, empty, show } from "./dom.js";
import { bytes, clock, count, did, duration, number } from "./words.js";

function tally(items, word) {
  const counts = new Map();
  for (const item of items) counts.set(word(item), (counts.get(word(item)) ?? 0) + 1);
  return [...counts];
}

function linksInWords({ links }) {
  const up = links.filter((link) => link.up);
  if (up.length === 0) return links.length === 0 ? "none" : "none yet";
  const kinds = tally(up, (link) => link.path ?? "not known how").map(([path, of]) => `${of} ${path}`);
  const quiet = up.filter((link) => link.disturbed).length;
  return [...kinds, ...(quiet > 0 ? [`${quiet} of them not heard for a while`] : [])].join(", ");
}

function storeInWords({ store, references_failed, groups_failed, mail_failed }) {
  const wrong = [store.error && `${store.error.message} (${store.error.error})`, references_failed && `references: ${references_failed}`,
    groups_failed && `groups: ${groups_failed}`, mail_failed && `mail: ${mail_failed}`].filter(Boolean);
  const words = `${store.kind}, ${store.state}`;
  return store.state === "durable" && wrong.length === 0 ? words
    : el("strong", { class: "bad" }, [words, ...wrong].join("; "));
}

export function showNode(status) {
  const refused = Object.values(status.api_refused).reduce((sum, of) => sum + of, 0);
  const said = [
    ["Did", el("code", { class: "long" }, status.did)],
    ["Account", el("code", { class: "long" }, status.did_key)],
    ["Network", String(status.network)],
    ["Takes offers at", status.url ? el("code", { class: "long" }, status.url) : "no address"],
    ["Up", duration(status.uptime_ms)],
    ["Links", linksInWords(status)],
    ["Store", storeInWords(status)],
    ["Delegation until", clock(status.delegation_ends_ms)],
    ["Home", el("code", { class: "long" }, status.home)],
    ...status.ice_servers.map((it) => ["ICE server", [code(it.url), ` ${it.state}`, it.error && ` (${it.error})`]]),
    ["API refused", count(refused, "request", "requests")],
  ];
  show("node", said.map(([term, words]) => el("div", {}, el("dt", {}, term), el("dd", {}, words))));
}

const cells = (kind, texts) => texts.map((text) => el(kind, { scope: kind === "th" && "col", class: "number" }, text));

function lane(of) {
  const busy = of.queued > 0 || of.in_flight > 0 || of.untaken > 0;
  const queued = of.queued > 0 ? `${number(of.queued)} (${bytes(of.queued_bytes)})` : "0";
  return el("tr", { class: busy && "busy" }, el("th", { scope: "row" }, of.class),
    cells("td", [queued, number(of.in_flight), number(of.credit), number(of.sent), number(of.received)]));
}

function link(of) {
  const about = [of.up ? of.path ?? "way not known" : "not up: on its way, or ending", of.round_trip_ms !== null && `${of.round_trip_ms} ms there and back`,
    of.dialed_url ? "dialled" : "accepted", of.disturbed && "nothing heard for a while"].filter(Boolean).join(", ");
  return el("tbody", { class: of.disturbed && "disturbed" },
    el("tr", { class: "of" }, el("th", { scope: "rowgroup", colspan: 6 }, did(of.peer), ` ${about}`)), of.lanes.map(lane));
}

export function showLinks({ links, peers }) {
  const waiting = peers.filter((peer) => peer.state !== "linked");
  const notLinked = waiting.map((peer) => el("p", { class: "missing" }, code(peer.url), ` is to be linked to, and is ${peer.state}`,
    peer.error && [": ", peer.error.message, " (", code(peer.error.error), ")"]));
  if (links.length === 0) {
    show("links", empty("No link. ", code("overlane peer add URL"), " stays linked to a node."), notLinked);
    return;
  }
  show("links", el("table", { class: "lanes" },
    el("caption", { class: "heard" }, "Lanes of each link"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Lane"),
      cells("th", ["Queued", "In flight", "Credit", "Sent", "Received"]))),
    links.map(link)), notLinked);
}
