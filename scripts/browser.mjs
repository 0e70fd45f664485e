// A Chromium of its own for whoever drives pages: a fresh profile, which outlives the browser, so that
// a browser that was killed can be started again on what it left. And the programs that serve them, and what
// counts the tests.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";

const { chromium } = await import(process.env.PLAYWRIGHT);

// Ends when `ready` says something; each look waits for the program's own next word, never for a while.
async function line(stream, ready) {
  let text = "";
  for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
    text += chunk;
    const found = ready(text);
    if (found) return found;
  }
  throw new Error(`it ended: ${text}`);
}

// Whatever was started ends with this program, however that ends.
const started = new Set();
process.on("exit", () => {
  for (const pid of started) {
    try { process.kill(pid, "SIGKILL"); } catch { /* it is gone */ }
  }
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

// Starts a program, and waits for what `ready` finds in what it says.
export async function start(program, args, ready, options = {}) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], ...options });
  started.add(child.pid);
  const gone = once(child, "exit").then(() => started.delete(child.pid));
  const said = await line(child.stdout, ready);
  child.stdout.resume();
  const end = async (signal) => { child.kill(signal); await gone; };
  return { said, stop: () => end("SIGTERM"), kill: () => end("SIGKILL") };
}

// Tests, one after the other. ONLY names a part of those to run.
export function tests(word) {
  let passed = 0;
  return {
    async test(name, run) {
      if (process.env.ONLY && !name.includes(process.env.ONLY)) return;
      const from = performance.now();
      await run();
      passed += 1;
      console.log(`ok ${name} (${((performance.now() - from) / 1000).toFixed(1)} s)`);
    },
    end: () => console.log(`${word}: ${passed} passed, 0 failed`),
  };
}

export class Browser {
  constructor(flags = []) {
    this.profile = mkdtempSync(join(tmpdir(), "overlane-browser-"));
    this.flags = flags;
  }

  async start() {
    const flags = ["--headless=new", "--remote-debugging-port=0", `--user-data-dir=${this.profile}`,
      "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
      "--disable-extensions", "--disable-dev-shm-usage", "--window-size=1100,800"];
    // Root cannot have the sandbox.
    if (process.getuid?.() === 0) flags.push("--no-sandbox");
    this.process = spawn(process.env.CHROMIUM, [...flags, ...this.flags, "about:blank"],
      { stdio: ["ignore", "ignore", "pipe"], detached: true });
    started.add(-this.process.pid);
    const address = await line(this.process.stderr, (text) => text.match(/DevTools listening on (ws:\S+)/)?.[1]);
    this.process.stderr.resume();
    this.cdp = await chromium.connectOverCDP(address);
    this.context = this.cdp.contexts()[0];
    // An end to waiting for what never comes, and no measure of anything.
    this.context.setDefaultTimeout(120_000);
    return this;
  }

  async page(url) {
    const page = await this.context.newPage();
    page.on("pageerror", (error) => console.error(`page: ${error.message}`));
    await page.goto(url);
    await page.waitForSelector("body[data-ready=yes]");
    return page;
  }

  // As when the machine's own user ends it, or the system does.
  async kill() {
    const gone = once(this.process, "exit");
    process.kill(-this.process.pid, "SIGKILL");
    started.delete(-this.process.pid);
    await gone;
    for (const lock of ["SingletonLock", "SingletonSocket", "SingletonCookie"]) rmSync(join(this.profile, lock), { force: true });
  }

  async end() {
    await this.kill();
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
