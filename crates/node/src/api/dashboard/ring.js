// The ring as a picture: this node on top, the others clockwise in the ring's order, each as far round as
// it is, but never so near to the next that the two could not be told apart.
import { code, el, empty, show, svg, table } from "./dom.js";
import { count, did, short } from "./words.js";

// Half the picture's width and height, with room for names beside the ring.
const WIDE = 235;
const HIGH = 165;
const RADIUS = 130;
const GAP = (Math.PI * 2) / 26;
const WHOLE = 1n << 160n;

const ROLES = { self: "this node", successor: "successor", predecessor: "predecessor", finger: "finger", other: "linked" };

// How far round from one Did to another, clockwise: 0 to 1.
function distance(from, to) {
  const way = (BigInt(`0x${to}`) - BigInt(`0x${from}`) + WHOLE) % WHOLE;
  return Number(way >> 108n) / 2 ** 52;
}

// This node, its neighbours, and whom else it is linked to, in the ring's order.
function nodesOf({ did: own, neighbours, links }) {
  const linked = new Map(links.map((link) => [link.peer, link]));
  const nodes = neighbours.map((it) => ({ ...it, direct: linked.has(it.did), disturbed: linked.get(it.did)?.disturbed }));
  const known = new Set(neighbours.map((it) => it.did));
  for (const { peer, path, disturbed } of links) {
    if (!known.has(peer)) nodes.push({ did: peer, role: "other", link: "direct", path, direct: true, disturbed });
    known.add(peer);
  }
  for (const node of nodes) node.round = distance(own, node.did);
  return nodes.sort((a, b) => a.round - b.round);
}

// Angles that keep their distance, the first and the last from the top as well.
function spread(nodes) {
  const gap = Math.min(GAP, (Math.PI * 2) / (nodes.length + 1));
  const angles = nodes.map((node) => node.round * Math.PI * 2);
  let least = gap;
  for (let at = 0; at < angles.length; at++) least = (angles[at] = Math.max(angles[at], least)) + gap;
  let most = Math.PI * 2 - gap;
  for (let at = angles.length - 1; at >= 0; at--) most = (angles[at] = Math.min(angles[at], most)) - gap;
  return angles;
}

const at = (angle, radius) => [WIDE + radius * Math.sin(angle), HIGH - radius * Math.cos(angle)].map((it) => it.toFixed(1));

// Each role has a form of its own, not a colour alone.
function mark(role, [x, y]) {
  const kind = { class: `mark ${role}` };
  const [cx, cy] = [Number(x), Number(y)];
  switch (role) {
    case "self": return svg("circle", { ...kind, cx, cy, r: 10 });
    case "predecessor": return svg("path", { ...kind, d: `M${cx} ${cy - 9}l9 9l-9 9l-9-9z` });
    case "finger": return svg("rect", { ...kind, x: cx - 6, y: cy - 6, width: 12, height: 12 });
    default: return svg("circle", { ...kind, cx, cy, r: 7 });
  }
}

function name(node, angle) {
  const side = Math.sin(angle);
  const [x, y] = at(angle, RADIUS + 17);
  const anchor = Math.abs(side) < 0.2 ? "middle" : side > 0 ? "start" : "end";
  return svg("text", { x, y, "text-anchor": anchor, "dominant-baseline": Math.abs(side) < 0.2 ? (Math.cos(angle) > 0 ? "auto" : "hanging") : "middle" }, node);
}

const how = (node) => (node.direct ? "direct" : node.via ? "via" : "none");

function picture(own, nodes) {
  const angles = spread(nodes);
  const top = at(0, RADIUS);
  const ways = nodes.map((node, index) => {
    const [x2, y2] = at(angles[index], RADIUS);
    const kind = node.disturbed ? "disturbed" : how(node);
    return kind === "none" ? null : svg("line", { class: `way ${kind}`, x1: top[0], y1: top[1], x2, y2 });
  });
  const marks = nodes.map((node, index) => svg("g", { class: how(node) },
    svg("title", {}, `${node.did}, ${ROLES[node.role] ?? node.role}`),
    mark(node.role, at(angles[index], RADIUS)), name(short(node.did), angles[index])));
  return svg("svg", { viewBox: `0 0 ${2 * WIDE} ${2 * HIGH}`, role: "img", "aria-labelledby": "ring-caption" },
    svg("circle", { class: "circle", cx: WIDE, cy: HIGH, r: RADIUS }),
    ways, marks,
    svg("g", {}, svg("title", {}, `${own}, this node`), mark("self", top), name(short(own), 0)));
}

const legend = (role) => el("li", {},
  svg("svg", { viewBox: "0 0 24 24", class: "key", "aria-hidden": "true" }, mark(role, [12, 12])), ROLES[role]);

function reached(node) {
  if (node.disturbed) return "direct, nothing heard for a while";
  if (node.direct) return node.path ?? "direct";
  if (node.via) return ["by way of ", did(node.via)];
  return node.error ? ["not at all: ", code(node.error)] : "not at all";
}

const share = (round) => (round < 0.0001 ? "< 0.01 %" : `${(round * 100).toFixed(2)} %`);

export function showRing(status) {
  const nodes = nodesOf(status);
  if (nodes.length === 0) {
    show("ring", picture(status.did, []));
    show("ring-caption", "This node is alone in its ring.");
    show("ring-nodes", empty("To join others: ", code("overlane join TICKET"), ", with what ",
      code("overlane invite"), " prints there."));
    return;
  }
  show("ring", picture(status.did, nodes),
    el("ul", { class: "legend" }, [...new Set(["self", ...nodes.map((it) => it.role)])].map(legend)));
  const direct = nodes.filter((it) => it.direct).length;
  const via = nodes.filter((it) => how(it) === "via").length;
  const confirmed = status.place_confirmed_ago_ms;
  show("ring-caption", `This node and ${count(nodes.length, "other", "others")} that it knows, clockwise: ${direct} linked, `
    + `${via} by way of others. ${confirmed === null ? "No lookup has confirmed its place yet." : "A lookup has confirmed its place."}`);
  show("ring-nodes", table("Nodes of the ring, clockwise", ["Node", "Is", "Reached", "#Round"],
    nodes.map((node) => [did(node.did), ROLES[node.role] ?? node.role, reached(node), share(node.round)])));
}
