// Real daemons on homes of their own, which the tests drive as a person does.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { start } from "../../../../scripts/browser.mjs";

const program = process.env.OVERLANE;
const folder = mkdtempSync(join(tmpdir(), "overlane-dashboard-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

// An address of the loopback that no other process listens at, whatever ports it takes: it stays this
// test's own while a daemon is down.
export const ADDRESS = `127.${64 + (process.pid >> 16) % 64}.${(process.pid >> 8) & 255}.${1 + (process.pid & 127)}`;

const environment = () => Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("OVERLANE_")));

export class Daemon {
  constructor(name, port) {
    this.home = join(folder, name);
    this.port = port;
  }

  async init() {
    await this.overlane("init", "--listen", "127.0.0.1:0");
    return this;
  }

  // With the API at the address of its own, if it has a port there.
  async run() {
    const api = this.port ? ["--set", `api.listen=${ADDRESS}:${this.port}`] : [];
    this.process = await start(program, ["--home", this.home, "run", "--json", ...api],
      (text) => text.includes("\n") && JSON.parse(text.slice(0, text.indexOf("\n"))), { env: environment() });
    Object.assign(this, this.process.said);
    return this;
  }

  async overlane(...args) {
    const { stdout } = await promisify(execFile)(program, ["--home", this.home, "--json", ...args], { env: environment() });
    return stdout.trim().split("\n").filter(Boolean).map((line) => JSON.parse(line));
  }

  async status() { return (await this.overlane("status"))[0]; }

  async dashboard() { return (await this.overlane("dashboard"))[0].url; }

  async send(to, text, ...more) { return (await this.overlane("send", to.did, text, ...more))[0]; }

  // Until the node says so. Each look is a program that was started and has ended; there is an end to them.
  async until(what, holds) {
    for (let look = 0; look < 600; look++) {
      const status = await this.status();
      if (holds(status)) return status;
    }
    return assert.fail(`${what} did not come`);
  }
}
