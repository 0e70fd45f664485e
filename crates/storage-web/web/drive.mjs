// Uses the pages as a person does, and as a browser does that is loaded again, full, or killed.
//
//   node drive.mjs FOLDER     # leaves pictures of the inspect page in FOLDER
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Browser, tests } from "../../../scripts/browser.mjs";
import { serve } from "./serve.mjs";

const shots = process.argv[2];
mkdirSync(shots, { recursive: true });
const server = await serve();
const browser = await new Browser().start();
const { test, end } = tests("pages");

const fill = async (page, fields) => {
  for (const [id, value] of Object.entries(fields)) await page.fill(`#${id}`, String(value));
};

// What the page answers to one admission.
async function admit(page, fields) {
  await fill(page, fields);
  await page.click("#admit button");
  await page.waitForFunction(() => !["", "…"].includes(document.getElementById("said").textContent));
  return page.textContent("#said");
}

const admissions = () => browser.page(`${server.url}admissions.html`);
const inspect = async (node) => {
  const page = await browser.page(`${server.url}inspect.html`);
  await page.fill("#node", node);
  await press(page, "#open");
  return page;
};

// Presses, and gives what the page says once it is done.
async function press(page, selector) {
  await page.click(selector);
  await page.waitForFunction(() => !document.getElementById("open").disabled);
  return page.textContent("#said");
}

await test("admissions hold after the page is loaded again", async () => {
  const page = await admissions();
  assert.equal(await admit(page, { node: "reload", sequence: 10 }), "first");
  assert.equal(await admit(page, { sequence: 12 }), "advance");
  await page.reload();
  await page.waitForSelector("body[data-ready=yes]");
  assert.equal(await admit(page, { node: "reload", sequence: 12 }), "replay/replay");
  assert.equal(await admit(page, { sequence: 12, tag: 2 }), "replay/fork");
  assert.equal(await admit(page, { sequence: 11, tag: 1 }), "late");
  await page.close();
});

await test("a second tab is refused until the first is gone", async () => {
  const first = await admissions();
  assert.equal(await admit(first, { node: "tabs", sequence: 5 }), "first");
  const second = await admissions();
  assert.match(await admit(second, { node: "tabs", sequence: 6 }), /^store\/locked: .*another process or page/);
  await first.close();
  assert.equal(await admit(second, { node: "tabs", sequence: 5 }), "replay/replay");
  await second.close();
});

await test("a full origin fails closed and loses nothing", async () => {
  const page = await admissions();
  const session = await browser.context.newCDPSession(page);
  const origin = new URL(server.url).origin;
  assert.equal(await admit(page, { node: "quota", origin: 1, sequence: 1 }), "first");
  await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 1 });
  // How much a browser lets through before it says so is its own affair: Chromium goes by what was
  // left some seconds ago.
  const full = await page.evaluate(async () => {
    const batches = await Batches.open("full");
    for (let version = 1; version < 1_000_000; version++) {
      try { await batches.write(version); } catch (error) {
        const again = await batches.write(version).catch((error) => error.message);
        return { released: version - 1, said: error.message, again };
      }
    }
    return { said: "nothing" };
  });
  assert.match(full.said, /^store\/full: /);
  assert.match(full.again, /^store\/poisoned: /, "until it is opened again");
  // The engine on another store of the same origin: its batch fails, and everything after it.
  assert.equal(await admit(page, { origin: 2 }), "replay/store_failed (store/full)");
  assert.equal(await admit(page, { origin: 1, sequence: 2 }), "replay/store_failed (store/full)");
  await session.send("Storage.overrideQuotaForOrigin", { origin });
  await page.reload();
  await page.waitForSelector("body[data-ready=yes]");
  assert.equal(await admit(page, { node: "quota", origin: 1, sequence: 1 }), "replay/replay");
  assert.equal(await admit(page, { origin: 2 }), "first", "what failed was undone");
  await page.close();
  assert.equal(await afterwards("full", full), full.released);
});

// Batch after batch; the number of the last one that was said to be durable is kept outside the tab.
async function writeWithoutEnd(node) {
  const page = await admissions();
  const told = { released: 0, next: null };
  await page.exposeFunction("released", (version) => { told.released = version; told.next?.(); });
  const from = await page.evaluate(async (node) => {
    window.batches = await Batches.open(node);
    return await window.batches.version() ?? 0;
  }, node);
  told.released = from;
  page.evaluate(async (from) => {
    for (let version = from + 1; ; version++) {
      await window.batches.write(version);
      released(version);
    }
  }, from).catch(() => {});
  const until = (version) => new Promise((done) => {
    told.next = () => told.released >= version && done();
    told.next();
  });
  return { page, told, until };
}

async function afterwards(node, told) {
  const page = await admissions();
  const version = await page.evaluate(async (node) => {
    const batches = await Batches.open(node);
    const version = await batches.version();
    await batches.close();
    return version;
  }, node);
  assert.ok(version >= told.released, `version ${version} after ${told.released} was released`);
  await page.close();
  return version;
}

await test("a tab killed in the middle of a batch leaves each record at its old or its new value", async () => {
  for (let round = 1; round <= 6; round++) {
    const { page, told, until } = await writeWithoutEnd("killed-tab");
    await until(told.released + 3 + round);
    const session = await browser.context.newCDPSession(page);
    const crashed = page.waitForEvent("crash");
    session.send("Page.crash").catch(() => {});
    await crashed;
    await afterwards("killed-tab", told);
  }
});

await test("a browser killed in the middle of a batch leaves each record at its old or its new value", async () => {
  for (let round = 1; round <= 3; round++) {
    const { told, until } = await writeWithoutEnd("killed-browser");
    await until(told.released + 5 + round);
    await browser.kill();
    await browser.start();
    await afterwards("killed-browser", told);
  }
});

await test("a person lists, shows, verifies and clears", async () => {
  const node = "inspected";
  const admitting = await admissions();
  for (const origin of [1, 2, 3, 4]) {
    assert.equal(await admit(admitting, { node, origin, sequence: 40 }), "first");
    assert.equal(await admit(admitting, { node, origin, sequence: 41 }), "advance");
  }
  await admitting.close();

  const page = await inspect(node);
  assert.equal(await page.textContent("#said"), "4 records");
  const lines = await page.locator("#records code").allTextContents();
  assert.equal(lines.length, 4);
  for (const line of lines) assert.match(line, /^[0-9a-f]{40}  receiver  \S+/);
  assert.match(await press(page, "#verify"), /^indexeddb store in overlane-replay\/inspected: 4 of 32768 records\n +4 receiver records restore\nevery record restores$/);
  const shown = await press(page, "#records tr:nth-child(1) button:text('Show')");
  assert.match(shown, /high +41/);

  // Clearing asks first, and says what it costs.
  const names = lines.map((line) => line.slice(0, 40));
  const clear = (at) => press(page, `#records tr:nth-child(${at}) button:text('Clear')`);
  assert.match(await clear(4), /starts again from First.*\nnothing was changed yet$/s);
  assert.equal(await press(page, "#no"), "nothing was changed");
  await clear(4);
  assert.match(await press(page, "#yes"), new RegExp(`cleared; what was there is kept in cleared/${names[3]}/0$`));
  assert.equal(await page.locator("#records code").count(), 3);

  // Another script of this origin writes over one record's row and takes another's away.
  await press(page, "#close");
  await page.evaluate(async ([damaged, taken]) => {
    const bytes = (name) => Uint8Array.from(name.match(/../g), (it) => parseInt(it, 16));
    const open = indexedDB.open("overlane-replay/inspected");
    const database = await new Promise((ok) => { open.onsuccess = () => ok(open.result); });
    const transaction = database.transaction("records", "readwrite");
    transaction.objectStore("records").put("not a record", bytes(damaged));
    transaction.objectStore("records").delete(bytes(taken));
    await new Promise((ok) => { transaction.oncomplete = ok; });
    database.close();
  }, names);
  await press(page, "#open");
  const verified = await press(page, "#verify");
  assert.match(verified, new RegExp(`${names[0]}  \\?         BAD unreadable: its row holds no bytes`));
  assert.match(verified, new RegExp(`${names[1]}  \\?         BAD missing: `));
  assert.equal(await page.isVisible("#yes"), false, "nothing is asked");
  assert.match(verified, /1 receiver records restore/);
  assert.match(verified, /2 do not restore; each refuses its own stream and no other/);
  await page.screenshot({ path: join(shots, "inspect.png") });
  await clear(1);
  await page.screenshot({ path: join(shots, "clear.png") });
  await press(page, "#yes");
  assert.match(await press(page, "#verify"), /\n1 do not restore/);
  await press(page, "#close");
  await page.close();

  // Its stream starts again; the other bad one's does not, and no other has noticed.
  const again = await admissions();
  const said = [];
  for (const origin of [1, 2, 3, 4]) said.push(await admit(again, { node, origin, sequence: 41 }));
  assert.deepEqual(said.sort(), ["first", "first", "replay/replay", "replay/stream_unavailable"]);
  await again.close();
});

await test("a page without an origin, and one that may not have locks, are told so", async () => {
  const page = await browser.context.newPage();
  await page.route("**/*", async (route) => {
    const response = await route.fetch();
    const headers = { ...response.headers(), "access-control-allow-origin": "*" };
    if (route.request().url().endsWith("admissions.html")) headers["content-security-policy"] = "sandbox allow-scripts allow-forms";
    await route.fulfill({ response, headers });
  });
  await page.goto(`${server.url}admissions.html`);
  await page.waitForSelector("body[data-ready=yes]");
  assert.match(await admit(page, { node: "nowhere" }), /^store\/no_storage: /);
  await page.close();
});

await browser.end();
await server.stop();
end();
