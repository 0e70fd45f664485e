// What the page asks the node. The token goes in a header, to the address this page came from, and
// nowhere else; it is kept as long as the tab, so that the page can be loaded again.

const KEPT = "overlane-token";

const TOKEN = /^[0-9a-f]{64}$/;

const ANSWER_WITHIN_MS = 10_000;

// The token that the address brought, or that the tab has. The address holds it no longer afterwards.
export function token() {
  const given = location.hash.slice(1);
  if (TOKEN.test(given)) {
    keep(given);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(KEPT);
}

export function keep(text) {
  if (!TOKEN.test(text)) return false;
  sessionStorage.setItem(KEPT, text);
  return true;
}

export const forget = () => sessionStorage.removeItem(KEPT);

// The node refused, and says why.
export class Refused extends Error {
  constructor(status, { error, message }) {
    super(message);
    this.status = status;
    this.code = error;
  }
}

// The node gave no answer, or one that broke off.
export class Unanswered extends Error {}

const broken = (cause) => { throw new Unanswered(cause.message); };

async function get(path, token, accept, signal) {
  const answer = await fetch(path, {
    headers: { authorization: `Bearer ${token}`, accept },
    credentials: "omit", cache: "no-store", redirect: "error", signal,
  }).catch(broken);
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({ error: `http/${answer.status}`, message: answer.statusText }));
  throw new Refused(answer.status, said);
}

export async function ask(path, token, signal) {
  const within = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]);
  return (await get(path, token, "application/json", within)).json().catch(broken);
}

// What happens in the node from now on, until it ends.
export async function* events(token, signal) {
  const answer = await get("/v1/events", token, "text/event-stream", signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch(broken);
    if (done) throw new Unanswered("the node has stopped");
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
      if (data.length > 0) yield JSON.parse(data.join("\n"));
    }
  }
}
