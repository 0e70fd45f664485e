// Uses the dashboard as a person does, on two live nodes.
//
//   node drive.mjs FOLDER     # leaves pictures of it in FOLDER
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Browser, tests } from "../../../../scripts/browser.mjs";
import { ADDRESS, Daemon } from "./nodes.mjs";

const shots = process.argv[2];
mkdirSync(shots, { recursive: true });
const axe = readFileSync(process.env.AXE, "utf8");
const { test, end } = tests("dashboard");
const browser = await new Browser(["--hide-scrollbars"]).start();
const here = await (await new Daemon("here", 7490).init()).run();
const other = await (await new Daemon("other").init()).run();
const url = await here.dashboard();
await here.overlane("peer", "add", other.url);
await here.until("the link", (status) => status.links.length === 1);

// A page at this address; what it asks for, and what goes wrong in it, is kept.
async function open(address, size = { width: 1280, height: 900 }) {
  const page = await browser.context.newPage();
  page.asked = [];
  page.wrong = [];
  page.on("request", (request) => page.asked.push(request.url()));
  page.on("pageerror", (error) => page.wrong.push(error.message));
  page.on("console", (line) => {
    // A browser's own word for an answer that is none, which the page tells in its own.
    const network = line.text().startsWith("Failed to load resource");
    if (["error", "warning"].includes(line.type()) && !network) page.wrong.push(line.text());
  });
  await page.setViewportSize(size);
  await page.goto(address);
  return page;
}

const state = (page, wanted) => page.waitForSelector(`body[data-state=${wanted}]`);
const shot = (page, name) => page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
const text = (page, id) => page.textContent(`#${id}`);

// Until a part says so: what a node knows of its ring and its links comes by and by.
const says = (page, id, words) => page.waitForFunction(([id, words]) =>
  new RegExp(words).test(document.getElementById(id).textContent), [id, words]);

// The number that the table has in a verdict's row, in its last column.
const sinceStart = (page, verdict) => page.locator("#verdicts tbody tr", { has: page.locator(`text="${verdict}"`) })
  .locator("td").last().textContent().then((it) => Number(it.replaceAll(",", "")));

const grows = (page, verdict, from) => page.waitForFunction(([verdict, from]) => {
  const rows = [...document.querySelectorAll("#verdicts tbody tr")];
  const row = rows.find((it) => it.querySelector("th").textContent === verdict);
  return Number(row.lastElementChild.textContent.replaceAll(",", "")) > from;
}, [verdict, from]);

async function accessible(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  const said = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((it) => it.html.slice(0, 120)).join(" | ")}`);
  assert.deepEqual(said, [], name);
}

// What goes beyond the edge of its part, where it can be scrolled to.
const beyond = (page) => page.evaluate(() => [...document.querySelectorAll(".scroll")]
  .filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.getAttribute("aria-label")));

const narrow = (page) => page.evaluate(() => document.documentElement.scrollWidth);

await test("the page shows who and where the node is, and keeps the token to itself", async () => {
  const page = await open(url);
  await state(page, "live");
  const token = new URL(url).hash.slice(1);
  assert.match(token, /^[0-9a-f]{64}$/);
  assert.equal(page.url(), `http://${ADDRESS}:7490/dashboard`, "the address holds the token no longer");
  await says(page, "node", "1 direct");
  const node = await text(page, "node");
  for (const word of [here.did, here.did_key, here.url, "durable"]) assert.ok(node.includes(word), `${word} in ${node}`);
  assert.match(await page.title(), new RegExp(`${here.did.slice(0, 8)} – 1 link`));
  await says(page, "links", other.did.slice(0, 8));
  assert.ok(page.asked.every((it) => it.startsWith(`http://${ADDRESS}:7490/`)), "nothing from elsewhere");
  assert.ok(page.asked.slice(1).every((it) => !it.includes(token)), "the token in no address that was asked for");
  assert.deepEqual(page.wrong, []);
  await page.reload();
  await state(page, "live");
  await shot(page, "light");
  await page.close();
});

await test("what it shows moves with what happens", async () => {
  const page = await open(url);
  await state(page, "live");
  // Whatever the ring itself sends is among them: only more can come.
  const advanced = await sinceStart(page, "Advance");
  for (let sent = 1; sent <= 8; sent++) await other.send(here, `message ${sent}`, "--no-hold");
  await grows(page, "Advance", advanced);
  await page.waitForFunction(() => document.querySelectorAll("#admissions rect").length > 0);
  await says(page, "events", "Admitted");
  const replays = await sinceStart(page, "Replay");
  const kept = join(other.home, "kept");
  await other.send(here, "twice", "--no-hold", "--keep", kept);
  await other.overlane("send", "--signed", kept);
  await grows(page, "Replay", replays);
  await says(page, "refused", "replay/replay");
  await shot(page, "messages");
  assert.deepEqual(page.wrong, []);
  await page.close();
});

await test("the ring is a picture with a name, and a table that says the same", async () => {
  const page = await open(url);
  await state(page, "live");
  const picture = page.getByRole("img", { name: /This node and 1 other that it knows, clockwise: 1 linked/ });
  await picture.waitFor();
  // In the picture, and in its legend.
  await page.waitForFunction(() => document.querySelectorAll("#ring .mark.successor").length === 2);
  assert.equal(await page.locator("#ring .way.direct").count(), 1);
  await page.getByRole("group", { name: "Table of nodes" }).waitFor();
  await says(page, "ring-nodes", `${other.did.slice(0, 8)}.*successor.*direct`);
  await page.getByRole("img", { name: /admitted \(up\)/ }).waitFor();
  await page.close();
});

await test("it works by keyboard, with a focus that is seen, and landmarks", async () => {
  const page = await open(url);
  await state(page, "live");
  const focused = () => page.evaluate(() => {
    const it = document.activeElement;
    const { outlineStyle, outlineWidth } = getComputedStyle(it);
    return { name: it.getAttribute("aria-label") ?? it.textContent, seen: outlineStyle !== "none" && outlineWidth !== "0px" };
  });
  const order = [];
  for (let step = 0; step < 5; step++) {
    await page.keyboard.press("Tab");
    order.push(await focused());
  }
  assert.deepEqual(order.map((it) => it.name), ["To the node", "Pause", "Table of nodes", "Table of lanes", "List of events"]);
  assert.ok(order.every((it) => it.seen), JSON.stringify(order));
  for (let step = 0; step < 3; step++) await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Space");
  assert.equal(await page.getAttribute("#pause", "aria-pressed"), "true");
  await page.waitForFunction(() => document.getElementById("state").textContent === "Paused");
  await page.keyboard.press("Space");
  await page.waitForFunction(() => document.getElementById("state").textContent === "1 link");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.reload();
  await state(page, "live");
  for (const role of ["banner", "main", "contentinfo"]) assert.equal(await page.getByRole(role).count(), 1, role);
  const parts = await page.locator("main section[aria-labelledby]:visible h2").allTextContents();
  assert.deepEqual(parts, ["Node", "Ring", "Links and lanes", "Latest events", "Admissions", "Mail", "Bounds"]);
  await page.close();
});

await test("light and dark, wide and narrow, it is readable and never wider than the screen", async () => {
  const page = await open(url);
  await state(page, "live");
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const seen = {};
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    seen[colorScheme] = await background();
    for (const width of [1280, 768, 360, 320]) {
      await page.setViewportSize({ width, height: 800 });
      assert.ok(await narrow(page) <= width, `${await narrow(page)} at ${width}`);
      if (width >= 360) assert.deepEqual(await beyond(page), [], `at ${width}`);
      if (width !== 1280 && width !== 360) continue;
      await accessible(page, `${colorScheme} at ${width}`);
      await shot(page, `${colorScheme}-${width}`);
    }
  }
  assert.notEqual(seen.light, seen.dark);
  const moving = () => page.evaluate(() => getComputedStyle(document.getElementById("parts")).transitionDuration);
  await page.emulateMedia({ reducedMotion: "no-preference" });
  assert.notEqual(await moving(), "0s");
  await page.emulateMedia({ reducedMotion: "reduce" });
  assert.equal(await moving(), "0s");
  await page.close();
});

await test("without a token, and with a wrong one, it says so and takes the right one", async () => {
  // Another tab has a store of its own.
  const page = await open(`http://${ADDRESS}:7490/dashboard`, { width: 360, height: 740 });
  await state(page, "no-token");
  assert.equal(await page.locator("#parts").isVisible(), false);
  await accessible(page, "no token");
  await page.fill("#token", "0".repeat(64));
  await page.keyboard.press("Enter");
  await state(page, "token-wrong");
  assert.match(await text(page, "problem"), /overlane dashboard/);
  assert.ok(await narrow(page) <= 360);
  await shot(page, "token-wrong");
  await page.fill("#token", "nonsense");
  await page.click("#token-form button");
  assert.equal(page.url(), `http://${ADDRESS}:7490/dashboard`);
  await page.fill("#token", new URL(url).hash.slice(1));
  await page.click("#token-form button");
  await state(page, "live");
  await page.goto(`${page.url()}#${"1".repeat(64)}`);
  await state(page, "token-wrong");
  assert.deepEqual(page.wrong, []);
  await page.close();
});

await test("a page that nobody looks at gives its connection back, and has it again when it is looked at", async () => {
  const page = await browser.context.newPage();
  await page.clock.install();
  await page.goto(url);
  await state(page, "live");
  const look = (hidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  const of = (request) => request.url().endsWith("/v1/events");
  const ended = page.waitForEvent("requestfailed", of);
  await look(true);
  await page.clock.runFor(70_000);
  await ended;
  const again = page.waitForRequest(of);
  await look(false);
  await again;
  await page.clock.runFor(3_000);
  await says(page, "events", "Nobody looked");
  await page.close();
});

await test("a link that is gone is gone from the page, and what then waits is told", async () => {
  const page = await open(url);
  await state(page, "live");
  await other.process.stop();
  await page.waitForFunction(() => document.getElementById("state").textContent === "0 links");
  await says(page, "events", "ended");
  await says(page, "links", "No link.*is to be linked to, and is (waiting|dialing)");
  await shot(page, "link-gone");
  assert.deepEqual(page.wrong, []);
  await page.close();
});

await test("a node that is gone is told, and found again", async () => {
  const page = await open(url);
  await state(page, "live");
  await here.process.kill();
  await state(page, "gone");
  assert.match(await text(page, "problem"), /does not answer.*Trying again in \d+ s/s);
  assert.ok((await text(page, "node")).includes(here.did), "what was seen last stays");
  assert.match(await page.title(), /does not answer/);
  await shot(page, "gone");
  await page.setViewportSize({ width: 360, height: 740 });
  assert.ok(await narrow(page) <= 360);
  await page.emulateMedia({ reducedMotion: "reduce" });
  await accessible(page, "gone");
  await here.run();
  // It may have found the node by itself meanwhile.
  await page.evaluate(() => document.getElementById("again").click());
  await state(page, "live");
  await page.close();
});

await test("a node that knows nobody says what to do", async () => {
  await here.process.stop();
  const alone = await (await new Daemon("alone", 7490).init()).run();
  const page = await open(await alone.dashboard(), { width: 360, height: 740 });
  await state(page, "live");
  assert.match(await text(page, "ring-caption"), /alone in its ring/);
  assert.match(await text(page, "ring-nodes"), /overlane join TICKET/);
  assert.match(await text(page, "links"), /overlane peer add URL/);
  assert.match(await text(page, "mail"), /Nothing waits/);
  assert.match(await text(page, "events"), /Nothing has happened/);
  await accessible(page, "alone");
  await shot(page, "alone");
  assert.deepEqual(page.wrong, []);
  await page.close();
  await alone.process.stop();
});

await browser.end();
end();
