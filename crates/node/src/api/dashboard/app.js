// Keeps the page up to date: asks when something happened, and every two seconds; says what is wrong when
// the node does not answer, and tries again, less and less often.
import { ask, events, forget, keep, Refused, token as tokenOfPage, Unanswered } from "./ask.js";
import { byId, code, show } from "./dom.js";
import { showAdmissions, showRefused } from "./admissions.js";
import { showBounds } from "./bounds.js";
import { handleEvent, showEvents } from "./events.js";
import { showLinks, showNode } from "./links.js";
import { showMail } from "./mail.js";
import { showRing } from "./ring.js";
import { clock, count, short } from "./words.js";

const EVERY_MS = 2_000;
const AT_MOST_EVERY_MS = 250;
// A browser has few connections for all pages of one address: one that is not looked at gives its own back.
const UNSEEN_MS = 60_000;
const AGAIN_MS = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000];

// Something that can be waited for, again and again; what was said before is not heard.
class Bell {
  constructor() { this.renew(); }
  renew() { this.rung = new Promise((ring) => { this.ring = () => { this.renew(); ring(); }; }); }
}

const happened = new Bell();
const resumed = new Bell();
const given = new Bell();
const again = new Bell();

const after = (ms) => new Promise((done) => setTimeout(done, ms));
let paused = false;
// What the node said of itself last, and when.
let latest = null;
let seen = 0;

function state(name, words, problem) {
  document.body.dataset.state = name;
  if (byId("state").textContent !== words) show("state", words);
  byId("problem").hidden = !problem;
  byId("parts").hidden = byId("pause").hidden = latest === null;
  byId("token-form").hidden = !problem?.token;
  byId("again").hidden = !problem?.again;
  document.title = latest ? `Overlane ${short(latest.did)} – ${words}` : `Overlane – ${words}`;
  if (!problem) return;
  show("problem-title", problem.title);
  show("problem-text", problem.text);
  show("problem-next", problem.next ?? "");
}

function live() {
  const { store, references_failed, groups_failed, mail_failed, links } = latest;
  const failed = store.state !== "durable" || references_failed || groups_failed || mail_failed;
  const words = paused ? "Paused" : count(links.length, "link", "links");
  state(failed ? "unwell" : "live", failed ? `A store failed, ${words}` : words);
}

async function refresh(token, signal) {
  const paths = ["status", "bounds", "inbox", "admissions"];
  const [status, { bounds }, inbox, admissions] =
    await Promise.all(paths.map((path) => ask(`/v1/${path}`, token, signal)));
  latest = status;
  seen = Date.now();
  show("short", short(status.did));
  showNode(status);
  showRing(status);
  showLinks(status);
  showAdmissions(admissions);
  showRefused(status);
  showBounds(bounds);
  showMail(inbox);
  showEvents();
}

async function poll(token, signal) {
  for (;;) {
    while (paused || document.hidden) await resumed.rung;
    const next = happened.rung;
    await refresh(token, signal);
    live();
    await after(AT_MOST_EVERY_MS);
    await Promise.race([next, after(EVERY_MS)]);
  }
}

async function follow(token, signal) {
  for await (const event of events(token, signal)) {
    handleEvent(event);
    happened.ring();
  }
}

// The connection there is, and whether it was ended from here, to be made anew.
let stop = null;
let renewed = false;

function renew() {
  renewed = true;
  stop?.abort();
}

// Until it fails, or is ended from here.
async function connected(token) {
  stop = new AbortController();
  renewed = false;
  try {
    await Promise.all([follow(token, stop.signal), poll(token, stop.signal)]);
  } finally {
    stop.abort();
  }
}

const dashboard = () => ["Open what ", code("overlane dashboard"), " prints, or give the token here."];

async function waitForToken(name, title, text) {
  const next = given.rung;
  state(name, title, { title, text, next: dashboard(), token: true });
  await next;
}

// What is wrong, in a title and in words.
function wrong(failed) {
  if (failed instanceof Refused) return ["The node refuses", [failed.message, " (", code(failed.code), ")"]];
  if (failed instanceof Unanswered) {
    return ["The node does not answer", ["It was stopped, or killed, or is too busy to answer. ", code("overlane run"), " starts it."]];
  }
  console.error(failed);
  return ["This page failed", ["It met what it does not know: ", code(String(failed)), ". Load it again, as it may be of another version than the node."]];
}

async function waitToTryAgain(failed, tries) {
  const from = AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)];
  const end = Date.now() + from * (0.8 + 0.4 * Math.random());
  const stopped = again.rung;
  let tried = false;
  stopped.then(() => { tried = true; });
  const [title, text] = wrong(failed);
  while (!tried && Date.now() < end) {
    const left = Math.ceil((end - Date.now()) / 1000);
    const old = latest ? ["What is shown is of ", clock(seen), ". "] : [];
    state("gone", title, { title, text, next: [old, `Trying again in ${left} s.`], again: true });
    await Promise.race([stopped, after(Math.min(1_000, end - Date.now()))]);
  }
}

async function run() {
  let tries = 0;
  state("connecting", "Connecting…");
  for (;;) {
    const token = tokenOfPage();
    if (!token) {
      await waitForToken("no-token", "No token", "This page shows a node to who has its token, and its address brought none.");
      continue;
    }
    while (document.hidden) await resumed.rung;
    const before = latest;
    try {
      await connected(token);
    } catch (failed) {
      if (renewed) continue;
      if (failed.status === 401) {
        forget();
        await waitForToken("token-wrong", "The token is wrong", "The node has another token by now, or this is another node.");
        tries = 0;
        continue;
      }
      if (latest !== before) tries = 0;
      await waitToTryAgain(failed, tries);
      tries += 1;
    }
  }
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  if (["live", "unwell"].includes(document.body.dataset.state)) live();
  if (!paused) resumed.ring();
});
byId("again").addEventListener("click", () => again.ring());
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = byId("token");
  if (keep(field.value.trim())) given.ring();
  else show("token-said", "A token has 64 digits, 0 to 9 and a to f.");
  field.value = "";
});
let unseen = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(unseen);
  if (!document.hidden) return resumed.ring();
  unseen = setTimeout(() => {
    handleEvent({ event: "unseen" });
    renew();
  }, UNSEEN_MS);
});
// The address of the same page with another token.
addEventListener("hashchange", () => {
  if (!/^#[0-9a-f]{64}$/.test(location.hash)) return;
  tokenOfPage();
  renew();
  given.ring();
  again.ring();
});

run();
