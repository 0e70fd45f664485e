// Pages of strangers in a real browser, against a real node whose API is on TCP: none of them drives it, reads
// of it, or shows it, and each try is counted.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Browser, tests } from "../../../../scripts/browser.mjs";
import { ADDRESS, Daemon } from "./nodes.mjs";

const API = `http://${ADDRESS}:7490`;
const REBOUND = "http://rebound.example:7490";
const PEER = "http://127.0.0.1:1";
const { test, end } = tests("strangers");

// A stranger's own server: the same empty page at every address. It is on the node's address too, as
// anything that a person runs beside it is. It names an icon, or the browser would ask for one.
const PAGE = '<title>stranger</title><link rel="icon" href="data:,">';
const server = createServer((asked, answer) => answer.setHeader("content-type", "text/html").end(PAGE));
server.listen(0, ADDRESS);
await once(server, "listening");
const { port } = server.address();

const node = await (await new Daemon("node", 7490).init()).run();
const { filter } = (await node.overlane("log"))[0];
const token = new URL(await node.dashboard()).hash.slice(1);
const rules = `MAP evil.example ${ADDRESS}, MAP rebound.example ${ADDRESS}`;
// Newer browsers ask their user before a page reaches this machine. Here nothing but the node is in the way.
const browser = await new Browser([`--host-resolver-rules=${rules}`, "--disable-features=LocalNetworkAccessChecks"]).start();
const HOST = "api/host_not_allowed";
const ORIGIN = "api/origin_not_allowed";
const NO_TOKEN = "api/no_token";

const refused = async () => (await node.status()).api_refused;
const cookies = [];

async function page(address) {
  const page = await browser.context.newPage();
  page.on("response", async (response) => cookies.push(...(await response.headerValues("set-cookie").catch(() => []))));
  await page.goto(address);
  return page;
}

// Does it, and waits until the node has counted it, so many times and under this code. For a tab that shows
// a refusal the browser asks for an icon, too, which counts as what brings no token.
async function isRefused(code, times, act) {
  const before = await refused();
  const said = await act();
  await node.until(`${times} × ${code}`, (status) => status.api_refused[code] >= before[code] + times);
  const after = await refused();
  assert.deepEqual({ ...after, [NO_TOKEN]: 0 }, { ...before, [code]: before[code] + times, [NO_TOKEN]: 0 });
  return said;
}

// What a page gets to know of a request.
const fetched = (page, path, options) => page.evaluate(([path, options]) =>
  fetch(path, options).then(async (it) => ({ type: it.type, status: it.status, body: await it.text() }), (error) => ({ error: error.name })),
[path, options]);

const peer = JSON.stringify({ url: PEER });

for (const [who, from] of [["another site", `http://evil.example:${port}/`], ["another server at the node's own address", `http://${ADDRESS}:${port}/`]]) {
  await test(`${who} reads nothing and does nothing by fetch`, async () => {
    const stranger = await page(from);
    const blocked = { error: "TypeError" };
    const tries = [
      ["a plain question", `${API}/v1/status`, {}],
      ["with cookies, had there been any", `${API}/v1/status`, { credentials: "include" }],
      ["a post that no question goes before", `${API}/v1/peers`, { method: "POST", body: peer, headers: { "content-type": "text/plain" } }],
      ["a post of a form's kind", `${API}/v1/peers`, { method: "POST", body: `url=${PEER}`, headers: { "content-type": "application/x-www-form-urlencoded" } }],
      ["one with a question before it", `${API}/v1/peers`, { method: "POST", body: peer, headers: { "content-type": "application/json" } }],
      ["one with the right token", `${API}/v1/peers`, { method: "POST", body: peer, headers: { "content-type": "application/json", authorization: `Bearer ${token}` } }],
      ["another method", `${API}/v1/peers`, { method: "DELETE", body: peer }],
      ["the page of the dashboard", `${API}/dashboard`, {}],
    ];
    for (const [what, path, options] of tries) {
      assert.deepEqual(await isRefused(ORIGIN, 1, () => fetched(stranger, path, options)), blocked, what);
    }
    const hidden = await isRefused(ORIGIN, 2, async () => [
      await fetched(stranger, `${API}/v1/status`, { mode: "no-cors" }),
      await fetched(stranger, `${API}/v1/peers`, { mode: "no-cors", method: "POST", body: peer }),
    ]);
    for (const it of hidden) assert.ok(it.error || (it.type === "opaque" && it.body === ""), JSON.stringify(it));
    await stranger.close();
  });
}

await test("a form of a stranger's page changes nothing", async () => {
  for (const [kind, target] of [["text/plain", "frame"], ["application/x-www-form-urlencoded", "frame"], ["multipart/form-data", "_self"]]) {
    const stranger = await page(`http://evil.example:${port}/`);
    await isRefused(ORIGIN, 1, () => stranger.evaluate(([action, kind, target]) => {
      const frame = Object.assign(document.createElement("iframe"), { name: "frame" });
      const form = Object.assign(document.createElement("form"), { action, method: "post", enctype: kind, target });
      // As text, the field and its value are the JSON that the API takes.
      form.append(Object.assign(document.createElement("input"), { name: '{"url": "http://127.0.0.1:1", "x": "', value: '"}' }));
      document.body.append(frame, form);
      form.submit();
    }, [`${API}/v1/peers`, kind, target]));
    await stranger.close();
  }
});

await test("what a page loads without asking is refused: pictures, scripts, styles, frames, streams, sockets, beacons", async () => {
  const stranger = await page(`http://evil.example:${port}/`);
  const load = (name, attributes) => stranger.evaluate(([name, attributes]) => new Promise((done) => {
    const it = Object.assign(document.createElement(name), attributes);
    it.addEventListener("load", () => done("load"));
    it.addEventListener("error", () => done("error"));
    document.body.append(it);
  }), [name, attributes]);
  for (const [name, attributes] of [
    ["img", { src: `${API}/v1/status` }], ["img", { src: `${API}/dashboard/icon.svg` }],
    ["script", { src: `${API}/v1/status` }], ["script", { src: `${API}/dashboard/app.js` }],
    ["link", { rel: "stylesheet", href: `${API}/dashboard/style.css` }],
  ]) assert.equal(await isRefused(ORIGIN, 1, () => load(name, attributes)), "error", JSON.stringify(attributes));
  // A frame tells nobody outside what is in it; the node says that it gave nothing.
  for (const path of ["/dashboard", "/v1/status"]) await isRefused(ORIGIN, 1, () => load("iframe", { src: `${API}${path}` }));
  assert.equal(await isRefused(ORIGIN, 1, () => stranger.evaluate((url) => new Promise((done) => {
    const stream = new EventSource(url, { withCredentials: true });
    stream.onerror = () => { stream.close(); done("error"); };
    stream.onmessage = () => done("message");
  }), `${API}/v1/events`)), "error");
  for (const path of ["/v1/events", "/v1/watch"]) {
    assert.equal(await isRefused(ORIGIN, 1, () => stranger.evaluate((url) => new Promise((done) => {
      const socket = new WebSocket(url);
      socket.onerror = () => done("error");
      socket.onopen = () => done("open");
    }), `${API.replace("http", "ws")}${path}`)), "error");
  }
  await isRefused(ORIGIN, 1, () => stranger.evaluate(([url, body]) => navigator.sendBeacon(url, body), [`${API}/v1/peers`, peer]));
  // A page without an origin.
  await isRefused(ORIGIN, 1, () => stranger.evaluate((url) => new Promise((done) => {
    addEventListener("message", (said) => done(said.data), { once: true });
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts";
    frame.srcdoc = `<script>fetch("${url}", { method: "POST", body: '{}' }).then(() => "read", () => "refused").then((it) => parent.postMessage(it, "*"))</script>`;
    document.body.append(frame);
  }), `${API}/v1/inbox/fetch`));
  await stranger.close();
});

await test("a name of a stranger that leads to the node opens nothing, to its own pages neither", async () => {
  // The stranger's page came from the stranger; then its name began to lead here, so all it asks is of its own origin.
  const rebound = await browser.context.newPage();
  await rebound.route(`${REBOUND}/stranger`, (route) => route.fulfill({ contentType: "text/html", body: PAGE }));
  await rebound.goto(`${REBOUND}/stranger`);
  const authorization = `Bearer ${token}`;
  for (const [path, options] of [
    ["/v1/status", {}], ["/v1/status", { headers: { authorization } }], ["/dashboard", {}],
    ["/v1/peers", { method: "POST", body: peer, headers: { "content-type": "application/json", authorization } }],
    ["/v1/peers", { method: "POST", body: peer, headers: { "content-type": "text/plain" } }],
    ["/v1/log", { method: "PUT", body: '{"filter": "trace"}', headers: { "content-type": "application/json", authorization } }],
  ]) {
    const answer = await isRefused(HOST, 1, () => fetched(rebound, path, options));
    assert.equal(answer.status, 403, path);
    assert.deepEqual(JSON.parse(answer.body).error, HOST);
  }
  assert.equal(await isRefused(HOST, 1, () => rebound.evaluate(() => new Promise((done) => {
    const stream = new EventSource("/v1/events");
    stream.onerror = () => { stream.close(); done("error"); };
    stream.onmessage = () => done("message");
  }))), "error");
  assert.equal(await isRefused(HOST, 1, () => rebound.evaluate(() => new Promise((done) => {
    const socket = new WebSocket(`ws://${location.host}/v1/events`);
    socket.onerror = () => done("error");
    socket.onopen = () => done("open");
  }))), "error");
  // A tab that goes there shows the refusal, and that alone.
  const status = await isRefused(HOST, 1, async () => (await rebound.goto(`${REBOUND}/dashboard`)).status());
  assert.equal(status, 403);
  assert.match(await rebound.textContent("body"), /api\/host_not_allowed/);
  await rebound.close();
});

await test("a stranger may send a tab to the dashboard, and learns and does nothing by it", async () => {
  const stranger = await page(`http://evil.example:${port}/`);
  const before = await refused();
  const [opened] = await Promise.all([browser.context.waitForEvent("page"),
    stranger.evaluate((url) => { window.tab = window.open(url); }, `${API}/dashboard#${"f".repeat(64)}`)]);
  // Its token is wrong, and that is said; the page that is there has cut itself off from who opened it.
  await opened.waitForSelector("body[data-state=token-wrong]");
  assert.ok((await refused())[NO_TOKEN] > before[NO_TOKEN]);
  assert.equal(await stranger.evaluate(() => window.tab.closed), true);
  assert.equal(await opened.evaluate(() => window.opener), null);
  await opened.close();
  await stranger.close();
});

await test("the file that `overlane dashboard --open` opens leads there, with the token", async () => {
  const bin = mkdtempSync(join(node.home, "bin-"));
  writeFileSync(join(bin, "xdg-open"), "#!/bin/sh\nexit 0\n", { mode: 0o755 });
  process.env.PATH = `${bin}:${process.env.PATH}`;
  await node.overlane("dashboard", "--open");
  const lead = await page(pathToFileURL(join(node.home, "dashboard.html")).href);
  await lead.waitForSelector("body[data-state=live]");
  assert.equal(lead.url(), `${API}/dashboard`);
  await lead.close();
});

await test("after all of it nothing has changed, and no cookie was ever set", async () => {
  const status = await node.status();
  assert.deepEqual(status.peers, []);
  assert.equal(status.pending_sends, 0);
  assert.equal((await node.overlane("log"))[0].filter, filter);
  assert.deepEqual(cookies, []);
  assert.deepEqual(await browser.context.cookies(), []);
});

await browser.end();
await node.process.stop();
server.close();
server.closeAllConnections();
end();
