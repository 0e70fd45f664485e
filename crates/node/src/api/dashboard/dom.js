// Elements made without markup: nothing that a node says is ever read as markup.

export const byId = (id) => document.getElementById(id);

export const el = (name, attributes, ...children) => made(document.createElement(name), attributes, children);

export const svg = (name, attributes, ...children) =>
  made(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((it) => it !== undefined && it !== null && it !== false));
  return node;
}

// Shows something in a part of the page. What stays as it is is not touched: it keeps its place on the
// screen, and what a person marked in it.
export function show(id, ...children) {
  const part = byId(id);
  const fresh = made(part.cloneNode(false), {}, children);
  if (!part.isEqualNode(fresh)) part.replaceChildren(...fresh.childNodes);
}

// A table: its name for who hears it, heads, and rows of cells. A head that begins with # is of numbers;
// the first cell of a row is its head. Rows that belong together are a list of their own behind a word.
export function table(name, heads, rows) {
  return grouped(name, heads, [[null, rows]]);
}

export function grouped(name, heads, groups) {
  const number = heads.map((head) => head.startsWith("#"));
  const cell = (content, at) => el(at === 0 ? "th" : "td",
    { scope: at === 0 && "row", class: number[at] && "number" }, content);
  return el("table", {},
    el("caption", { class: "heard" }, name),
    el("thead", {}, el("tr", {}, heads.map((head, at) =>
      el("th", { scope: "col", class: number[at] && "number" }, head.replace(/^#/, ""))))),
    groups.map(([of, rows]) => el("tbody", {},
      of !== null && el("tr", { class: "of" }, el("th", { scope: "rowgroup", colspan: heads.length }, of)),
      rows.map((row) => el("tr", {}, row.map(cell))))));
}

export const empty = (...children) => el("p", { class: "empty" }, children);

export const code = (text) => el("code", {}, text);
