// The picture of the README: seven nodes that talk for some minutes, one of which is away in the end.
//
//   node picture.mjs FILE
import { spawn } from "node:child_process";
import { join } from "node:path";
import { Browser } from "../../../../scripts/browser.mjs";
import { Daemon } from "./nodes.mjs";

const MINUTES = Number(process.env.MINUTES ?? 4);
const browser = await new Browser(["--hide-scrollbars"]).start();
const here = await (await new Daemon("ann", 7490).init()).run();
const others = [];
for (const name of ["ben", "cem", "dia", "eve", "fay", "gil"]) {
  const other = await (await new Daemon(name).init()).run();
  await other.overlane("peer", "add", here.url);
  others.push(other);
}
// Or what is admitted would soon hold its senders back.
const watch = spawn(process.env.OVERLANE, ["--home", here.home, "watch"], { stdio: "ignore" });
const page = await browser.context.newPage();
await page.setViewportSize({ width: 1200, height: 1040 });
await page.goto(await here.dashboard());
await page.waitForSelector("body[data-state=live]");

const end = Date.now() + MINUTES * 60_000;
for (let round = 0; Date.now() < end; round++) {
  const kept = join(here.home, `kept-${round}`);
  const other = others[round % others.length];
  const sends = 1 + Math.round(3 + 3 * Math.sin(round / 5));
  for (let sent = 0; sent < sends; sent++) await other.send(here, `message ${sent}`, "--no-hold", "--keep", kept);
  if (round % 9 === 0) await other.overlane("send", "--signed", kept);
  await new Promise((done) => setTimeout(done, 1_000));
}
// Mail for who is away, and mail of others that this node holds.
await others[2].process.stop();
for (const from of [here, others[0], others[4]]) await from.send(others[2], "see you on friday").catch(() => {});
await new Promise((done) => setTimeout(done, 3_000));
await page.screenshot({ path: process.argv[2] });
await browser.end();
watch.kill();
for (const node of [here, ...others]) await node.process.kill();
