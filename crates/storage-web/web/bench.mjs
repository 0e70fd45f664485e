// The bench page's table, in words. BENCH_MS milliseconds a figure.
import { Browser } from "../../../scripts/browser.mjs";
import { serve } from "./serve.mjs";

const server = await serve();
const browser = await new Browser().start();
const page = await browser.page(`${server.url}bench.html`);
const table = await page.evaluate((ms) => measure(ms), Number(process.env.BENCH_MS ?? 1000));
console.log("in flight | group commit /s | one each /s | ratio");
for (const { inFlight, group, each, ratio } of table) {
  console.log(`${String(inFlight).padStart(9)} | ${group.toFixed(0).padStart(15)} | ${each.toFixed(0).padStart(11)} | ${ratio.toFixed(1).padStart(5)}`);
}
await browser.end();
await server.stop();
