// What serves the pages.
import { start } from "../../../scripts/browser.mjs";

export async function serve() {
  const server = await start(process.env.SERVE, ["0"], (text) => text.match(/(http:\S+)\n/)?.[1]);
  return { url: server.said, stop: server.stop };
}
