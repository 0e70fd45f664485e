// Mail that waits, and why; mail of this node's that others hold; mail that this node holds for others.
import { code, el, empty, show, table } from "./dom.js";
import { bytes, clock, count, did, number } from "./words.js";

const SHOWN = 8;

const first = (rows) => rows.slice(0, SHOWN);

const more = (rows) => rows.length > SHOWN && empty(`and ${number(rows.length - SHOWN)} more`);

function waiting({ waiting, custody, custody_max, fetched, full_until_ms, holders }) {
  const why = [];
  if (fetched > 0) {
    why.push(`${count(fetched, "mail is", "mails are")} fetched and wait${fetched === 1 ? "s" : ""} for room: custody is full`);
    if (full_until_ms !== null) why.push(" until ", clock(full_until_ms), " unless some is taken");
    why.push(". ");
  }
  const open = holders.filter((it) => !it.drained).length;
  if (open > 0) why.push(`${count(open, "holder has", "holders have")} not given all that they hold yet. `);
  if (waiting.length > 0) why.push("It waits until it is taken: ", code("overlane inbox take"), ".");
  return [
    el("h3", {}, "For this node"),
    el("p", {}, `${number(custody)} of ${number(custody_max)} places in custody. `, why),
    waiting.length === 0 ? empty("Nothing waits.") : table("Mail that waits to be taken", ["From", "Held since", "Holder", "#Size"],
      first(waiting).map((it) => [did(it.origin), clock(it.held_ms), did(it.holder), bytes(it.bytes)])),
    more(waiting),
  ];
}

function sent({ held, sending }) {
  const until = (by) => clock(Math.max(...by.map((it) => it.until_ms)));
  return [
    el("h3", {}, "Of this node, for others"),
    sending > 0 && el("p", {}, `${count(sending, "message is", "messages are")} neither delivered nor held yet: its destination or its holders are not reached.`),
    held.length === 0 ? empty("Nobody holds any.") : table("Mail of this node that others hold", ["For", "Held by", "Until"],
      first(held).map((it) => [did(it.destination), it.by.map((by) => [did(by.did), " "]), until(it.by)])),
    more(held),
  ];
}

function keeping({ inboxes, holders }) {
  return [
    el("h3", {}, "Held here, for those who are away"),
    inboxes.length === 0 ? empty("None.") : table("Inboxes that this node holds", ["Of", "#Mails"],
      first(inboxes).map((it) => [did(it.owner), number(it.mails)])),
    more(inboxes),
    el("p", {}, holders.length === 0 ? "Nobody would hold this node's mail: it knows no others." : ["This node's own mail is held by ",
      holders.map((it, at) => [at > 0 && ", ", did(it.did)]), "."]),
  ];
}

export function showMail(inbox) {
  if (!inbox.has_store || inbox.failed) {
    show("mail", el("p", { class: "bad" }, inbox.failed ? `The store of mail failed: ${inbox.failed}` : "This node has no store of mail."));
    return;
  }
  show("mail", waiting(inbox), sent(inbox), keeping(inbox));
}
